"""Relaxed top-k for many attributes: add up whole lists, largest weights first, until the rest cannot matter."""

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Float64s, Int32s
from tocsin.papers.ranked.rows import Probe
from tocsin.papers.ranked.threshold import Combination, RelaxedTopK
from tocsin.papers.ranked.weight_kernels import add_weights

SLACK = 1e-9
"""Partial sums are added in another order than scores; they are trusted to this share of what they add up to."""
READ, READ_EQUAL = 12.0, 2.0
"""What the Threshold Algorithm pays for a row of the share it is thought to read, where counting pays 1 (measured)."""
FEW = 16
"""Scoring a subscription costs as much as adding some rows, so lists are added until at most FEW * k are left."""


def top_k_by_counting(
    relaxed: RelaxedTopK, probe: Probe, k: int, coefficients: npt.ArrayLike | None = None
) -> tuple[Int32s, Float64s]:
    """Return the best `k` subscriptions by the sum of their weights, and the sums.

    Takes the attributes in order of the best weight that the event finds there. Once the k-th best partial sum beats
    all that the attributes to come can add to a newcomer and few can still make it, only those are scored.

    >>> from tocsin.papers.ranked.rows import as_probe, as_rows
    >>> rows = as_rows([0, 1, 0], [0, 5, 0], [9, 9, 9], [1.0, 1.0, 1.5], [0, 0, 1], attributes=2, count=2)
    >>> [ids.tolist() for ids in top_k_by_counting(RelaxedTopK.build(rows), as_probe([3, 7]), 10)]
    [[0, 1], [2.0, 1.5]]
    """
    rows = relaxed.rows
    factors = relaxed.factors(coefficients)
    lists = []
    for name in np.flatnonzero(probe.present).tolist():
        iterator = probe.iterate(name, relaxed.indexes[name])
        first = iterator.take(1)
        if first.size:
            lists.append((factors[name] * float(rows.weight[relaxed.members[name][first[0]]]), name, first, iterator))
    lists.sort(key=lambda entry: (-entry[0], entry[1]))
    # What the lists from a number on can add to one subscription.
    to_come = np.append(np.cumsum([max(best, 0.0) for best, *_ in reversed(lists)])[::-1], 0.0)
    slack = SLACK * relaxed.heaviest * float(factors.max(initial=0.0)) * len(lists)
    score = relaxed.scorer(probe, "sum", coefficients)
    partial = np.zeros(rows.subscriptions, np.float64)
    seen = np.zeros(rows.subscriptions, np.bool_)
    ids = np.empty(0, np.int32)
    next_look = to_come[0] / 2 if relaxed.never_subtracts else -1.0
    for number, (_, name, first, iterator) in enumerate(lists):
        if to_come[number] <= next_look:
            next_look = to_come[number] / 2
            reachable = _reachable(partial, ids, k, to_come[number], slack)
            if 0 < reachable.size <= FEW * k:
                return _best(reachable, score(reachable), k)
        found = np.concatenate((first, iterator.take(rows.subscriptions)))
        fresh = add_weights(partial, seen, found, relaxed.members[name], rows.subscription, rows.weight, factors[name])
        ids = np.concatenate((ids, fresh))
    reachable = _reachable(partial, ids, k, 0.0, slack)
    ids = reachable if reachable.size else ids
    return _best(ids, partial[ids] if relaxed.adds_exactly and coefficients is None else score(ids), k)


def _best(ids: Int32s, scores: Float64s, k: int) -> tuple[Int32s, Float64s]:
    best = np.lexsort((ids, -scores))[:k]
    return ids[best], scores[best]


def _reachable(partial: Float64s, ids: Int32s, k: int, to_come: float, slack: float) -> Int32s:
    """Those that can still be among the best k; empty if one not seen yet can, or if there are fewer than k."""
    if not 0 < k <= ids.size:
        return ids[:0]
    sums = partial[ids]
    kth = np.partition(sums, ids.size - k)[ids.size - k]
    return ids[sums + to_come + slack >= kth] if kth > to_come + slack else ids[:0]


def prefer_counting(subscriptions: int, attributes: int, k: int, held: float, equal_weights: bool) -> bool:
    """Whether to count rather than to run the Threshold Algorithm, for an event that finds `held` rows in each list.

    The Threshold Algorithm reads about (k / held) ** (1 / attributes) of each list; where all weights are equal, as
    much as it takes to meet k subscriptions of which everything holds. It pays READ for a row where counting pays 1.

    >>> [prefer_counting(1_000_000, attributes, 20, 60_000, False) for attributes in (1, 2, 4, 100)]
    [False, False, True, True]
    >>> [prefer_counting(1_000_000, attributes, 20, 60_000, True) for attributes in (1, 2, 4, 100)]
    [False, False, True, True]
    """
    if k == 0 or attributes == 0 or held <= k:
        return False
    if equal_weights:
        return bool(READ_EQUAL * k >= subscriptions * (held / subscriptions) ** attributes)
    return bool(READ * (k / held) ** (1 / attributes) >= 1)


def top_k_relaxed(
    relaxed: RelaxedTopK,
    probe: Probe,
    k: int,
    combine: Combination = "sum",
    coefficients: npt.ArrayLike | None = None,
) -> tuple[Int32s, Float64s]:
    """Return the best `k` subscriptions and their scores, by whichever way `prefer_counting` says; the same answer.

    Only sums are counted.

    >>> from tocsin.papers.ranked.rows import as_probe, as_rows
    >>> rows = as_rows([0, 1, 0], [0, 5, 0], [9, 9, 9], [1.0, 1.0, 1.5], [0, 0, 1], attributes=2, count=2)
    >>> [part.tolist() for part in top_k_relaxed(RelaxedTopK.build(rows), as_probe([3, 7]), 1)]
    [[0], [2.0]]
    """
    equal = relaxed.equal_weights and coefficients is None
    attributes = int(np.count_nonzero(probe.present))
    if combine == "sum" and prefer_counting(relaxed.rows.subscriptions, attributes, k, relaxed.typical_held, equal):
        return top_k_by_counting(relaxed, probe, k, coefficients)
    return relaxed.top_k(probe, k, combine, coefficients)
