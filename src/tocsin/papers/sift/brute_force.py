"""Brute Force: look at every conjunction, term by term, until one fails (SIFT, section 2.1)."""

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int32s, Int64s
from tocsin.invariants import check_starts, check_tagged, check_type
from tocsin.papers.sift.kernels import match_brute_force
from tocsin.papers.sift.protocol import ConjunctionMatcher, Found


class BruteForce(ConjunctionMatcher):
    """Scan all conjunctions for each event, probing the event's occurrence table; rare terms first.

    A probe costs at least one look-up per conjunction. It is the definition that the others are measured against.

    >>> matcher = BruteForce.build([0, 2, 4], [0, 1, 0, 2], predicate_count=3)
    >>> matcher.match([0, 1])
    array([0], dtype=int32)
    """

    derived: ClassVar[tuple[str, ...]] = ("ordered_offsets", "ordered")

    def _derive(self, offsets: Int64s, terms: Int32s) -> dict[str, npt.NDArray[Any]]:
        return {"ordered_offsets": offsets, "ordered": terms}

    def _probe(self, held_offsets: Int64s, held: Int32s) -> Found:
        occurs = self._zeros.take(self.predicate_count, np.int8)
        offsets, terms = self._index["ordered_offsets"], self._index["ordered"]
        found = match_brute_force(held_offsets, held, self.ids, offsets, terms, occurs)
        self._zeros.give(occurs)
        return Found(*found, len(self.ids) * (len(held_offsets) - 1))

    def _check_arrays(self, conjunctions: int) -> None:  # noqa: ARG002  # the ids are checked
        offsets, ordered = self._index["ordered_offsets"], self._index["ordered"]
        check_type("ordered_offsets", offsets, np.int64)
        check_type("ordered", ordered, np.int32)
        check_starts("ordered_offsets", offsets, self.ids.size, ordered.size)
        check_tagged("ordered", ordered, self.predicate_count)

    def _check(self) -> None:
        offsets, ordered = self._index["ordered_offsets"], self._index["ordered"]
        for c in range(len(self.ids)):
            own = ordered[offsets[c] : offsets[c + 1]]
            given = self.terms[self.offsets[c] : self.offsets[c + 1]]
            assert sorted(own) == sorted(set(given)), "a slice is reordered, without repeats, and nothing else"
            frequencies = self.frequency[own[own >= 0]]
            assert np.all(np.diff(frequencies) >= 0), "rare required terms come first, so that a probe fails early"
