"""Exact top-k: the best subscriptions all of whose predicates hold, by intersecting iterators in order of score."""

from typing import Self

import numpy as np
import numpy.typing as npt

from tocsin.ranking.protocol import Float64s, Int32s, RankedIndex, best_first
from tocsin.ranking.rows import Probe, Rows
from tocsin.ranking.sopt import SOPTRTree


class ExactTopK:
    """Find the best subscriptions among those that match, with one ranked index an attribute.

    All iterators yield in the same order, by score, so that everything up to the least advanced of them is settled:
    who was yielded as often as it has predicates matches. Costs what is yielded until the k-th match.

    >>> from tocsin.ranking.rows import as_probe, as_rows
    >>> rows = as_rows([0, 1, 0], [0, 5, 0], [9, 9, 9], [1.0] * 3, [0, 0, 1], attributes=2, count=2)
    >>> exact = ExactTopK.build(rows, [1.0, 2.0])
    >>> exact.top_k(as_probe([3, 7]), 10).tolist(), exact.top_k(as_probe([3, 2]), 10).tolist()
    ([1, 0], [1])
    """

    def __init__(self, rows: Rows, scores: Float64s, index: type[RankedIndex]) -> None:
        self.rows = rows
        self.by_rank = best_first(scores)
        rank = np.empty(rows.subscriptions, np.int32)
        rank[self.by_rank] = np.arange(rows.subscriptions, dtype=np.int32)
        self._needed = np.diff(rows.offsets)[self.by_rank]
        self._always = np.flatnonzero(self._needed == 0).astype(np.int32)
        self.indexes: list[RankedIndex] = []
        self._ranks: list[Int32s] = []
        for attribute in range(rows.attributes):
            members = np.flatnonzero(rows.attribute == attribute)
            owners = rows.subscription[members]
            self.indexes.append(index.build(rows.lo[members], rows.hi[members], scores[owners]))
            self._ranks.append(rank[owners])

    @classmethod
    def build(cls, rows: Rows, scores: npt.ArrayLike, index: type[RankedIndex] = SOPTRTree) -> Self:
        """Build one index an attribute over the scores of the subscriptions, in O(n log n)."""
        return cls(rows, np.asarray(scores, np.float64), index)

    @property
    def nbytes(self) -> int:
        """Bytes of the indexes, without ids and columns."""
        return sum(index.nbytes for index in self.indexes)

    def top_k(self, probe: Probe, k: int) -> Int32s:
        """Return the best `k` subscriptions all of whose predicates hold, best first, equal scores by id."""
        present = np.flatnonzero(probe.present).tolist()
        iterators = {name: probe.iterate(name, self.indexes[name]) for name in present}
        ahead = {name: np.empty(0, np.int32) for name in present}
        found = np.empty(0, np.int32)
        chunk = max(2 * k, 16)
        while found.size < k and iterators:
            for name in list(iterators):
                if not ahead[name].size:
                    ahead[name] = self._ranks[name][iterators[name].take(chunk)]
                    if ahead[name].size < chunk:
                        del iterators[name]
            last = min((int(ahead[name][-1]) for name in iterators), default=self.rows.subscriptions)
            settled = [ranks[: np.searchsorted(ranks, last, side="right")] for ranks in ahead.values()]
            ahead = {name: ranks[part.size :] for (name, ranks), part in zip(ahead.items(), settled, strict=True)}
            yielded, times = np.unique(np.concatenate(settled), return_counts=True)
            found = np.concatenate((found, yielded[times == self._needed[yielded]]))
            chunk = min(2 * chunk, 8192)
        # A subscription without predicates always matches and is yielded by no iterator.
        return self.by_rank[np.union1d(found, self._always)[:k]]
