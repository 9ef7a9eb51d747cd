"""Unions of ranges on a PB+tree, against the definition of a range."""

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tocsin.errors import OptionError
from tocsin.model.predicate import Range
from tocsin.model.values import Number
from tocsin.papers.pbtree import PBPlusTree, PBTreePhase1

NewTree = Callable[..., PBPlusTree]


def contains(ranges: list[Range], value: float) -> bool:
    """Whether a value is in one of the ranges, by the definition."""

    def above(each: Range) -> bool:
        low = each.low.nearest if isinstance(each.low, Number) else None
        return low is None or value > low or (each.low_closed and value == low)

    def below(each: Range) -> bool:
        high = each.high.nearest if isinstance(each.high, Number) else None
        return high is None or value < high or (each.high_closed and value == high)

    return any(above(each) and below(each) for each in ranges)


@st.composite
def unions(draw: st.DrawFn) -> list[Range]:
    """Sorted disjoint ranges that do not touch, over multiples of a half from 0 to 8; points and infinite ends too."""
    cuts = sorted(draw(st.sets(st.integers(0, 16), min_size=1, max_size=8)))
    ends: list[Number | None] = [Number(cut / 2) for cut in cuts]
    if draw(st.booleans()):
        ends.insert(0, None)
    if len(ends) % 2:
        ends.append(None if draw(st.booleans()) or len(ends) == 1 else ends.pop())
    if len(ends) % 2:
        ends.pop()
    closed = st.booleans()
    ranges = [Range(low, draw(closed), high, draw(closed)) for low, high in zip(ends[::2], ends[1::2], strict=True)]
    point = draw(st.integers(20, 22))
    if ranges and ranges[-1].high is not None and draw(st.booleans()):
        ranges.append(Range(Number(point), True, Number(point), True))
    return [each for each in ranges if each.low is not None or each.high is not None]


@given(st.lists(unions(), max_size=12))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_probe_is_the_definition(new_tree: NewTree, predicates: list[list[Range]]) -> None:
    index = PBTreePhase1(new_tree("float"))
    for number, ranges in enumerate(predicates):
        index.insert(number, ranges)
    index.tree.check()
    values = [float(Fraction(i, 4)) for i in range(-2, 95)]
    answers = index.probe_batch(values)
    for i, value in enumerate(values):
        expected = [number for number, ranges in enumerate(predicates) if contains(ranges, value)]
        assert answers.ids[answers.offsets[i] : answers.offsets[i + 1]].tolist() == expected
    for number, ranges in list(enumerate(predicates))[::2]:
        assert index.delete(number, ranges) or not ranges
    left = [number for number, ranges in enumerate(predicates) if number % 2 and contains(ranges, 3.0)]
    assert index.probe(3.0).tolist() == left
    index.tree.check()


def test_every_kind_of_predicate(new_tree: NewTree) -> None:
    five = Number(5)
    index = PBTreePhase1(new_tree("integer"))
    index.insert_many(
        [
            (0, [Range(None, False, five, False), Range(five, False, None, False)]),  # <> 5
            (1, [Range(five, True, five, True), Range(Number(8), True, Number(8), True)]),  # IN (5, 8)
            (2, [Range(Number(3), True, Number(8), True)]),  # BETWEEN 3 AND 8
            (3, [Range(None, False, Number(4), True), Range(Number(6), False, None, False)]),  # <= 4 OR > 6
            (4, [Range(five, False, five, True)]),  # nothing
        ]
    )
    assert [index.probe(value).tolist() for value in (4, 5, 6, 8, 9)] == [
        [0, 2, 3],
        [1, 2],
        [0, 2],
        [0, 1, 2, 3],
        [0, 3],
    ]
    assert index.probe(None).tolist() == []
    assert len(index.tree) == 1 + 2 + 2 + 2


def test_strings(new_tree: NewTree) -> None:
    index = PBTreePhase1(new_tree("string"))
    index.insert(1, [Range("b", True, "d", False)])
    assert [index.probe(word).tolist() for word in ("az", "b", "czz", "d")] == [[], [1], [1], []]


@pytest.mark.parametrize(
    ("ranges", "says"),
    [
        ([Range(1, True, 3, True), Range(3, True, 5, True)], "overlap or are not sorted"),
        ([Range(4, True, 5, True), Range(1, True, 2, True)], "overlap or are not sorted"),
        ([Range(1, True, None, False), Range(3, True, 5, True)], "overlap or are not sorted"),
        ([Range(None, False, None, False)], "holds for every value"),
    ],
)
def test_what_is_no_union_of_disjoint_ranges(ranges: list[Range], says: str, new_tree: NewTree) -> None:
    index = PBTreePhase1(new_tree("integer"))
    with pytest.raises(OptionError, match=says):
        index.insert(1, ranges)
    assert len(index.tree) == 0
