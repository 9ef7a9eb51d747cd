"""Exact top-k: the best subscriptions all of whose predicates hold, by intersecting iterators in order of score."""

from typing import Self

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Float64s, Int32s
from tocsin.errors import OptionError
from tocsin.papers.ranked.protocol import RankedIndex
from tocsin.papers.ranked.rows import Probe, Rows
from tocsin.papers.ranked.sopt import SOPTRTree


class ExactTopK:
    """Find the best subscriptions among those that match, with one ranked index an attribute.

    All iterators yield in the same order, by score, so that everything up to the least advanced of them is settled:
    one that was yielded as often as it has predicates matches. Costs what is yielded until the k-th match.

    >>> from tocsin.papers.ranked.rows import as_probe, as_rows
    >>> rows = as_rows([0, 1, 0], [0, 5, 0], [9, 9, 9], [1.0] * 3, [0, 0, 1], attributes=2, count=2)
    >>> exact = ExactTopK.build(rows, [1.0, 2.0])
    >>> exact.top_k(as_probe([3, 7]), 10).tolist(), exact.top_k(as_probe([3, 2]), 10).tolist()
    ([1, 0], [1])
    >>> exact.rescore(0, 3.0)
    >>> exact.top_k(as_probe([3, 7]), 10).tolist()
    [0, 1]
    """

    def __init__(self, rows: Rows, scores: Float64s, index: type[RankedIndex]) -> None:
        self.rows = rows
        self.scores = scores.copy()
        self._needed = np.diff(rows.offsets)
        self._always = np.flatnonzero(self._needed == 0).astype(np.int32)
        self.indexes: list[RankedIndex] = []
        self._owners: list[Int32s] = []
        self._columns: dict[int, Float64s] = {}  # Scores by attribute and place, where one has changed.
        for attribute in range(rows.attributes):
            members = np.flatnonzero(rows.attribute == attribute)
            owners = rows.subscription[members]
            self.indexes.append(index.build(rows.lo[members], rows.hi[members], scores[owners]))
            self._owners.append(owners)

    @classmethod
    def build(cls, rows: Rows, scores: npt.ArrayLike, index: type[RankedIndex] = SOPTRTree) -> Self:
        """Build one index an attribute over the scores of the subscriptions, in O(n log n)."""
        return cls(rows, np.asarray(scores, np.float64), index)

    @property
    def nbytes(self) -> int:
        """Bytes of the indexes."""
        return sum(index.nbytes for index in self.indexes)

    def rescore(self, subscription: int, score: float) -> None:
        """Give a subscription another score, in the index of each of its attributes."""
        if not 0 <= subscription < self.rows.subscriptions or np.isnan(score):
            raise OptionError(
                f"Cannot give subscription {subscription} the score {score}", "Use a known id and a number"
            )
        for row in range(self.rows.offsets[subscription], self.rows.offsets[subscription + 1]):
            attribute = int(self.rows.attribute[row])
            owners = self._owners[attribute]
            if attribute not in self._columns:
                self._columns[attribute] = self.scores[owners]
            place = int(np.searchsorted(owners, subscription))
            self._columns[attribute][place] = score
            self.indexes[attribute].rescore(place, self._columns[attribute])
        self.scores[subscription] = score

    def top_k(self, probe: Probe, k: int) -> Int32s:
        """Return the best `k` subscriptions all of whose predicates hold, best first, equal scores by id."""
        present = np.flatnonzero(probe.present).tolist()
        iterators = {name: probe.iterate(name, self.indexes[name]) for name in present}
        ahead = {name: np.empty(0, np.int32) for name in present}
        # A subscription without predicates always matches and is yielded by no iterator.
        matches = [self._always]
        settled, chunk = 0, max(2 * k, 16)
        while settled < k and iterators:
            for name in list(iterators):
                if not ahead[name].size:
                    ahead[name] = self._owners[name][iterators[name].take(chunk)]
                    if ahead[name].size < chunk:
                        del iterators[name]
            least = min((self._key(int(ahead[name][-1])) for name in iterators), default=None)
            yielded = []
            for name, ids in ahead.items():
                end = ids.size if least is None else self._up_to(ids, least)
                yielded.append(ids[:end])
                ahead[name] = ids[end:]
            ids, times = np.unique(np.concatenate(yielded), return_counts=True)
            matches.append(ids[times == self._needed[ids]])
            settled += matches[-1].size
            chunk = min(2 * chunk, 8192)
        ids = np.concatenate(matches)
        return ids[np.lexsort((ids, -self.scores[ids]))[:k]]

    def _key(self, subscription: int) -> tuple[float, int]:
        """What subscriptions are ordered by: falling score, rising id."""
        return -float(self.scores[subscription]), subscription

    def _up_to(self, ids: Int32s, key: tuple[float, int]) -> int:
        """How many of these, which are in order, do not come after `key`."""
        keys = -self.scores[ids]
        return int(np.count_nonzero((keys < key[0]) | ((keys == key[0]) & (ids <= key[1]))))
