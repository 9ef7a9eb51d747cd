"""The buffer: subscriptions that are too new and too few for a segment of the set."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tocsin.index.segment import Segment
from tocsin.index.snapshot import Part
from tocsin.language.normal_form import NormalForm
from tocsin.model.subscription import Subscription

Build = Callable[[Sequence[Subscription], Sequence[NormalForm]], Segment]

FACTOR = 4
"""Every match looks into every part, so that few parts are worth building some of them again."""


class Fresh(NamedTuple):
    """A subscription that is in no segment yet, with its normal form."""

    subscription: Subscription
    form: NormalForm


class Buffer:
    """Subscriptions that came since the last match, as they are, and earlier ones in a few small parts.

    A match makes a part of those that came since, together with the parts that are not FACTOR times larger, as a carry
    goes through the digits of a number. So n subscriptions are in a few parts, each was built a few times, and a match
    that follows a few changes builds little.
    """

    def __init__(self) -> None:
        self.fresh: dict[str, Fresh] = {}
        self.parts: tuple[Part, ...] = ()
        """From large to small."""

    def __len__(self) -> int:
        return len(self.fresh) + sum(len(part) for part in self.parts)

    def index(self, build: Build) -> None:
        """Make parts of all subscriptions."""
        if not self.fresh:
            return
        parts, taken, forms = list(self.parts), *_columns(self.fresh)
        while parts and len(parts[-1]) <= FACTOR * len(taken):
            _take_out(parts.pop(), taken, forms)
        self.parts = (*parts, Part(build(taken, forms)))
        self.fresh = {}

    def empty(self, build: Build) -> tuple[Part, ...]:
        """Take all subscriptions out, as one part, if there are any."""
        taken, forms = _columns(self.fresh)
        for part in self.parts:
            _take_out(part, taken, forms)
        self.fresh, self.parts = {}, ()
        return (Part(build(taken, forms)),) if taken else ()


def _columns(fresh: dict[str, Fresh]) -> tuple[list[Subscription], list[NormalForm]]:
    return [one.subscription for one in fresh.values()], [one.form for one in fresh.values()]


def _take_out(part: Part, subscriptions: list[Subscription], forms: list[NormalForm]) -> None:
    """Add the subscriptions of a part that were not dropped, and their normal form."""
    subscriptions += part.subscriptions()
    forms.append(part.segment.normal_form(part.live().astype(np.int32)))
