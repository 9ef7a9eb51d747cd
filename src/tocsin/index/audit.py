"""The audit: a random share of the pairs of an event and a subscription is judged a second time, beside the matches.

Judging an event against all subscriptions costs thousands of times what matching it does. So the audit turns it round:
of some batches it keeps the answer, draws some subscriptions, and judges each on all events of the batch at once
(`index/second_way.py`: NumPy and Arrow on the text of the subscription, no index, no normal form and no kernel), at
about 1 ns a pair. What that way does not know, the reference judges, for some of the rows. Nothing counts as a
disagreement before the reference has confirmed it. Single events and small batches are drawn one by one into a pool
which is judged like a batch.

A *cell* is a batch and a subscription. Cells are drawn uniformly, so that the share of wrong cells among those judged
bounds the share of all: at 95 percent confidence by Clopper and Pearson. A pair that is wrong makes its cell wrong, so
that the bound holds for pairs as well: also where only some rows are judged, since a cell is then found wrong with at
least the chance that one of its pairs is, drawn at random. Whether a cell lacks a match is known only where all of its
rows were judged; the bound on missed matches counts those.

Now and then some of the drawn subscriptions p are built anew as `p IS TRUE`, `p IS FALSE` and `p IS NULL`: exactly one
of the three must match each event (ternary partitioning).

Left out are subscriptions that look back, since the history has moved on when the audit comes to them, `top_k` with
`mode="relaxed"`, and subscriptions that came since the last batch. A subscription on which both disagree is judged by
the reference from then on, until it is given again or the segments are merged.

It is loaded only when it is asked for (`tocsin.registry`).
"""

import copy
import itertools
import json
import logging
import math
import random
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.errors import OptionError
from tocsin.forks import tell_children
from tocsin.index.answer import Request, Rows
from tocsin.index.intake import SubscriptionRows, parse_rows
from tocsin.index.options import Options
from tocsin.index.second_way import Places, PlainColumns
from tocsin.index.segment import Segment
from tocsin.index.snapshot import SegmentState, Snapshot
from tocsin.model.codec import encode_value
from tocsin.model.events import Event, EventBatch
from tocsin.model.result import Evidence
from tocsin.model.subscription import Subscription
from tocsin.reference import evaluate

if TYPE_CHECKING:
    from tocsin.model.condition import Condition

CONFIDENCE = 0.95
BUDGET = 0.015
"""The share of the processor time of the matches that the audit may take. What is drawn besides is left out, and
counted: the report says which share was judged. Beside 100,000 subscriptions of three ranges, in batches of 32,768
events, there is time for a share of 7e-5, and the audit costs 1.6 percent in all. Parsing the text of a drawn
subscription alone takes as long as matching it with some 300,000 events."""
HEAD_START = 0.02
"""Seconds that the audit may take before matches have earned them."""
GATHERED = 16
"""One batch in so many is taken, with so many times the subscriptions: taking one costs 3 ms beside 100,000 ids,
sorting its columns another 16."""
SMALL_BATCH = 1024
"""Fewer events than this are drawn one by one into the pool. So many of them are judged together."""
POOL_SECONDS = 5.0
"""A pool is judged when it is so old, however few events it has."""
MOST_WAITING = 2
"""Batches that wait while one is judged."""
MOST_JUDGED = 8
"""Rows of a cell that the reference judges, of those that were answered and of those that were not: 14 µs each."""
PARTITIONED = 8
"""One batch in so many has some subscriptions partitioned: building so few costs some 15 ms."""
PARTITION_SUBSCRIPTIONS, PARTITION_EVENTS = 8, 256
MOST_SHOWN = 100
_LOG = logging.getLogger("tocsin.audit")

Standing = Callable[[str], Subscription | None]
"""A subscription by its id; None if it stands no more."""
Matched = tuple[list[str], list[float]]
"""The ids and the scores of an event."""
_NOWHERE: Places = np.empty(0, np.intp)
_NAMES_TIME = re.compile(r"\b(now|current_\w+|today)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Disagreement:
    """A subscription and an event on which index and reference disagree, as small as it can be told."""

    id: str
    where: str
    event: Event
    options: Options
    said: bool
    """Whether the index said that it matches; the reference said the opposite."""

    def line(self) -> str:
        """Return it as a line of JSON, which `tocsin replay` reads."""
        event = {name: encode_value(value) for name, value in self.event.items()}
        options = self.options.document()
        told = {"id": self.id, "where": self.where, "event": event}
        told |= {"namespaces": options["namespaces"], "analyzers": options["analyzers"]}
        return json.dumps({**told, "said": self.said})


@dataclass
class AuditReport:
    """What the audit has seen so far. `str()` of it is readable."""

    share: float
    """The share of pairs that was asked for."""
    events: int = 0
    """Events that were matched."""
    pairs: int = 0
    """Pairs of an event and a subscription that could be audited."""
    judged: int = 0
    """Pairs that were judged again."""
    missed: int = 0
    """Pairs that match, and were not answered."""
    invented: int = 0
    """Pairs that were answered, and do not match."""
    cells: int = 0
    """Pairs of a batch and a subscription that were judged again."""
    wrong_cells: int = 0
    matching_cells: int = 0
    """Cells that have a match; of these, `missing_cells` lack one in the answer."""
    missing_cells: int = 0
    left_out: int = 0
    """Cells that were drawn, but left out since the audit had used up its time."""
    partitioned: int = 0
    """Pairs of an event and a subscription that were partitioned, and how many of them in a wrong way."""
    wrong_partitions: int = 0
    disagreements: list[Disagreement] = field(default_factory=list)
    """The newest."""

    @property
    def wrong(self) -> int:
        """Pairs on which index and reference disagreed."""
        return self.missed + self.invented + self.wrong_partitions

    @property
    def wrong_at_most(self) -> float:
        """The upper bound on the share of pairs that are wrong, at 95 percent confidence."""
        return upper_bound(self.wrong_cells, self.cells)

    @property
    def missed_at_most(self) -> float:
        """The upper bound on the share of cells with a match that lack one in the answer, at 95 percent confidence."""
        return upper_bound(self.missing_cells, self.matching_cells)

    def __str__(self) -> str:
        share = self.judged / max(self.pairs, 1)
        return "\n".join(
            [
                f"{self.judged:,} of {self.pairs:,} pairs of an event and a subscription judged again ({share:.2g}, "
                f"asked for {self.share:g}), of {self.events:,} events",
                f"  {self.missed:,} matches missed, {self.invented:,} invented; at most {self.wrong_at_most:.2g} of "
                "all pairs are wrong",
                f"  {self.matching_cells:,} of {self.cells:,} pairs of a batch and a subscription have a match, and "
                f"{self.missing_cells:,} of these lack one in the answer; at most {self.missed_at_most:.2g} of all do",
                f"  {self.partitioned:,} pairs partitioned into TRUE, FALSE, NULL, {self.wrong_partitions:,} wrongly",
                f"  {self.left_out:,} pairs of a batch and a subscription were drawn and left out for lack of time",
                f"  (upper bounds at {CONFIDENCE:.0%} confidence)",
            ]
        )


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
class _Answered:
    """Events with what they were matched against, and what was answered."""

    snapshot: Snapshot
    batch: EventBatch
    request: Request
    rows: Sequence[Rows]
    drawn: Sequence[npt.NDArray[np.intp]]
    """The subscriptions that were drawn, by segment."""
    same_time: bool = True
    """Whether all events were matched at the time of the batch; if not, `now()` cannot be judged."""

    def cells(self) -> int:
        """How many subscriptions were drawn."""
        return sum(numbers.size for numbers in self.drawn)

    def places(self, ids: pa.Array) -> list[Places]:
        """Return the events that each of these ids was answered for."""
        found: list[list[Places]] = [[] for _ in range(len(ids))]
        for rows in self.rows:
            number = pc.index_in(rows.subscriptions.dictionary.cast(pa.large_string()), value_set=ids)
            of_row = np.asarray(number.fill_null(-1))[np.asarray(rows.subscriptions.indices)]
            event = np.repeat(np.arange(rows.starts.size - 1), np.diff(rows.starts))
            hit = np.flatnonzero(of_row >= 0)
            order = hit[np.argsort(of_row[hit], kind="stable")]
            distinct, first = np.unique(of_row[order], return_index=True)
            for one, events in zip(distinct.tolist(), np.split(event[order], first[1:]), strict=False):
                found[one].append(events)
        return [np.unique(np.concatenate(several)) if several else _NOWHERE for several in found]

    def stands(self, id: str) -> bool:
        """Tell whether a subscription that was left out of one segment stands in another, or may be newer than all."""
        for state in self.snapshot.states:
            number, left_out = state.segment.find(id), state.left_out(self.request.tags)
            if number is not None and not (left_out.size and left_out[number]):
                return True
        return not self.same_time

    def has_better(self, subscription: Subscription, score: float, events: Places) -> npt.NDArray[np.bool_]:
        """Tell for which events a subscription is rightly not among the best that were asked for."""
        question = self.request.question
        if question is None:
            return np.zeros(events.size, bool)
        [rows] = self.rows
        better = np.zeros(events.size, bool)
        for place, event in enumerate(events.tolist()):
            first, last = int(rows.starts[event]), int(rows.starts[event + 1]) - 1
            if last - first + 1 == question.k:
                worst = -rows.scores[last].as_py(), rows.subscriptions[last].as_py()
                better[place] = worst < (-score, subscription.id)
        return better


@dataclass
class _Pool:
    """Events of small batches that wait to be judged together: those of one snapshot and one kind of request."""

    snapshot: Snapshot
    request: Request
    events: list[dict[str, Any]] = field(default_factory=list)
    matched: list[Matched] = field(default_factory=list)
    now: Any = None
    since: float = field(default_factory=time.monotonic)


class Audit:
    """Draws cells, judges them in a thread of its own, and says what it found."""

    def __init__(self, share: float, options: Options, log: Path | None = None) -> None:
        if not 0 < share <= 1:
            raise OptionError(f"audit is {share}", "It is the share of pairs to judge again: more than 0, at most 1")
        self.report = AuditReport(share)
        self.distrusted: dict[str, tuple[str, Condition]] = {}
        """The subscriptions that the reference judges, as long as they have these texts."""
        self._options = options
        self._namespaces = options.namespaces
        self._log = log
        self._gathered = min(GATHERED, max(1, int(1 / share)))
        self._chance = random.Random()
        self._numbers = np.random.default_rng()
        self._pool: _Pool | None = None
        self._waiting: deque[_Answered] = deque()
        self._thread: threading.Thread | None = None
        self._matching, self._spent = 0.0, 0.0
        """Processor time of the matches that were checked, and of the audit."""
        self._told = (0, 0)
        self._parse = lru_cache(maxsize=4096)(options.parse)
        tell_children(self)

    def become_child(self) -> None:
        """After a fork: the thread is the parent's, and so is its processor time."""
        self._thread, self._pool = None, None
        self._waiting = deque()
        self._matching, self._spent = 0.0, 0.0

    @property
    def _budget(self) -> float:
        """The seconds that the audit may have taken by now."""
        return HEAD_START + BUDGET * self._matching

    def _since_last(self) -> tuple[int, int]:
        """Return how many pairs were judged, and how many of them were wrong, since this was last asked."""
        now = self.report.judged, self.report.wrong
        before, self._told = self._told, now
        return now[0] - before[0], now[1] - before[1]

    def widened(self, request: Request) -> Request:
        """Ask for more of the best while some subscriptions are distrusted: they may have the places of others."""
        if not self.distrusted or request.question is None or _cannot_judge(request):
            return request
        return replace(request, question=replace(request.question, k=request.question.k + len(self.distrusted)))

    def check(
        self,
        snapshot: Snapshot,
        batch: EventBatch,
        request: Request,
        wider: Request,
        rows: list[Rows],
        standing: Standing,
        evidence: Evidence,
        begun: float,
    ) -> list[Rows]:
        """Take note of an answer, to be judged if it is drawn; return it as the reference has the distrusted.

        `wider` is what the rows answer; `evidence` takes what the audit found since the answer before. `begun` is the
        processor time of the thread when the match began.
        """
        matched = time.thread_time()
        self._matching += matched - begun
        self._see(snapshot, batch, wider, rows)
        self._spent += time.thread_time() - matched
        evidence.audited, evidence.disagreements = self._since_last()
        if self.distrusted and rows and not _cannot_judge(request) and not _has_intervals(request, batch):
            k = None if request.question is None else request.question.k
            return [self._corrected_rows(rows, batch, request, k, standing)]
        return rows

    def check_one(
        self,
        snapshot: Snapshot,
        batch: EventBatch,
        request: Request,
        matched: Matched,
        standing: Standing,
        evidence: Evidence,
        begun: float,
        k: int | None = None,
    ) -> Matched:
        """Do the same for the event of a batch of one; with `k`, leave the best."""
        self._matching += time.thread_time() - begun
        self._see_one(snapshot, batch, request, matched)
        evidence.audited, evidence.disagreements = self._since_last()
        if not self.distrusted:
            return matched
        ids, scores = self._corrected(matched, batch.event(0), request, standing)
        if k is not None:
            best = sorted(zip(scores, ids, strict=True), key=lambda pair: (-pair[0], pair[1]))[:k]
            ids, scores = [id for _, id in best], [score for score, _ in best]
        return ids, scores

    def _see(self, snapshot: Snapshot, batch: EventBatch, request: Request, rows: Sequence[Rows]) -> None:
        if _cannot_judge(request) or _has_intervals(request, batch):
            return
        self._count(snapshot, len(batch))
        if len(batch) < SMALL_BATCH:
            for row in self._drawn_events(len(batch)):
                slices = [(one, int(one.starts[row]), int(one.starts[row + 1])) for one in rows]
                ids = [id for one, start, end in slices for id in one.subscriptions[start:end].to_pylist()]
                scores = [score for one, start, end in slices for score in one.scores[start:end].to_pylist()]
                event = batch.event(row)
                self._gather(snapshot, {name: event[name] for name in event}, batch.now, request, (ids, scores))
        elif self._chance.random() * self._gathered < 1:
            drawn = self._draw(snapshot, self.report.share * self._gathered)
            self._judge_later(_Answered(snapshot, _kept(batch), request, rows, drawn))

    def _see_one(self, snapshot: Snapshot, batch: EventBatch, request: Request, matched: Matched) -> None:
        self._count(snapshot, 1)
        for _ in self._drawn_events(1):
            given = batch.event(0)
            self._gather(snapshot, {name: given[name] for name in given}, batch.now, request, matched)

    def _count(self, snapshot: Snapshot, events: int) -> None:
        self.report.events += events
        self.report.pairs += events * sum(len(state.segment) for state in snapshot.states)

    def _drawn_events(self, count: int) -> list[int]:
        """Draw among so many events: more often than the share, and judge them against fewer subscriptions."""
        share = min(1.0, self.report.share * self._gathered)
        if count == 1:
            return [0] if self._chance.random() < share else []
        return np.flatnonzero(self._numbers.random(count) < share).tolist()

    def _gather(self, snapshot: Snapshot, event: dict[str, Any], now: Any, request: Request, matched: Matched) -> None:
        request = replace(request, ordered=True)
        pool = self._pool
        if pool is not None and (pool.snapshot is not snapshot or pool.request != request):
            self._judge_pool()
            pool = None
        if pool is None:
            pool = self._pool = _Pool(snapshot, request, now=now)
        # A copy: whoever gave the event may change it.
        pool.events.append(copy.deepcopy(event))
        pool.matched.append(matched)
        if len(pool.events) >= SMALL_BATCH or time.monotonic() - pool.since > POOL_SECONDS:
            self._judge_pool()

    def _judge_pool(self) -> None:
        pool, self._pool = self._pool, None
        if pool is None:
            return
        share = self.report.share / min(1.0, self.report.share * self._gathered)
        ids = pa.array([id for ids, _ in pool.matched for id in ids], pa.large_string()).dictionary_encode()
        scores = pa.array([score for _, scores in pool.matched for score in scores], pa.float64())
        starts = np.append(0, np.cumsum([len(ids) for ids, _ in pool.matched])).astype(np.int64)
        drawn = self._draw(pool.snapshot, share)
        batch, rows = EventBatch(pool.events, pool.now), [Rows(starts, ids, scores)]
        self._judge_later(_Answered(pool.snapshot, batch, pool.request, rows, drawn, same_time=False))

    def _draw(self, snapshot: Snapshot, share: float) -> list[npt.NDArray[np.intp]]:
        """Draw a share of the subscriptions of each segment that can be judged, those that were dropped among them."""
        drawn = []
        for state in snapshot.states:
            count = len(state.segment)
            numbers = self._numbers.choice(count, self._numbers.binomial(count, min(share, 1.0)), replace=False)
            if len(state.segment.history_demands):
                numbers = np.setdiff1d(numbers, state.segment.history_demands[:, 1])
            drawn.append(numbers)
        return drawn

    def _judge_later(self, answered: _Answered) -> None:
        if len(self._waiting) >= MOST_WAITING or self._spent >= self._budget:
            self.report.left_out += answered.cells()
            return
        self._waiting.append(answered)
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._judge_waiting, name="tocsin-audit", daemon=True)
            self._thread.start()

    def finish(self) -> AuditReport:
        """Wait until everything that was taken is judged; return the report."""
        self._judge_pool()
        while self._thread is not None and self._thread.is_alive():
            self._thread.join()
        return self.report

    def _judge_waiting(self) -> None:
        while self._waiting:
            before = time.thread_time()
            try:
                self._judge(self._waiting.popleft(), self._spent - before)
            except Exception:
                # The audit must not end the program that it watches.
                _LOG.exception("the audit of a batch failed")
            self._spent += time.thread_time() - before

    def _judge(self, answered: _Answered, spent: float) -> None:
        """Judge the cells that were drawn, as far as there is time; `spent` is to be added to the thread's time."""
        columns = PlainColumns(answered.batch)
        cells: list[tuple[SegmentState, int, Places]] = []
        for state, numbers in zip(answered.snapshot.states, answered.drawn, strict=True):
            ids = pa.array(state.segment.ids.at(numbers.astype(np.int32)), pa.large_string())
            cells += zip(itertools.repeat(state), numbers.tolist(), answered.places(ids), strict=False)
        # In no order, so that those for which there is time are a fair sample.
        self._chance.shuffle(cells)
        for count, (state, number, events) in enumerate(cells, 1):
            left_out = state.left_out(answered.request.tags)
            if left_out.size and left_out[number]:
                self._judge_left_out(answered, state.segment, number, events)
            else:
                self._judge_cell(answered, columns, state.segment, number, float(state.scores[number]), events)
            if spent + time.thread_time() > self._budget:
                self.report.left_out += len(cells) - count
                return
        if self._chance.random() * PARTITIONED < 1:
            for state, numbers in zip(answered.snapshot.states, answered.drawn, strict=True):
                if numbers.size:
                    self._partition(answered, state.segment, numbers[:PARTITION_SUBSCRIPTIONS])

    def _judge_left_out(self, answered: _Answered, segment: Segment, number: int, said: Places) -> None:
        """Judge a subscription that was dropped, or lacks a tag that was asked for: no event has it."""
        id = segment.ids[number]
        self.report.cells += 1
        self.report.judged += len(answered.batch)
        if said.size and not answered.stands(id):
            self.report.invented += said.size
            self.report.wrong_cells += 1
            _LOG.error("the index answered %d times with %r, which was dropped or lacks a tag", said.size, id)

    def _judge_cell(
        self, answered: _Answered, columns: PlainColumns, segment: Segment, number: int, score: float, said: Places
    ) -> None:
        where = segment.texts[number]
        if not answered.same_time and _NAMES_TIME.search(where):
            return
        condition = self._parse(where)
        held = columns.true(condition)
        report, count = self.report, len(answered.batch)
        if not held.doubt.size and np.array_equal(held.sure, said):
            report.cells += 1
            report.judged += count
            report.matching_cells += said.size > 0
            return
        subscription = segment.subscription(number)
        extra = np.setdiff1d(said, np.union1d(held.sure, held.doubt), assume_unique=True)
        lost = np.setdiff1d(held.sure, said, assume_unique=True)
        lost = lost[~answered.has_better(subscription, score, lost)] if lost.size else lost
        unsaid = self._some(np.setdiff1d(held.doubt, said, assume_unique=True))
        unsaid_in_doubt = unsaid.size
        unsaid = unsaid[~answered.has_better(subscription, score, unsaid)] if unsaid.size else unsaid
        said_in_doubt = self._some(np.intersect1d(held.doubt, said, assume_unique=True))
        report.cells += 1
        report.judged += count - held.doubt.size + unsaid.size + said_in_doubt.size
        missed = self._confirmed(answered, condition, subscription, np.append(self._some(lost), unsaid), said=False)
        invented = self._confirmed(
            answered, condition, subscription, np.append(self._some(extra), said_in_doubt), said=True
        )
        # The reference has confirmed some; those beside them are taken to be wrong, too.
        report.missed += missed if lost.size <= MOST_JUDGED or not missed else missed + lost.size - MOST_JUDGED
        report.invented += (
            invented if extra.size <= MOST_JUDGED or not invented else invented + extra.size - MOST_JUDGED
        )
        report.wrong_cells += missed + invented > 0
        # Of a cell whose rows in doubt were not all judged, nobody knows whether it lacks a match.
        if missed or held.doubt.size == unsaid_in_doubt + said_in_doubt.size:
            report.matching_cells += bool(missed or said.size > invented)
            report.missing_cells += missed > 0

    def _some(self, places: Places) -> Places:
        return places if places.size <= MOST_JUDGED else self._numbers.choice(places, MOST_JUDGED, replace=False)

    def _confirmed(
        self, answered: _Answered, condition: "Condition", subscription: Subscription, events: Places, *, said: bool
    ) -> int:
        """Return on how many of these events the reference disagrees with what the index said."""
        if not events.size:
            return 0
        chosen = answered.batch.take(events)
        wrong = 0
        for row in range(events.size):
            event = chosen.event(row)
            if (evaluate(condition, event, (), self._namespaces) is True) != said:
                wrong += 1
                told = {name: event[name] for name in chosen.names_of(row)}
                self._disagree(Disagreement(subscription.id, subscription.where, told, self._options, said))
        return wrong

    def _partition(self, answered: _Answered, segment: Segment, numbers: npt.NDArray[np.intp]) -> None:
        """Match `p IS TRUE`, `p IS FALSE` and `p IS NULL` of some subscriptions: each event satisfies one of them."""
        texts = [segment.texts[number] for number in numbers.tolist()]
        given = [
            Subscription(f"{place:04} {truth}", f"({text}) IS {truth}")
            for place, text in enumerate(texts)
            for truth in _TRUTHS
        ]
        rows, form, errors = parse_rows(SubscriptionRows.of(sorted(given, key=lambda one: one.id)), self._options)
        if errors:
            return
        batch = answered.batch.slice(0, PARTITION_EVENTS)
        built = Segment.build(rows, form, self._options)
        slices, _ = built.match(batch)
        found = np.zeros((len(batch), len(given)), bool)
        found[np.repeat(np.arange(len(batch)), np.diff(slices.starts)), slices.values] = True
        held = found.reshape(len(batch), len(texts), len(_TRUTHS)).sum(axis=2)
        self.report.partitioned += held.size
        for row, place in np.argwhere(held != 1).tolist():
            self.report.wrong_partitions += 1
            for one in range(len(_TRUTHS) * place, len(_TRUTHS) * (place + 1)):
                event, where, said = batch.event(row), built.texts[one], bool(found[row, one])
                if (evaluate(self._parse(where), event, (), self._namespaces) is True) != said:
                    told = {name: event[name] for name in batch.names_of(row)}
                    self._disagree(Disagreement(segment.ids[int(numbers[place])], where, told, self._options, said))

    def _disagree(self, found: Disagreement) -> None:
        if found.id in self.distrusted:
            return
        found = _smaller(found)
        # A new dict: matches read the old one meanwhile.
        self.distrusted = {**self.distrusted, found.id: (found.where, self._parse(found.where))}
        self.report.disagreements = [*self.report.disagreements[1 - MOST_SHOWN :], found]
        _LOG.error("index and reference disagree: %s", found.line())
        if self._log is not None:
            with self._log.open("a", encoding="utf-8") as file:
                file.write(found.line() + "\n")

    def trust(self, id: str | None = None) -> None:
        """Let the index judge a subscription again, since it was given anew; all of them if no id is given."""
        self.distrusted = {} if id is None else {one: text for one, text in self.distrusted.items() if one != id}

    def _judged_here(self, standing: Standing, request: Request) -> dict[str, tuple[float, "Condition"]]:
        """The scores and conditions of the distrusted subscriptions that still stand as they were found."""
        found = {}
        for id, (where, condition) in self.distrusted.items():
            subscription = standing(id)
            if subscription is None or subscription.where != where:
                continue
            if all(subscription.tags.get(name) == tag for name, tag in request.tags):
                found[id] = (subscription.score, condition)
        return found

    def _corrected(self, matched: Matched, event: Event, request: Request, standing: Standing) -> Matched:
        """Return the matches of an event with those of distrusted subscriptions as the reference has them."""
        distrusted = self._judged_here(standing, request)
        kept = {id: score for id, score in zip(*matched, strict=True) if id not in distrusted}
        for id, (score, condition) in distrusted.items():
            if evaluate(condition, event, (), self._namespaces) is True:
                kept[id] = score
        in_order = sorted(kept)
        return in_order, [kept[id] for id in in_order]

    def _corrected_rows(
        self, rows: Sequence[Rows], batch: EventBatch, request: Request, k: int | None, standing: Standing
    ) -> Rows:
        """Do the same for the rows of a batch; with `k`, leave the best of each event."""
        distrusted = self._judged_here(standing, request)
        table = pa.concat_tables(
            pa.table(
                {
                    "event": np.repeat(np.arange(len(batch)), np.diff(one.starts)),
                    "subscription": one.subscriptions.cast(pa.large_string()),
                    "score": one.scores.cast(pa.float64()),
                }
            )
            for one in rows
        )
        named = pa.array(list(distrusted), pa.large_string())
        table = table.filter(pc.invert(pc.is_in(table["subscription"], value_set=named)))
        more = [
            (row, id, score)
            for id, (score, condition) in distrusted.items()
            for row in range(len(batch))
            if evaluate(condition, batch.event(row), (), self._namespaces) is True
        ]
        added = pa.table(
            [list(column) for column in zip(*more, strict=True)] if more else [[], [], []], schema=table.schema
        )
        by_id = [("event", "ascending"), ("subscription", "ascending")]
        order = by_id if k is None else [by_id[0], ("score", "descending"), by_id[1]]
        joined = pa.concat_tables([table, added]).sort_by(order)
        starts = np.searchsorted(np.asarray(joined["event"]), np.arange(len(batch) + 1))
        if k is not None:
            rank = np.arange(len(joined)) - starts[np.asarray(joined["event"])]
            joined = joined.filter(pa.array(rank < k))
            starts = np.searchsorted(np.asarray(joined["event"]), np.arange(len(batch) + 1))
        ids = joined["subscription"].combine_chunks().dictionary_encode()
        return Rows(starts.astype(np.int64), ids, joined["score"].combine_chunks())


_TRUTHS = ("FALSE", "NULL", "TRUE")


def _cannot_judge(request: Request) -> bool:
    """Tell whether the reference has no word for what was asked."""
    return request.question is not None and (request.question.mode != "exact" or request.question.index != "auto")


def _has_intervals(request: Request, batch: EventBatch) -> bool:
    """Tell whether events of a ranked request may have intervals, which have no meaning for the reference."""
    if request.question is None:
        return False
    if batch.table is not None:
        return any(pa.types.is_nested(column.type) for column in batch.table.columns)
    return any(isinstance(value, (list, tuple)) for row in batch.rows for value in row.values())


def _kept(batch: EventBatch) -> EventBatch:
    """Return a batch that nobody changes: a table is immutable, and mappings are copied as far as they are plain."""
    if batch.table is not None:
        return EventBatch(batch.table, batch.now)
    return EventBatch([dict(row) for row in batch.rows], batch.now)


def _smaller(found: Disagreement) -> Disagreement:
    """Leave out the attributes of the event that the subscription does not name, if that leaves the answer."""
    event = {name: value for name, value in found.event.items() if name in found.where}
    condition = found.options.parse(found.where)
    holds = evaluate(condition, EventBatch([event]).event(0), (), found.options.namespaces) is True
    return found if holds == found.said else replace(found, event=event)
