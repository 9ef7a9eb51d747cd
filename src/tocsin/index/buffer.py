"""The buffer: subscriptions that are too new and too few for a segment of the set."""

from collections.abc import Callable, Sequence

from tocsin.index.segment import Segment
from tocsin.index.snapshot import Part
from tocsin.model.subscription import Subscription

Build = Callable[[Sequence[Subscription]], Segment]

FACTOR = 4
"""Every match looks into every part, so that few parts are worth building some of them again."""


class Buffer:
    """Subscriptions that came since the last match, as they are, and earlier ones in a few small parts.

    A match makes a part of those that came since, together with the parts that are not FACTOR times larger, as a carry
    goes through the digits of a number. So n subscriptions are in a few parts, each was built a few times, and a match
    that follows a few changes builds little.
    """

    def __init__(self) -> None:
        self.fresh: dict[str, Subscription] = {}
        self.parts: tuple[Part, ...] = ()
        """From large to small."""

    def __len__(self) -> int:
        return len(self.fresh) + sum(len(part) for part in self.parts)

    def index(self, build: Build) -> None:
        """Make parts of all subscriptions."""
        if not self.fresh:
            return
        parts, taken = list(self.parts), list(self.fresh.values())
        while parts and len(parts[-1]) <= FACTOR * len(taken):
            taken += parts.pop().subscriptions()
        self.parts = (*parts, Part(build(taken)))
        self.fresh = {}

    def empty(self, build: Build) -> tuple[Part, ...]:
        """Take all subscriptions out, as one part, if there are any."""
        taken = [*(one for part in self.parts for one in part.subscriptions()), *self.fresh.values()]
        self.fresh, self.parts = {}, ()
        return (Part(build(taken)),) if taken else ()
