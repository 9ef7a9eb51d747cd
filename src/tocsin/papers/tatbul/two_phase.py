"""The papers' way: an index for each attribute says which predicates hold, a matcher says which conjunctions do.

Any phase 1 index goes with any phase 2 matcher. The batch matcher by access pairs (`conjunctions/pairs`) is faster in
memory; this one is for comparison, for predicates on disk (`pbtree`), and for users who want a certain algorithm.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int32s, Int64s
from tocsin.conjunctions.coded import Conjunctions, Events
from tocsin.conjunctions.protocol import CodesOf, Extent, Filing, Pairs, Step
from tocsin.invariants import check_fields, check_within, demand
from tocsin.papers.sift.brute_force import BruteForce
from tocsin.papers.sift.count import Count
from tocsin.papers.sift.key import Key
from tocsin.papers.sift.protocol import ConjunctionMatcher
from tocsin.papers.sift.tree import Tree
from tocsin.papers.tatbul.choose import Statistics, choose
from tocsin.papers.tatbul.protocol import PredicateIndex
from tocsin.registry import interval_index

PHASE_2: dict[str, type[ConjunctionMatcher]] = {"brute-force": BruteForce, "count": Count, "key": Key, "tree": Tree}
MEMORY = 1 << 30
"""Bytes that the index of one attribute may take when it is chosen from statistics."""

_TRUE, _FALSE, _NULL = 1, 2, 4
_FIELDS = tuple(name for name in Conjunctions.__dataclass_fields__ if name != "count")


@dataclass(frozen=True)
class Choice:
    """The index of one column and why it was chosen."""

    column: int
    index: str
    reason: str


class StoredConjunctions:
    """What the papers' indexes of a segment share: its file has the conjunctions, from which they are built again."""

    pairs = None
    """It shares nothing between segments."""
    needs_codes = True
    rekeyed = 0
    found_as_one = None
    expects_many = False
    stays_on_disk: ClassVar[bool] = False

    def __init__(self, conjunctions: Conjunctions, index: str, matcher: str) -> None:
        self._conjunctions = conjunctions
        self.index, self.matcher = index, matcher

    @classmethod
    def build(cls, filing: Filing) -> Self:
        """Build the indexes that were asked for."""
        return cls(filing.conjunctions, *filing.algorithms)

    def match_lists(self, events: Events, codes_of: CodesOf | None = None, by_pairs: Pairs | None = None) -> None:
        """Nothing: it finds pairs."""

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The conjunctions as named arrays, from which the indexes are built again."""
        count = np.array([self._conjunctions.count], np.int64)
        return {"count": count} | {name: getattr(self._conjunctions, name) for name in _FIELDS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], algorithms: tuple[str, str]) -> Self:
        """Build the indexes again from the arrays of conjunctions."""
        return cls(cls.stored(arrays), *algorithms)

    @staticmethod
    def stored(arrays: Mapping[str, npt.NDArray[Any]]) -> Conjunctions:
        """The conjunctions that `arrays` has, checked: kernels build the indexes from them."""
        said = Conjunctions(count=int(arrays["count"][0]), **{name: arrays[name] for name in _FIELDS})
        _check_conjunctions(said)
        return said

    def check_arrays(self, bounds: Extent) -> None:
        """Demand the columns and conjunctions of the segment; the indexes were built here."""
        demand(self._conjunctions.count == bounds.conjunctions, "count", f"it is not {bounds.conjunctions}")
        demand(self._conjunctions.last_code.size < bounds.columns, "last_code", "it has more columns than the events")


class TwoPhaseIndex(StoredConjunctions):
    """Conjunctions by one interval index for each column and one conjunction matcher over predicate ids."""

    def __init__(self, conjunctions: Conjunctions, index: str, matcher: str) -> None:
        super().__init__(conjunctions, index, matcher)
        self.choices: list[Choice] = []
        rows, of_row, predicate_count = _distinct_predicates(conjunctions)
        self._indexes: dict[int, PredicateIndex] = {}
        self._shifts: dict[int, int] = {}
        """By column: 1 if a predicate accepts NULL, which is then a code like any other; 0: NULL costs nothing."""
        for column in np.unique(conjunctions.column).tolist():
            mine = conjunctions.column[rows] == column
            self._indexes[column] = self._phase_1(column, rows[mine], of_row[rows[mine]])
        self._terms = predicate_count
        """How many predicates on columns there are; those of tests are numbered behind them."""
        self._tests = TestTerms(conjunctions, predicate_count)
        owner, terms = self._tests.owner, self._tests.terms
        first = np.unique(np.stack([conjunctions.conjunction, of_row], axis=1), axis=0)
        owners = np.concatenate([first[:, 0], owner])
        order = np.argsort(owners, kind="stable")
        offsets = np.searchsorted(owners[order], np.arange(conjunctions.count + 1)).astype(np.int64)
        all_terms = np.concatenate([first[:, 1], terms])[order].astype(np.int32)
        self._phase_2_name = "key" if matcher == "auto" else matcher
        self._phase_2 = PHASE_2[self._phase_2_name].build(offsets, all_terms, self._tests.end)

    def _phase_1(self, column: int, rows: Int64s, predicate: Int32s) -> PredicateIndex:
        low, high = self._shifted(column, rows)
        name, reason = self.index, "asked for"
        if name == "auto":
            codes = int(self._conjunctions.last_code[column]) + 2
            name, reason = choose(Statistics.of(low.astype(np.int32), high.astype(np.int32), codes, MEMORY))
        self.choices.append(Choice(column, name, reason))
        return interval_index(name).build(low, high, predicate)

    def _shifted(self, column: int, rows: Int64s) -> tuple[Int32s, Int32s]:
        """The ranges of a column's rows, moved up by one if NULL is a code there."""
        low, high = self._conjunctions.low[rows], self._conjunctions.high[rows]
        shift = self._shifts[column] = int(low.min() < 0)
        return low + np.int32(shift), high + np.int32(shift)

    def match(self, events: Events, codes_of: CodesOf | None = None, by_pairs: Pairs | None = None) -> Pairs:  # noqa: ARG002  # events have their codes
        """The (event, conjunction) rows that match, in no order, and the number of candidates verified."""
        count = events.codes.shape[1]
        found = [
            index.probe_batch(events.codes[column] + np.int32(self._shifts[column]))
            for column, index in self._indexes.items()
        ]
        owners = [np.repeat(np.arange(count), np.diff(answer.offsets)) for answer in found]
        test_owners, test_ids = self._tests.held(events)
        owner = np.concatenate([*owners, test_owners])
        ids = np.concatenate([*(answer.ids for answer in found), test_ids]).astype(np.int32)
        order = np.lexsort((ids, owner))
        starts = np.searchsorted(owner[order], np.arange(count + 1)).astype(np.int64)
        answer = self._phase_2.match_batch(starts, ids[order])
        return np.stack([answer.events(), answer.conjunctions], axis=1), answer.candidates

    def describe(self, column_name: Callable[[int], str]) -> Iterator[Step]:
        """Name the index of each column and the matcher of conjunctions."""
        yield Step("", f"in two phases, {self.matcher} for conjunctions", "asked for")
        for choice in self.choices:
            yield Step(f", {column_name(choice.column)}", f"index {choice.index}", choice.reason)

    @property
    def evaluations(self) -> int:
        """Predicate evaluations of all columns so far."""
        return sum(index.evaluations for index in self._indexes.values())

    def derived_bytes(self) -> dict[str, int]:
        """Bytes of both phases, those of trees on disk among them, by the name of the index."""
        sizes = Counter({self._phase_2_name: self._phase_2.nbytes})
        for choice, index in zip(self.choices, self._indexes.values(), strict=True):
            sizes[choice.index] += index.nbytes
        return dict(sizes)

    def check(self) -> None:
        """Assert the invariants of every index."""
        for index in self._indexes.values():
            index.check()
        self._phase_2.check()


def _check_conjunctions(said: Conjunctions) -> None:
    """Demand what keeps the kernels that build indexes within their arrays."""
    check_fields(Conjunctions, said)
    for names, last in (
        (("conjunction", "column", "low", "high"), "conjunction"),
        (("test_conjunction", "test", "test_accepts"), "test_conjunction"),
    ):
        for name in names:
            demand(getattr(said, name).size == getattr(said, last).size, name, f"it is not as long as {last!r}")
        check_within(last, getattr(said, last), 0, said.count)
        demand(np.diff(getattr(said, last)) >= 0, last, "it is not sorted")
    check_within("last_code", said.last_code, 0, 2**31 - 1)
    check_within("column", said.column, 0, said.last_code.size)
    check_within("test", said.test, 0, said.test_null_column.size)
    check_within("test_null_column", said.test_null_column, -1, said.last_code.size)
    for name in ("low", "high"):
        codes = getattr(said, name)
        demand((codes >= -1) & (codes <= said.last_code[said.column]), name, "a code is beyond its column")


def _distinct_predicates(conjunctions: Conjunctions) -> tuple[Int64s, Int32s, int]:
    """One row of each range of each distinct predicate, the predicate of each row, and how many there are."""
    count = conjunctions.conjunction.size
    changes = np.ones(count, bool)
    changes[1:] = np.diff(conjunctions.conjunction) != 0
    changes[1:] |= np.diff(conjunctions.column) != 0
    starts = np.flatnonzero(changes)
    ends = np.append(starts, count)[1:]
    of_row = np.empty(count, np.int32)
    # Most predicates are one range, and compared all at once.
    singles = starts[ends - starts == 1]
    keys = [column[singles] for column in (conjunctions.high, conjunctions.low, conjunctions.column)]
    order = np.lexsort(keys)
    is_new = np.ones(singles.size, bool)
    is_new[1:] = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    of_row[singles[order]] = np.cumsum(is_new) - 1
    rows = [singles[order[is_new]]]
    distinct = int(is_new.sum())
    number: dict[tuple[int, bytes], int] = {}
    ranges = np.stack([conjunctions.low, conjunctions.high], axis=1)
    several = ends - starts > 1
    for start, end in zip(starts[several].tolist(), ends[several].tolist(), strict=True):
        key = (int(conjunctions.column[start]), ranges[start:end].tobytes())
        if key not in number:
            number[key] = distinct + len(number)
            rows.append(np.arange(start, end))
        of_row[start:end] = number[key]
    return np.concatenate(rows), of_row, distinct + len(number)


class TestTerms:
    """Tests as predicates: TRUE(t), NULL(t) and their union, and the terms that accepted truth values demand."""

    def __init__(self, conjunctions: Conjunctions, first: int) -> None:
        self._null_column = conjunctions.test_null_column
        tests = self._null_column.size
        self._true, self._null, self._either = first, first + tests, first + 2 * tests
        self.end = first + 3 * tests
        test, accepts = conjunctions.test, conjunctions.test_accepts
        owner, terms = [], []
        for accepted, wanted in (
            (_TRUE, [self._true + test]),
            (_FALSE, [~(self._true + test), ~(self._null + test)]),
            (_NULL, [self._null + test]),
            (_TRUE | _FALSE, [~(self._null + test)]),
            (_TRUE | _NULL, [self._either + test]),
            (_FALSE | _NULL, [~(self._true + test)]),
        ):
            for term in wanted:
                owner.append(conjunctions.test_conjunction[accepts == accepted])
                terms.append(term[accepts == accepted])
        self.owner, self.terms = np.concatenate(owner), np.concatenate(terms)
        self._null_wanted = np.unique(test[(accepts != _TRUE) & (accepts != (_FALSE | _NULL))])

    def held(self, events: Events) -> tuple[Int64s, Int64s]:
        """The (event, predicate) pairs of tests."""
        count = events.codes.shape[1]
        rows = np.repeat(np.arange(count), np.diff(events.true_starts))
        null_rows = np.repeat(np.arange(count), np.diff(events.null_starts))
        listed = np.isin(events.null, self._null_wanted)
        unknown_rows, unknown = [null_rows[listed]], [events.null[listed].astype(np.int64)]
        for test in self._null_wanted.tolist():
            if self._null_column[test] >= 0:
                missing = np.flatnonzero(events.codes[self._null_column[test]] < 0)
                unknown_rows.append(missing)
                unknown.append(np.full(missing.size, test))
        true, null = events.true.astype(np.int64), np.concatenate(unknown)
        owners = np.concatenate([rows, *unknown_rows, rows, *unknown_rows])
        ids = np.concatenate([true + self._true, null + self._null, true + self._either, null + self._either])
        return owners, ids
