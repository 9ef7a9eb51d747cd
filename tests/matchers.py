"""Matchers and answers as the tests of the engine write them."""

import json
from typing import Any

import pyarrow as pa

from tocsin import Matcher


def matcher_of(**wheres: str) -> Matcher:
    return Matcher.from_table(pa.table({"id": list(wheres), "where": list(wheres.values())}))


def answer(matcher: Matcher, events: Any, remember: bool = False, **options: Any) -> pa.Table:
    """The table of a batch that is matched, or published."""
    return matcher.publish_batch(events, **options) if remember else matcher.match_batch(events, **options)


def found(matcher: Matcher, events: Any, remember: bool = False, **options: Any) -> list[tuple[Any, str]]:
    return sorted(
        (row["event"], row["subscription"]) for row in answer(matcher, events, remember, **options).to_pylist()
    )


def evidence_of(table: pa.Table) -> dict[str, Any]:
    evidence: dict[str, Any] = json.loads(table.schema.metadata[b"tocsin"])
    return evidence
