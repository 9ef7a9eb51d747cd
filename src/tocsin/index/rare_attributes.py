"""Ranges on attributes that few subscriptions name, as tests: an event pays for the attributes it has.

Every column of codes costs every event, whether it has the attribute or not. So only the attributes that most
subscriptions name have one. A range on any other, a *rare* attribute, becomes a test: TRUE if the value lies in the
range, and never NULL. A range that admits NULL becomes the test that there is a value outside of it, which must not be
TRUE. Phase 1 finds the tests that hold from the few rare attributes that a batch has. A conjunction is filed under such
a test as under any other.

The tests of rare attributes are numbered behind those of all families, column by column. The stored form of a segment
has ranges: after a merge another attribute may be rare.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int32s, Int64s, Ragged
from tocsin.conjunctions.coded import NOT_TRUE, TRUE, Conjunctions
from tocsin.forks import cached
from tocsin.index.encoding import Column, codes_of_column, mismatches
from tocsin.index.phase1_kernels import true_tests
from tocsin.invariants import check_fields, check_starts, demand
from tocsin.language.normal_form import NormalForm
from tocsin.model.events import EventBatch
from tocsin.model.expression_tree import is_derived
from tocsin.model.lookup import names_below
from tocsin.model.result import Evidence
from tocsin.predicates.ranges.kernels import NULL_CODE
from tocsin.tuning import TUNING


def rare_attributes(form: NormalForm) -> set[str]:
    """Return the attributes that are rare: few ranges name them, and there are many that more ranges name.

    An expression has a value for events that lack its attributes; so it is never rare.
    """
    named: dict[str, int] = {}
    for (attribute, _), column in form.columns.items():
        named[attribute] = named.get(attribute, 0) + column.conjunction.size + column.null.size
    by_names = sorted(named, key=lambda attribute: (-named[attribute], attribute))
    return {
        attribute
        for attribute in by_names[TUNING.common_attributes :]
        if named[attribute] <= TUNING.rare_ranges and not is_derived(attribute)
    }


@dataclass(frozen=True)
class RareRanges:
    """The columns of rare attributes, and the tests that their ranges have become."""

    columns: Sequence[Column]
    tests: Int32s
    """Where the tests of each column start, with one more entry."""
    starts: Int64s
    """Where the ranges of each test start, with one more entry."""
    low: Int32s
    high: Int32s

    @classmethod
    def none(cls) -> "RareRanges":
        """Return those of a segment without rare attributes."""
        nothing = np.empty(0, np.int32)
        return cls([], np.zeros(1, np.int32), np.zeros(1, np.int64), nothing, nothing)

    @property
    def count(self) -> int:
        """How many tests there are."""
        return int(self.starts.size) - 1

    @cached
    def _by_name(self) -> dict[str, list[int]]:
        """The columns that an attribute of an event may have values for: its own, and those below its name."""
        own: dict[str, list[int]] = {}
        for place, column in enumerate(self.columns):
            own.setdefault(column.attribute, []).append(place)
        by_name = {name: list(places) for name, places in own.items()}
        for name, attributes in names_below(own).items():
            by_name.setdefault(name, []).extend(place for attribute in attributes for place in own[attribute])
        return by_name

    def probe(self, batch: EventBatch, evidence: Evidence) -> Ragged:
        """Find the tests that are TRUE for each event; `evidence` takes values of another type."""
        if not self.columns:
            return Ragged(np.zeros(len(batch) + 1, np.int64), np.empty(0, np.int32))
        by_name = self._by_name
        places = sorted({place for name in batch.names() if name in by_name for place in by_name[name]})
        codes = np.full((len(places), len(batch)), NULL_CODE, np.int32)
        chosen = [self.columns[place] for place in places]
        for row, column in enumerate(chosen):
            codes[row] = codes_of_column(batch.column(column.attribute), column)
        evidence.mismatches |= mismatches(chosen, batch, codes == NULL_CODE)
        starts, values = true_tests(codes, np.array(places, np.int32), self.tests, self.starts, self.low, self.high)
        return Ragged(starts, values)

    def true_for(self, given: list[tuple[int, int]]) -> Int32s:
        """Return the tests that are TRUE for one event, ascending, given the places of columns and its codes there."""
        places, codes = np.array(sorted(given), np.int32).T.copy()
        _, values = true_tests(codes[:, None], places, self.tests, self.starts, self.low, self.high)
        return values

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as named arrays, for a segment file, which has the columns."""
        return {"tests": self.tests, "starts": self.starts, "low": self.low, "high": self.high}

    @classmethod
    def from_arrays(cls, columns: Sequence[Column], arrays: Mapping[str, npt.NDArray[Any]]) -> "RareRanges":
        """Return the ranges that `arrays` came from; format version 5 had none."""
        return cls(columns, **arrays) if arrays else cls.none()

    def check_arrays(self) -> None:
        """Demand what keeps the kernels within their arrays."""
        check_fields(RareRanges, self)
        check_starts("tests", self.tests, len(self.columns), self.count)
        check_starts("starts", self.starts, self.starts.size - 1, self.low.size)
        demand(self.low.size == self.high.size, "high", "not each range has one")

    def check(self) -> None:
        """Assert what matching relies on."""
        assert self.tests.size == len(self.columns) + 1, "each column has its tests"
        assert self.tests[-1] == self.count, "the last column ends with the last test"
        assert self.starts[-1] == self.low.size == self.high.size, "the last test ends with the last range"
        assert (self.low >= 0).all(), "no test is TRUE for NULL"


def ranges_to_tests(
    conjunctions: Conjunctions, columns: Sequence[Column], first_rare: int
) -> tuple[Conjunctions, RareRanges]:
    """Replace the ranges on the columns from `first_rare` on by tests, which are numbered behind all others."""
    if first_rare == len(columns):
        return conjunctions, RareRanges.none()
    rare = np.flatnonzero(conjunctions.column >= first_rare)
    owner, column = conjunctions.conjunction[rare], conjunctions.column[rare]
    low, high = conjunctions.low[rare], conjunctions.high[rare]
    first = np.flatnonzero(np.append(True, (np.diff(owner) != 0) | (np.diff(column) != 0)))
    end = np.append(first[1:], rare.size)
    predicates = [
        _test(int(column[start]), low[start:stop].tolist(), high[start:stop].tolist(), columns)
        for start, stop in zip(first.tolist(), end.tolist(), strict=True)
    ]
    distinct = sorted({test for test, _ in predicates})
    number = {test: place for place, test in enumerate(distinct)}
    last, families = conjunctions.last_code, len(columns)
    tests = conjunctions.test_null_column.size
    test_conjunction = np.concatenate([conjunctions.test_conjunction, owner[first]])
    order = np.argsort(test_conjunction, kind="stable")
    test = np.array([tests + number[test] for test, _ in predicates], np.int32)
    accepts = np.array([accepted for _, accepted in predicates], np.int32)
    null_column = conjunctions.test_null_column
    null_column = np.where(null_column >= families, null_column - (families - first_rare), null_column)
    kept = np.flatnonzero(conjunctions.column < first_rare)
    changed = replace(
        conjunctions,
        last_code=np.concatenate([last[:first_rare], last[families:]]),
        conjunction=conjunctions.conjunction[kept],
        column=conjunctions.column[kept],
        low=conjunctions.low[kept],
        high=conjunctions.high[kept],
        test_conjunction=test_conjunction[order],
        test=np.concatenate([conjunctions.test, test])[order],
        test_accepts=np.concatenate([conjunctions.test_accepts, accepts])[order],
        test_null_column=np.append(null_column, np.full(len(distinct), -1, np.int32)).astype(np.int32),
    )
    of_test = np.array([place for place, _, _ in distinct], np.int32)
    ends = [len(lows) for _, lows, _ in distinct]
    return changed, RareRanges(
        columns[first_rare:],
        np.searchsorted(of_test, np.arange(first_rare, families + 1)).astype(np.int32),
        np.append(0, np.cumsum(ends)).astype(np.int64),
        _flat(lows for _, lows, _ in distinct),
        _flat(highs for _, _, highs in distinct),
    )


_RareTest = tuple[int, tuple[int, ...], tuple[int, ...]]
"""A column, and the lowest and highest codes of ranges."""


def _test(column: int, low: list[int], high: list[int], columns: Sequence[Column]) -> tuple[_RareTest, int]:
    """Return the test that a predicate becomes, and the truth values that it accepts.

    Ranges are sorted, and NULL comes first, as code -1.
    """
    if low[0] >= 0:
        return (column, tuple(low), tuple(high)), TRUE
    # What a value must not lie in: the gaps between the ranges.
    gaps = zip([NULL_CODE, *high[1:]], [*low[1:], columns[column].domain.last + 1], strict=True)
    outside = [(before + 1, behind - 1) for before, behind in gaps if before + 1 < behind]
    return (column, tuple(first for first, _ in outside), tuple(last for _, last in outside)), NOT_TRUE


def _flat(lists: Iterable[tuple[int, ...]]) -> Int32s:
    return np.array([value for several in lists for value in several], np.int32)
