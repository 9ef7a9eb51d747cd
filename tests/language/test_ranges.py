"""The algebra of ranges against sets of small numbers."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tocsin.language.ranges import canonical, compared, complement, intersection, is_empty, starting_with, union
from tocsin.model.condition import Op
from tocsin.model.predicate import EVERYTHING, Range
from tocsin.model.values import Kind

# Ends are even and values are all integers, so that odd values stand for what lies between two ends.
VALUES = range(-1, 12)
ENDS = st.none() | st.sampled_from(range(0, 11, 2))


@st.composite
def single(draw: st.DrawFn) -> Range:
    low, high = draw(ENDS), draw(ENDS)
    return Range(low, low is not None and draw(st.booleans()), high, high is not None and draw(st.booleans()))


RANGES = st.lists(single().filter(lambda r: not is_empty(r)), max_size=5)


def inside(ranges: tuple[Range, ...]) -> set[int]:
    def contains(r: Range, v: int) -> bool:
        above = r.low is None or (v >= r.low if r.low_closed else v > r.low)  # type: ignore[operator]
        return above and (r.high is None or (v <= r.high if r.high_closed else v < r.high))  # type: ignore[operator]

    return {value for value in VALUES if any(contains(r, value) for r in ranges)}


def check(ranges: tuple[Range, ...]) -> None:
    for first, second in pairwise(ranges):
        assert first.high is not None, "only the last range has no upper end"
        assert second.low is not None, "only the first range has no lower end"
        assert first.high <= second.low, "ranges are sorted"  # type: ignore[operator]
        if first.high == second.low:
            assert not first.high_closed, "ranges do not touch"
            assert not second.low_closed, "ranges do not touch"
    assert not any(map(is_empty, ranges)), "no range is empty"


@given(RANGES)
def test_union(ranges: list[Range]) -> None:
    merged = union(ranges)
    check(merged)
    assert inside(merged) == inside(tuple(ranges))


@given(RANGES, RANGES)
def test_intersection(left: list[Range], right: list[Range]) -> None:
    first, second = union(left), union(right)
    common = intersection(first, second)
    check(common)
    assert inside(common) == inside(first) & inside(second)


@given(RANGES)
def test_complement(ranges: list[Range]) -> None:
    merged = union(ranges)
    outside = complement(merged)
    check(outside)
    assert inside(outside) == set(VALUES) - inside(merged)
    assert complement(outside) == merged


@given(st.sampled_from(Op), st.sampled_from(VALUES))
def test_compared(op: Op, constant: int) -> None:
    assert inside(compared(op, constant)) == {v for v in VALUES if op.holds((v > constant) - (v < constant))}


@given(st.text(alphabet="ab\ud7ff\U0010ffff", max_size=3), st.text(alphabet="abc\ud7ff\ue000\U0010ffff", max_size=5))
def test_starting_with(prefix: str, text: str) -> None:
    found = starting_with(prefix)
    above = found.low is None or text >= str(found.low)
    assert (above and (found.high is None or text < str(found.high))) == text.startswith(prefix)
    if found.high is not None:
        str(found.high).encode()


def test_booleans_have_one_form() -> None:
    false = Range(False, True, False, True)
    assert canonical(Kind.BOOLEAN, compared(Op.NE, True)) == (false,)
    assert canonical(Kind.BOOLEAN, compared(Op.LT, True)) == (false,)
    assert canonical(Kind.BOOLEAN, compared(Op.GE, False)) == (EVERYTHING,)
    assert canonical(Kind.BOOLEAN, compared(Op.GT, True)) == ()
