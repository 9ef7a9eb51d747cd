"""The Matcher: which of the standing subscriptions each event satisfies."""

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.conjunctions.owners import events_of
from tocsin.errors import OptionError
from tocsin.index.constant_column import constant_column
from tocsin.index.explanation import Explanation, explain
from tocsin.index.history import Judged
from tocsin.index.plan import Plan, plan
from tocsin.index.segment import Segment
from tocsin.index.snapshot import Snapshot, Tags, View
from tocsin.index.subscriptions import SubscriptionSet
from tocsin.model.events import Event, EventBatch
from tocsin.model.result import Evidence, Matches
from tocsin.model.values import Kind
from tocsin.predicates.families import Slices
from tocsin.ranking.request import Best, Question, best_of
from tocsin.storage.folder import Folder
from tocsin.tuning import TUNING

BATCH = 32_768
"""Events that are matched at a time: enough that each cell of an index meets several, few enough for the caches."""


class Matcher(SubscriptionSet):
    """Standing subscriptions, and which of them each event satisfies.

    `limit` is the most conjunctions that one subscription may become; `namespaces` gives the prefixes that XPath
    expressions use; `index` and `matcher` choose the algorithms, which are chosen from statistics otherwise;
    `background_merge` lets a thread merge small segments. Published events are remembered for ever, or the newest
    `retain_events`, or those at most `retain_age` older than the newest by their `age_attribute`.

    >>> matcher = Matcher()
    >>> matcher.subscribe("smith", "author = 'Smith' AND price BETWEEN 10 AND 30", score=2.0)
    >>> matcher.subscribe("cheap", "price < 12 OR price IS NULL")
    >>> matcher.match({"author": "Smith", "price": 10}).ids
    ['cheap', 'smith']
    >>> len(matcher), "smith" in matcher, list(matcher)
    (2, True, ['cheap', 'smith'])
    """

    @classmethod
    def from_table(cls, table: pa.Table, **options: Any) -> "Matcher":
        """Make a matcher of a table with columns `id, where[, score, weights, tags]`; see `rejected` for bad rows.

        The options are those of `Matcher`.

        >>> matcher = Matcher.from_table(pa.table({"id": ["a", "b"], "where": ["x > 1", "x >"]}))
        >>> list(matcher), [error.subscription for error in matcher.rejected]
        (['a'], ['b'])
        """
        matcher = cls(**options)
        matcher.load(table)
        return matcher

    @classmethod
    def open(cls, path: str | Path, *, background_merge: bool = True, detached: bool = False) -> "Matcher":
        """Map a saved matcher: costs the directory of its files, whatever their size.

        The first change, or the first event that is published, makes its process the one writer of the folder. One
        that is `detached` leaves the folder alone: it changes and remembers for itself, and `save` gives it a folder
        of its own.

        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> writer = Matcher()
        >>> writer.subscribe("record", "price > ALL (SELECT price FROM history)")
        >>> writer.save(folder.name)
        >>> alone = Matcher.open(folder.name, detached=True)
        >>> [alone.publish({"price": price}).ids for price in (10, 9)], writer.publish({"price": 8}).ids
        ([['record'], []], ['record'])
        >>> writer.close()
        >>> folder.cleanup()
        """
        matcher = cls(background_merge=background_merge)
        matcher._attach(Folder(Path(path)))
        if detached:
            matcher._detach()
        return matcher

    def match(self, event: Event, where_tags: Mapping[str, str] | None = None) -> Matches:
        """The subscriptions that an event satisfies, sorted by id, with their scores.

        With `where_tags`, only subscriptions that have all these tags. The history stays as it is.
        """
        return self._match(event, where_tags, remember=False)

    def publish(self, event: Event, where_tags: Mapping[str, str] | None = None) -> Matches:
        """Match an event, then remember it: it is history for the events that follow.

        >>> matcher = Matcher()
        >>> matcher.subscribe("record", "price > ALL (SELECT price FROM history)")
        >>> [matcher.publish({"price": price}).ids for price in (10, 12, 11)]
        [['record'], ['record'], []]
        """
        return self._match(event, where_tags, remember=True)

    def _match(self, event: Event, where_tags: Mapping[str, str] | None, remember: bool) -> Matches:
        tags = tuple(sorted((where_tags or {}).items()))
        batch = EventBatch([event])
        evidence = Evidence(events=1)
        found: list[tuple[str, float]] = []
        with self._matching(remember) as snapshot:
            judged = self._judge(snapshot, batch, remember)
            for view, truths in zip(snapshot.views, judged, strict=True):
                slices, part_evidence = view.segment.match(batch, view.left_out(tags), truths)
                evidence.add(part_evidence)
                found += [(view.segment.ids[number], float(view.scores[number])) for number in slices.values.tolist()]
        found.sort()
        return Matches([id for id, _ in found], [score for _, score in found], evidence)

    def match_batch(
        self,
        events: pa.Table | pa.RecordBatch | Sequence[Event],
        id: str | None = None,
        where_tags: Mapping[str, str] | None = None,
        remember: bool = False,
        top_k: int | None = None,
        mode: str = "exact",
        combine: str | Mapping[str, float] = "sum",
        how: str = "overlap",
    ) -> pa.Table:
        """All matches of a batch, a row each: `event, subscription, score`.

        `event` is the value of the column `id`, or the number of the row. With `remember`, each event becomes history
        for the rows behind it. With `top_k`, only the best of each event, event by event, as `Matcher.top_k` has them
        by this `mode`, `combine` and `how`. The evidence is in the table's metadata, under `tocsin`.

        >>> matcher = Matcher.from_table(pa.table({"id": ["low"], "where": ["price < 10"]}))
        >>> matcher.match_batch(pa.table({"key": ["p", "q"], "price": [5, 50]}), id="key").to_pylist()
        [{'event': 'p', 'subscription': 'low', 'score': 1.0}]
        >>> matcher.match_batch([{"price": 5}], top_k=1, mode="relaxed", combine={"price": 3.0})["score"].to_pylist()
        [3.0]
        >>> [len(matcher.match_batch([{"price": [5, 50]}], top_k=1, how=how)) for how in ("overlap", "containment")]
        [1, 0]
        """
        tags = tuple(sorted((where_tags or {}).items()))
        batch = EventBatch(events)
        names = _event_names(batch, id)
        evidence = Evidence(events=len(batch))
        tables = []
        question = Question.of_batch(top_k, mode, combine, how)
        most = BATCH if question is None else min(BATCH, question.events_at_once)
        # Parts of about the same size: a small rest would cost more an event.
        size = max(1, math.ceil(len(batch) / max(1, math.ceil(len(batch) / most))))
        with self._matching(remember) as snapshot:
            for start in range(0, len(batch), size):
                part = batch.slice(start, size) if len(batch) > size else batch
                if question is not None:
                    best = self._best(snapshot, part, tags, question, remember)
                    evidence.add(best.evidence)
                    tables.append(best.table(names, start))
                    continue
                judged = self._judge(snapshot, part, remember)
                for view, slices, part_evidence in _matches(snapshot, part, tags, judged):
                    evidence.add(part_evidence)
                    tables.append(_as_table(slices, start, names, view.segment, view.scores))
        schema = pa.schema([("event", pa.int64() if names is None else names.type), *_SUBSCRIPTION_FIELDS])
        table = pa.concat_tables(tables) if tables else schema.empty_table()
        return table.replace_schema_metadata({"tocsin": json.dumps(vars(evidence))})

    def _judge(self, snapshot: Snapshot, batch: EventBatch, remember: bool, every_test: bool = False) -> list[Judged]:
        """The truth of tests on the history, for each view; with `remember`, each event is history for the next."""
        if remember or snapshot.looks_back:
            return self.history.judge(snapshot, batch, remember, every_test)
        return [{} for _ in snapshot.views]

    def top_k(
        self,
        event: Event,
        k: int,
        mode: str = "exact",
        combine: str | Mapping[str, float] = "sum",
        where_tags: Mapping[str, str] | None = None,
        how: str = "overlap",
    ) -> Matches:
        """The best `k` subscriptions for an event, best first, equal scores by id.

        `exact` takes those that match, by their score. `relaxed` takes those of which some predicate holds, by the
        weights of what holds: their sum, their `max`, or the sum with coefficients by attribute that `combine` gives.
        A number of the event may be an interval, as in `{"hours": [20, 30]}`: it satisfies ranges that overlap it, or
        with `how="containment"` those that contain it. The first relaxed question after a change of many
        subscriptions costs about as much as building their index did.

        >>> matcher = Matcher()
        >>> matcher.subscribe("smith", "author = 'Smith' AND price < 10", score=2.0, weights={"price": 0.5})
        >>> matcher.subscribe("cheap", "price < 20")
        >>> list(matcher.top_k({"author": "Smith", "price": 5}, k=1))
        [('smith', 2.0)]
        >>> list(matcher.top_k({"author": "Jones", "price": 5}, k=2, mode="relaxed"))
        [('cheap', 1.0), ('smith', 0.5)]
        >>> list(matcher.top_k({"author": "Jones", "price": [8, 15]}, k=2)), len(matcher.top_k({"price": [8, 25]}, 2))
        ([('cheap', 1.0)], 1)
        """
        question = Question(k, mode, combine, how)
        tags = tuple(sorted((where_tags or {}).items()))
        with self._matching() as snapshot:
            best = self._best(snapshot, EventBatch([event]), tags, question, remember=False)
        return Matches(best.subscriptions.to_pylist(), best.scores.tolist(), best.evidence)

    def _best(self, snapshot: Snapshot, batch: EventBatch, tags: Tags, question: Question, remember: bool) -> Best:
        judged = self._judge(snapshot, batch, remember, question.asks_every_test(snapshot, batch))
        return best_of(snapshot, batch, judged, tags, question, self._options)

    def explain(self, event: Event, id: str) -> Explanation:
        """Which predicates of a subscription held for an event and which failed, against the history of now."""
        return explain(self[id], event, self._options, self.history)

    def plan(self) -> Plan:
        """What was chosen for these subscriptions and why; `str()` of it is readable."""
        snapshot = self._current()
        return plan(snapshot, self.history.plans(snapshot) if snapshot.looks_back else [None] * len(snapshot.views))

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes that some subscription names."""
        return frozenset().union(*(view.segment.attributes for view in self._current().views))

    @property
    def kinds(self) -> dict[str, set[Kind]]:
        """The kinds of values that each attribute is compared with; words, patterns and XPath want strings."""
        kinds: dict[str, set[Kind]] = {}
        for view in self._current().views:
            for column in view.segment.columns:
                if column.kind is not Kind.ANY:
                    kinds.setdefault(column.attribute, set()).add(column.kind)
            for name, attribute, _ in view.segment.families:
                if name in ("words", "patterns", "xpath"):
                    kinds.setdefault(attribute, set()).add(Kind.STRING)
        return kinds

    @property
    def nbytes(self) -> int:
        """Bytes of the index, without the texts and ids of subscriptions."""
        return sum(view.segment.index_bytes for view in self._current().views)


_SUBSCRIPTION_FIELDS = [("subscription", pa.dictionary(pa.int32(), pa.large_string())), ("score", pa.float64())]


def _event_names(batch: EventBatch, id: str | None) -> pa.Array | None:
    """The values that name the events; None if row numbers do."""
    if id is None:
        return None
    column = batch.column(id)
    if column is None:
        names = batch.table.column_names if batch.table is not None else []
        raise OptionError(f"the events have no column {id!r}", f"They have {', '.join(names)}")
    return pa.array(column) if isinstance(column, list) else column


def _matches(
    snapshot: Snapshot, batch: EventBatch, tags: Tags, judged: Sequence[Judged]
) -> Iterator[tuple[View, Slices, Evidence]]:
    """The subscriptions of each event, view by view."""
    views = snapshot.views
    if len(views) < 2 or len(batch) < TUNING.shared_layout_min_events or not snapshot.is_by_pairs:
        for view, truths in zip(views, judged, strict=True):
            yield view, *view.segment.match(batch, view.left_out(tags), truths)
        return
    encoded = [view.segment.encode(batch, truths) for view, truths in zip(views, judged, strict=True)]
    codes_of = [view.segment.codes_of(batch) for view in views]
    start = time.perf_counter()
    by_pairs = snapshot.shared_layout.match([events for events, _ in encoded], codes_of)
    encoded[0][1].match_s += time.perf_counter() - start
    for view, (events, evidence), pairs in zip(views, encoded, by_pairs, strict=True):
        yield view, view.segment.match_encoded(batch, events, evidence, view.left_out(tags), pairs), evidence


def _as_table(
    slices: Slices, first: int, names: pa.Array | None, segment: Segment, scores: npt.NDArray[np.float64]
) -> pa.Table:
    rows = pa.array(events_of(slices.starts, first))
    subscriptions = pa.DictionaryArray.from_arrays(pa.array(slices.values), segment.ids.arrow(), safe=False)
    events = rows if names is None else names.take(rows)
    if scores is segment.scores and segment.same_score is not None:
        score = constant_column(segment.same_score).of_length(slices.values.size)
    else:
        score = pa.array(scores[slices.values])
    return pa.table({"event": events, "subscription": subscriptions, "score": score})
