"""Matchers and answers as the tests of the engine write them."""

from typing import Any

import pyarrow as pa

from tocsin import Matcher


def matcher_of(**wheres: str) -> Matcher:
    return Matcher.from_table(pa.table({"id": list(wheres), "where": list(wheres.values())}))


def found(matcher: Matcher, events: Any, **options: Any) -> list[tuple[Any, str]]:
    rows = matcher.match_batch(events, **options).to_pylist()
    return sorted((row["event"], row["subscription"]) for row in rows)
