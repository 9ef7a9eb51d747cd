"""The protocol of the four matchers: which conjunctions hold, given the predicates that hold.

A conjunction is a slice of *terms*: a predicate id p that must hold, or ~p (a negative number) for a predicate that
must not. An empty conjunction always holds. Conjunctions are named by dense numbers: the row of the CSR they were built
from, then one more for each that is inserted; a number is never given twice.

The four matchers differ in the arrays that they derive from the terms (`_index`) and in how they probe them (`_probe`).
They share the rest: what is inserted waits in a short list that is scanned, and joins the arrays when it has grown to
a 64th of them, so that an insertion costs a constant number of array writes per term; what is deleted is filtered
from the answers until it makes up half of the arrays.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Bools, Float64s, Int32s, Int64s
from tocsin.conjunctions.key.index import ZeroArrays, check_slice_arrays, check_slices, to_fail_first
from tocsin.errors import OptionError
from tocsin.invariants import check_ascending
from tocsin.papers.sift.kernels import match_brute_force

_SMALLEST_TAIL = 256


class Found(NamedTuple):
    """The conjunctions that hold for each event of a batch, in no particular order, and the work it took.

    Event e has ``conjunctions[offsets[e]:offsets[e + 1]]``. `candidates` counts the conjunctions that were looked at,
    once per event for which they were.
    """

    offsets: Int64s
    conjunctions: Int32s
    candidates: int

    def of(self, event: int) -> Int32s:
        """Return the conjunctions that hold for one event."""
        return self.conjunctions[self.offsets[event] : self.offsets[event + 1]]

    def events(self) -> Int32s:
        """Return the event of each conjunction found."""
        return np.repeat(np.arange(len(self.offsets) - 1, dtype=np.int32), np.diff(self.offsets))

    def with_more(self, other: "Found") -> "Found":
        """Return the union with the answer of a disjoint set of conjunctions."""
        events = np.concatenate([self.events(), other.events()])
        joined = np.concatenate([self.conjunctions, other.conjunctions])[np.argsort(events, kind="stable")]
        return Found(self.offsets + other.offsets, joined, self.candidates + other.candidates)

    def without(self, gone: Bools) -> "Found":
        """Return the answer without the conjunctions that are `gone`."""
        keep = ~gone[self.conjunctions]
        kept_before = np.concatenate([[0], np.cumsum(keep)]).astype(np.int64)
        return Found(kept_before[self.offsets], self.conjunctions[keep], self.candidates)


class ConjunctionMatcher(ABC):
    """Find the conjunctions that hold: build once, probe with batches, insert and delete in between.

    Probing is safe from several threads at once; insertion and deletion are not safe beside it.
    """

    # The names of the derived arrays, as `arrays` gives them.
    derived: ClassVar[tuple[str, ...]] = ()

    def __init__(self, ids: Int32s, offsets: Int64s, terms: Int32s, frequency: Float64s) -> None:
        self.ids, self.offsets, self.terms = ids, offsets, terms
        self.frequency = frequency
        self._index: dict[str, npt.NDArray[Any]] = {}
        self._waiting: dict[int, Int32s] = {}
        self._tail: tuple[Int32s, Int64s, Int32s] | None = None
        self._next_id = int(ids[-1]) + 1 if len(ids) else 0
        self._gone = np.zeros(self._next_id, np.bool_)
        self._gone_count = 0
        self._zeros = ZeroArrays()

    @classmethod
    def build(
        cls,
        offsets: npt.ArrayLike,
        terms: npt.ArrayLike,
        predicate_count: int,
        frequency: npt.ArrayLike | None = None,
    ) -> Self:
        """Build from a CSR of terms; about linear in the number of terms.

        `frequency` says how often each predicate holds, on any scale; unknown, it is how many terms name it.
        """
        terms = np.ascontiguousarray(terms, np.int32)
        offsets = np.ascontiguousarray(offsets, np.int64)
        named = np.where(terms < 0, ~terms, terms)
        if len(terms) and int(named.max()) >= predicate_count:
            raise OptionError(
                f"a term names predicate {named.max()} of {predicate_count}", "Raise predicate_count above every term"
            )
        if frequency is None:
            frequency = np.bincount(named, minlength=predicate_count)
        ids = np.arange(len(offsets) - 1, dtype=np.int32)
        matcher = cls(ids, offsets, terms, np.asarray(frequency, np.float64))
        matcher._rebuild()
        return matcher

    def match(self, held: npt.ArrayLike) -> Int32s:
        """Return the conjunctions that hold when exactly the predicates `held` (distinct ids) do."""
        held = np.ascontiguousarray(held, np.int32)
        return self.match_batch(np.array([0, len(held)], np.int64), held).conjunctions

    def match_batch(self, held_offsets: Int64s, held: Int32s) -> Found:
        """Return the conjunctions that hold for each event; event e holds ``held[held_offsets[e]:…[e + 1]]``."""
        found = self._probe(held_offsets, held)
        if self._gone_count:
            found = found.without(self._gone)
        if self._waiting:
            if self._tail is None:
                self._tail = (np.fromiter(self._waiting, np.int32), *csr(list(self._waiting.values())))
            occurs = np.zeros(self.predicate_count, np.int8)
            hits = match_brute_force(held_offsets, held, *self._tail, occurs)
            found = found.with_more(Found(*hits, len(self._waiting) * (len(held_offsets) - 1)))
        return found

    def insert(self, terms: Sequence[int] | Int32s) -> int:
        """Add a conjunction and return its number."""
        number = self._next_id
        new = np.array(terms, np.int32)
        highest = int(np.where(new < 0, ~new, new).max(initial=-1))
        if highest >= self.predicate_count:
            self.frequency = np.concatenate([self.frequency, np.zeros(highest + 1 - self.predicate_count)])
        self._waiting[number] = new
        self._tail = None
        self._next_id += 1
        if len(self._waiting) > self._longest_tail:
            self._rebuild()
        return number

    def delete(self, number: int) -> None:
        """Remove the conjunction with this number."""
        if number not in self:
            raise OptionError(f"there is no conjunction {number}", "Delete numbers that build or insert gave, once")
        if self._waiting.pop(number, None) is not None:
            self._tail = None
            return
        self._gone[number] = True
        self._gone_count += 1
        if 2 * self._gone_count > max(_SMALLEST_TAIL, len(self.ids)):
            self._rebuild()

    def rekey(self, frequency: npt.ArrayLike) -> None:
        """Build the arrays again for new frequencies of the predicates."""
        self.frequency = np.asarray(frequency, np.float64)
        self._rebuild()

    def __contains__(self, number: int) -> bool:
        if number in self._waiting:
            return True
        place = int(np.searchsorted(self.ids, number))
        return place < len(self.ids) and int(self.ids[place]) == number and not self._gone[number]

    def __len__(self) -> int:
        return len(self.ids) + len(self._waiting) - self._gone_count

    @property
    def predicate_count(self) -> int:
        """The number of predicates that terms may name; numbers beyond it may hold and are ignored."""
        return len(self.frequency)

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays().values()) + self._gone.nbytes

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as named arrays, once everything inserted and deleted has been worked in."""
        if self._waiting or self._gone_count:
            self._rebuild()
        state: dict[str, npt.NDArray[Any]] = {
            "ids": self.ids,
            "offsets": self.offsets,
            "terms": self.terms,
            "frequency": self.frequency,
        }
        return state | self._index

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return the matcher of `arrays`, which may be read-only and mapped from a file; constant time."""
        matcher = cls(arrays["ids"], arrays["offsets"], arrays["terms"], arrays["frequency"])
        matcher._index = {name: arrays[name] for name in cls.derived}
        return matcher

    def check_arrays(self, conjunctions: int) -> None:
        """Demand what keeps the kernels within their arrays: once, of a matcher of so many conjunctions from a file."""
        check_slice_arrays(self.ids, self.offsets, self.terms, self.frequency, conjunctions)
        check_ascending("ids", self.ids)
        self._check_arrays(conjunctions)

    def check(self) -> None:
        """Assert what must be true of the arrays, whatever was inserted and deleted."""
        check_slices(self.ids, self.offsets, self.terms, self.predicate_count)
        assert set(self._index) == set(self.derived), "the derived arrays are those that are written to disk"
        assert self._gone_count == np.count_nonzero(self._gone), "deletions are counted, so that few are carried along"
        assert not self._gone_count or self._gone[self.ids].any(), "only what is in the arrays is filtered"
        assert min(self._waiting, default=self._next_id) > self.ids.max(initial=-1), "a number is given once"
        assert len(self._waiting) <= self._longest_tail, "the list that is scanned stays short"
        self._check()

    @property
    def _longest_tail(self) -> int:
        return max(_SMALLEST_TAIL, len(self.ids) // 64)

    def _rebuild(self) -> None:
        """Work in what was inserted and deleted, and derive the arrays again."""
        if self._waiting or self._gone_count:
            stay, lengths = ~self._gone[self.ids], np.diff(self.offsets)
            late_offsets, late_terms = csr(list(self._waiting.values()))
            self.terms = np.concatenate([self.terms[np.repeat(stay, lengths)], late_terms])
            lengths = np.concatenate([lengths[stay], np.diff(late_offsets)])
            self.offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            self.ids = np.concatenate([self.ids[stay], np.fromiter(self._waiting, np.int32)])
            self._waiting, self._tail = {}, None
            self._gone, self._gone_count = np.zeros(self._next_id, np.bool_), 0
        self._zeros = ZeroArrays()
        self._index = self._derive(*to_fail_first(self.offsets, self.terms, self.frequency))

    @abstractmethod
    def _derive(self, offsets: Int64s, terms: Int32s) -> dict[str, npt.NDArray[Any]]:
        """Return the derived arrays for slices that are ordered to fail first and have no repeats."""

    @abstractmethod
    def _probe(self, held_offsets: Int64s, held: Int32s) -> Found:
        """Return the conjunctions of the derived arrays that hold."""

    @abstractmethod
    def _check_arrays(self, conjunctions: int) -> None:
        """Demand the same of the derived arrays."""

    @abstractmethod
    def _check(self) -> None:
        """Assert what must be true of the derived arrays."""


def csr(slices: Sequence[Int32s]) -> tuple[Int64s, Int32s]:
    """Return the slices as one array, with the offset of each."""
    offsets = np.zeros(len(slices) + 1, np.int64)
    np.cumsum([len(s) for s in slices], out=offsets[1:])
    return offsets, np.concatenate([*slices, np.empty(0, np.int32)]).astype(np.int32)
