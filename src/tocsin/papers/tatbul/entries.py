"""The intervals that a structure is built from, in normal form."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.errors import OptionError
from tocsin.papers.tatbul.kernels import merge_entries
from tocsin.papers.tatbul.protocol import Int32s


class Entries(NamedTuple):
    """Inclusive ranges of codes with their predicates, sorted by predicate, then by code.

    The ranges of one predicate neither overlap nor touch, so that at most one of them contains a code and sorted
    positions here are sorted predicates.
    """

    lo: Int32s
    hi: Int32s
    predicate: Int32s

    @classmethod
    def of(cls, lo: npt.ArrayLike, hi: npt.ArrayLike, predicate: npt.ArrayLike | None = None) -> "Entries":
        """Bring ranges into normal form: leave out empty ones, sort, join those that meet. O(n log n).

        >>> Entries.of([5, 9, 0], [7, 3, 6], [4, 4, 4])
        Entries(lo=array([0], dtype=int32), hi=array([7], dtype=int32), predicate=array([4], dtype=int32))
        """
        los, his = np.asarray(lo, np.int32), np.asarray(hi, np.int32)
        owners = np.arange(len(los), dtype=np.int32) if predicate is None else np.asarray(predicate, np.int32)
        if not len(los) == len(his) == len(owners):
            raise OptionError(
                f"{len(los)} low ends, {len(his)} high ends and {len(owners)} predicates do not pair up",
                "Give one of each for every range",
            )
        if len(los) and (los.min() < 0 or owners.min() < 0):
            raise OptionError(
                "a range begins below code 0 or its predicate is negative", "Leave it out: NULL has no range"
            )
        kept = los <= his
        los, his, owners = los[kept], his[kept], owners[kept]
        order = np.lexsort((los, owners))
        return cls(*merge_entries(los[order], his[order], owners[order]))

    def take(self, kept: npt.NDArray[np.bool_]) -> "Entries":
        """The entries marked true."""
        return Entries(self.lo[kept], self.hi[kept], self.predicate[kept])

    def check(self) -> None:
        """Assert the normal form. O(n)."""
        assert (self.lo >= 0).all(), "codes below 0 are NULL and belong to no range"
        assert (self.lo <= self.hi).all(), "an empty range is never stored"
        same = self.predicate[1:] == self.predicate[:-1]
        assert (self.predicate[1:] >= self.predicate[:-1]).all(), "entries are sorted by predicate"
        apart = self.lo[1:].astype(np.int64) > self.hi[:-1].astype(np.int64) + 1
        assert apart[same].all(), "ranges of one predicate are sorted and apart, so that at most one holds"
