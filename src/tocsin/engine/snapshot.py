"""Parts and snapshots: segments with the changes made to them since they were built."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tocsin.engine.segment import NO_BOOLS, Segment
from tocsin.errors import StorageError
from tocsin.model.subscription import Subscription
from tocsin.storage import container


@dataclass(frozen=True)
class View:
    """A part as one match sees it."""

    segment: Segment
    dropped: npt.NDArray[np.bool_]
    scores: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Snapshot:
    """What all parts were at one moment. Never changed."""

    views: tuple[View, ...]


class Part:
    """A segment, the subscriptions that were dropped from it, and the scores that were changed."""

    def __init__(self, segment: Segment, dropped: Sequence[int] = (), scores: dict[int, float] | None = None) -> None:
        self.segment = segment
        self.dropped = set(dropped)
        self.scores = dict(scores or {})
        self._view: View | None = None

    def __len__(self) -> int:
        return len(self.segment) - len(self.dropped)

    def find(self, id: str) -> int | None:
        """The number of a subscription that was not dropped."""
        number = self.segment.find(id)
        return None if number in self.dropped else number

    def ids(self) -> Iterator[str]:
        """The ids that were not dropped."""
        return (self.segment.ids[n] for n in range(len(self.segment)) if n not in self.dropped)

    def subscription(self, number: int) -> Subscription:
        """A subscription with its score of now."""
        subscription = self.segment.subscription(number)
        return replace(subscription, score=self.scores.get(number, subscription.score))

    def drop(self, number: int) -> None:
        """Leave a subscription out from the next view on."""
        self.dropped.add(number)
        self._view = None

    def rescore(self, number: int, score: float) -> None:
        """Change a score from the next view on."""
        self.scores[number] = score
        self._view = None

    def view(self) -> View:
        """The part as it is now; later changes make another view."""
        if self._view is None:
            dropped, scores = NO_BOOLS, self.segment.scores
            if self.dropped:
                dropped = np.zeros(len(self.segment), bool)
                dropped[list(self.dropped)] = True
            if self.scores:
                scores = scores.copy()
                scores[list(self.scores)] = list(self.scores.values())
            self._view = View(self.segment, dropped, scores)
        return self._view


def store(folder: Path, parts: Sequence[Part], limit: int) -> None:
    """Write parts to a folder: a file for each segment, and last the list of them."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for number, part in enumerate(parts):
        name = f"segment-{number}.tocsin"
        container.write(folder / name, part.segment.container())
        entries.append({"segment": name, "dropped": sorted(part.dropped), "scores": part.scores})
    text = json.dumps({"version": container.VERSION, "limit": limit, "parts": entries})
    temporary = folder / ".snapshot.json"
    temporary.write_text(text)
    temporary.replace(folder / "snapshot.json")
    container.sync_folder(folder)


def load(folder: Path) -> tuple[tuple[Part, ...], int]:
    """Map the parts of a folder; return them and the limit they were built with."""
    path = folder / "snapshot.json"
    if not path.exists():
        raise StorageError(f"there is no index in {folder}", "Make one with Matcher.save or `tocsin index build`")
    snapshot = json.loads(path.read_text())
    parts = []
    for entry in snapshot["parts"]:
        segment = Segment.of(container.read(folder / entry["segment"]))
        scores = {int(number): score for number, score in entry["scores"].items()}
        parts.append(Part(segment, entry["dropped"], scores))
    return tuple(parts), int(snapshot["limit"])
