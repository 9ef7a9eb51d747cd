"""Relaxed top-k: the best subscriptions by the combined weights of the predicates that hold."""

from collections.abc import Callable
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Float64s, Int32s
from tocsin.errors import OptionError
from tocsin.papers.ranked.protocol import RankedIndex, RankedIterator
from tocsin.papers.ranked.rows import Probe, Rows, typical_held
from tocsin.papers.ranked.sopt import SOPTRTree
from tocsin.papers.ranked.weight_kernels import combine_weights, held_weights, unseen
from tocsin.ranking.select import kind_of

Combination = Literal["sum", "max"] | Callable[[Float64s], Float64s]
"""How weights become a score: by name, or a function from rows of weights (0: does not hold) to a score each. It must
not fall when a weight rises."""


class RelaxedTopK:
    """Find the best subscriptions by the weights of what holds, with one ranked index an attribute.

    The Threshold Algorithm of Fagin, Lotem and Naor: read all lists in turn, score each subscription when it first
    comes up, and stop when the k-th best beats what the last weights read could give together. A subscription counts
    if at least one of its predicates holds. Equal scores are ordered by id.

    >>> from tocsin.papers.ranked.rows import as_probe, as_rows
    >>> rows = as_rows([0, 1, 0], [0, 5, 0], [9, 9, 9], [1.0, 1.0, 1.5], [0, 0, 1], attributes=2, count=2)
    >>> relaxed = RelaxedTopK.build(rows)
    >>> [ids.tolist() for ids in relaxed.top_k(as_probe([3, 7]), 10)]
    [[0, 1], [2.0, 1.5]]
    >>> [ids.tolist() for ids in relaxed.top_k(as_probe([3, 2]), 1)]
    [[1], [1.5]]
    """

    def __init__(self, rows: Rows, index: type[RankedIndex]) -> None:
        self.rows = rows._replace(weight=rows.weight.copy())
        self.indexes: list[RankedIndex] = []
        self.members: list[Int32s] = []
        self._columns: dict[int, Float64s] = {}  # Weights by attribute and place, where one has changed.
        for attribute in range(rows.attributes):
            members = np.flatnonzero(rows.attribute == attribute)
            self.indexes.append(index.build(rows.lo[members], rows.hi[members], rows.weight[members]))
            self.members.append(members.astype(np.int32))
        self.typical_held = typical_held(rows)
        self.equal_weights = bool(np.all(rows.weight == rows.weight[:1]))
        self.never_subtracts = bool(np.all(rows.weight >= 0))
        self.heaviest = float(np.abs(rows.weight).max(initial=0.0))
        self.adds_exactly = _add_exactly(rows.weight)

    @classmethod
    def build(cls, rows: Rows, index: type[RankedIndex] = SOPTRTree) -> Self:
        """Build one index an attribute over the weights, in O(n log n)."""
        return cls(rows, index)

    @property
    def nbytes(self) -> int:
        """Bytes of the indexes."""
        return sum(index.nbytes for index in self.indexes)

    def reweigh(self, subscription: int, attribute: int, weight: float) -> None:
        """Give one predicate another weight, without a rebuild."""
        known = 0 <= subscription < self.rows.subscriptions
        first, end = self.rows.offsets[subscription : subscription + 2].tolist() if known else (0, 0)
        row = first + int(np.searchsorted(self.rows.attribute[first:end], attribute))
        if row >= end or self.rows.attribute[row] != attribute:
            raise OptionError(f"Subscription {subscription} has no attribute {attribute}", "Add it as another one")
        members = self.members[attribute]
        if np.isnan(weight):
            raise OptionError(f"The weight of attribute {attribute} is NaN", "Give it a number, or an infinity")
        if attribute not in self._columns:
            self._columns[attribute] = self.rows.weight[members]
        place = int(np.searchsorted(members, row))
        self._columns[attribute][place] = weight
        self.indexes[attribute].rescore(place, self._columns[attribute])
        self.equal_weights &= weight == self.rows.weight[row]
        self.never_subtracts &= weight >= 0
        self.heaviest = max(self.heaviest, abs(weight))
        self.adds_exactly &= _add_exactly(np.array([weight]))
        self.rows.weight[row] = weight

    def scorer(
        self, probe: Probe, combine: Combination, coefficients: npt.ArrayLike | None
    ) -> Callable[[Int32s], Float64s]:
        """Return the function that scores subscriptions for an event."""
        factors = self.factors(coefficients)
        rows = self.rows
        columns = (rows.offsets, rows.attribute, rows.lo, rows.hi, rows.weight)
        event = (probe.present, probe.latest_lo, probe.earliest_hi)
        if callable(combine):
            function = combine
            return lambda ids: function(held_weights(ids, *columns, *event) * factors)
        kind = kind_of(combine)
        return lambda ids: combine_weights(kind, factors, ids, *columns, *event)

    def factors(self, coefficients: npt.ArrayLike | None) -> Float64s:
        """Return the factor of each attribute in a weighted sum: `coefficients`, or ones."""
        if coefficients is None:
            return np.ones(self.rows.attributes)
        factors = np.asarray(coefficients, np.float64)
        if factors.shape != (self.rows.attributes,) or not np.all(factors >= 0):
            raise OptionError(
                f"The coefficients are {coefficients!r}", f"Give {self.rows.attributes} numbers that are not negative"
            )
        return factors

    def top_k(
        self, probe: Probe, k: int, combine: Combination = "sum", coefficients: npt.ArrayLike | None = None
    ) -> tuple[Int32s, Float64s]:
        """Return the best `k` subscriptions and their scores; `coefficients` make the sum a weighted sum."""
        score = self.scorer(probe, combine, coefficients)
        factors = self.factors(coefficients)
        exactly = coefficients is None and (combine == "max" or self.adds_exactly)
        present = np.flatnonzero(probe.present).tolist()
        lists = {name: _List(probe.iterate(name, self.indexes[name])) for name in present}
        seen = np.zeros(self.rows.subscriptions, np.bool_)
        ids, scores = np.empty(0, np.int32), np.empty(0, np.float64)
        chunk = max(k, 8)
        while lists and k > 0:
            read = []
            for name in list(lists):
                rows = self.members[name][lists[name].read(chunk)]
                if rows.size:
                    lists[name].last_weight = float(self.rows.weight[rows[-1]])
                    lists[name].last_id = int(self.rows.subscription[rows[-1]])
                if rows.size < chunk:
                    del lists[name]
                read.append(self.rows.subscription[rows])
            fresh = unseen(np.concatenate(read), seen)
            ids, scores = np.concatenate((ids, fresh)), np.concatenate((scores, score(fresh)))
            best = np.lexsort((ids, -scores))[:k]
            ids, scores = ids[best], scores[best]
            if ids.size == k and _settled(lists, (int(ids[-1]), float(scores[-1])), combine, factors, exactly):
                break
            chunk = min(2 * chunk, 8192)
        return ids, scores


def _add_exactly(weights: Float64s) -> bool:
    """Whether sums of a few thousand such weights fit into 53 bits, so that no addition rounds."""
    scaled = weights * 2.0**16
    return bool(np.all((scaled == np.rint(scaled)) & (np.abs(scaled) < 2.0**40)))


class _List:
    """An attribute's iterator with the weight and subscription that it yielded last."""

    def __init__(self, iterator: RankedIterator) -> None:
        self.read = iterator.take
        self.last_weight = 0.0
        self.last_id = -1


def _settled(
    lists: dict[int, _List], last: tuple[int, float], combine: Combination, factors: Float64s, exactly: bool
) -> bool:
    """Whether nothing that was not read yet can come before the k-th best, whose id and score are `last`.

    What is unread weighs at most the last weight read in each list that goes on, and 0 where a predicate does not
    hold. With `exactly`, where no rounding can hide a difference, ties end as well: lists go on by rising id where
    weights are equal, so an unread subscription that reaches the bound of a sum comes after the last id of every list
    that lends the bound something, and one that reaches the bound of a maximum after the last id of one of them.
    """
    worst_id, worst_score = last
    weights = np.zeros((1, factors.size))
    for name, source in lists.items():
        weights[0, name] = max(factors[name] * source.last_weight, 0.0)
    if callable(combine):
        return worst_score > float(combine(weights)[0])
    bound = 0.0
    for weight in weights[0].tolist():
        bound = bound + weight if combine == "sum" else max(bound, weight)
    if worst_score != bound or bound == 0.0 or not exactly:
        return worst_score > bound
    least = 0.0 if combine == "sum" else np.nextafter(bound, 0.0)
    lenders = [source.last_id for name, source in lists.items() if weights[0, name] > least]
    return worst_id <= (max(lenders) if combine == "sum" else min(lenders))
