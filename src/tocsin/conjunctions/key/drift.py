"""How often predicates hold: learned from the events seen, started from the subscriptions; and new keys for them."""

import threading
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Float64s, Int32s, Int64s
from tocsin.conjunctions.key.index import KeyIndex
from tocsin.conjunctions.protocol import Step
from tocsin.forks import Guard, Level

EVERY = 16
"""Of single events, one in so many is looked at."""
A_BATCH = 64
"""The most events of one batch that are looked at."""
FIRST_LOOK = 256
"""Keys are judged after so many events looked at, then whenever there are twice as many as the last time."""
MEMORY = 4096
"""After so many events looked at, what was learned before weighs half; keys are judged at least as often."""


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

    @property
    def events(self) -> float:
        """How many events weigh in, those before the first among them."""
        return self._events

    def shares(self) -> Float64s:
        """Return, for each predicate, the share of events in which it holds, from 0 to 1."""
        shares: Float64s = np.minimum(self._held / max(self._events, 1e-300), 1.0)
        return shares


def worth_rekeying(cost: tuple[float, float], factor: float = 2.0) -> bool:
    """Tell from `KeyIndex.cost` whether frequencies have drifted so far that new keys would pay.

    >>> worth_rekeying((100.0, 10.0)), worth_rekeying((100.0, 90.0))
    (True, False)
    """
    now, best = cost
    return now > factor * best + 1.0


class Drift:
    """Look at some of the events that a KeyIndex matches, and give it new keys when the old ones cost too much.

    The lists of predicates that hold are copied, and counted once they are together about as long as there are
    predicates, so that an event looked at costs a copy of its list. New keys are made in a thread and put in place at
    once: a match under way ends with the old ones. Each predicate counts as having held once more than it did, so that
    a few events with or without a rare predicate do not look like drift.
    """

    def __init__(self, key: KeyIndex) -> None:
        self._key = key
        named = np.bincount(np.where(key.terms < 0, ~key.terms, key.terms), minlength=key.predicate_count)
        self._frequencies = Frequencies(named, MEMORY)
        self._lock = Guard(Level.INDEX)
        self._passed = EVERY - 1
        self._waiting: list[Int32s] = []
        self._waiting_size = 0
        self._next_look = FIRST_LOOK
        self._rekeying: threading.Thread | None = None
        self.looked_at = 0
        """Events that were looked at and counted."""
        self.rekeyed = 0
        """How often there were new keys."""

    def observe(self, held_offsets: Int64s, held: Int32s) -> None:
        """Look at some events of a batch, unless another thread does so now."""
        self._passed += len(held_offsets) - 1
        if self._passed < EVERY or not len(self._key) or not self._lock.acquire(blocking=False):
            return
        try:
            self._passed = 0
            events = len(held_offsets) - 1
            for event in range(0, events, max(-(-events // A_BATCH), 1)):
                self._waiting.append(held[held_offsets[event] : held_offsets[event + 1]].copy())
                self._waiting_size += self._waiting[-1].size
            if len(self._waiting) >= FIRST_LOOK or self._waiting_size > self._key.predicate_count:
                self._count()
        finally:
            self._lock.release()

    def _count(self) -> None:
        offsets = np.cumsum([0, *(one.size for one in self._waiting)])
        self._frequencies.observe(offsets, np.concatenate(self._waiting))
        self.looked_at += len(self._waiting)
        self._waiting, self._waiting_size = [], 0
        if self.looked_at >= self._next_look and (self._rekeying is None or not self._rekeying.is_alive()):
            self._next_look += min(self.looked_at, MEMORY)
            self._rekeying = threading.Thread(
                target=self._judge, args=(self.shares(),), name="tocsin-keys", daemon=True
            )
            self._rekeying.start()

    def shares(self) -> Float64s:
        """Return, for each predicate, the share of events in which it holds, as far as is known."""
        return self._frequencies.shares() + 1.0 / self._frequencies.events

    def _judge(self, shares: Float64s) -> None:
        if worth_rekeying(self._key.cost(shares)):
            self._key.rekey(shares)
            self.rekeyed += 1

    def describe(self) -> Iterator[Step]:
        """Say what was learned, once events were looked at."""
        if self.looked_at:
            now, best = self._key.cost(self.shares())
            yield Step(
                ", keys",
                f"chosen anew {self.rekeyed:,} times",
                f"{self.looked_at:,} events looked at: {now:,.0f} candidates an event, {best:,.0f} with the best keys",
            )

    def join(self) -> None:
        """Wait for new keys that are being made."""
        if self._rekeying is not None:
            self._rekeying.join()
