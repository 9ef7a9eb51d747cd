"""How often predicates hold: learned from the events seen, started from the subscriptions."""

import numpy as np
import numpy.typing as npt

from tocsin.matching.protocol import Floats, Int32s, Int64s


class Frequencies:
    """Estimate the share of events in which each predicate holds; old events fade.

    Before any event is seen, a predicate that many conjunctions name is taken to hold more often, since people ask for
    what they meet: its share of all terms counts as much as `prior` events. After `memory` events, what was learned
    weighs half.

    >>> frequencies = Frequencies(np.array([3, 1]), memory=1000, prior=1)
    >>> frequencies.observe(np.array([0, 1, 2]), np.array([1, 1], np.int32))
    >>> frequencies.shares().round(2).tolist()
    [0.25, 0.75]
    """

    def __init__(self, named: npt.ArrayLike, memory: int = 100_000, prior: float = 32.0) -> None:
        named = np.asarray(named, np.float64)
        self._held = prior * named / max(named.sum(), 1.0)
        self._events = prior
        self._memory = memory

    def observe(self, held_offsets: Int64s, held: Int32s) -> None:
        """Count the predicates that held in a batch; linear in their number and in that of all predicates."""
        events = len(held_offsets) - 1
        known = held[held < len(self._held)]
        fade = 0.5 ** (events / self._memory)
        self._held = fade * self._held + np.bincount(known, minlength=len(self._held))
        self._events = fade * self._events + events

    def shares(self) -> Floats:
        """Return, for each predicate, the share of events in which it holds, from 0 to 1."""
        shares: Floats = np.minimum(self._held / max(self._events, 1e-300), 1.0)
        return shares


def worth_rekeying(cost: tuple[float, float], factor: float = 2.0) -> bool:
    """Tell from `Key.cost` whether frequencies have drifted so far that new keys would pay.

    >>> worth_rekeying((100.0, 10.0)), worth_rekeying((100.0, 90.0))
    (True, False)
    """
    now, best = cost
    return now > factor * best + 1.0
