"""The audit: a random share of the events of a matcher is judged again by the reference, beside the matches.

With millions of subscriptions the reference cannot judge all of them on an event. So the pairs of an event and a
subscription fall into three strata, and some of each are judged:

- *matched*: what was answered. A wrong one is a match too many.
- *suspects*: not answered, although every range of some conjunction holds, by a pass over the stored normal form in
  NumPy that shares no index and no kernel with the match. A match that an index missed is here.
- *others*: the rest, in a small uniform sample. A match is here only if the text was understood wrongly.

Each stratum has its own figures and its own upper bound. Subscriptions that look back are left out: the history has
moved on when the audit comes to them. A subscription on which both disagree is judged by the reference from then on,
until it is given again or the segments are merged.

It is loaded only when it is asked for (`tocsin.registry`).
"""

import copy
import json
import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays import Bools
from tocsin.errors import OptionError
from tocsin.forks import tell_children
from tocsin.index.answer import Rows
from tocsin.index.segment import Segment
from tocsin.index.snapshot import SegmentState, Snapshot
from tocsin.language.parse import parse
from tocsin.model.codec import encode_value
from tocsin.model.events import Event, EventBatch
from tocsin.model.subscription import Subscription
from tocsin.predicates.ranges.kernels import NULL_CODE
from tocsin.reference import evaluate

if TYPE_CHECKING:
    from tocsin.model.condition import Condition

CONFIDENCE = 0.95
MOST_PAIRS = {"matched": 32, "suspects": 32, "others": 8}
"""Pairs of an event that are judged in each stratum: 72 take the reference about 1 ms."""
MOST_WAITING = 1
"""Events that wait while one is judged; what is drawn besides is left out, and counted."""
BUDGET = 0.015
"""The share of the processor time of the process that the audit may take: after an event that cost t, none is taken
until t / BUDGET has passed. Beside 100,000 subscriptions of three ranges an event costs some 5 ms, most of it the pass
over the normal form."""
MOST_SHOWN = 100
_LOG = logging.getLogger("tocsin.audit")

Standing = Callable[[str], Subscription | None]
"""A subscription by its id; None if it stands no more."""
Matched = tuple[list[str], list[float]]
"""The ids and the scores of an event."""


@dataclass(frozen=True)
class Disagreement:
    """A subscription and an event on which index and reference disagree, as small as it can be told."""

    id: str
    where: str
    event: Event
    namespaces: Mapping[str, str]
    said: bool
    """Whether the index said that it matches; the reference said the opposite."""

    def line(self) -> str:
        """Return it as a line of JSON, which `tocsin replay` reads."""
        event = {name: encode_value(value) for name, value in self.event.items()}
        told = {"id": self.id, "where": self.where, "event": event, "namespaces": dict(self.namespaces)}
        return json.dumps({**told, "said": self.said})


@dataclass
class Stratum:
    """Pairs of one kind: how many the audited events had, how many of them were judged, and how many were wrong."""

    pairs: int = 0
    judged: int = 0
    wrong: int = 0

    @property
    def wrong_at_most(self) -> float:
        """The upper bound on the share of wrong pairs, at 95 percent confidence."""
        return upper_bound(self.wrong, self.judged)


@dataclass
class AuditReport:
    """What the audit has seen so far. `str()` of it is readable."""

    share: float
    seen: int = 0
    """Events that were matched."""
    events: int = 0
    """Events that were judged again."""
    left_out: int = 0
    """Events that were drawn, but left out since the audit was behind or had used up its time."""
    strata: dict[str, Stratum] = field(default_factory=lambda: {name: Stratum() for name in MOST_PAIRS})
    disagreements: list[Disagreement] = field(default_factory=list)
    """The newest."""

    @property
    def wrong(self) -> int:
        """Pairs on which index and reference disagreed."""
        return sum(stratum.wrong for stratum in self.strata.values())

    @property
    def missed_at_most(self) -> float:
        """The upper bound on missed matches an event, at 95 percent confidence; among the suspects."""
        suspects = self.strata["suspects"]
        if not self.events or not suspects.pairs:
            # No event had a suspect: at most so many events have one that was missed.
            return upper_bound(0, self.events)
        return suspects.wrong_at_most * suspects.pairs / self.events

    def __str__(self) -> str:
        lines = [f"{self.events:,} of {self.seen:,} events judged again, {self.left_out:,} drawn and left out"]
        for name, stratum in self.strata.items():
            lines.append(
                f"  {name}: {stratum.wrong:,} wrong of {stratum.judged:,} judged, of {stratum.pairs:,}; "
                f"at most {stratum.wrong_at_most:.2g} of them are wrong"
            )
        found = self.strata["matched"].pairs / max(self.events, 1)
        lines.append(f"  at most {self.missed_at_most:.2g} matches an event were missed, beside {found:.2g} found")
        return "\n".join([*lines, f"  (upper bounds at {CONFIDENCE:.0%} confidence)"])


def upper_bound(wrong: int, judged: int) -> float:
    """Return the upper Clopper-Pearson bound on a share of which `wrong` of `judged` were seen.

    >>> round(upper_bound(0, 100), 4), round(upper_bound(3, 100), 4), upper_bound(0, 0)
    (0.0295, 0.0757, 1.0)
    """
    if wrong >= judged:
        return 1.0
    low, high = wrong / judged, 1.0
    for _ in range(60):
        share = (low + high) / 2
        if _at_most(wrong, judged, share) > 1 - CONFIDENCE:
            low = share
        else:
            high = share
    return high


def _at_most(wrong: int, judged: int, share: float) -> float:
    """The probability of at most `wrong` of `judged`."""
    of_all = math.lgamma(judged + 1)
    return sum(
        math.exp(
            of_all
            - math.lgamma(k + 1)
            - math.lgamma(judged - k + 1)
            + k * math.log(share)
            + (judged - k) * math.log1p(-share)
        )
        for k in range(wrong + 1)
    )


@dataclass(frozen=True)
class _Drawn:
    """An event that waits to be judged again, with what it was matched against and what was answered."""

    snapshot: Snapshot
    batch: EventBatch
    event: Event
    matched: frozenset[str]


class Audit:
    """Draws events, judges them in a thread of its own, and says what it found."""

    def __init__(self, share: float, namespaces: Mapping[str, str], log: Path | None = None) -> None:
        if not 0 < share <= 1:
            raise OptionError(f"audit is {share}", "It is the share of events to judge again: more than 0, at most 1")
        self.report = AuditReport(share)
        self.distrusted: dict[str, tuple[str, Condition]] = {}
        """The subscriptions that the reference judges, as long as they have these texts."""
        self._namespaces = namespaces
        self._log = log
        self._chance = random.Random()
        self._left = self._skip()
        self._waiting: deque[_Drawn] = deque()
        self._thread: threading.Thread | None = None
        self._busy_until = 0.0
        self._parse = lru_cache(maxsize=4096)(parse)
        tell_children(self)

    def become_child(self) -> None:
        """After a fork: the thread is the parent's."""
        self._thread = None
        self._waiting = deque()
        self._busy_until = 0.0

    def _skip(self) -> int:
        """How many events pass until the next one is drawn."""
        share = self.report.share
        return 0 if share == 1 else int(math.log(1 - self._chance.random()) / math.log(1 - share))

    def draw(self, count: int) -> Iterator[int]:
        """Yield the places that are drawn among the next `count` events, as far as there is time to judge them."""
        self.report.seen += count
        while self._left < count:
            if len(self._waiting) >= MOST_WAITING or time.process_time() < self._busy_until:
                self.report.left_out += 1
            else:
                yield self._left
            self._left += 1 + self._skip()
        self._left -= count

    def take(self, snapshot: Snapshot, batch: EventBatch, matched: Sequence[str]) -> None:
        """Let a batch of one event, for which these ids were answered, be judged again."""
        # A copy: whoever gave the event may change it.
        event = {name: copy.deepcopy(batch.event(0)[name]) for name in batch.names_of(0)}
        self._waiting.append(_Drawn(snapshot, EventBatch([event], batch.now), event, frozenset(matched)))
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._judge_waiting, name="tocsin-audit", daemon=True)
            self._thread.start()

    def take_rows(self, snapshot: Snapshot, batch: EventBatch, rows: Sequence[Rows]) -> None:
        """Draw among the events of a batch, whose rows these are."""
        for place in self.draw(len(batch)):
            of_event = [one.subscriptions[one.starts[place] : one.starts[place + 1]].to_pylist() for one in rows]
            self.take(snapshot, batch.slice(place, 1), [id for ids in of_event for id in ids])

    def finish(self) -> AuditReport:
        """Wait until every event that was taken is judged; return the report."""
        while self._thread is not None and self._thread.is_alive():
            self._thread.join()
        return self.report

    def _judge_waiting(self) -> None:
        while self._waiting:
            start = time.thread_time()
            try:
                self._judge(self._waiting.popleft())
            except Exception:
                # The audit must not end the program that it watches.
                _LOG.exception("the audit of an event failed")
            self._busy_until = time.process_time() + (time.thread_time() - start) / BUDGET

    def _judge(self, drawn: _Drawn) -> None:
        self.report.events += 1
        event = drawn.batch.event(0)
        for state in drawn.snapshot.states:
            for name, numbers in _strata(state, drawn).items():
                stratum, chosen = self.report.strata[name], numbers
                if len(numbers) > MOST_PAIRS[name]:
                    chosen = np.array(self._chance.sample(range(len(numbers)), MOST_PAIRS[name]))
                    chosen = numbers[chosen]
                stratum.pairs += len(numbers)
                stratum.judged += len(chosen)
                for number in chosen.tolist():
                    id, where = state.segment.ids[number], state.segment.texts[number]
                    holds = evaluate(self._parse(where), event, (), self._namespaces) is True
                    if holds != (name == "matched"):
                        stratum.wrong += 1
                        self._disagree(Disagreement(id, where, drawn.event, self._namespaces, name == "matched"))

    def _disagree(self, found: Disagreement) -> None:
        if found.id in self.distrusted:
            return
        found = _smaller(found)
        # A new dict: matches read the old one meanwhile.
        self.distrusted = {**self.distrusted, found.id: (found.where, parse(found.where))}
        self.report.disagreements = [*self.report.disagreements[1 - MOST_SHOWN :], found]
        _LOG.error("index and reference disagree: %s", found.line())
        if self._log is not None:
            with self._log.open("a", encoding="utf-8") as file:
                file.write(found.line() + "\n")

    def trust(self, id: str | None = None) -> None:
        """Let the index judge a subscription again, since it was given anew; all of them if no id is given."""
        self.distrusted = {} if id is None else {one: text for one, text in self.distrusted.items() if one != id}

    def _judged_here(self, standing: Standing) -> dict[str, tuple[float, "Condition"]]:
        """The scores and conditions of the distrusted subscriptions that still stand as they were found."""
        found = {}
        for id, (where, condition) in self.distrusted.items():
            subscription = standing(id)
            if subscription is not None and subscription.where == where:
                found[id] = (subscription.score, condition)
        return found

    def corrected(self, ids: list[str], scores: list[float], event: Event, standing: Standing) -> Matched:
        """Return the matches of an event with those of distrusted subscriptions as the reference has them."""
        distrusted = self._judged_here(standing)
        kept = {id: score for id, score in zip(ids, scores, strict=True) if id not in distrusted}
        for id, (score, condition) in distrusted.items():
            if evaluate(condition, event, (), self._namespaces) is True:
                kept[id] = score
        in_order = sorted(kept)
        return in_order, [kept[id] for id in in_order]

    def corrected_table(
        self, table: pa.Table, batch: EventBatch, names: pa.Array | None, first: int, standing: Standing
    ) -> pa.Table:
        """Do the same for the rows of a batch, whose events are numbered from `first` on or have these names."""
        table = table.set_column(1, "subscription", table["subscription"].cast(pa.large_string()))
        distrusted = self._judged_here(standing)
        is_distrusted = pc.is_in(table["subscription"], pa.array(list(distrusted), pa.large_string()))
        table = table.filter(pc.invert(is_distrusted))
        rows: list[int] = []
        ids: list[str] = []
        scores: list[float] = []
        for id, (score, condition) in distrusted.items():
            for row in range(len(batch)):
                if evaluate(condition, batch.event(row), (), self._namespaces) is True:
                    rows.append(row)
                    ids.append(id)
                    scores.append(score)
        numbers = pa.array([first + row for row in rows], pa.int64())
        more = pa.table([numbers if names is None else names.take(numbers), ids, scores], schema=table.schema)
        joined = pa.concat_tables([table, more]).sort_by([("event", "ascending"), ("subscription", "ascending")])
        return joined.set_column(1, "subscription", joined["subscription"].dictionary_encode())


def _strata(state: SegmentState, drawn: _Drawn) -> dict[str, Any]:
    """The numbers of the subscriptions of a segment by stratum, without those that look back or were dropped."""
    segment = state.segment
    audited = np.ones(len(segment), bool)
    audited[segment.history_demands[:, 1]] = False
    if state.dropped.size:
        audited &= ~state.dropped
    matched = np.zeros(len(segment), bool)
    numbers = (segment.find(id) for id in drawn.matched)
    matched[[number for number in numbers if number is not None]] = True
    suspect = in_ranges(segment, drawn.batch)
    return {
        "matched": np.flatnonzero(audited & matched),
        "suspects": np.flatnonzero(audited & suspect & ~matched),
        "others": np.flatnonzero(audited & ~suspect & ~matched),
    }


def in_ranges(segment: Segment, batch: EventBatch) -> Bools:
    """Tell of which subscriptions all ranges of some conjunction hold for the event of a batch of one. O(ranges).

    It reads the stored normal form alone; whatever tests a conjunction has besides, they are taken to hold.
    """
    form, columns = segment.form, len(segment.columns)
    codes = np.zeros(columns + len(segment.families) + 1, np.int32)
    for place, column in enumerate(segment.columns):
        # Value by value, not by the kernels that a batch goes through.
        values = batch.values(column.attribute)
        codes[place] = column.domain.code(values[0]) if values is not None else NULL_CODE
    code = codes[form.column]
    holds = (form.low <= code) & (code <= form.high) | (form.column >= columns)
    conjunction = np.repeat(np.arange(form.owner.size), np.diff(form.starts))
    # Several ranges on one column are a union.
    first = np.flatnonzero(np.diff(conjunction, prepend=-1) | np.diff(form.column, prepend=-1))
    fails = conjunction[first][~np.logical_or.reduceat(holds, first)] if first.size else first
    failing = np.zeros(form.owner.size, bool)
    failing[fails] = True
    found = np.zeros(len(segment), bool)
    found[form.owner[~failing]] = True
    return found


def _smaller(found: Disagreement) -> Disagreement:
    """Leave out the attributes of the event that the subscription does not name, if that leaves the answer."""
    event = {name: value for name, value in found.event.items() if name in found.where}
    holds = evaluate(parse(found.where), EventBatch([event]).event(0), (), found.namespaces) is True
    return found if holds == found.said else replace(found, event=event)
