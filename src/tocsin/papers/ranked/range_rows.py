"""Top-k over ranked indexes, for subscriptions that are one conjunction of single ranges.

Where events have few attributes it reads the heads of a few lists instead of looking at every predicate. With more
attributes it would read most of every list; counting whole lists is no better then than looking at all predicates in
their order, so that the indexes are asked only where `prefer_counting` would not count.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from tocsin.arrays import Bools, Float64s, Int32s
from tocsin.forks import cached
from tocsin.papers.ranked import RANKED, ExactTopK, RelaxedTopK, as_probe, as_rows, prefer_counting
from tocsin.papers.ranked.threshold import Combination
from tocsin.ranking.kernels import MAX, Asked, BestHeaps, Weighed

MOST_LEFT_OUT = 0.5
"""If more than this share of the subscriptions is left out, it is better to look at the others one by one."""


class RangeRows:
    """The subscriptions of a segment that are one conjunction of single ranges, with weights that are not negative."""

    def __init__(
        self, weighed: Weighed, columns: Int32s, identity: Int32s, index: str = "sopt-r-tree", exact: bool = False
    ) -> None:
        """Read the rows. `columns` are the attributes of columns; equal scores go by `identity`.

        `index` is the name of the index that each column gets; `exact` ones are for subscriptions all of whose
        predicates hold, by their scores, and built when scores are known.
        """
        self._index, self._is_exact = RANKED[index], exact
        self._exact: tuple[Float64s, ExactTopK] | None = None
        self.chosen = _of_single_ranges(weighed)
        """Whether each subscription is among them."""
        members = np.flatnonzero(self.chosen)
        self._members = members[np.argsort(identity[members])].astype(np.int32)
        # Sums are formed in the order of attributes here as well.
        self._columns = np.argsort(columns, kind="stable")
        self._attribute = columns[self._columns]
        place = np.empty(columns.size, np.int32)
        place[self._columns] = np.arange(columns.size)
        number = np.full(self.chosen.size, -1, np.int32)
        number[self._members] = np.arange(self._members.size)
        owner = np.repeat(number, np.diff(weighed.predicates[weighed.conjunctions]))
        rows = np.flatnonzero(owner >= 0)
        ranges = weighed.first[rows]
        self._rows = as_rows(
            place[weighed.column[rows]],
            weighed.low[ranges],
            weighed.high[ranges],
            weighed.weight[rows],
            owner[rows],
            attributes=columns.size,
            count=self._members.size,
        )

    @cached
    def _relaxed(self) -> RelaxedTopK:
        return RelaxedTopK.build(self._rows, self._index)

    def _ranked_by(self, scores: Float64s) -> ExactTopK:
        """Return the indexes by these scores of all subscriptions; other scores than last time build them anew."""
        if self._exact is None or self._exact[0] is not scores:
            self._exact = scores, ExactTopK.build(self._rows, scores[self._members], self._index)
        return self._exact[1]

    def pays(self, k: int, left_out: Bools) -> bool:
        """Whether to ask the indexes for the best `k`, if these subscriptions are left out (empty: none is)."""
        relaxed = self._relaxed
        count = self._members.size
        if prefer_counting(count, self._columns.size, k, relaxed.typical_held, relaxed.equal_weights):
            return False
        return count > 0 and (not left_out.size or float(left_out.mean()) <= MOST_LEFT_OUT)

    def fill(self, best: BestHeaps, asked: Asked, codes: Int32s, combine: Combination | None = None) -> None:
        """Put the best of these subscriptions into the empty heap of each event; `codes` go by column and event.

        `combine` scores rows of weights whose columns are attributes; None: as `asked` says.
        """
        factors = asked.factors[self._attribute]
        coefficients = None if (factors == 1.0).all() else factors
        score: Combination = "max" if asked.kind == MAX else "sum"
        if callable(combine):
            score = partial(self._by_attribute, combine, asked.factors.size)
        most = best.ids.shape[1]
        for event in range(codes.shape[1]):
            probe = as_probe(codes[self._columns, event])
            wanted = most
            while True:
                if self._is_exact:
                    ids = self._ranked_by(asked.scores).top_k(probe, wanted)
                    scores = asked.scores[self._members[ids]]
                else:
                    ids, scores = self._relaxed.top_k(probe, wanted, score, coefficients)
                found = self._members[ids]
                kept = ~asked.left_out[found] if asked.left_out.size else np.ones(found.size, bool)
                if ids.size < wanted or int(kept.sum()) >= most:
                    break
                wanted *= 4
            # A heap has the worst on top: worst first is one.
            names, scores = asked.identity[found[kept]][:most][::-1], scores[kept][:most][::-1]
            best.ids[event, : names.size], best.scores[event, : names.size] = names, scores
            best.sizes[event] = names.size

    def _by_attribute(self, combine: Callable[[Float64s], Float64s], attributes: int, weights: Float64s) -> Float64s:
        """Score rows of weights by column: those of columns of one attribute, which have other types, are added."""
        by_attribute = np.zeros((len(weights), attributes))
        for column, attribute in enumerate(self._attribute.tolist()):
            by_attribute[:, attribute] += weights[:, column]
        return combine(by_attribute)


def _of_single_ranges(weighed: Weighed) -> Bools:
    plain = (weighed.column >= 0) & (weighed.weight >= 0)
    ranges = np.where(plain, weighed.first, 0)
    plain &= weighed.end - weighed.first == 1
    if weighed.low.size:
        plain &= weighed.low[ranges] >= 0
    several = np.concatenate([[0], np.cumsum(~plain)])
    starts = weighed.predicates[weighed.conjunctions]
    chosen: Bools = (several[starts[1:]] == several[starts[:-1]]) & (starts[1:] > starts[:-1])
    chosen &= np.diff(weighed.conjunctions) == 1
    return chosen
