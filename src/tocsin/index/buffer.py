"""The buffer: subscriptions that are too new and too few for a segment of the set."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from tocsin.index.fresh_rows import FreshRows, FreshView
from tocsin.index.segment import Segment
from tocsin.index.snapshot import LiveSegment
from tocsin.language.normal_form import ColumnKey, NormalForm, form_of
from tocsin.language.normalise import Expression
from tocsin.model.predicate import Ranges
from tocsin.model.subscription import Subscription
from tocsin.predicates.families import compared_by

Build = Callable[[Sequence[Subscription], Sequence[NormalForm]], Segment]
Normalise = Callable[[str, str], Expression]
"""Returns the normal form of a text, given the id of its subscription."""

FACTOR = 4
"""A match rebuilds the segments that are at most this many times larger than what is new, by the size of their normal
forms: one IN list may be 50,000 ranges. It visits every segment, so that keeping few is worth the rebuilding."""

FEW_COMPLEX = 16
"""So many subscriptions may be judged by their definition for each single event, some 5 µs each; more of them become a
segment."""

FEW_TESTS = 256
"""So many predicates may these have in all. 3,000 phrases of one condition, all in a text of 6,000 words: 2.5 s by
their definition, and the time grows with the square; 0.03 s in a segment."""

MOST_FILED = 512
"""So many subscriptions may be filed under a word or an attribute, of which an event judges some."""

FEW_JUDGED = 24.0
"""So many conjunctions of these may an event judge lately, some 2 µs each; a segment costs it 20 to 50 µs."""

MOST_ROWS = 4096
"""Rows that are kept aside before they become a segment. A single event is compared with all of them, 1 to 2 ns each,
and pays 20 µs for a segment."""

MOST_OTHERS = 1024
"""The same for subscriptions with tests, fresh or in the small segments of the buffer."""

MOST_GONE = 64
"""Rows are written anew when more than this and than what is fresh was dropped or replaced."""


class Fresh(NamedTuple):
    """A subscription that is not in a segment yet, with its normal form."""

    subscription: Subscription
    expression: Expression


class Buffer:
    """New subscriptions: those since the last match as a dict, earlier ones in a few small segments.

    A match builds one segment of the subscriptions since the last match and of the segments that are at most FACTOR
    times larger. So n subscriptions are in O(log n) segments, each was built O(log n) times, and a match after a few
    changes builds little.
    """

    def __init__(self) -> None:
        self.fresh: dict[str, Fresh] = {}
        self._rows = FreshRows()
        self._number_of: dict[str, int] = {}
        """The numbers of fresh subscriptions in the rows."""
        self.segments: tuple[LiveSegment, ...] = ()
        """From large to small."""

    def __len__(self) -> int:
        return len(self.fresh) + sum(len(live) for live in self.segments)

    def subscriptions(self) -> list[Subscription]:
        """Return all subscriptions of the buffer, with their scores of now."""
        standing = [subscription for live in self.segments for subscription in live.subscriptions()]
        return standing + [one.subscription for one in self.fresh.values()]

    def follow(self, before: Sequence[Subscription], now: Sequence[Subscription], normalise: Normalise) -> None:
        """Hold other subscriptions than `before`; what stays is neither parsed nor built again."""
        held = {one.id: one for one in before}
        arrived = [Fresh(one, normalise(one.where, one.id)) for one in now if held.get(one.id) != one]
        gone = [*(held.keys() - {one.id for one in now}), *(fresh.subscription.id for fresh in arrived)]
        for id in gone:
            self.drop(id)
        for fresh in arrived:
            self.put(fresh.subscription.id, fresh)

    def put(self, id: str, fresh: Fresh) -> None:
        """Add a fresh subscription, or replace it."""
        self._leave(id)
        self.fresh[id] = fresh
        if self._rows.gone > len(self.fresh) + MOST_GONE:
            self._rows = FreshRows()
            self._number_of = {name: self._rows.add(*one) for name, one in self.fresh.items()}
        else:
            self._number_of[id] = self._rows.add(*fresh)

    def drop(self, id: str) -> bool:
        """Drop a subscription if the buffer has it; tell whether it had."""
        self._leave(id)
        if self.fresh.pop(id, None) is not None:
            return True
        for live in self.segments:
            number = live.find(id)
            if number is not None:
                live.drop(number)
                return True
        return False

    def _leave(self, id: str) -> None:
        if id in self._number_of:
            self._rows.leave(self._number_of.pop(id))

    @property
    def may_be_viewed(self) -> bool:
        """Whether an event judges few fresh subscriptions by their definition, and all can be judged so."""
        rows = self._rows
        few = len(rows.unfiled) <= FEW_COMPLEX and sum(rows.unfiled.values()) <= FEW_TESTS
        filed = len(rows.complex) - len(rows.unfiled)
        return few and filed <= MOST_FILED and rows.judged <= FEW_JUDGED and not rows.needs_segment

    @property
    def is_full(self) -> bool:
        """Whether it is time for a segment of the set."""
        rows = len(self.fresh) - len(self._rows.complex)
        return rows / MOST_ROWS + (len(self) - rows) / MOST_OTHERS >= 1

    def kinds(self) -> set[ColumnKey] | None:
        """Return what the fresh subscriptions compare attributes with; None if only a segment of them can tell."""
        found: set[ColumnKey] = set()
        for fresh in self.fresh.values():
            for predicate in chain.from_iterable(fresh.expression.leaves):
                if isinstance(predicate, Ranges):
                    found.add((predicate.attribute, predicate.kind))
                elif (compared := compared_by(predicate.test)) is not None:
                    found.update(compared)
                else:
                    return None
        return found

    def view(self) -> FreshView | None:
        """Return the fresh subscriptions as a single event is compared with them; None if there are none."""
        return FreshView(self._rows) if self.fresh else None

    def _clear(self) -> None:
        self.fresh, self._rows, self._number_of = {}, FreshRows(), {}

    def index(self, build: Build) -> None:
        """Build segments, so that every subscription is in one."""
        if not self.fresh:
            return
        segments, taken, forms = list(self.segments), *columns(self.fresh)
        size = forms[0].size
        while segments and _size(segments[-1]) <= FACTOR * size:
            size += _size(segments[-1])
            _take_out(segments.pop(), taken, forms)
        self.segments = (*segments, LiveSegment(build(taken, forms)))
        self._clear()

    def empty(self, build: Build) -> tuple[LiveSegment, ...]:
        """Empty the buffer; return its subscriptions as one segment, or () if there are none."""
        taken, forms = columns(self.fresh)
        for live in self.segments:
            _take_out(live, taken, forms)
        self.segments = ()
        self._clear()
        return (LiveSegment(build(taken, forms)),) if taken else ()

    def settle(self, taken: dict[str, Fresh], built: Segment) -> None:
        """Put a segment that was built of `taken` meanwhile in their place, without what changed since."""
        live = LiveSegment(built)
        for id, fresh in taken.items():
            if self.fresh.get(id) is fresh:
                del self.fresh[id]
            elif (number := live.find(id)) is not None:
                live.drop(number)
        newer = self.fresh
        self._clear()
        for id, fresh in newer.items():
            self.put(id, fresh)
        self.segments = tuple(sorted((one for one in (*self.segments, live) if len(one)), key=_size, reverse=True))

    def hand_over(self) -> tuple[LiveSegment, ...]:
        """Return the segments of the buffer, which then has fresh subscriptions only."""
        moved, self.segments = self.segments, ()
        return tuple(live for live in moved if len(live))


def columns(fresh: dict[str, Fresh]) -> tuple[list[Subscription], list[NormalForm]]:
    """Return fresh subscriptions, and their normal forms, as a segment is built of them."""
    return [one.subscription for one in fresh.values()], [form_of([one.expression for one in fresh.values()])]


def _size(live: LiveSegment) -> int:
    """The same as the size of a normal form."""
    return len(live.segment) + live.segment.form.column.size + live.segment.form.test.size


def _take_out(live: LiveSegment, subscriptions: list[Subscription], forms: list[NormalForm]) -> None:
    """Append the subscriptions of a segment that were not dropped, and their normal form."""
    subscriptions += live.subscriptions()
    forms.append(live.segment.normal_form(live.live_numbers().astype(np.int32)))
