"""Match a batch of events against a snapshot, and put the rows in order."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tocsin.arrays import Bools, Float64s, Int64s, Ragged
from tocsin.conjunctions.owners import events_of
from tocsin.index.constant_column import constant_column
from tocsin.index.fresh_rows import FreshView
from tocsin.index.history import History, Judged
from tocsin.index.id_order import FEW_ROWS, IdOrder, OrderBesideLarge, ids_at, ids_in_order, named_only, sort_lists
from tocsin.index.options import Options
from tocsin.index.snapshot import SegmentState, Snapshot, Tags
from tocsin.model.events import Event, EventBatch
from tocsin.model.result import Evidence
from tocsin.model.subscription import Subscription
from tocsin.ranking.question import Question
from tocsin.ranking.request import asks_every_test, best_of
from tocsin.tuning import TUNING

_NO_INTERVAL = {float, int, str, bool, bytes, type(None)}
"""Types of values that are not intervals, nor hold any."""


@dataclass(frozen=True)
class Request:
    """What is asked of a batch."""

    tags: Tags = ()
    """Only subscriptions that have all of these count."""
    question: Question | None = None
    """How many of the best are wanted; None: all matches."""
    remember: bool = False
    """Whether each event becomes history for those behind it."""
    ordered: bool = True
    """Whether the rows of an event are ordered by id; without ranking only."""


@dataclass(frozen=True)
class Rows:
    """Subscriptions and scores of events: those of event i are the rows `starts[i]` to `starts[i + 1]`."""

    starts: Int64s
    subscriptions: pa.DictionaryArray
    scores: pa.Array | pa.ChunkedArray

    def table(self, names: pa.Array | None, first: int) -> pa.Table:
        """Return a table `event, subscription, score`. Events are numbered from `first`, or have these names."""
        numbers = pa.array(events_of(self.starts, first))
        events = numbers if names is None else names.take(numbers)
        return pa.table({"event": events, "subscription": self.subscriptions, "score": self.scores})

    def only(self, kept: Bools) -> "Rows":
        """Return some of the rows."""
        starts, mask = np.append(0, np.cumsum(kept))[self.starts], pa.array(kept)
        return Rows(starts, self.subscriptions.filter(mask), self.scores.filter(mask))


@dataclass(frozen=True)
class Answer:
    """The rows of a batch, in one piece if they are ordered, else one piece for each segment; and the evidence."""

    rows: list[Rows]
    evidence: Evidence


def answer(
    snapshot: Snapshot, batch: EventBatch, request: Request, history: History | None, options: Options
) -> Answer:
    """Match a batch: tests on the history, values to codes and tests (phase 1), conjunctions (phase 2), ranking."""
    evidence = Evidence(events=len(batch))
    judged = judge_history(snapshot, batch, request, history, evidence)
    if request.question is not None:
        start = time.perf_counter()
        best, work = best_of(snapshot, batch, judged, request.tags, request.question, options)
        evidence.add_segment(work)
        evidence.rank_s += time.perf_counter() - start - work.encode_s - work.match_s
        rows = [Rows(*best)]
    else:
        found = list(match_segments(snapshot, batch, request.tags, judged, evidence))
        if any(state.segment.with_utility.size for state in snapshot.states):
            rows = [_by_worth(batch, found, options)]
        elif request.ordered and found:
            rows = [_in_order(snapshot, found)]
        else:
            rows = [_rows(state, slices) for state, slices in found]
        for state, truths in zip(snapshot.states, judged, strict=True):
            state.work.observe(batch, truths, evidence.history_s)
    evidence.errors |= batch.unreadable
    return Answer(rows, evidence)


def judge_history(
    snapshot: Snapshot, batch: EventBatch, request: Request, history: History | None, evidence: Evidence
) -> list[Judged]:
    """Judge the tests on the history of each segment; events to remember become history, one after the other."""
    if history is None:
        return snapshot.nothing_judged
    start = time.perf_counter()
    every_test = request.question is not None and asks_every_test(request.question, snapshot, batch)
    judged = history.judge(snapshot, batch, request.remember, every_test)
    evidence.history_s += time.perf_counter() - start
    return judged


def match_segments(
    snapshot: Snapshot, batch: EventBatch, tags: Tags, judged: Sequence[Judged], evidence: Evidence
) -> Iterator[tuple[SegmentState, Ragged]]:
    """Yield the subscriptions of each event, by segment. Large batches are laid out once for all segments."""
    states = snapshot.states
    if len(states) < 2 or len(batch) < TUNING.shared_layout_min_events or not snapshot.is_by_pairs:
        for state, truths in zip(states, judged, strict=True):
            slices, work = state.segment.match(batch, state.left_out(tags), truths)
            evidence.add_segment(work)
            yield state, slices
        return
    encoded = [state.segment.encode(batch, truths) for state, truths in zip(states, judged, strict=True)]
    codes_of = [state.segment.codes_of(batch) for state in states]
    start = time.perf_counter()
    by_pairs = snapshot.shared_layout.match([events for events, _ in encoded], codes_of)
    evidence.match_s += time.perf_counter() - start
    for state, (events, work), pairs in zip(states, encoded, by_pairs, strict=True):
        slices = state.segment.match_encoded(batch, events, work, state.left_out(tags), pairs)
        evidence.add_segment(work)
        yield state, slices


def _rows(state: SegmentState, slices: Ragged) -> Rows:
    """Return the rows of one segment in the order in which they were found."""
    segment = state.segment
    if state.same_score is not None:
        scores = constant_column(state.same_score).of_length(slices.values.size)
    else:
        scores = pa.array(state.scores[slices.values])
    subscriptions = pa.DictionaryArray.from_arrays(pa.array(slices.values), segment.ids.arrow(), safe=False)
    return Rows(slices.starts, subscriptions, scores)


def _in_order(snapshot: Snapshot, found: Sequence[tuple[SegmentState, Ragged]]) -> Rows:
    """Return the rows of all segments, by event and then by id."""
    if len(found) == 1:
        [(state, slices)] = found
        # Subscriptions are numbered in the order of their ids.
        sort_lists(slices.starts, slices.values, len(state.segment))
        return _rows(state, slices)
    lists = [(slices.starts, slices.values) for _, slices in found]
    scores = [state.scores for state, _ in found]
    order: IdOrder | OrderBesideLarge
    if sum(slices.values.size for _, slices in found) > FEW_ROWS:
        order, in_order = snapshot.id_order, snapshot.scores_in_order
    else:
        ids, few, chosen = named_only([state.segment.ids.arrow() for state, _ in found], lists)
        order, lists = IdOrder(ids), few
        in_order = order.in_order([of_state[numbers] for of_state, numbers in zip(scores, chosen, strict=True)])
    starts, places = order.ordered(lists)
    subscriptions = pa.DictionaryArray.from_arrays(pa.array(places), order.ids, safe=False)
    return Rows(starts, subscriptions, pa.array(in_order.at(places)))


def _by_worth(batch: EventBatch, found: Sequence[tuple[SegmentState, Ragged]], options: Options) -> Rows:
    """Do the same where the score of a match depends on the alternative that holds."""
    ids, lists, _ = named_only(
        [state.segment.ids.arrow() for state, _ in found], [(slices.starts, slices.values) for _, slices in found]
    )
    order = IdOrder(ids)
    ranks = np.concatenate([ranks[places] for ranks, (_, places) in zip(order.ranks, lists, strict=True)])
    scores = np.concatenate([_worth_of(state, batch, slices, options) for state, slices in found])
    by_id = np.lexsort((ranks, np.concatenate([events_of(slices.starts, 0) for _, slices in found])))
    subscriptions = pa.DictionaryArray.from_arrays(pa.array(ranks[by_id]), order.ids, safe=False)
    return Rows(np.sum([slices.starts for _, slices in found], axis=0), subscriptions, pa.array(scores[by_id]))


def _worth_of(state: SegmentState, batch: EventBatch, slices: Ragged, options: Options) -> Float64s:
    worth, scores = state.ranking.worth(options), state.scores[slices.values]
    return scores if worth is None else worth.scores(batch, slices, scores)


def match_one(
    snapshot: Snapshot,
    event: Event,
    batch: EventBatch,
    tags: Tags,
    judged: Sequence[Judged],
    fresh: Sequence[Subscription],
    options: Options,
    evidence: Evidence,
) -> tuple[list[str], list[float]]:
    """Return the ids and the scores of the event of a batch of one, sorted by id; `fresh` ones were found already."""
    ids: list[str] = []
    scores: list[float] = []
    if fresh:
        ids = [subscription.id for subscription in fresh]
        scores = [subscription.score for subscription in fresh]
    segments = len(fresh)
    for state, truths in zip(snapshot.states, judged, strict=True):
        numbers = state.segment.match_one(event, batch, state.left_out(tags), truths, evidence)
        if numbers.size:
            # Subscriptions are numbered in the order of their ids.
            numbers = np.ascontiguousarray(numbers)
            found = ids_in_order(state.segment.ids, numbers)
            ids = ids + found if ids else found
            same = state.same_score
            if state.segment.with_utility.size:
                scores += _worth_of(state, batch, Ragged(np.array([0, numbers.size]), numbers), options).tolist()
            else:
                scores += state.scores[numbers].tolist() if same is None else [same] * numbers.size
            segments += 1
        state.work.observe(batch, truths, evidence.history_s)
    if segments > 1 and scores.count(scores[0]) == len(scores):
        ids.sort()
    elif segments > 1:
        order = sorted(range(len(ids)), key=ids.__getitem__)
        ids, scores = [ids[place] for place in order], [scores[place] for place in order]
    return ids, scores


def best_of_one(
    snapshot: Snapshot,
    event: Event,
    batch: EventBatch,
    tags: Tags,
    question: Question,
    fresh: Sequence[Subscription],
    options: Options,
    evidence: Evidence,
) -> tuple[list[str], list[float]] | None:
    """Return the ids and the scores of the best k matches of one event, best first; None if only `answer` can tell."""
    k = question.k
    if (
        question.mode != "exact"
        or question.index != "auto"
        or question.function is not None
        or snapshot.looks_back
        or any(state.ranking.serve(k) or state.segment.with_utility.size for state in snapshot.states)
    ):
        return None
    if not all(type(value) in _NO_INTERVAL for value in event.values()):
        return None
    found = [(-subscription.score, subscription.id) for subscription in fresh]
    for state in snapshot.states:
        before = evidence.candidates
        numbers = state.segment.match_one(event, batch, state.left_out(tags), {}, evidence)
        start = time.perf_counter()
        state.ranking.learn(np.array([numbers.size]), evidence.candidates - before, state.scores, k, options)
        scores = state.scores[numbers]
        if numbers.size > k:
            # Subscriptions are numbered in the order of their ids.
            best = np.lexsort((numbers, -scores))[:k]
            numbers, scores = numbers[best], scores[best]
        ids = ids_at(state.segment.ids, numbers)
        found += [(-score, id) for score, id in zip(scores.tolist(), ids, strict=True)]
        evidence.rank_s += time.perf_counter() - start
    found = sorted(found)[:k]
    evidence.matches = len(found)
    return [id for _, id in found], [-score for score, _ in found]


def fresh_of(
    view: FreshView | None, event: Event, batch: EventBatch, tags: Tags, options: Options, evidence: Evidence
) -> list[Subscription]:
    """Return the subscriptions that hold for an event, of those that are too new for a segment."""
    if view is None:
        return []
    start = time.perf_counter()
    found = view.match(event, batch, options.namespaces, evidence)
    evidence.match_s += time.perf_counter() - start
    return [one for one in found if all(one.tags.get(name) == tag for name, tag in tags)] if tags else found


def tags_key(tags: Mapping[str, str] | None) -> Tags:
    """Return tags as the key that a SegmentState caches them by."""
    return tuple(sorted((tags or {}).items()))
