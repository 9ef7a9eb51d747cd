"""Count: for each conjunction, count how many of its predicates hold (SIFT, section 2.2; GPX)."""

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int32s, Int64s
from tocsin.invariants import check_fields, check_starts, check_within, demand
from tocsin.papers.sift.kernels import Directory, invert, match_count
from tocsin.papers.sift.protocol import ConjunctionMatcher, Found


class Count(ConjunctionMatcher):
    """Walk the postings of every predicate that holds and count, per conjunction, up to TOTAL.

    The paper sets FOUND to zero and compares all of FOUND with TOTAL for each document. Here an entry of FOUND carries
    the number of the event that it counts for, so that an older entry reads as zero and nothing is reset; and a
    conjunction is reported at the moment when its count reaches TOTAL, so that nothing is scanned. A probe costs one
    increment per posting of the predicates that hold, whatever the number of conjunctions.

    >>> matcher = Count.build([0, 2, 3, 3], [0, 1, ~1], predicate_count=2)
    >>> sorted(matcher.match([0, 1]).tolist()), sorted(matcher.match([0]).tolist())
    ([0, 2], [1, 2])
    """

    derived: ClassVar[tuple[str, ...]] = Directory._fields

    def _derive(self, offsets: Int64s, terms: Int32s) -> dict[str, npt.NDArray[Any]]:
        starts, postings = invert(offsets, terms, self.predicate_count, False)
        forbidden_starts, forbidden_postings = invert(offsets, terms, self.predicate_count, True)
        total = np.bincount(postings, minlength=len(self.ids)).astype(np.int32)
        return {
            "starts": starts,
            "postings": postings,
            "forbidden_starts": forbidden_starts,
            "forbidden_postings": forbidden_postings,
            "total": total,
            "free": np.flatnonzero(total == 0).astype(np.int32),
        }

    def _probe(self, held_offsets: Int64s, held: Int32s) -> Found:
        # Entry 0 is the number of the next event.
        counts = self._zeros.take(1 + len(self.ids), np.int64)
        epoch = int(counts[0]) + 1
        directory = Directory(*(self._index[name] for name in self.derived))
        found = match_count(held_offsets, held, directory, self.ids, counts[1:], epoch)
        counts[0] = epoch + len(held_offsets) - 2
        # The number of the event has 31 bits of an entry; before they are used up, begin again with zeros.
        if counts[0] < 1 << 30:
            self._zeros.give(counts)
        return Found(*found)

    def _check_arrays(self, conjunctions: int) -> None:  # noqa: ARG002  # it counts by the places of ids
        directory = Directory(*(self._index[name] for name in self.derived))
        check_fields(Directory, directory)
        check_starts("starts", directory.starts, self.predicate_count, directory.postings.size)
        check_starts(
            "forbidden_starts", directory.forbidden_starts, self.predicate_count, directory.forbidden_postings.size
        )
        for name in ("postings", "forbidden_postings", "free"):
            check_within(name, getattr(directory, name), 0, self.ids.size)
        demand(directory.total.size == self.ids.size, "total", "not each conjunction has one")

    def _check(self) -> None:
        index = self._index
        for name, sign in (("", 1), ("forbidden_", -1)):
            starts, postings = index[f"{name}starts"], index[f"{name}postings"]
            pairs = {(int(c), p) for p in range(len(starts) - 1) for c in postings[starts[p] : starts[p + 1]]}
            rows = np.repeat(np.arange(len(self.ids)), np.diff(self.offsets))
            given = zip(rows.tolist(), self.terms.tolist(), strict=True)
            expected = {(c, t if t >= 0 else ~t) for c, t in given if (t >= 0) == (sign > 0)}
            assert pairs == expected, "the directory has each conjunction under each of its predicates"
            assert len(postings) == len(pairs), "a repeated term is posted once, or TOTAL would never be reached"
        assert np.array_equal(index["free"], np.flatnonzero(index["total"] == 0)), "without required terms: free"
