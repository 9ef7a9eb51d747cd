"""The base of the indexes whose arrays never change, and how their scores change all the same.

A rescored interval is struck from the arrays it was in and joins the *fresh* ones, a short list that every iteration
looks through. When that list is full it becomes a *layer*: an index of the same class over its few intervals. Layers
that are not twice as large as the newer one below them are merged into it (the logarithmic method of Bentley and Saxe),
so there are at most log n of them, an interval is rebuilt at most log n times, and each layer keeps its own guarantee:
a top-k over an SOPT-R-tree explores at most 2k nodes a level in each layer, struck intervals counting towards k.
"""

from abc import abstractmethod
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from tocsin.errors import OptionError
from tocsin.ranking.protocol import Columns, Float64s, How, Int32s, RankedIterator, as_columns, best_first, check_how

FRESH = 256


class StaticIndex:
    """Ranked intervals in arrays that never change. Subclasses say how to arrange and how to walk them."""

    ranges: ClassVar[tuple[How, ...]] = ("containment",)
    """The relations that `iterate_range` can follow."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._layers: list[_Layer] = []
        # By interval: the layer that holds it, 0 for the arrays of this index, -1 for the fresh ones.
        self._home: npt.NDArray[np.int8] | None = None
        self._fresh: dict[int, float] = {}
        self._fresh_columns: tuple[Int32s, Float64s] | None = None
        self._arrange()

    @classmethod
    def build(cls, lo: npt.ArrayLike, hi: npt.ArrayLike, scores: npt.ArrayLike) -> Self:
        """Build the index of the intervals [lo, hi] in O(n log n)."""
        return cls(as_columns(lo, hi, scores))

    def __len__(self) -> int:
        return self.columns.lo.size

    @abstractmethod
    def _arrange(self) -> None:
        """Fill the arrays from the columns."""

    @abstractmethod
    def _arrays(self) -> tuple[npt.NDArray[np.generic], ...]:
        """All arrays of the index."""

    @abstractmethod
    def _walk(self, value: int, latest_lo: int, earliest_hi: int) -> RankedIterator:
        """Iterate over the intervals with lo <= latest_lo and hi >= earliest_hi; `value` is where to look."""

    @property
    def nbytes(self) -> int:
        """Bytes of the index and its layers, without the columns and without one id an interval."""
        own = sum(array.nbytes for array in self._arrays()) - 4 * len(self)
        layers = sum(layer.members.nbytes + layer.index.nbytes for layer in self._layers)
        return own + layers + (0 if self._home is None else self._home.nbytes)

    def iterate(self, value: int) -> RankedIterator:
        """Begin to yield the intervals over `value`, best first."""
        return self._iterate(value, value, value)

    def iterate_range(self, lo: int, hi: int, how: How = "overlap") -> RankedIterator:
        """Begin to yield the intervals that overlap [lo, hi], or that contain all of it, best first."""
        check_how(how)
        if how not in self.ranges:
            raise OptionError(f"{type(self).__name__} cannot iterate by {how}", "Use a ScoredRTree, which can do both")
        return self._iterate(lo, hi, lo) if how == "overlap" else self._iterate(lo, lo, hi)

    def _iterate(self, value: int, latest_lo: int, earliest_hi: int) -> RankedIterator:
        own = self._walk(value, latest_lo, earliest_hi)
        if self._home is None:
            return own
        sources = [_Source(own, None, self.columns.scores, self._home, 0)]
        for number, layer in enumerate(self._layers, 1):
            walk = layer.index._walk(value, latest_lo, earliest_hi)
            sources.append(_Source(walk, layer.members, layer.index.columns.scores, self._home, number))
        ids, scores = self._ranked_fresh()
        passing = (self.columns.lo[ids] <= latest_lo) & (self.columns.hi[ids] >= earliest_hi)
        return LayeredIterator(sources, ids[passing], scores[passing])

    def _ranked_fresh(self) -> tuple[Int32s, Float64s]:
        """The fresh intervals and their scores, best first; kept until one is added."""
        if self._fresh_columns is None:
            ids = np.array(sorted(self._fresh), np.int32)
            scores = np.array([self._fresh[interval] for interval in ids.tolist()], np.float64)
            order = best_first(scores)
            self._fresh_columns = ids[order], scores[order]
        return self._fresh_columns

    def score(self, interval: int) -> float:
        """Return the current score of an interval."""
        home = 0 if self._home is None else self._home[interval]
        if home < 0:
            return self._fresh[interval]
        if home == 0:
            return float(self.columns.scores[interval])
        layer = self._layers[home - 1]
        return float(layer.index.columns.scores[np.searchsorted(layer.members, interval)])

    def rescore(self, interval: int, score: float) -> None:
        """Give an interval another score, in O(log² n) amortised and without touching the arrays."""
        if not 0 <= interval < len(self):
            raise OptionError(f"There is no interval {interval}", f"Ids run from 0 to {len(self) - 1}")
        if np.isnan(score):
            raise OptionError(f"The score of interval {interval} is NaN", "Give it a number, or an infinity")
        if self._home is None:
            self._home = np.zeros(len(self), np.int8)
        self._home[interval] = -1
        self._fresh[interval] = float(score)
        self._fresh_columns = None
        if len(self._fresh) >= FRESH:
            self._settle(self._home)

    def _settle(self, home: npt.NDArray[np.int8]) -> None:
        """Turn the fresh intervals into a layer, together with every layer that is not twice as large.

        A layer that would hold half of all intervals swallows the arrays instead: everything is arranged anew.
        """
        fresh, fresh_scores = self._ranked_fresh()
        members, scores = [fresh], [fresh_scores]
        size = fresh.size
        while self._layers and self._layers[-1].members.size < 2 * size:
            layer = self._layers.pop()
            alive = home[layer.members] == len(self._layers) + 1
            members.append(layer.members[alive])
            scores.append(layer.index.columns.scores[alive])
            size += members[-1].size
        joined = np.concatenate(members)
        order = np.argsort(joined)
        joined = joined[order]
        settled = np.concatenate(scores)[order]
        self._fresh.clear()
        self._fresh_columns = None
        if 2 * joined.size > len(self):
            changed = self.columns.scores.copy()
            changed[joined] = settled
            self.columns = self.columns._replace(scores=changed)
            self._home = None
            self._arrange()
            return
        columns = Columns(self.columns.lo[joined], self.columns.hi[joined], settled)
        self._layers.append(_Layer(joined, type(self)(columns)))
        home[joined] = len(self._layers)

    def check(self) -> None:
        """Assert every invariant, with its reason."""
        if self._home is None:
            assert not self._layers, "nothing was rescored, so there is nothing beside the arrays"
            return
        fresh = np.flatnonzero(self._home < 0)
        assert set(self._fresh) == set(fresh.tolist()), "the fresh intervals are those that have no layer yet"
        larger = len(self)
        for number, layer in enumerate(self._layers, 1):
            assert np.all(np.diff(layer.members) > 0), "members rise, so that equal scores stay ordered by id"
            assert np.isin(np.flatnonzero(self._home == number), layer.members).all(), "a home holds its intervals"
            assert 2 * layer.members.size <= larger, "layers halve, so that there are at most log n"
            larger = layer.members.size
            layer.index.check()


class _Layer:
    """Rescored intervals as an index of their own. `members` are their ids, rising; the index numbers them from 0."""

    def __init__(self, members: Int32s, index: StaticIndex) -> None:
        self.members = members
        self.index = index


class _Source:
    """One walk of a layered iteration, with the ids it read ahead."""

    def __init__(
        self,
        walk: RankedIterator,
        members: Int32s | None,
        scores: Float64s,
        home: npt.NDArray[np.int8],
        number: int,
    ) -> None:
        self._walk, self._members, self._scores = walk, members, scores
        self._home, self._number = home, number
        self.ids = np.empty(0, np.int32)
        self.scores = np.empty(0, np.float64)
        self._over = False

    def fill(self, n: int) -> None:
        """Read ahead until `n` live ids are at hand or the walk is over."""
        while self.ids.size < n and not self._over:
            wanted = max(n - self.ids.size, 16)
            local = self._walk.take(wanted)
            self._over = local.size < wanted
            ids = local if self._members is None else self._members[local]
            alive = self._home[ids] == self._number
            self.ids = np.concatenate((self.ids, ids[alive]))
            self.scores = np.concatenate((self.scores, self._scores[local[alive]]))

    def drop(self, n: int) -> None:
        """Forget the first `n` ids."""
        self.ids, self.scores = self.ids[n:], self.scores[n:]


class LayeredIterator(RankedIterator):
    """Merges the walks over an index, its layers and its fresh intervals, which come best first."""

    def __init__(self, sources: list[_Source], fresh: Int32s, scores: Float64s) -> None:
        self._sources = sources
        self._fresh, self._fresh_scores = fresh, scores

    def take(self, n: int) -> Int32s:
        """Return the next `n` ids, or those that are left."""
        for source in self._sources:
            source.fill(n)
        ids = np.concatenate([*(source.ids[:n] for source in self._sources), self._fresh[:n]])
        scores = np.concatenate([*(source.scores[:n] for source in self._sources), self._fresh_scores[:n]])
        chosen = np.lexsort((ids, -scores))[:n]
        begin = 0
        for source in self._sources:
            end = begin + min(n, source.ids.size)
            source.drop(int(np.count_nonzero((chosen >= begin) & (chosen < end))))
            begin = end
        taken = int(np.count_nonzero(chosen >= begin))
        self._fresh, self._fresh_scores = self._fresh[taken:], self._fresh_scores[taken:]
        return ids[chosen]
