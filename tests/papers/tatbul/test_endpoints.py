"""From values to codes: every kind of interval, against its own definition."""

from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.errors import OptionError
from tocsin.papers.tatbul import Endpoints, Interval, NaiveIndex, not_equal, one_of, point

ends = st.integers(-4, 4).map(float)
lows, highs = st.one_of(ends, st.just(-inf)), st.one_of(ends, st.just(inf))
intervals = st.builds(Interval, lows, highs, st.booleans(), st.booleans())
in_lists = st.lists(ends, max_size=4).map(one_of)
predicates = st.one_of(intervals, ends.map(not_equal), in_lists, st.lists(intervals, max_size=3))
values = st.one_of(st.integers(-10, 10).map(lambda half: half / 2), st.sampled_from([-inf, inf]))


def contains(interval: Interval, value: float) -> bool:
    low, high, low_closed, high_closed = interval
    above = low <= value if low_closed or low == -inf else low < value
    return above and (value <= high if high_closed or high == inf else value < high)


@settings(deadline=None)
@given(st.lists(predicates, max_size=12), st.lists(values, min_size=1, max_size=12))
def test_codes_keep_what_holds(several: list[Interval | tuple[Interval, ...]], asked: list[float]) -> None:
    each = [(predicate,) if isinstance(predicate, Interval) else predicate for predicate in several]
    endpoints = Endpoints.of(interval for predicate in each for interval in predicate)
    index = NaiveIndex.build(*endpoints.ranges(several))
    answers = index.probe_batch(endpoints.codes(asked))
    for number, value in enumerate(asked):
        expected = [i for i, predicate in enumerate(each) if any(contains(interval, value) for interval in predicate)]
        assert answers.ids[answers.offsets[number] : answers.offsets[number + 1]].tolist() == expected


def test_endpoints_cut_as_in_the_paper() -> None:
    """The ends 2, 5, 18 and 30 cut nine elementary intervals."""
    endpoints = Endpoints.of([Interval(2, 18), Interval(5, 30)])
    assert endpoints.size == 9
    names = [endpoints.name(code, code) for code in range(9)]
    assert names == ["(-∞, 2)", "2", "(2, 5)", "5", "(5, 18)", "18", "(18, 30)", "30", "(30, ∞)"]


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [
        (0, 8, "(-∞, ∞)"),
        (1, 3, "[2, 5]"),
        (2, 3, "(2, 5]"),
        (3, 6, "[5, 30)"),
        (7, 8, "[30, ∞)"),
        (5, 2**31 - 1, "[18, ∞)"),
        (9, 2**31 - 1, "∅"),
    ],
)
def test_names_of_ranges(first: int, last: int, text: str) -> None:
    assert Endpoints.of([Interval(2, 18), Interval(5, 30)]).name(first, last) == text


def test_null_is_nan() -> None:
    assert Endpoints.of([point(3)]).codes([nan, 3, inf, -inf]).tolist() == [-1, 1, 2, 0]


def test_strange_ends_are_refused() -> None:
    endpoints = Endpoints.of([Interval(2, 18)])
    for strange in (Interval(2, 5), Interval(5, 18), Interval(nan, 18)):
        with pytest.raises(OptionError, match="is not an endpoint"):
            endpoints.ranges([strange])
