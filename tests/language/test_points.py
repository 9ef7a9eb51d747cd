"""IN lists as sorted values: what they mean, and that no range is made for each item."""

import datetime as dt
import gc
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin import Matcher
from tocsin.index import options
from tocsin.language import rewrite
from tocsin.language.constants import Reading, read, read_all
from tocsin.language.normalise import normalise
from tocsin.language.parse import parse
from tocsin.model.predicate import MANY_POINTS, Points, Range, Ranges
from tocsin.model.values import Kind, Moment, Number
from tocsin.predicates.evaluate import holds
from tocsin.reference import evaluate

ITEMS = [
    *("0", "1", "2", "3", "9007199254740993", "9007199254740992", "18446744073709551616", "-1"),
    *("0.1", "1.0", "2.50", "1e-1", "1e3", "0.1000000000000000055511151231257827"),
    *("'a'", "'b'", "'é'", "''", "'it''s'", "'2026-01-31'", "'10'"),
    *("TRUE", "FALSE", "NULL", "DATE '2026-01-31'", "TIMESTAMP '2026-01-31 12:00:00'"),
]
VALUES: list[Any] = [
    *(0, 1, 2, 2**53, 2**53 + 1, 2**64, -1, 1000, True, False, None),
    *(0.1, 1.0, 2.5, float(2**53), float(2**64), float("inf"), float("nan"), Decimal("0.1"), Decimal("1.00")),
    *(
        Decimal("Infinity"),
        Decimal("0.1000000000000000055511151231257827"),
        "a",
        "b",
        "é",
        "",
        "it's",
        "10",
        "2026-01-31",
    ),
    *(dt.date(2026, 1, 31), dt.datetime(2026, 1, 31, 12), dt.datetime(2026, 1, 31, tzinfo=dt.UTC)),
]
NOONS = 1_769_860_800_000_000
FINER = [Moment(NOONS), Moment(NOONS, 1)]


@st.composite
def conditions(draw: st.DrawFn) -> str:
    def in_list() -> str:
        items = draw(st.lists(st.sampled_from(ITEMS), min_size=1, max_size=8))
        negated = draw(st.sampled_from(["", "NOT "]))
        return f"a {negated}IN ({', '.join(items)})"

    other = draw(
        st.sampled_from(["", " AND b > 1", " OR b > 1", " OR {0}", " AND {0}", " AND NOT {0}", " IS NOT TRUE"])
    )
    return f"({in_list()}){other.format(in_list())}"


@given(conditions(), st.sampled_from([2, MANY_POINTS]))
def test_a_list_means_what_the_reference_says(where: str, many: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewrite, "MANY_POINTS", many)
        condition = parse(where)
        leaves = normalise(condition).leaves
        matcher = Matcher()
        matcher.subscribe("s", where)
        for b in (None, 2):
            for value in [*VALUES, *FINER]:
                event = {"a": value, "b": b}
                expected = evaluate(condition, event) is True
                said = f"{where} of {event}"
                assert any(all(holds(one, event) for one in leaf) for leaf in leaves) == expected, said
                if not isinstance(value, Moment):
                    assert (matcher.match(event).ids == ["s"]) == expected, said
                    assert (matcher.match_batch([event]).num_rows == 1) == expected, said


def test_points_equal_the_ranges_that_they_stand_for() -> None:
    numbers = Number(1), Number(Decimal("2.5"))
    points = Points(Kind.NUMBER, (1, Decimal("2.5")))
    ranges = tuple(Range(number, True, number, True) for number in numbers)
    assert points == ranges
    assert ranges == points
    assert hash(points) == hash(ranges)
    assert points == Points(Kind.NUMBER, (1, Decimal("2.5")))
    assert points != Points(Kind.TIME, (1, 2))
    assert points != (ranges[0], ranges[0])
    assert Ranges("a", Kind.NUMBER, points) == Ranges("a", Kind.NUMBER, ranges)


@pytest.mark.parametrize("item", [str, "'k{}'".format, lambda number: f"{number / 8}"])
def test_no_range_is_made_for_each_item_of_a_long_list(item: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the items were looked at one by one")

    monkeypatch.setattr(Points, "__iter__", never)
    where = f"a IN ({', '.join(map(item, range(1000)))}) AND b > 1"
    value = read(item(999), Reading.STRING if "'" in item(999) else Reading.NUMBER)
    matcher = Matcher()
    matcher.subscribe("s", where)
    assert matcher.match({"a": value, "b": 2}).ids == ["s"]
    assert matcher.match_batch([{"a": value, "b": 2}, {"a": value, "b": 1}])["event"].to_pylist() == [0]


@pytest.mark.parametrize("literals", [["1", "2"], ["1", "2.5"], ["007"], ["1e3", "-4"], ["9" * 1000]])
def test_numbers_are_read_at_once_as_one_by_one(literals: list[str]) -> None:
    one_by_one = [read(literal, Reading.NUMBER) for literal in literals]
    assert read_all(literals, Reading.NUMBER) == one_by_one
    assert list(map(type, read_all(literals, Reading.NUMBER))) == list(map(type, one_by_one))


@pytest.mark.parametrize(("items", "collects"), [(10, True), (5_000, False)])
def test_the_garbage_collector_pauses_while_a_long_text_is_normalised(
    items: int, collects: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def watched(*arguments: Any) -> Any:
        seen.append(gc.isenabled())
        return normalise(*arguments)

    monkeypatch.setattr(options, "normalise", watched)
    matcher = Matcher()
    matcher.subscribe("s", f"a IN ({', '.join(map(str, range(items)))})")
    assert seen == [collects]
    assert gc.isenabled()
