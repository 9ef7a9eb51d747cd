"""Every Arrow kind in every layout gives what the same values in dicts give, which is what the reference gives."""

import re
import subprocess
import sys
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from arrow_cases import LAYOUTS, TYPES, WHERES, columns_of
from matchers import found, matcher_of
from tocsin import Matcher
from tocsin.language.parse import parse
from tocsin.reference import evaluate

LOOKING_BACK = (
    "v > ANY (SELECT v FROM history)",
    "v = ANY (SELECT w FROM history)",
    "EXISTS (SELECT 1 FROM history h WHERE h.v IS NULL)",
    "EXISTS (SELECT 1 FROM history h WHERE h.v > DATE '2026-03-01')",
)
BACK = {f"{n}{sign}": f"{sign} ({where})" for n, where in enumerate(LOOKING_BACK) for sign in ("", "NOT")}


@pytest.fixture(scope="module")
def matcher() -> Matcher:
    return matcher_of(**WHERES)


@pytest.fixture(scope="module")
def matcher_of_fields() -> Matcher:
    return matcher_of(**{id: _on_fields(where) for id, where in WHERES.items()})


_parse = cache(parse)


def _on_fields(where: str) -> str:
    return re.sub(r"\b(v|w)\b", r"p.\1", where)


def by_the_reference(wheres: dict[str, str], rows: list[dict[str, Any]]) -> list[tuple[int, str]]:
    conditions = {id: _parse(where) for id, where in wheres.items()}
    return sorted(
        (row, id)
        for row, event in enumerate(rows)
        for id, condition in conditions.items()
        if evaluate(condition, event, rows[:row]) is True
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_tables_dicts_and_the_reference_agree(matcher: Matcher, kind: pa.DataType, layout: str) -> None:
    columns, rows = columns_of(layout, kind)
    expected = by_the_reference(WHERES, rows)
    assert found(matcher, pa.table(columns, ["v", "w"])) == expected
    assert found(matcher, rows) == expected


@pytest.mark.parametrize("layout", ["with NULLs", "dictionary with a NULL entry", "different dictionaries", "runs"])
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_old_events_of_tables_and_dicts_agree(kind: pa.DataType, layout: str) -> None:
    columns, rows = columns_of(layout, kind)
    expected = by_the_reference(BACK, rows)
    assert found(matcher_of(**BACK), pa.table(columns, ["v", "w"]), remember=True) == expected
    assert found(matcher_of(**BACK), rows, remember=True) == expected


@pytest.mark.parametrize("layout", ["with NULLs", "dictionary with a NULL entry", "runs", "lists of runs"])
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_fields_of_structs_agree(matcher_of_fields: Matcher, kind: pa.DataType, layout: str) -> None:
    columns, rows = columns_of(layout, kind)
    mask = [number == 2 for number in range(len(rows))]
    structs = pa.StructArray.from_arrays(columns, ["v", "w"], mask=pa.array(mask))
    expected = by_the_reference(WHERES, [{} if gone else row for gone, row in zip(mask, rows, strict=True)])
    assert found(matcher_of_fields, pa.table({"p": structs})) == expected
    assert found(matcher_of_fields, pa.table({"p": structs.slice(1)})) == [(row - 1, id) for row, id in expected if row]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_top_k_of_tables_and_dicts_agree(matcher: Matcher, kind: pa.DataType) -> None:
    for layout in ("sliced", "runs", "lists", "different dictionaries"):
        columns, rows = columns_of(layout, kind)
        for mode in ("exact", "relaxed"):
            of_table = found(matcher, pa.table(columns, ["v", "w"]), top_k=99, mode=mode)
            assert of_table == found(matcher, rows, top_k=99, mode=mode)


def test_a_dictionary_of_nothing_but_nulls_is_null() -> None:
    """Arrow's own functions end with a segmentation fault on it: a child process asks."""
    script = """
import pyarrow as pa, tocsin
matcher = tocsin.Matcher()
for id, where in {"null": "v IS NULL", "number": "v > 1", "text": "v LIKE 'a%'", "list": "array_contains(v, 1)",
                  "pair": "v < w", "xml": "xpath_exists(v, '/a')", "old": "v > ALL (SELECT v FROM history)"}.items():
    matcher.subscribe(id, where)
nulls = pa.nulls(2).dictionary_encode(null_encoding="encode")
table = pa.table({"v": nulls, "w": nulls, "s": pa.StructArray.from_arrays([nulls], ["v"])})
for ask, options in (
    (matcher.match_batch, {}),
    (matcher.publish_batch, {}),
    (matcher.match_batch, {"top_k": 9}),
    (matcher.match_batch, {"top_k": 9, "mode": "relaxed"}),
):
    print(sorted(set(ask(table, **options)["subscription"].to_pylist())))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "['null', 'old']"), done.stderr
