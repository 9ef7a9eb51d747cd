"""Relaxed top-k for many attributes: add up whole lists, largest weights first, until the rest cannot matter."""

import numpy as np
import numpy.typing as npt

from tocsin._kernels.ranking_topk import add_weights
from tocsin.ranking.protocol import Float64s, Int32s
from tocsin.ranking.rows import Probe
from tocsin.ranking.threshold import RelaxedTopK

SLACK = 1e-9
"""Partial sums are added in another order than scores; they are trusted to this share of what they add up to."""


def top_k_by_counting(
    relaxed: RelaxedTopK, probe: Probe, k: int, coefficients: npt.ArrayLike | None = None
) -> tuple[Int32s, Float64s]:
    """Return the best `k` subscriptions by the sum of their weights, and the sums.

    Takes the attributes in order of the best weight that the event finds there. Once the k-th best partial sum beats
    all that the attributes to come can add to a newcomer, only those are scored that can still make it.

    >>> from tocsin.ranking.rows import as_probe, as_rows
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
    # What the lists from a number on can add to one subscription, and how near to nothing that is.
    to_come = np.append(np.cumsum([max(best, 0.0) for best, *_ in reversed(lists)])[::-1], 0.0)
    slack = SLACK * to_come[0]
    partial = np.zeros(rows.subscriptions, np.float64)
    seen = np.zeros(rows.subscriptions, np.bool_)
    newcomers = [np.empty(0, np.int32)]
    next_look = to_come[0] / 2 if relaxed.never_subtracts else -1.0
    closed_at = len(lists)
    for number, (_, name, first, iterator) in enumerate(lists):
        if to_come[number] <= next_look:
            next_look = to_come[number] / 2
            if _kth(partial, np.concatenate(newcomers), k) > to_come[number] + slack:
                closed_at = number
                break
        found = relaxed.members[name][np.concatenate((first, iterator.take(rows.subscriptions)))]
        newcomers.append(add_weights(partial, seen, rows.subscription[found], rows.weight[found], factors[name]))
    ids = np.concatenate(newcomers)
    reachable = partial[ids] + to_come[closed_at] + slack >= _kth(partial, ids, k)
    ids = ids[reachable]
    scores = relaxed.scorer(probe, "sum", coefficients)(ids)
    best = np.lexsort((ids, -scores))[:k]
    return ids[best], scores[best]


def _kth(partial: Float64s, ids: Int32s, k: int) -> float:
    """The k-th best partial sum, or minus infinity if there are fewer."""
    if not 0 < k <= ids.size:
        return -np.inf
    return float(np.partition(partial[ids], ids.size - k)[ids.size - k])
