"""Parts and snapshots: segments with the changes made to them since they were built."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tocsin.engine.ranked import BestMatches, Ranked
from tocsin.engine.segment import NO_BOOLS, Segment
from tocsin.model.subscription import Subscription

Bools = npt.NDArray[np.bool_]
Tags = tuple[tuple[str, str], ...]


class View:
    """A part as one match sees it. Never changed."""

    def __init__(self, ranked: Ranked, dropped: Bools, scores: npt.NDArray[np.float64]) -> None:
        self.segment = ranked.segment
        self.ranked = ranked
        self.dropped = dropped
        """Whether each subscription is left out; empty if none is."""
        self.scores = scores
        self.best = BestMatches(ranked, scores)
        self._outside = lru_cache(maxsize=64)(self._find_outside)

    def left_out(self, tags: Tags) -> Bools:
        """The subscriptions that are dropped or lack one of the tags; empty if none is."""
        return self._outside(tags) if tags else self.dropped

    def _find_outside(self, tags: Tags) -> Bools:
        outside = ~self.segment.tagged(tags)
        return outside | self.dropped if self.dropped.size else outside


@dataclass(frozen=True)
class Snapshot:
    """What all parts were at one moment. Never changed."""

    views: tuple[View, ...]

    @property
    def looks_back(self) -> bool:
        """Whether some subscription compares events with the history."""
        return any(view.segment.history_demands.size for view in self.views)


class Part:
    """A segment, the subscriptions that were dropped from it, and the scores that were changed."""

    def __init__(self, segment: Segment, dropped: Sequence[int] = (), scores: dict[int, float] | None = None) -> None:
        self.segment = segment
        self.dropped = set(dropped)
        self.scores = dict(scores or {})
        self.file: str | None = None
        """The file of the segment, once it is committed."""
        self.changes_file: str | None = None
        """The file of the changes, if there are any and all are committed."""
        self._view: View | None = None
        self._ranked = Ranked(segment)

    def __len__(self) -> int:
        return len(self.segment) - len(self.dropped)

    def find(self, id: str) -> int | None:
        """The number of a subscription that was not dropped. O(log n)."""
        number = self.segment.find(id)
        return None if number in self.dropped else number

    def live(self) -> Iterator[int]:
        """The numbers of the subscriptions that were not dropped."""
        return (number for number in range(len(self.segment)) if number not in self.dropped)

    def subscription(self, number: int) -> Subscription:
        """A subscription with its score of now."""
        subscription = self.segment.subscription(number)
        return replace(subscription, score=self.scores.get(number, subscription.score))

    def drop(self, number: int) -> None:
        """Leave a subscription out from the next view on."""
        self.dropped.add(number)
        self._changed()

    def rescore(self, number: int, score: float) -> None:
        """Change a score from the next view on."""
        self.scores[number] = score
        self._changed()

    def _changed(self) -> None:
        self.changes_file = None
        self._view = None

    @property
    def is_committed(self) -> bool:
        """Whether everything about this part is in its files."""
        return self.file is not None and (self.changes_file is not None or not (self.dropped or self.scores))

    def view(self) -> View:
        """The part as it is now; later changes make another view. O(n) after a change."""
        if self._view is None:
            dropped, scores = NO_BOOLS, self.segment.scores
            if self.dropped:
                dropped = np.zeros(len(self.segment), bool)
                dropped[list(self.dropped)] = True
            if self.scores:
                scores = scores.copy()
                scores[list(self.scores)] = list(self.scores.values())
            self._view = View(self._ranked, dropped, scores)
        return self._view
