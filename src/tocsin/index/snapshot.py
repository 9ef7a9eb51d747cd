"""Segments with the changes made to them since they were built, and snapshots, which matches see."""

from collections.abc import Callable, Iterator, KeysView, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import numpy as np

from tocsin.arrays import Bools, Float64s, Int64s
from tocsin.forks import cached
from tocsin.index.array_pool import ArrayPool
from tocsin.index.id_order import IdOrder, IdOrders, OrderBesideLarge, ScoresInOrder
from tocsin.index.segment import NO_BOOLS, Segment
from tocsin.index.shared_layout import SharedLayout
from tocsin.index.work import SegmentWork, most_expensive
from tocsin.model.subscription import Subscription
from tocsin.predicates.families import Probed
from tocsin.ranking.exact import ExactTopK, SegmentRanking

Tags = tuple[tuple[str, str], ...]

MOST_TAGS = 64
"""Sets of tags for which a LiveSegment and each SegmentState cache the subscriptions that lack them."""


class SegmentState:
    """A segment as one match sees it: with tombstones and current scores. Never changed.

    Its arrays are reused for another state when this one is garbage-collected: nothing may keep them for longer.
    """

    def __init__(
        self,
        ranking: SegmentRanking,
        work: SegmentWork,
        dropped: Bools,
        scores: Float64s,
        lacking: Callable[[Tags], Bools],
        give_back: Sequence[Callable[[], None]] = (),
    ) -> None:
        self.segment = ranking.segment
        self.ranking = ranking
        self.work = work
        self.dropped = dropped
        """Whether each subscription has a tombstone; empty if none has."""
        self.scores = scores
        self._lacking = lacking
        self._give_back = give_back
        """What to call when this state is gone."""

    def __del__(self) -> None:
        for give_back in self._give_back:
            give_back()

    @cached
    def exact(self) -> ExactTopK:
        """What finds the best of those that match."""
        return ExactTopK(self.ranking, self.scores)

    @property
    def same_score(self) -> float | None:
        """The score of all subscriptions, if they were given the same one and none was rescored."""
        return self.segment.same_score if self.scores is self.segment.scores else None

    @cached
    def _left_out(self) -> Callable[[Tags], Bools]:
        return lru_cache(maxsize=MOST_TAGS)(partial(_either, self._lacking, self.dropped))

    def left_out(self, tags: Tags) -> Bools:
        """Return a mask of the subscriptions that are dropped or lack one of the tags; empty if there are none."""
        return self._left_out(tags) if tags else self.dropped


def _either(lacking: Callable[[Tags], Bools], dropped: Bools, tags: Tags) -> Bools:
    return lacking(tags) | dropped if dropped.size else lacking(tags)


def _lacking(segment: Segment, tags: Tags) -> Bools:
    return ~segment.tagged(tags)


@dataclass(frozen=True)
class Snapshot:
    """The states of all segments at one moment. Never changed."""

    states: tuple[SegmentState, ...]
    orders: IdOrders = field(default_factory=IdOrders)
    """The order of ids of the snapshot before this one, if it had the same segments."""

    @property
    def is_by_pairs(self) -> bool:
        """Whether all segments match by access pairs."""
        return all(state.segment.index.pairs is not None for state in self.states)

    @cached
    def shared_layout(self) -> SharedLayout:
        """The tables that several segments have in common."""
        return SharedLayout([state.segment for state in self.states])

    @cached
    def id_order(self) -> IdOrder | OrderBesideLarge:
        """The order of all subscriptions by id."""
        return self.orders.of([state.segment.ids for state in self.states])

    @cached
    def scores_in_order(self) -> ScoresInOrder:
        """The scores of all subscriptions by their places in the order."""
        return self.id_order.in_order([state.scores for state in self.states])

    def expensive(self, most: int) -> dict[str, float]:
        """Return the subscriptions that took the most time of the events so far, each with its share."""
        measured = [(state.work, state.segment.ids, state.dropped) for state in self.states]
        return most_expensive(measured, most)

    @cached
    def nothing_judged(self) -> list[dict[int, Probed]]:
        """For each segment, no family that was judged elsewhere."""
        return [{} for _ in self.states]

    @cached
    def looks_back(self) -> bool:
        """Whether some subscription compares events with the history."""
        return any(state.segment.history_demands.size for state in self.states)


class LiveSegment:
    """A segment with its tombstones and changed scores: the mutable side of SegmentState."""

    def __init__(
        self, segment: Segment, dropped: Sequence[int] = (), scores: Mapping[int, float] | None = None
    ) -> None:
        self.segment = segment
        self.file: str | None = None
        """The file of the segment, once it is committed."""
        self.changes_file: str | None = None
        """The file of the changes, if there are changes and all are committed."""
        self._dropped: ArrayPool[bool] = ArrayPool(lambda: np.zeros(len(segment), bool), dict.fromkeys(dropped, True))
        self._scores: ArrayPool[float] = ArrayPool(lambda: segment.scores.copy(), scores or {})
        self._state: SegmentState | None = None
        self._ranking, self._work = SegmentRanking(segment), SegmentWork(segment)
        self._lacking = lru_cache(maxsize=MOST_TAGS)(partial(_lacking, segment))

    def __len__(self) -> int:
        return len(self.segment) - len(self.dropped)

    @property
    def dropped(self) -> KeysView[int]:
        """The numbers of the subscriptions that were dropped."""
        return self._dropped.items.keys()

    @property
    def scores(self) -> Mapping[int, float]:
        """The scores that were changed, by number."""
        return self._scores.items

    def find(self, id: str) -> int | None:
        """Return the number of a subscription that was not dropped; None if there is none. O(log n)."""
        number = self.segment.find(id)
        return None if number in self.dropped else number

    def live_numbers(self) -> Int64s:
        """Return the numbers of the subscriptions that were not dropped."""
        return np.delete(np.arange(len(self.segment)), list(self.dropped))

    def subscription(self, number: int) -> Subscription:
        """Return a subscription with its current score."""
        subscription = self.segment.subscription(number)
        return replace(subscription, score=self.scores.get(number, subscription.score))

    def subscriptions(self) -> Iterator[Subscription]:
        """Return the subscriptions that were not dropped."""
        return (self.subscription(number) for number in self.live_numbers().tolist())

    def drop(self, number: int) -> None:
        """Drop a subscription; the next state has its tombstone. O(1)."""
        self._dropped.change(number, True)
        self._changed()

    def rescore(self, number: int, score: float) -> None:
        """Change a score; the next state has it. O(1)."""
        self._scores.change(number, score)
        self._changed()

    def _changed(self) -> None:
        self.changes_file = None
        self._state = None

    def following(
        self, dropped: AbstractSet[int], scores: Mapping[int, float], changes_file: str | None
    ) -> "LiveSegment":
        """Return the segment with all these changes, which are committed: itself, unless some of its own are undone."""
        live = self
        if self.dropped <= dropped and self.scores.keys() <= scores.keys():
            for number in dropped - self.dropped:
                self.drop(number)
            for number, score in scores.items():
                if self.scores.get(number) != score:
                    self.rescore(number, score)
        else:
            live = LiveSegment(self.segment, list(dropped), scores)
            live.file = self.file
        live.changes_file = changes_file
        return live

    def without_changes(self) -> "LiveSegment":
        """Return the same segment, with its file, as it was when it was built."""
        live = LiveSegment(self.segment)
        live.file = self.file
        return live

    @property
    def is_committed(self) -> bool:
        """Whether the segment and all its changes are in its files."""
        return self.file is not None and (self.changes_file is not None or not (self.dropped or self.scores))

    def is_at(self, state: SegmentState) -> bool:
        """Tell whether this is the current state. Nothing is made to find out."""
        return self._state is state

    def state(self) -> SegmentState:
        """Return the current state. O(changes since the last one), or O(n) if matches still hold all earlier states."""
        if self._state is None:
            dropped, scores = NO_BOOLS, self.segment.scores
            returns = []
            if self.dropped:
                dropped, give_back = self._dropped.lend()
                returns.append(give_back)
            if self.scores:
                scores, give_back = self._scores.lend()
                returns.append(give_back)
            self._state = SegmentState(self._ranking, self._work, dropped, scores, self._lacking, returns)
        return self._state
