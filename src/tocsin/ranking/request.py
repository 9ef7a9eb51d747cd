"""The best k subscriptions of each event: in every part by its own road, then of all parts together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.errors import OptionError
from tocsin.index.history import Judged
from tocsin.index.options import Options
from tocsin.index.snapshot import Snapshot, Tags, View
from tocsin.model.events import EventBatch
from tocsin.model.result import Evidence
from tocsin.predicates.families import Probed, Slices
from tocsin.ranking.kernels import EXACT, MAX, SUM, Asked, sort_best
from tocsin.ranking.relaxed import has_intervals
from tocsin.ranking.select import nothing_yet

Int64 = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MOST_AT_ONCE = 1 << 24
"""Events are taken so many at a time that their best k have this many places together."""

Combination = str | Mapping[str, float]
"""How weights become a score: `sum`, `max`, or the coefficients of a weighted sum by attribute."""


@dataclass(frozen=True)
class Question:
    """How many of the best are wanted, of which subscriptions, and by what score.

    >>> Question(20, "relaxd")
    Traceback (most recent call last):
    tocsin.errors.OptionError: mode is 'relaxd'. Use 'exact' or 'relaxed'
    """

    k: int
    mode: str = "exact"
    combine: Combination = "sum"
    how: str = "overlap"

    def __post_init__(self) -> None:
        if self.k < 0:
            raise OptionError(f"k is {self.k}", "Ask for 0 or more")
        for name, value, known in (
            ("mode", self.mode, ("exact", "relaxed")),
            ("how", self.how, ("overlap", "containment")),
        ):
            if value not in known:
                raise OptionError(f"{name} is {value!r}", f"Use {known[0]!r} or {known[1]!r}")
        if isinstance(self.combine, str) and self.combine not in ("sum", "max"):
            raise OptionError(
                f"combine is {self.combine!r}", "Use 'sum', 'max', or a mapping from attributes to coefficients"
            )
        for attribute, coefficient in self.coefficients.items():
            if not coefficient >= 0:
                raise OptionError(f"the coefficient of {attribute!r} is {coefficient}", "Give 0 or more")
        if self.mode == "exact" and self.combine != "sum":
            raise OptionError("combine has no meaning for mode 'exact'", "Use mode='relaxed', or leave it out")

    @classmethod
    def of_batch(cls, k: int | None, mode: str, combine: Combination, how: str) -> "Question | None":
        """The question of a batch; None if all matches are wanted."""
        if k is not None:
            return cls(k, mode, combine, how)
        for name, value, usual in (("mode", mode, "exact"), ("combine", combine, "sum"), ("how", how, "overlap")):
            if value != usual:
                raise OptionError(
                    f"{name} is {value!r}, and all matches are wanted", f"Give top_k, or leave {name} out"
                )
        return None

    def asks_every_test(self, snapshot: Snapshot, batch: EventBatch) -> bool:
        """Whether the truth of every test on the history matters, not only which conjunctions hold."""
        if not snapshot.looks_back:
            return False
        return self.mode == "relaxed" or any(has_intervals(batch, view.segment.columns) for view in snapshot.views)

    @property
    def events_at_once(self) -> int:
        """How many events may be asked about together."""
        return max(MOST_AT_ONCE // max(self.k, 1), 1)

    @property
    def kind(self) -> int:
        """The kernels' number for the way weights are combined."""
        return EXACT if self.mode == "exact" else MAX if self.combine == "max" else SUM

    @property
    def coefficients(self) -> Mapping[str, float]:
        """The factors of attributes that have one."""
        return {} if isinstance(self.combine, str) else self.combine


@dataclass(frozen=True)
class Best:
    """The best subscriptions of each event, best first: those of event i are rows `starts[i]` to `starts[i + 1]`."""

    starts: Int64
    subscriptions: pa.DictionaryArray
    scores: Floats
    evidence: Evidence

    def table(self, names: pa.Array | None, first: int) -> pa.Table:
        """A row each: `event, subscription, score`. Events are numbered from `first`, or have these names."""
        rows = np.repeat(np.arange(first, first + self.starts.size - 1), np.diff(self.starts))
        events = pa.array(rows) if names is None else names.take(pa.array(rows))
        return pa.table({"event": events, "subscription": self.subscriptions, "score": pa.array(self.scores)})


def best_of(
    snapshot: Snapshot, batch: EventBatch, judged: Sequence[Judged], tags: Tags, question: Question, options: Options
) -> Best:
    """Answer a question for every event of a batch."""
    evidence = Evidence(events=len(batch))
    answers = []
    for view, truths in zip(snapshot.views, judged, strict=True):
        slices, scores, work = _best_of_view(view, batch, truths, tags, question, options)
        evidence.add(work)
        answers.append((view, slices, scores))
    if len(answers) == 1:
        [(view, slices, scores)] = answers
        subscriptions = pa.DictionaryArray.from_arrays(pa.array(slices.values), view.segment.ids.arrow())
        return Best(slices.starts, subscriptions, scores, evidence)
    best = _merge(answers, len(batch), question.k, evidence)
    evidence.matches = best.scores.size
    return best


def _best_of_view(
    view: View, batch: EventBatch, judged: Mapping[int, Probed], tags: Tags, question: Question, options: Options
) -> tuple[Slices, Floats, Evidence]:
    """The best of one part, as the numbers of subscriptions, with their scores."""
    left_out = view.left_out(tags)
    if question.mode == "exact" and not has_intervals(batch, view.segment.columns):
        return view.best.top_k(batch, left_out, judged, question.k, options)
    evidence = Evidence(events=len(batch))
    best = nothing_yet(len(batch), min(question.k, len(view.segment)))
    for weights in view.ranked.weights(options):
        asked = Asked(question.kind, weights.factors(question.coefficients), left_out, view.scores, view.ranked.rank)
        evidence.add(weights.offer(best, batch, asked, weights.translate(view.segment, judged), question.how))
    starts, ranks, scores = sort_best(best)
    evidence.matches = ranks.size
    return Slices(starts, view.segment.id_order[ranks]), scores, evidence


def _merge(answers: Sequence[tuple[View, Slices, Floats]], events: int, k: int, evidence: Evidence) -> Best:
    """The best of all parts. Only ids that some part named are compared."""
    ids, places, rows = [pa.array([], pa.large_string())], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for view, slices, _ in answers:
        numbers, place = np.unique(slices.values, return_inverse=True)
        places.append(place + sum(map(len, ids)))
        ids.append(view.segment.ids.arrow().take(pa.array(numbers)))
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
    return Best(starts, subscriptions, scores[best_first], evidence)
