"""What every ranked index must do. An index joins by its line in RANKED."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.errors import OptionError
from tocsin.papers.ranked import RANKED, RankedIndex

LOWEST, HIGHEST = -(2**31), 2**31 - 1

every_index = pytest.mark.parametrize("cls", RANKED.values(), ids=RANKED.keys())

ends = st.one_of(st.integers(0, 12), st.sampled_from([LOWEST, HIGHEST, 1000, 1001]))
rows = st.tuples(ends, ends, st.one_of(st.integers(0, 3).map(float), st.floats(allow_nan=False)))
columns = st.lists(rows, max_size=60).map(
    lambda rows: (
        np.array([min(a, b) for a, b, _ in rows], np.int32),
        np.array([max(a, b) for a, b, _ in rows], np.int32),
        np.array([score for _, _, score in rows], np.float64),
    )
)


def by_definition(
    lo: npt.NDArray[Any], hi: npt.NDArray[Any], scores: npt.NDArray[Any], latest_lo: int, earliest_hi: int
) -> list[int]:
    """The ids of the intervals that pass, sorted by falling score and then by id."""
    passing = [i for i in range(len(lo)) if lo[i] <= latest_lo and hi[i] >= earliest_hi]
    return sorted(passing, key=lambda i: (-scores[i], i))


@every_index
@settings(max_examples=100, deadline=None)
@given(columns=columns, value=ends)
def test_yields_the_intervals_over_a_value_in_order_of_score(
    cls: type[RankedIndex], columns: tuple[npt.NDArray[Any], ...], value: int
) -> None:
    lo, hi, scores = columns
    index = cls.build(lo, hi, scores)
    index.check()
    assert len(index) == len(lo)
    assert index.iterate(value).take(len(lo) + 1).tolist() == by_definition(lo, hi, scores, value, value)


@every_index
@settings(max_examples=40, deadline=None)
@given(columns=columns, value=ends, steps=st.lists(st.integers(0, 4), max_size=8))
def test_an_iteration_goes_on_where_it_stopped(
    cls: type[RankedIndex], columns: tuple[npt.NDArray[Any], ...], value: int, steps: list[int]
) -> None:
    lo, hi, scores = columns
    iterator = cls.build(lo, hi, scores).iterate(value)
    taken: list[int] = []
    for step in steps:
        taken += iterator.take(step).tolist()
    expected = by_definition(lo, hi, scores, value, value)
    assert taken == expected[: sum(steps)]
    if len(expected) > len(taken):
        assert iterator.next() == expected[len(taken)]
    else:
        assert iterator.next() is None


@every_index
@settings(max_examples=40, deadline=None)
@given(columns=columns, value=ends, data=st.data())
def test_a_new_score_counts_at_once(
    cls: type[RankedIndex], columns: tuple[npt.NDArray[Any], ...], value: int, data: st.DataObject
) -> None:
    lo, hi, scores = columns
    index = cls.build(lo, hi, scores)
    if len(lo):
        changes = st.lists(st.tuples(st.integers(0, len(lo) - 1), st.integers(0, 3).map(float)), max_size=20)
        for interval, score in data.draw(changes):
            scores[interval] = score
            index.rescore(interval, scores)
            index.check()
            assert index.iterate(value).take(100).tolist() == by_definition(lo, hi, scores, value, value)


@every_index
def test_thousands_of_new_scores_keep_the_order(cls: type[RankedIndex]) -> None:
    random = np.random.default_rng(7)
    lo = random.integers(0, 1000, 4000)
    hi = lo + random.integers(0, 200, 4000)
    scores = random.integers(0, 500, 4000).astype(np.float64)
    before = scores.copy()
    index = cls.build(lo, hi, scores)
    current = scores.copy()
    for _ in range(4):
        for interval in random.integers(0, 4000, 700).tolist():
            current[interval] = float(random.integers(0, 500))
            index.rescore(interval, current)
        index.check()
        for value in (0, 250, 999, 1150):
            assert index.iterate(value).take(30).tolist() == by_definition(lo, hi, current, value, value)[:30]
    assert np.array_equal(before, scores), "the caller's scores are not changed"


@every_index
@pytest.mark.parametrize("how", ["overlap", "containment"])
@settings(max_examples=30, deadline=None)
@given(columns=columns, one=ends, other=ends)
def test_ranges_follow_their_definition_or_are_refused(
    cls: type[RankedIndex], how: Any, columns: tuple[npt.NDArray[Any], ...], one: int, other: int
) -> None:
    lo, hi, scores = columns
    first, last = min(one, other), max(one, other)
    index = cls.build(lo, hi, scores)
    if how not in cls.ranges:
        with pytest.raises(OptionError, match="ScoredRTree"):
            index.iterate_range(first, last, how)
        return
    expected = by_definition(lo, hi, scores, *((last, first) if how == "overlap" else (first, last)))
    assert index.iterate_range(first, last, how).take(100).tolist() == expected


def test_both_kinds_of_range_are_offered() -> None:
    assert {how for cls in RANKED.values() for how in cls.ranges} == {"overlap", "containment"}


@every_index
def test_an_unknown_kind_of_range_is_refused(cls: type[RankedIndex]) -> None:
    with pytest.raises(OptionError, match="'overlap' or 'containment'"):
        cls.build([0], [1], [1.0]).iterate_range(0, 1, "touch")  # type: ignore[arg-type]  # the error is the test


@every_index
@pytest.mark.parametrize(
    ("lo", "hi", "scores", "message"),
    [
        ([0, 5], [9, 4], [1.0, 1.0], "Interval 1 is empty"),
        ([0], [9], [float("nan")], "score of interval 0 is NaN"),
        ([0, 1], [9], [1.0], "one of each"),
    ],
)
def test_bad_columns_are_named(cls: type[RankedIndex], lo: Any, hi: Any, scores: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        cls.build(lo, hi, scores)


@every_index
def test_unknown_intervals_and_scores_are_named(cls: type[RankedIndex]) -> None:
    index = cls.build([0], [9], [1.0])
    with pytest.raises(OptionError, match="no interval 1"):
        index.rescore(1, np.array([2.0]))
    with pytest.raises(OptionError, match="NaN"):
        index.rescore(0, np.array([float("nan")]))


def held_arrays(thing: Any, seen: set[int]) -> int:
    """Bytes of every array that an object keeps alive, through whatever it is made of; a view counts as its base."""
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        return held_arrays(thing.base, seen) if isinstance(thing.base, np.ndarray) else thing.nbytes
    if isinstance(thing, (list, tuple)):
        return sum(held_arrays(part, seen) for part in thing)
    return sum(held_arrays(part, seen) for part in vars(thing).values()) if hasattr(thing, "__dict__") else 0


@every_index
@pytest.mark.parametrize("longest", [1, 10**3, 10**5])
def test_bytes_are_those_of_every_array_that_an_index_keeps_alive(cls: type[RankedIndex], longest: int) -> None:
    random = np.random.default_rng(3)
    # As many as fill the leaves of a tree, as a million do.
    lo = random.integers(0, 10**6, 31_000).astype(np.int32)
    hi = (lo + random.integers(0, longest, 31_000)).astype(np.int32)
    scores = random.random(31_000)
    index = cls.build(lo, hi, scores)
    assert index.nbytes == held_arrays(index, set())
    # Ids are 4 bytes of each.
    limits = {"ScoredIntervalTree": 12, "ScoredRTree": 16, "SOPTRTree": 16, "IRTree": 20}
    assert index.nbytes <= (4 + limits.get(cls.__name__, 200)) * 31_000
    for interval in range(600):
        scores[interval] = 2.0
        index.rescore(interval, scores)
    assert index.nbytes == held_arrays(index, set())
