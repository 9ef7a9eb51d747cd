"""The tree that docs/internals/boolean.md works by hand."""

import re
from pathlib import Path
from unittest.mock import patch

from tocsin.conjunctions.boolean.kernels import (
    ACCEPT,
    FIRST,
    IF_FALSE,
    IF_TRUE,
    KIND,
    LAST,
    RANGE,
    RANGES,
    REJECT,
    SUBJECT,
)
from tocsin.language.normalise import normalise
from tocsin.language.parse import parse
from tocsin.language.to_sql import describe
from tocsin.matcher import Matcher

NOTE = (Path(__file__).parents[3] / "docs" / "internals" / "boolean.md").read_text()
TEXT = "c = 1 AND NOT (a = 'x' AND b = 'u') AND (d > 5 OR e = 2)"


def rows(start: str) -> list[list[str]]:
    """The cells of the table that begins with a line."""
    lines = NOTE[NOTE.index(start) :].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_tree_is_that_of_the_note() -> None:
    assert TEXT in NOTE
    with (
        patch("tocsin.language.normalise.MAX_PRODUCT", 1),
        patch("tocsin.language.normalise.MAX_GROWTH", 0),
        patch("tocsin.language.shape_plan.MAX_CONJUNCTIONS", 1),
    ):
        expression = normalise(parse(TEXT))
        matcher = Matcher(background_merge=False)
        matcher.subscribe("tree", TEXT)
        (state,) = matcher._subscriptions.current().states
    told = [(int(opens[0]), int(closes)) for _, _, opens, closes in rows("| leaf |")]
    assert list(expression.nesting) == told
    assert [describe(leaf[0]) for leaf in expression.leaves][::3] == ["c = 1", "d > 5"]
    code = state.segment.trees.code
    names = {RANGE: "RANGE", RANGES: "RANGES"}
    ends = {ACCEPT: "ACCEPT", REJECT: "REJECT"}
    found = [
        [
            names[row[KIND]],
            state.segment.columns[row[SUBJECT]].attribute,
            str(row[FIRST]),
            str(row[LAST]),
            *(ends.get(row[jump], str(row[jump])) for jump in (IF_TRUE, IF_FALSE)),
        ]
        for row in code.instructions.tolist()
    ]
    assert found == [[re.sub("row ", "", cell) for cell in row[1:]] for row in rows("| | kind |")]
    assert matcher.match({"c": 1, "a": "x", "b": "z", "d": 9}).ids == ["tree"]
    assert matcher.match({"c": 1, "a": "x", "d": 9}).ids == []
