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

from tocsin.arrays import Float64s, Int8s, Int32s
from tocsin.errors import OptionError
from tocsin.papers.ranked.protocol import Columns, How, RankedIterator, as_columns, best_first, check_how, new_score
from tocsin.papers.tatbul.drawing import Drawing
from tocsin.papers.tatbul.protocol import CodeNames

FRESH = 256


class StaticIndex:
    """Ranked intervals in arrays that never change. Subclasses say how to arrange and how to walk them."""

    ranges: ClassVar[tuple[How, ...]] = ("containment",)
    """The relations that `iterate_range` can follow."""

    def __init__(self, columns: Columns) -> None:
        self._size = columns.lo.size
        self._changes: _Changes | None = None
        self._arrange(columns)

    @classmethod
    def build(cls, lo: npt.ArrayLike, hi: npt.ArrayLike, scores: npt.ArrayLike) -> Self:
        """Build the index of the intervals [lo, hi] in O(n log n)."""
        return cls(as_columns(lo, hi, scores))

    def __len__(self) -> int:
        return self._size

    @abstractmethod
    def _arrange(self, columns: Columns) -> None:
        """Fill the arrays from the columns, which are not kept."""

    @abstractmethod
    def _arrays(self) -> tuple[npt.NDArray[np.generic], ...]:
        """All arrays of the index."""

    @abstractmethod
    def _ends(self) -> tuple[Int32s, Int32s]:
        """Lo and hi by id, as the arrays have them."""

    @abstractmethod
    def _walk(self, value: int, latest_lo: int, earliest_hi: int) -> RankedIterator:
        """Iterate over the intervals with lo <= latest_lo and hi >= earliest_hi; `value` is where to look."""

    @abstractmethod
    def drawing(self, names: CodeNames, depth: int = 8) -> Drawing:
        """Return the tree of the arrays down to `depth`, for `tocsin draw`."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays; once a score has changed, with what that takes, the column of scores included."""
        return sum(array.nbytes for array in self._arrays()) + (0 if self._changes is None else self._changes.nbytes)

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
        changes = self._changes
        if changes is None:
            return own
        sources = [_Source(own, None, changes.home, 0)]
        for number, layer in enumerate(changes.layers, 1):
            walk = layer.index._walk(value, latest_lo, earliest_hi)
            sources.append(_Source(walk, layer.members, changes.home, number))
        fresh = changes.ranked_fresh()
        passing = (changes.lo[fresh] <= latest_lo) & (changes.hi[fresh] >= earliest_hi)
        return LayeredIterator(sources, fresh[passing], changes.scores)

    def rescore(self, interval: int, scores: Float64s) -> None:
        """File an interval under its new score, in O(log² n) amortised and without touching the arrays.

        `scores` is the column of now, by id. From the first change on the index keeps it, and reads in it what the
        scores of its intervals are; so a caller that changes a score there must call this.
        """
        new_score(interval, scores)
        if self._changes is None:
            self._changes = _Changes(*self._ends(), scores)
        changes = self._changes
        changes.add(interval, scores)
        if len(changes.fresh) >= FRESH:
            self._settle(changes)

    def _settle(self, changes: "_Changes") -> None:
        """Turn the fresh intervals into a layer, together with every layer that is not twice as large.

        A layer that would hold half of all intervals swallows the arrays instead: everything is arranged anew.
        """
        members = changes.take_small_layers()
        if 2 * members.size > len(self):
            self._changes = None
            self._arrange(Columns(changes.lo, changes.hi, changes.scores))
            return
        columns = Columns(changes.lo[members], changes.hi[members], changes.scores[members])
        changes.layers.append(_Layer(members, type(self)(columns)))
        changes.home[members] = len(changes.layers)

    def check(self) -> None:
        """Assert every invariant, with its reason."""
        if self._changes is not None:
            self._changes.check(len(self))


class _Layer:
    """Rescored intervals as an index of their own. `members` are their ids, rising; the index numbers them from 0."""

    def __init__(self, members: Int32s, index: StaticIndex) -> None:
        self.members = members
        self.index = index


class _Changes:
    """The intervals that were rescored, beside the arrays of an index."""

    def __init__(self, lo: Int32s, hi: Int32s, scores: Float64s) -> None:
        self.lo, self.hi, self.scores = lo, hi, scores
        self.home = np.zeros(lo.size, np.int8)
        """By interval: the layer that holds it, 0 for the arrays of the index, -1 for the fresh ones."""
        self.layers: list[_Layer] = []
        self.fresh: set[int] = set()
        self._ranked_fresh: Int32s | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the columns and the layers."""
        layers = sum(layer.members.nbytes + layer.index.nbytes for layer in self.layers)
        return self.lo.nbytes + self.hi.nbytes + self.scores.nbytes + self.home.nbytes + layers

    def add(self, interval: int, scores: Float64s) -> None:
        """Make an interval one of the fresh."""
        self.scores = scores
        self.home[interval] = -1
        self.fresh.add(interval)
        self._ranked_fresh = None

    def ranked_fresh(self) -> Int32s:
        """The fresh intervals, best first; kept until one is added."""
        if self._ranked_fresh is None:
            ids = np.array(sorted(self.fresh), np.int32)
            self._ranked_fresh = ids[best_first(self.scores[ids])]
        return self._ranked_fresh

    def take_small_layers(self) -> Int32s:
        """Take the fresh intervals and those of layers not twice as large out of here; return their ids, rising."""
        taken = [np.array(sorted(self.fresh), np.int32)]
        size = taken[0].size
        while self.layers and self.layers[-1].members.size < 2 * size:
            members = self.layers.pop().members
            taken.append(members[self.home[members] == len(self.layers) + 1])
            size += taken[-1].size
        self.fresh.clear()
        self._ranked_fresh = None
        return np.sort(np.concatenate(taken))

    def check(self, size: int) -> None:
        """Assert every invariant, with its reason."""
        assert self.fresh == set(np.flatnonzero(self.home < 0).tolist()), "the fresh intervals have no layer yet"
        for number, layer in enumerate(self.layers, 1):
            assert np.all(np.diff(layer.members) > 0), "members rise, so that equal scores stay ordered by id"
            assert np.isin(np.flatnonzero(self.home == number), layer.members).all(), "a home holds its intervals"
            assert 2 * layer.members.size <= size, "layers halve, so that there are at most log n"
            size = layer.members.size
            layer.index.check()


class _Source:
    """One walk of a layered iteration, with the ids it read ahead."""

    def __init__(self, walk: RankedIterator, members: Int32s | None, home: Int8s, number: int) -> None:
        self._walk, self._members = walk, members
        self._home, self._number = home, number
        self.ids = np.empty(0, np.int32)
        self._over = False

    def fill(self, n: int) -> None:
        """Read ahead until `n` live ids are at hand or the walk is over."""
        while self.ids.size < n and not self._over:
            wanted = max(n - self.ids.size, 16)
            ids = self._walk.take(wanted)
            self._over = ids.size < wanted
            if self._members is not None:
                ids = self._members[ids]
            self.ids = np.concatenate((self.ids, ids[self._home[ids] == self._number]))


class LayeredIterator(RankedIterator):
    """Merges the walks over an index, its layers and its fresh intervals, which come best first."""

    def __init__(self, sources: list[_Source], fresh: Int32s, scores: Float64s) -> None:
        self._sources = sources
        self._fresh, self._scores = fresh, scores

    def take(self, n: int) -> Int32s:
        """Return the next `n` ids, or those that are left."""
        for source in self._sources:
            source.fill(n)
        ids = np.concatenate([*(source.ids[:n] for source in self._sources), self._fresh[:n]])
        chosen = np.lexsort((ids, -self._scores[ids]))[:n]
        begin = 0
        for source in self._sources:
            end = begin + min(n, source.ids.size)
            source.ids = source.ids[int(np.count_nonzero((chosen >= begin) & (chosen < end))) :]
            begin = end
        self._fresh = self._fresh[int(np.count_nonzero(chosen >= begin)) :]
        return ids[chosen]
