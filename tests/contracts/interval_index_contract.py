"""What every index over the predicates of one attribute must do: the contract that each inherits."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from tocsin.errors import OptionError
from tocsin.papers.tatbul.protocol import PredicateIndex

# Each index runs the tests of this class on its own.
INHERITED = [HealthCheck.differing_executors]
LAST = 24  # the greatest code of the small domain in which intervals often meet, nest and repeat

Range = tuple[int, int, int]
"""A predicate and one of its ranges, first and last code; empty if the first is greater."""


def holding(ranges: Iterable[Range], code: int) -> list[int]:
    """The definition: the predicates with a range that contains the code."""
    return sorted({predicate for predicate, lo, hi in ranges if lo <= code <= hi})


codes = st.integers(0, LAST)
one_range = st.tuples(st.integers(0, 12), st.one_of(st.just(0), codes), st.one_of(codes, st.just(LAST)))
many_ranges = st.lists(one_range, max_size=40)
steps = st.lists(st.one_of(one_range, st.integers(0, 12)), max_size=90)


class IntervalIndexContract(ABC):
    """Inherit and say how to `build`."""

    @abstractmethod
    def build(self, lo: list[int], hi: list[int], predicate: list[int] | None) -> PredicateIndex:
        """The index under test over these ranges."""

    def index(self, ranges: Iterable[Range]) -> PredicateIndex:
        """The index under test, checked, over ranges with their predicates."""
        columns = [list(column) for column in zip(*ranges, strict=True)] or [[], [], []]
        index = self.build(columns[1], columns[2], columns[0])
        index.check()
        return index

    def agree(self, index: PredicateIndex, ranges: list[Range], last: int = LAST) -> None:
        """Every way to ask gives the definition's answer, on every code, NULL, and beyond the last end."""
        asked = list(range(-1, last + 3))
        answers = index.probe_batch(asked)
        assert answers.offsets.dtype == np.int64
        assert answers.ids.dtype == np.int32
        for number, code in enumerate(asked):
            expected = holding(ranges, code)
            assert answers.ids[answers.offsets[number] : answers.offsets[number + 1]].tolist() == expected, code
            assert index.probe(code).tolist() == expected, code
            assert index.probe_bitmap(code) == BitMap(expected), code

    @settings(max_examples=60, deadline=None, suppress_health_check=INHERITED)
    @given(many_ranges)
    def test_equals_the_definition(self, ranges: list[Range]) -> None:
        self.agree(self.index(ranges), ranges)

    @settings(max_examples=40, deadline=None, suppress_health_check=INHERITED)
    @given(many_ranges, steps)
    def test_equals_the_definition_after_each_change(self, ranges: list[Range], steps: list[Range | int]) -> None:
        index = self.index(ranges)
        now = [(predicate, lo, hi) for predicate, lo, hi in ranges if lo <= hi]
        for step in steps:
            if isinstance(step, int):
                if any(predicate == step for predicate, _, _ in now):
                    index.delete(step)
                    now = [entry for entry in now if entry[0] != step]
                else:
                    with pytest.raises(OptionError, match=f"no predicate {step}"):
                        index.delete(step)
            else:
                index.insert(*step)
                now += [step] if step[1] <= step[2] else []
            index.check()
            assert index.probe(LAST // 2).tolist() == holding(now, LAST // 2)
        self.agree(index, now)

    @pytest.mark.parametrize(
        "ranges",
        [
            pytest.param([], id="none"),
            pytest.param([(0, 7, 3)], id="empty"),
            pytest.param([(number, 5, 9) for number in range(20)], id="duplicates"),
            pytest.param([(number, 10 - number, 10 + number) for number in range(10)], id="nested"),
            pytest.param([(number, 2 * number, 2 * number + 1) for number in range(10)], id="adjacent"),
            pytest.param([(number, 2 * number, 2 * number + 2) for number in range(10)], id="touching"),
            pytest.param([(number, number, number + 8) for number in range(15)], id="stairs"),
            pytest.param([(number, 7, 7) for number in range(9)], id="one value everywhere"),
            pytest.param([(number, 0, 2**31 - 1) for number in range(9)], id="infinite"),
            pytest.param([(0, 0, 4), (0, 6, LAST), (1, 5, 5), (2, 1, 1), (2, 3, 3), (2, 9, 9)], id="unequal and in"),
            pytest.param([(3, 2, 6), (3, 4, 9), (3, 9, 9), (1, 0, 1), (1, 2, 3)], id="meeting ranges of a predicate"),
            pytest.param([(900_000, 1, 3), (7, 2, 5)], id="sparse ids"),
        ],
    )
    def test_shapes(self, ranges: list[Range]) -> None:
        self.agree(self.index(ranges), ranges)

    def test_predicates_are_positions_unless_given(self) -> None:
        index = self.build([3, 5, 9], [7, 15, 13], None)
        assert index.probe(5).tolist() == [0, 1]

    def test_the_greatest_code_can_be_asked_for(self) -> None:
        index = self.build([0, 2**31 - 1, 4], [2**31 - 1, 2**31 - 1, 6], None)
        assert index.probe(2**31 - 1).tolist() == [0, 1]

    def test_null_matches_nothing_and_costs_nothing(self) -> None:
        index = self.build([0, 0], [5, 9], None)
        index.evaluations = 0
        assert index.probe(-1).tolist() == []
        assert index.evaluations == 0

    def test_evaluations_add_up_until_reset(self) -> None:
        index = self.build([3, 5, 9], [7, 15, 13], None)
        index.evaluations = 0
        index.probe(5)
        once = index.evaluations
        index.probe_batch([5, 5])
        assert 0 < once == index.evaluations / 3

    def test_a_predicate_comes_back_after_its_deletion(self) -> None:
        index = self.index([(number, number, number + 8) for number in range(15)])
        index.delete(4)
        index.insert(4, 20, 22)
        index.check()
        assert index.probe(8).tolist() == [0, 1, 2, 3, 5, 6, 7, 8]
        assert index.probe(21).tolist() == [4, 13, 14]

    def test_many_insertions_into_nothing(self) -> None:
        index = self.index([])
        ranges = [(number, number * 7 % 200, number * 7 % 200 + number % 13) for number in range(400)]
        for entry in ranges:
            index.insert(*entry)
        index.check()
        self.agree(index, ranges, last=215)
        for number in range(0, 400, 2):
            index.delete(number)
        index.check()
        self.agree(index, ranges[1::2], last=215)

    def test_random_values_on_a_large_domain(self) -> None:
        random = np.random.default_rng(4)
        lo = random.integers(0, 10_000, 500)
        hi = lo + random.integers(0, 900, 500)
        index = self.build(lo.tolist(), hi.tolist(), None)
        index.check()
        asked = random.integers(0, 11_000, 300)
        answers = index.probe_batch(asked)
        for number, code in enumerate(asked):
            expected = np.flatnonzero((lo <= code) & (code <= hi)).tolist()
            assert answers.ids[answers.offsets[number] : answers.offsets[number + 1]].tolist() == expected

    def test_negative_codes_and_predicates_are_refused(self) -> None:
        index = self.build([1], [2], None)
        for entry in [(-1, 0, 1), (0, -1, 1)]:
            with pytest.raises(OptionError, match="negative"):
                index.insert(*entry)
        with pytest.raises(OptionError, match="below code 0"):
            self.build([-1], [2], None)
        with pytest.raises(OptionError, match="pair up"):
            self.build([1, 2], [2], None)

    def test_size_is_reported(self) -> None:
        small, large = self.build([3, 5], [7, 15], None), self.build(list(range(100)), list(range(100)), None)
        assert 0 < small.nodes < large.nodes
        assert 0 < small.nbytes < large.nbytes

    def test_draws_itself(self) -> None:
        index = self.index([(number, 3 * number, 3 * number + 5) for number in range(6)])
        assert index.draw(7).startswith("* ")
        assert index.draw_svg(7).startswith("<svg")
        assert "*" not in index.draw()
        for number in range(40):
            index.insert(10 + number, number, number + 1)
        assert index.draw()
