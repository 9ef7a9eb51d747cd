"""The best k subscriptions of each event: found in each segment, then merged over all segments."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays import Bools, Float64s, Int64s, Ragged
from tocsin.conjunctions.owners import events_of
from tocsin.errors import OptionError
from tocsin.index.history import Judged
from tocsin.index.options import Options
from tocsin.index.snapshot import SegmentState, Snapshot, Tags
from tocsin.model.events import EventBatch
from tocsin.model.result import Evidence
from tocsin.predicates.families import Probed
from tocsin.ranking.kernels import Asked, sort_best
from tocsin.ranking.question import Question
from tocsin.ranking.relaxed import has_intervals
from tocsin.ranking.score_function import ScoreFunction
from tocsin.ranking.select import nothing_yet
from tocsin.ranking.worth import Worth


class TopK(NamedTuple):
    """The best subscriptions of each event, best first: those of event i are rows `starts[i]` to `starts[i + 1]`."""

    starts: Int64s
    subscriptions: pa.DictionaryArray
    scores: pa.Array


def asks_every_test(question: Question, snapshot: Snapshot, batch: EventBatch) -> bool:
    """Tell whether the truth of every test on the history matters, not only which conjunctions hold."""
    if not snapshot.looks_back:
        return False
    return question.mode == "relaxed" or any(has_intervals(batch, state.segment.columns) for state in snapshot.states)


def best_of(
    snapshot: Snapshot, batch: EventBatch, judged: Sequence[Judged], tags: Tags, question: Question, options: Options
) -> tuple[TopK, Evidence]:
    """Answer a question for every event of a batch."""
    evidence = Evidence(events=len(batch))
    answers = []
    for state, truths in zip(snapshot.states, judged, strict=True):
        slices, scores, work = _best_of_segment(state, batch, truths, tags, question, options)
        evidence.add_segment(work)
        answers.append((state, slices, scores))
    if len(answers) == 1:
        [(state, slices, scores)] = answers
        subscriptions = pa.DictionaryArray.from_arrays(pa.array(slices.values), state.segment.ids.arrow())
        return TopK(slices.starts, subscriptions, pa.array(scores)), evidence
    best = _merge(answers, len(batch), question.k)
    evidence.matches = len(best.scores)
    return best, evidence


def _best_of_segment(
    state: SegmentState,
    batch: EventBatch,
    judged: Mapping[int, Probed],
    tags: Tags,
    question: Question,
    options: Options,
) -> tuple[Ragged, Float64s, Evidence]:
    """Return the best of one segment, as the numbers of subscriptions, with their scores."""
    left_out = state.left_out(tags)
    function = question.function
    if function is not None and function.names_event:
        [function] = [function.of_event(batch.event(row)) for row in range(len(batch))]
    worth = state.ranking.worth(options) if question.mode == "exact" else None
    if question.mode == "exact" and function is not None:
        return _best_by_expression(state, batch, judged, left_out, function, worth, question.k)
    by_intervals = has_intervals(batch, state.segment.columns)
    if worth is not None and not by_intervals:
        return _best_by_worth(state, batch, judged, left_out, worth, question.k)
    if question.mode == "exact" and question.index == "auto" and not by_intervals:
        return state.exact.top_k(batch, left_out, judged, question.k, options)
    evidence = Evidence(events=len(batch))
    best = nothing_yet(len(batch), min(question.k, len(state.segment)))
    weights = state.ranking.weights()
    numbers = np.arange(len(state.segment), dtype=np.int32)
    # Of an interval it is not known which alternative holds: the best of them counts.
    own = state.scores if worth is None else worth.at_most(state.scores)
    asked = Asked(question.kind, weights.factors(question.coefficients), left_out, own, numbers)
    work = weights.offer(best, batch, asked, judged, question.interval, question.index, function)
    evidence.add_segment(work)
    starts, numbers, scores = sort_best(best)
    evidence.matches = numbers.size
    return Ragged(starts, numbers), scores, evidence


def _best_by_worth(
    state: SegmentState, batch: EventBatch, judged: Mapping[int, Probed], left_out: Bools, worth: Worth, k: int
) -> tuple[Ragged, Float64s, Evidence]:
    """Return the best matches of each event, where the score of some depends on the alternative that holds."""
    matches, evidence = state.segment.match(batch, left_out, judged)
    scores = worth.scores(batch, matches, state.scores[matches.values])
    event = events_of(matches.starts, 0)
    best_first = np.lexsort((matches.values, -scores, event))
    best = best_first[np.arange(event.size) - matches.starts[event[best_first]] < k]
    starts = np.searchsorted(event[best], np.arange(len(batch) + 1)).astype(np.int64)
    evidence.matches = best.size
    return Ragged(starts, matches.values[best]), scores[best], evidence


def _best_by_expression(
    state: SegmentState,
    batch: EventBatch,
    judged: Mapping[int, Probed],
    left_out: Bools,
    function: ScoreFunction,
    worth: Worth | None,
    k: int,
) -> tuple[Ragged, Float64s, Evidence]:
    """Return the best matches of each event by an expression over their own score, which does not fall as that rises.

    Matches are taken from the highest score down. Once there are k, the expression of the next score is an upper bound
    of all that are left: if it is below the k-th, none of them is computed. For an event that makes it fall, such as a
    negative factor, there is no bound, and all are computed.
    """
    if has_intervals(batch, state.segment.columns):
        raise OptionError("score_by is an expression, and an event has an interval", "Use mode='relaxed'")
    pairs, evidence = state.segment.match_subscriptions(batch, judged)
    lists, scores = [np.empty(0, np.int32)], [np.empty(0)]
    for row in range(len(batch)):
        numbers = np.unique(pairs[pairs[:, 0] == row, 1])
        numbers = numbers[~left_out[numbers]] if left_out.size else numbers
        given = state.scores[numbers]
        if worth is not None:
            of_row = batch.take(np.array([row]))
            given = worth.scores(of_row, Ragged(np.array([0, numbers.size]), numbers.astype(np.int32)), given)
        best_first = np.argsort(-given, kind="stable")
        numbers, given = numbers[best_first], given[best_first]
        distinct, first = np.unique(-given, return_index=True)
        computed = np.full(numbers.size, -np.inf)
        ends = function.scores(-distinct[[0, -1]].reshape(-1, 1), ["score"]) if distinct.size else np.zeros(2)
        for own, start, stop in zip((-distinct).tolist(), first, [*first, numbers.size][1:], strict=True):
            [score] = function.scores(np.array([[own]]), ["score"]).tolist()
            if k and start >= k and ends[0] >= ends[1] and score < np.sort(computed[:start])[-k]:
                break
            computed[start:stop] = score
        best = np.lexsort((numbers, -computed))[:k]
        lists.append(numbers[best].astype(np.int32))
        scores.append(computed[best])
    starts = np.cumsum([one.size for one in lists]).astype(np.int64)
    evidence.matches = int(starts[-1])
    return Ragged(starts, np.concatenate(lists)), np.concatenate(scores), evidence


def _merge(answers: Sequence[tuple[SegmentState, Ragged, Float64s]], events: int, k: int) -> TopK:
    """Merge the best of all segments. Only ids that some segment returned are compared."""
    ids, places, rows = [pa.array([], pa.large_string())], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for state, slices, _ in answers:
        numbers, place = np.unique(slices.values, return_inverse=True)
        places.append(place + sum(map(len, ids)))
        ids.append(state.segment.ids.arrow().take(pa.array(numbers)))
        rows.append(np.repeat(np.arange(events), np.diff(slices.starts)))
    named = pa.concat_arrays(ids)
    by_id = np.asarray(pc.sort_indices(named))
    rank = np.empty(by_id.size, np.int32)
    rank[by_id] = np.arange(by_id.size)
    ranks, row = rank[np.concatenate(places)], np.concatenate(rows)
    scores = np.concatenate([np.empty(0), *(scores for _, _, scores in answers)])
    best_first = np.lexsort((ranks, -scores, row))
    row = row[best_first]
    kept = np.arange(row.size) - np.searchsorted(row, row) < k
    best_first = best_first[kept]
    subscriptions = pa.DictionaryArray.from_arrays(pa.array(ranks[best_first]), named.take(pa.array(by_id)))
    starts = np.searchsorted(row[kept], np.arange(events + 1)).astype(np.int64)
    return TopK(starts, subscriptions, pa.array(scores[best_first]))
