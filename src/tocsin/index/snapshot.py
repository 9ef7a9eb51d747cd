"""Parts and snapshots: segments with the changes made to them since they were built."""

import weakref
from collections.abc import Callable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from tocsin.forks import cached
from tocsin.index.array_pool import Versions
from tocsin.index.id_order import IdOrder
from tocsin.index.segment import NO_BOOLS, Segment
from tocsin.index.shared_layout import SharedLayout
from tocsin.model.subscription import Subscription
from tocsin.ranking.exact import BestMatches, Ranked

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Tags = tuple[tuple[str, str], ...]

MOST_TAGS = 64
"""Sets of tags for which a part, and each view of it, remembers who lacks them."""


class View:
    """A part as one match sees it. Never changed.

    The arrays go on to another view when this one is gone: nothing may keep them for longer.
    """

    def __init__(self, ranked: Ranked, dropped: Bools, scores: Floats, lacking: Callable[[Tags], Bools]) -> None:
        self.segment = ranked.segment
        self.ranked = ranked
        self.dropped = dropped
        """Whether each subscription is left out; empty if none is."""
        self.scores = scores
        self.best = BestMatches(ranked, scores)
        self._left_out = lru_cache(maxsize=MOST_TAGS)(partial(_either, lacking, dropped))

    def left_out(self, tags: Tags) -> Bools:
        """The subscriptions that are dropped or lack one of the tags; empty if none is."""
        return self._left_out(tags) if tags else self.dropped


def _either(lacking: Callable[[Tags], Bools], dropped: Bools, tags: Tags) -> Bools:
    return lacking(tags) | dropped if dropped.size else lacking(tags)


def _lacking(segment: Segment, tags: Tags) -> Bools:
    return ~segment.tagged(tags)


@dataclass(frozen=True)
class Snapshot:
    """What all parts were at one moment. Never changed."""

    views: tuple[View, ...]

    @property
    def is_by_pairs(self) -> bool:
        """Whether all segments match by access pairs."""
        return all(view.segment.index.pairs is not None for view in self.views)

    @cached
    def shared_layout(self) -> SharedLayout:
        """What the segments have in common."""
        return SharedLayout([view.segment for view in self.views])

    @cached
    def id_order(self) -> IdOrder:
        """The ranks of all subscriptions by id; 0.4 s for 1,000,000 of them."""
        return IdOrder([view.segment.ids.arrow() for view in self.views])

    @cached
    def scores_in_order(self) -> Floats:
        """The scores of all subscriptions by rank."""
        return self.id_order.in_order([view.scores for view in self.views])

    @property
    def looks_back(self) -> bool:
        """Whether some subscription compares events with the history."""
        return any(view.segment.history_demands.size for view in self.views)


class Part:
    """A segment, the subscriptions that were dropped from it, and the scores that were changed."""

    def __init__(
        self, segment: Segment, dropped: Sequence[int] = (), scores: Mapping[int, float] | None = None
    ) -> None:
        self.segment = segment
        self.file: str | None = None
        """The file of the segment, once it is committed."""
        self.changes_file: str | None = None
        """The file of the changes, if there are any and all are committed."""
        self._dropped: Versions[bool] = Versions(lambda: np.zeros(len(segment), bool), dict.fromkeys(dropped, True))
        self._scores: Versions[float] = Versions(segment.scores.copy, scores or {})
        self._view: View | None = None
        self._ranked = Ranked(segment)
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
        """The number of a subscription that was not dropped. O(log n)."""
        number = self.segment.find(id)
        return None if number in self.dropped else number

    def live(self) -> npt.NDArray[np.int64]:
        """The numbers of the subscriptions that were not dropped."""
        return np.delete(np.arange(len(self.segment)), list(self.dropped))

    def subscription(self, number: int) -> Subscription:
        """A subscription with its score of now."""
        subscription = self.segment.subscription(number)
        return replace(subscription, score=self.scores.get(number, subscription.score))

    def subscriptions(self) -> Iterator[Subscription]:
        """The subscriptions that were not dropped."""
        return (self.subscription(number) for number in self.live().tolist())

    def drop(self, number: int) -> None:
        """Leave a subscription out from the next view on. O(1)."""
        self._dropped.change(number, True)
        self._changed()

    def rescore(self, number: int, score: float) -> None:
        """Change a score from the next view on. O(1)."""
        self._scores.change(number, score)
        self._changed()

    def _changed(self) -> None:
        self.changes_file = None
        self._view = None

    @property
    def is_committed(self) -> bool:
        """Whether everything about this part is in its files."""
        return self.file is not None and (self.changes_file is not None or not (self.dropped or self.scores))

    def view(self) -> View:
        """The part as it is now; later changes make another view. O(changes), or O(n) while all others are in use."""
        if self._view is None:
            dropped, scores = NO_BOOLS, self.segment.scores
            returns = []
            if self.dropped:
                dropped, give_back = self._dropped.lend()
                returns.append(give_back)
            if self.scores:
                scores, give_back = self._scores.lend()
                returns.append(give_back)
            self._view = View(self._ranked, dropped, scores, self._lacking)
            for give_back in returns:
                weakref.finalize(self._view, give_back).atexit = False
        return self._view
