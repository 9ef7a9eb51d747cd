"""The Matcher: standing subscriptions, and which of them each event satisfies.

One batch of events goes one way: `model/events.py` reads it, `index/answer.py` matches it against a snapshot of the
subscriptions (history, phase 1, phase 2, ranking), and the rows come back as Arrow. A single event is a batch of one.
"""

import datetime as dt
import html
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from tocsin import registry
from tocsin.errors import EventError, OptionError, SubscriptionError, UnknownSubscriptionError
from tocsin.index.answer import Answer, Request, Rows, answer, best_of_one, fresh_of, judge_history, match_one, tags_key
from tocsin.index.commit import Verify
from tocsin.index.difference import Standing, difference
from tocsin.index.encoding import Column
from tocsin.index.explanation import Explanation, explain
from tocsin.index.form import StoredForm
from tocsin.index.history import History
from tocsin.index.intake import Subscriptions, table_of
from tocsin.index.options import HistoryKept, Options
from tocsin.index.plan import Plan, plan
from tocsin.index.snapshot import Snapshot
from tocsin.index.stats import Statistics
from tocsin.index.subscriptions import SubscriptionSet
from tocsin.index.tenant_usage import TenantUsage
from tocsin.language.lint import lint_all
from tocsin.model.analyzer import Analyzers
from tocsin.model.events import Event, EventBatch, Events, event_batches
from tocsin.model.expression_tree import expression_of, is_derived
from tocsin.model.functions import operand_kinds
from tocsin.model.limits import Limits
from tocsin.model.result import Evidence, Matches
from tocsin.model.schema import EventSchema
from tocsin.model.subscription import Subscription, SubscriptionWarning
from tocsin.model.values import Kind
from tocsin.ranking.question import Interval, Mode, Question, ScoreBy
from tocsin.registry import IndexName, MatcherName, RankingName, XPathName
from tocsin.storage.folder import Folder

if TYPE_CHECKING:
    from tocsin.index.audit import Audit, AuditReport

BATCH = 32_768
"""Events that are matched at a time: enough that each cell of an index meets several, few enough for the caches."""

OpenMode = Literal["read", "write", "copy"]
_EVERYTHING, _TO_REMEMBER = Request(), Request(remember=True)
_LIMITS = Limits()
_SUBSCRIPTION_FIELDS = [("subscription", pa.dictionary(pa.int32(), pa.large_string())), ("score", pa.float64())]


class Matcher:
    """Standing subscriptions, and which of them each event satisfies.

    `limits` are the most that one subscription, or one tenant, may have;
    `namespaces` gives the prefixes that XPath expressions use;
    `analyzers` says which words of an attribute's texts are the same;
    `index` and `matcher` choose the algorithms, which are chosen from statistics otherwise, and `xpath` that for XPath
    expressions;
    `background_merge` lets a thread merge small segments. Published events are remembered for ever, or the newest
    `retain_events`, or those at most `retain_age` older than the newest by their `age_attribute`. `history` says what
    is remembered of them: whole events (`"all"`), some attributes, or nothing (None); a subscription that looks back at
    anything else is refused. `audit` is the share of the pairs of an event and a subscription that are
    judged again in the background, a second way; disagreements are appended to `audit_log`.

    >>> matcher = Matcher()
    >>> matcher.subscribe("smith", "author = 'Smith' AND price BETWEEN 10 AND 30", score=2.0)
    >>> matcher.subscribe("cheap", "price < 12 OR price IS NULL")
    >>> matcher.match({"author": "Smith", "price": 10}).ids
    ['cheap', 'smith']
    >>> len(matcher), "smith" in matcher, list(matcher), matcher["cheap"].score
    (2, True, ['cheap', 'smith'], 1.0)
    >>> matcher
    <Matcher: 2 subscriptions on author, price>
    """

    def __init__(
        self,
        *,
        limits: Limits = _LIMITS,
        namespaces: Mapping[str, str] | None = None,
        analyzers: Analyzers | None = None,
        index: IndexName = "auto",
        matcher: MatcherName = "auto",
        xpath: XPathName = "auto",
        retain_events: int | None = None,
        retain_age: dt.timedelta | int | None = None,
        age_attribute: str | None = None,
        history: HistoryKept = "all",
        background_merge: bool = True,
        audit: float = 0.0,
        audit_log: str | Path | None = None,
    ) -> None:
        retention = retain_events, retain_age, age_attribute
        options = Options(limits, namespaces or {}, index, matcher, *retention, xpath, history, analyzers or {})
        self._subscriptions = SubscriptionSet(options, background_merge=background_merge)
        self._audit: Audit | None = None
        self._start_audit(audit, audit_log)

    @classmethod
    def from_table(
        cls,
        subscriptions: Subscriptions,
        *,
        limits: Limits = _LIMITS,
        namespaces: Mapping[str, str] | None = None,
        analyzers: Analyzers | None = None,
        index: IndexName = "auto",
        matcher: MatcherName = "auto",
        xpath: XPathName = "auto",
        retain_events: int | None = None,
        retain_age: dt.timedelta | int | None = None,
        age_attribute: str | None = None,
        history: HistoryKept = "all",
        background_merge: bool = True,
        audit: float = 0.0,
        audit_log: str | Path | None = None,
    ) -> "Matcher":
        """Make a matcher of a table of subscriptions, as `subscribe_many` takes it; see `rejected` for bad rows.

        >>> matcher = Matcher.from_table(pa.table({"id": ["a", "b"], "where": ["x > 1", "x >"]}))
        >>> list(matcher), [error.subscription for error in matcher.rejected]
        (['a'], ['b'])
        """
        made = cls(
            limits=limits,
            namespaces=namespaces,
            analyzers=analyzers,
            index=index,
            matcher=matcher,
            xpath=xpath,
            retain_events=retain_events,
            retain_age=retain_age,
            age_attribute=age_attribute,
            history=history,
            background_merge=background_merge,
            audit=audit,
            audit_log=audit_log,
        )
        made.subscribe_many(subscriptions)
        return made

    @classmethod
    def of_changes(
        cls, before: "Matcher | Subscriptions", after: "Matcher | Subscriptions", **options: Any
    ) -> "Matcher":
        """Make a matcher of what differs between two matchers or tables, by id and by meaning.

        The subscriptions of `before` have "-" in front of their ids, those of `after` have "+". Texts that a matcher
        has parsed are not parsed again, nor rows of a table that have not changed. `options` are what `Matcher(...)`
        takes, for tables; a table beside a matcher has those of the matcher if none are given.

        >>> before = [{"id": "a", "where": "x > 1"}, {"id": "b", "where": "x < 7"}, {"id": "c", "where": "y = 1"}]
        >>> after = [{"id": "a", "where": "1 < x"}, {"id": "b", "where": "x < 8"}]
        >>> list(Matcher.of_changes(before, after))
        ['+b', '-b', '-c']
        """
        made = cls(**options, background_merge=False)
        chosen = made._subscriptions.options if options else None
        standing = (
            Standing.of_set(one._subscriptions)
            if isinstance(one, Matcher)
            else Standing.of_table(table_of(one), chosen)
            for one in (before, after)
        )
        made._subscriptions = difference(*standing)
        return made

    def alike(self) -> "Matcher":
        """Make a matcher without subscriptions, in which conditions mean what they mean in this one.

        >>> matcher = Matcher(namespaces={"b": "urn:books"})
        >>> matcher.alike().options.namespaces, len(matcher.alike())
        ({'b': 'urn:books'}, 0)
        """
        options = self.options
        return Matcher(
            limits=options.limits,
            namespaces=options.namespaces,
            analyzers=options.analyzers,
            background_merge=False,
        )

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        mode: OpenMode = "write",
        verify: Verify = "open",
        background_merge: bool = True,
        audit: float = 0.0,
        audit_log: str | Path | None = None,
        known: "Matcher | None" = None,
    ) -> "Matcher":
        """Map a saved matcher.

        In mode `write`, the first change, or the first event that is published, makes its process the one writer of
        the folder. `read` refuses changes. `copy` leaves the folder alone: it changes and remembers for itself, and
        `save` gives it a folder of its own.

        No byte of a file is used before it was compared with its checksum and checked: damage raises StorageError,
        which names the file and the array. `verify` says when. `open`: what matching reads now, texts and normal forms
        when they are first asked for. `lazy`: nothing before the first use of a segment. `full`: everything now.
        docs/internals/segments.md has the cost of each. Segments that a `known` matcher has, of an earlier snapshot of
        the index, are shared with it instead of being opened and checked again.

        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> writer = Matcher()
        >>> writer.subscribe("record", "price > ALL (SELECT price FROM history)")
        >>> writer.save(folder.name)
        >>> alone = Matcher.open(folder.name, mode="copy")
        >>> [alone.publish({"price": price}).ids for price in (10, 9)], writer.publish({"price": 8}).ids
        ([['record'], []], ['record'])
        >>> writer.close()
        >>> folder.cleanup()
        """
        if mode not in ("read", "write", "copy"):
            raise OptionError(f"mode is {mode!r}", "Use 'read', 'write' or 'copy'")
        if verify not in ("open", "lazy", "full"):
            raise OptionError(f"verify is {verify!r}", "Use 'open', 'lazy' or 'full'")
        opened = cls(background_merge=background_merge)
        opened._subscriptions.verify = verify
        if known is not None:
            opened._subscriptions.know(known._subscriptions)
        opened._subscriptions.attach(Folder(Path(path)))
        opened._subscriptions.read_only = mode == "read"
        if mode == "copy":
            opened._subscriptions.detach()
        opened._start_audit(audit, audit_log)
        return opened

    def _start_audit(self, share: float, log: str | Path | None) -> None:
        if share:
            options = self._subscriptions.options
            self._audit = registry.audit().Audit(share, options, None if log is None else Path(log))

    def __enter__(self) -> "Matcher":
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # Subscriptions come and go.

    def subscribe(
        self,
        id: str,
        where: str,
        score: float = 1.0,
        *,
        weights: Mapping[str, float] | None = None,
        tags: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a subscription, or replace the one with this id; the next match sees it.

        `params` has the values of `:name` in `where`: numbers, texts, booleans, dates, and lists of these for IN.
        Raises SubscriptionError if `where` cannot be understood. Costs one normalisation, whatever stands already.
        Beside threads that match, changes wait for their turn, a quarter of a second at most.

        >>> matcher = Matcher()
        >>> matcher.subscribe("mine", "author = :name AND price < :most", params={"name": "O'Brien", "most": 10})
        >>> matcher["mine"].where
        "author = 'O''Brien' AND price < 10"
        """
        self._subscriptions.subscribe(id, where, score, weights, tags, params)
        if self._audit is not None:
            self._audit.trust(id)

    def subscribe_many(self, subscriptions: Subscriptions, *, schema: Any = None) -> list[SubscriptionError]:
        """Add the subscriptions of a table at once, much faster than one by one; return an error for each bad row.

        The columns are `id, where[, score, weights, tags, params]`; anything that Arrow reads will do (pandas, Polars,
        DuckDB), and so will dicts. A row replaces an earlier subscription with the same id. `rejected` collects errors.
        With a `schema` of the events (Arrow's, events, or names with their kinds), `warnings` collects what is probably
        not meant, at the cost of one parse each.

        >>> matcher = Matcher()
        >>> matcher.subscribe_many([{"id": "a", "where": "x > 1"}, {"id": "b", "where": "x >"}])[0].subscription
        'b'
        """
        known = None if schema is None else EventSchema.of(schema)
        return self._subscriptions.subscribe_many(table_of(subscriptions), known)

    def unsubscribe(self, id: str) -> None:
        """Remove a subscription; the next match does not see it. Raises UnknownSubscriptionError."""
        self._subscriptions.unsubscribe(id)

    def rescore(self, id: str, score: float) -> None:
        """Give a subscription another score. Raises UnknownSubscriptionError."""
        self._subscriptions.rescore(id, score)

    def limit_tenant(self, tenant: str, limits: Limits | None) -> None:
        """Let other limits hold for the subscriptions whose tag `tenant` is this; None: those of the matcher.

        What stands already stays. Limits of tenants are not stored in an index.

        >>> matcher = Matcher()
        >>> matcher.limit_tenant("acme", Limits(subscriptions=1))
        >>> matcher.subscribe("a", "price < 10", tags={"tenant": "acme"})
        >>> try:
        ...     matcher.subscribe("b", "price < 20", tags={"tenant": "acme"})
        ... except SubscriptionError as error:
        ...     print(error.message)
        tenant 'acme' would have 2 subscriptions, and at most 1 are allowed
        """
        self._subscriptions.limit_tenant(tenant, limits)

    def tenant_usage(self, tenant: str) -> TenantUsage:
        """What the subscriptions have together whose tag `tenant` is this. O(all subscriptions) once, then O(1).

        >>> matcher = Matcher()
        >>> matcher.subscribe("a", "price IN (1, 2) AND author = 'Smith'", tags={"tenant": "acme"})
        >>> usage = matcher.tenant_usage("acme")
        >>> usage.subscriptions, usage.predicates, usage.list_items, sorted(usage.attributes)
        (1, 2, 1, ['author', 'price'])
        """
        return self._subscriptions.usage(tenant)

    @property
    def rejected(self) -> list[SubscriptionError]:
        """The subscriptions that were left out of tables, and why."""
        return self._subscriptions.rejected

    @property
    def warnings(self) -> list[SubscriptionWarning]:
        """What is probably not meant in the subscriptions of tables that came with a schema."""
        return self._subscriptions.warnings

    def check(self, schema: Any = None) -> list[SubscriptionWarning]:
        """Return what is probably not meant in the subscriptions, given a schema of the events, or events.

        An attribute that no event has, or that never has a value; a comparison with a constant of another kind; a
        string in double quotes; predicates that contradict each other, which is seen without a schema too. Costs one
        parse a subscription.

        >>> matcher = Matcher()
        >>> matcher.subscribe("cheap", "prize < 10")
        >>> print(matcher.check([{"price": 12}])[0])
        subscription 'cheap', position 0: no event has 'prize'. Did you mean 'price'?

        The events that were published so far are a schema as well, here and for `subscribe_many`:

        >>> _ = matcher.publish({"price": 12})
        >>> len(matcher.check(matcher.history.events()))
        1
        """
        known = None if schema is None else EventSchema.of(schema)
        return lint_all(((one.id, one.where) for one in self.subscriptions()), known)

    def __getitem__(self, id: str) -> Subscription:
        return self._subscriptions[id]

    def __contains__(self, id: object) -> bool:
        return id in self._subscriptions

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __iter__(self) -> Iterator[str]:
        """The ids, sorted."""
        return iter(sorted(self.ids.to_pylist()))

    @property
    def ids(self) -> pa.Array:
        """All ids as Arrow has them, in any order."""
        return Standing.of_set(self._subscriptions).ids

    def subscriptions(self) -> Iterator[Subscription]:
        """All subscriptions as they were given, with their scores of now."""
        return self._subscriptions.subscriptions()

    # Events are matched.

    def match(
        self,
        event: Event,
        *,
        tags: Mapping[str, str] | None = None,
        now: dt.datetime | None = None,
        highlight: bool = False,
    ) -> Matches:
        """The subscriptions that an event satisfies, sorted by id, with their scores.

        With `tags`, only subscriptions that have all of them. `now` is the time that `now()` and CURRENT_DATE mean;
        the clock's otherwise. With `highlight`, `highlights` tells where in the texts of the event each of them found
        its words, phrases, patterns and expressions, at the cost of an explanation each. The history stays as it is.

        >>> matcher = Matcher()
        >>> matcher.subscribe("fresh", "published > now() - INTERVAL 7 DAYS")
        >>> matcher.match({"published": dt.date(2026, 1, 10)}, now=dt.datetime(2026, 1, 15)).ids
        ['fresh']
        >>> matcher.subscribe("york", "has_words(title, 'york')")
        >>> matcher.match({"title": "In New York"}, highlight=True).highlights
        {'york': {'title': [(7, 11)]}}
        """
        found = self._match_one(event, Request(tags_key(tags)) if tags else _EVERYTHING, now)
        if not highlight:
            return found
        standing = [id for id in found.ids if id in self]
        return replace(found, highlights={id: self.explain(event, id, now=now).highlights for id in standing})

    def publish(
        self, event: Event, *, tags: Mapping[str, str] | None = None, now: dt.datetime | None = None
    ) -> Matches:
        """Match an event, then remember it: it is history for the events that follow.

        >>> matcher = Matcher()
        >>> matcher.subscribe("record", "price > ALL (SELECT price FROM history)")
        >>> [matcher.publish({"price": price}).ids for price in (10, 12, 11)]
        [['record'], ['record'], []]
        """
        return self._match_one(event, Request(tags_key(tags), remember=True) if tags else _TO_REMEMBER, now)

    def match_batch(
        self,
        events: Events,
        *,
        id: str | None = None,
        tags: Mapping[str, str] | None = None,
        top_k: int | None = None,
        mode: Mode = "exact",
        score_by: ScoreBy = "sum",
        interval: Interval = "overlaps",
        index: RankingName = "auto",
        ordered: bool = True,
        now: dt.datetime | None = None,
    ) -> pa.Table:
        """All matches of a batch, a row each: `event, subscription, score`.

        `events` are anything that Arrow reads (pandas, Polars, DuckDB, readers), or dicts. `event` is the value of the
        column `id`, or the number of the row. Rows are ordered by event, then by subscription id; with `top_k`, which
        leaves the best of each event, by score, as `Matcher.top_k` has them by `mode`, `score_by`, `interval`, `index`.
        Without `ordered`, all rows of a segment come before those of the next, which costs less where there are
        several. `now` is the time that `now()` and CURRENT_DATE mean, the same for all events. The evidence is in the
        table's metadata, under `tocsin`.

        >>> matcher = Matcher.from_table(pa.table({"id": ["low"], "where": ["price < 10"]}))
        >>> matcher.match_batch(pa.table({"key": ["p", "q"], "price": [5, 50]}), id="key").to_pylist()
        [{'event': 'p', 'subscription': 'low', 'score': 1.0}]
        >>> matcher.match_batch([{"price": 5}], top_k=1, mode="relaxed", score_by={"price": 3.0})["score"].to_pylist()
        [3.0]
        >>> [len(matcher.match_batch([{"price": [5, 50]}], top_k=1, interval=how)) for how in ("overlaps", "within")]
        [1, 0]
        """
        question = Question.of_batch(top_k, mode, score_by, interval, index)
        return self._match_many(events, id, Request(tags_key(tags), question, ordered=ordered), now)

    def publish_batch(
        self,
        events: Events,
        *,
        id: str | None = None,
        tags: Mapping[str, str] | None = None,
        top_k: int | None = None,
        mode: Mode = "exact",
        score_by: ScoreBy = "sum",
        interval: Interval = "overlaps",
        index: RankingName = "auto",
        now: dt.datetime | None = None,
    ) -> pa.Table:
        """Match a batch as `match_batch` does; each event becomes history for the rows behind it.

        >>> matcher = Matcher()
        >>> matcher.subscribe("record", "price > ALL (SELECT price FROM history)")
        >>> matcher.publish_batch([{"price": price} for price in (10, 12, 11)])["event"].to_pylist()
        [0, 1]
        """
        question = Question.of_batch(top_k, mode, score_by, interval, index)
        return self._match_many(events, id, Request(tags_key(tags), question, remember=True), now)

    def top_k(
        self,
        event: Event,
        k: int,
        *,
        mode: Mode = "exact",
        score_by: ScoreBy = "sum",
        interval: Interval = "overlaps",
        index: RankingName = "auto",
        tags: Mapping[str, str] | None = None,
        now: dt.datetime | None = None,
    ) -> Matches:
        """The best `k` subscriptions for an event, best first, equal scores by id.

        `exact` takes those that match, by their score. `relaxed` takes those of which some predicate holds, by the
        weights of what holds: their sum, their `max`, the sum with coefficients by attribute that `score_by` gives, or
        any function of the weights by attribute that does not fall when one rises, as Python or as an expression.
        An expression may name the event: `score_by="score * event.ctr"` ranks matches by their score times what the
        event has, `price * event.stock` in mode `relaxed` the weights that hold; where it is NULL the score is 0.
        `index` names a ranked index of the papers, such as "ir-tree", for subscriptions to single ranges.
        A number of the event may be an interval, as in `{"hours": [20, 30]}`: it satisfies ranges that it overlaps, or
        with `interval="within"` those that it lies within.

        >>> matcher = Matcher()
        >>> matcher.subscribe("smith", "author = 'Smith' AND price < 10", score=2.0, weights={"price": 0.5})
        >>> matcher.subscribe("cheap", "price < 20")
        >>> list(matcher.top_k({"author": "Smith", "price": 5}, k=1))
        [('smith', 2.0)]
        >>> list(matcher.top_k({"author": "Jones", "price": 5}, k=2, mode="relaxed"))
        [('cheap', 1.0), ('smith', 0.5)]
        >>> list(matcher.top_k({"author": "Smith", "price": 5}, k=1, mode="relaxed", score_by="price * 10 + author"))
        [('cheap', 10.0)]
        >>> list(matcher.top_k({"author": "Smith", "price": 5, "ctr": 0.1}, k=1, score_by="score * event.ctr"))
        [('smith', 0.2)]
        >>> seven_times = lambda held: 7 * held["price"]
        >>> list(matcher.top_k({"price": 15}, k=1, mode="relaxed", score_by=seven_times, index="ir-tree"))
        [('cheap', 7.0)]
        >>> list(matcher.top_k({"author": "Jones", "price": [8, 15]}, k=2)), len(matcher.top_k({"price": [8, 25]}, 2))
        ([('cheap', 1.0)], 1)
        """
        question, chosen = Question(k, mode, score_by, interval, index), tags_key(tags)
        batch, evidence, options = EventBatch([event], now), Evidence(events=1), self._subscriptions.options
        with self._subscriptions.matching():
            begun = 0.0 if self._audit is None else time.thread_time()
            snapshot, view = self._subscriptions.current_for_one()
            fresh = fresh_of(view, event, batch, chosen, options, evidence)
            request = Request(chosen, question)
            wider = request if self._audit is None else self._audit.widened(request)
            best = best_of_one(snapshot, event, batch, chosen, wider.question or question, fresh, options, evidence)
            if best is not None:
                if self._audit is not None:
                    best = self._audit.check_one(snapshot, batch, wider, best, self._standing, evidence, begun, k)
                evidence.errors |= batch.unreadable
                return Matches(*best, evidence)
            found = self._answer(self._subscriptions.current(), batch, request)
        [rows] = found.rows
        return Matches(rows.subscriptions.to_pylist(), rows.scores.to_pylist(), found.evidence)

    def _match_one(self, event: Event, request: Request, now: dt.datetime | None) -> Matches:
        """The same steps as `index/answer.py` has for a batch, without the columns of a table."""
        batch, evidence, view = EventBatch([event], now), Evidence(events=1), None
        with self._subscriptions.matching():
            begun = 0.0 if self._audit is None else time.thread_time()
            if request.remember:
                snapshot = self._subscriptions.current(request.remember)
            else:
                snapshot, view = self._subscriptions.current_for_one()
            judged = judge_history(snapshot, batch, request, self._history_for(snapshot, request), evidence)
            fresh = fresh_of(view, event, batch, request.tags, self._subscriptions.options, evidence)
            options = self._subscriptions.options
            ids, scores = match_one(snapshot, event, batch, request.tags, judged, fresh, options, evidence)
            if self._audit is not None:
                ids, scores = self._audit.check_one(
                    snapshot, batch, request, (ids, scores), self._standing, evidence, begun
                )
        evidence.errors |= batch.unreadable
        if len(ids) > self._subscriptions.fewest_matches:
            kept = self._within_limits(ids, scores, evidence)
            ids, scores = [ids[place] for place in kept], [scores[place] for place in kept]
        return Matches(ids, scores, evidence)

    def _match_many(self, events: Events, id: str | None, request: Request, now: dt.datetime | None) -> pa.Table:
        evidence, tables, type_of_events = Evidence(), [], pa.int64()
        most = BATCH if request.question is None else min(BATCH, request.question.events_at_once)
        with self._subscriptions.matching():
            snapshot = self._subscriptions.current(request.remember)
            for batch in event_batches(events, now):
                names = _event_names(batch, id)
                of_names = Evidence(errors=dict(batch.unreadable))
                type_of_events = pa.int64() if names is None else names.type
                first = evidence.events
                of_batch = Evidence()
                for start, part in batch.parts(most):
                    found = self._answer(snapshot, part, request)
                    rows = found.rows if request.question is not None else self._all_within_limits(found)
                    of_batch.add_events(found.evidence)
                    offset = start if names is not None else first + start
                    tables += [some.table(names, offset) for some in rows]
                # The parts have counted them already if the names are an attribute as well.
                of_batch.add_segment(of_names)
                evidence.add_events(of_batch)
        schema = pa.schema([("event", type_of_events), *_SUBSCRIPTION_FIELDS])
        table = pa.concat_tables(tables) if tables else schema.empty_table()
        return table.replace_schema_metadata({"tocsin": json.dumps(vars(evidence))})

    def _within_limits(self, ids: Sequence[str], scores: Sequence[float], evidence: Evidence) -> list[int]:
        """The places of an event's matches without what tenants have beyond their limits, which is counted."""
        beyond = self._subscriptions.beyond_matches(ids, scores)
        for tenant, places in beyond.items():
            evidence.left_out[tenant] = evidence.left_out.get(tenant, 0) + len(places)
        gone = set().union(*beyond.values())
        evidence.matches -= len(gone)
        return [place for place in range(len(ids)) if place not in gone]

    def _all_within_limits(self, found: Answer) -> list[Rows]:
        """The rows of a batch without what tenants have beyond their limits."""
        rows, fewest = found.rows, self._subscriptions.fewest_matches
        if len(self) <= fewest or not rows:
            return rows
        counts = np.sum([np.diff(some.starts) for some in rows], axis=0)
        kept = [np.ones(int(some.starts[-1]), bool) for some in rows]
        for event in np.flatnonzero(counts > fewest).tolist():
            # Of one event, the rows of each segment.
            slices = [slice(int(some.starts[event]), int(some.starts[event + 1])) for some in rows]
            ids = [id for some, own in zip(rows, slices, strict=True) for id in some.subscriptions[own].to_pylist()]
            scores = [score for some, own in zip(rows, slices, strict=True) for score in some.scores[own].to_pylist()]
            stays = np.zeros(len(ids), bool)
            stays[self._within_limits(ids, scores, found.evidence)] = True
            ends = np.cumsum([own.stop - own.start for own in slices])
            for mask, own, part in zip(kept, slices, np.split(stays, ends[:-1]), strict=True):
                mask[own] = part
        return [some if mask.all() else some.only(mask) for some, mask in zip(rows, kept, strict=True)]

    def _answer(self, snapshot: Snapshot, batch: EventBatch, request: Request) -> Answer:
        history = self._history_for(snapshot, request)
        if self._audit is None:
            return answer(snapshot, batch, request, history, self._subscriptions.options)
        begun = time.thread_time()
        wider = self._audit.widened(request)
        found = answer(snapshot, batch, wider, history, self._subscriptions.options)
        rows = self._audit.check(snapshot, batch, request, wider, found.rows, self._standing, found.evidence, begun)
        return Answer(rows, found.evidence)

    def _history_for(self, snapshot: Snapshot, request: Request) -> History | None:
        """The history, if some subscription looks back or the events are to be remembered."""
        return self.history if request.remember or snapshot.looks_back else None

    def _standing(self, id: str) -> Subscription | None:
        try:
            return self[id]
        except UnknownSubscriptionError:
            return None

    @property
    def audit(self) -> "AuditReport | None":
        """What the audit has found, after it has judged what it took so far; None without one.

        Of some batches, some subscriptions are judged again on all events, from their texts and without any index. A
        subscription on which both disagree is logged, with a reproduction for `tocsin replay`, and judged by the
        reference until it is given again or `compact` is called. Not audited are `top_k` with `mode="relaxed"` or
        intervals, and subscriptions that look back.

        >>> matcher = Matcher(audit=1.0)
        >>> matcher.subscribe_many([{"id": "low", "where": "price < 10"}])
        []
        >>> len(matcher.match_batch([{"price": 5}, {"price": 15}]))
        1
        >>> matcher.audit.judged, matcher.audit.wrong
        (2, 0)
        """
        return None if self._audit is None else self._audit.finish()

    # What was found can be explained.

    def explain(
        self, event: Event, id: str, *, now: dt.datetime | None = None, given: Event | None = None
    ) -> Explanation:
        """Which predicates of a subscription held for an event and which failed, against the history of now.

        `given` is the event as it came, if texts of it were read as times and numbers: one that could not be read is
        NULL in `event`, and told from a missing one by it.
        """
        subscription, form = self[id], self._subscriptions.form_of(id)
        read, options = EventBatch([event], now).event(0), self._subscriptions.options
        return explain(subscription, form, read, options, self.history, given)

    def plan(self) -> Plan:
        """What was chosen for these subscriptions and why; `str()` of it is readable."""
        snapshot = self._subscriptions.current()
        return plan(snapshot, self.history.plans(snapshot) if snapshot.looks_back else [None] * len(snapshot.states))

    def stats(self) -> Statistics:
        """Counts, bytes by family, segments, and the subscriptions that no index helps to find."""
        return self._subscriptions.stats()

    @property
    def options(self) -> Options:
        """What holds for all subscriptions, and is stored with them."""
        return self._subscriptions.options

    @property
    def history(self) -> History:
        """The events that were published: in the folder of the index for its writer, in memory for all others."""
        return self._subscriptions.history

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes that some subscription names."""
        return frozenset().union(*(state.segment.attributes for state in self._subscriptions.current().states))

    @property
    def forms(self) -> list[tuple[StoredForm, list[Column]]]:
        """The normal form of each segment, over the codes of its columns; subscriptions that are gone are in it."""
        states = self._subscriptions.current().states
        return [(state.segment.form, state.segment.columns) for state in states]

    def looking_back(self, tags: Mapping[str, str] | None = None) -> list[str]:
        """The ids of the subscriptions that compare events with the history, sorted; of those with all these tags.

        >>> matcher = Matcher()
        >>> matcher.subscribe("record", "price > ALL (SELECT price FROM history)", tags={"of": "ada"})
        >>> matcher.subscribe("cheap", "price < 10")
        >>> matcher.looking_back(), matcher.looking_back({"of": "bob"})
        (['record'], [])
        """
        found = []
        for state in self._subscriptions.current().states:
            numbers, left_out = np.unique(state.segment.history_demands[:, 1]), state.left_out(tags_key(tags))
            asked = numbers[~left_out[numbers]] if left_out.size else numbers
            found += [state.segment.ids[number] for number in asked.tolist()]
        return sorted(found)

    def has_tag(self, name: str) -> bool:
        """Whether some subscription has a tag of this name; one that is gone counts until the next merge."""
        return any(state.segment.tags.has(name) for state in self._subscriptions.current().states)

    @property
    def kinds(self) -> dict[str, set[Kind]]:
        """The kinds of values that each attribute is compared with; words, patterns and XPath want strings.

        For an attribute inside an expression they are those that its functions take.
        """
        kinds: dict[str, set[Kind]] = {}
        derived: set[str] = set()
        snapshot, compared = self._subscriptions.current_for_kinds()
        for state in snapshot.states:
            compared |= {(column.attribute, column.kind) for column in state.segment.columns}
            for _, _, family in state.segment.families:
                compared |= set(family.kinds)
                derived |= set(filter(is_derived, family.attributes))
        for attribute, kind in compared:
            if is_derived(attribute):
                derived.add(attribute)
            elif kind is not Kind.ANY:
                kinds.setdefault(attribute, set()).add(kind)
        for attribute in derived:
            for name, wanted in operand_kinds(expression_of(attribute)).items():
                kinds.setdefault(name, set()).update(wanted)
        return kinds

    @property
    def nbytes(self) -> int:
        """Bytes of the index, without the subscriptions themselves."""
        return sum(state.segment.index_bytes for state in self._subscriptions.current().states)

    def __repr__(self) -> str:
        path = self._subscriptions.path
        names = sorted(self.attributes)
        on = f" on {', '.join(names[:5])}{', …' if len(names) > 5 else ''}" if names else ""
        return f"<Matcher: {len(self):,} subscriptions{on}{f', in {path}' if path else ''}>"

    def _repr_html_(self) -> str:
        stats = self.stats()
        rows = {
            "subscriptions": f"{stats.subscriptions:,}",
            "attributes": ", ".join(sorted(self.attributes)[:20]),
            "segments": ", ".join(f"{size:,}" for size in stats.segments),
            "bytes of the index": f"{self.nbytes:,}",
            "folder": str(self._subscriptions.path or "in memory"),
        }
        cells = "".join(f"<tr><th>{name}</th><td>{html.escape(value)}</td></tr>" for name, value in rows.items())
        return f"<table><caption>Matcher</caption>{cells}</table>"

    # The subscriptions are kept in a folder.

    def save(self, path: str | Path) -> None:
        """Write everything to a folder, from which `open` maps it; `commit` goes there from now on."""
        self._subscriptions.save(path)

    def commit(self) -> None:
        """Make all changes durable, in the folder that the matcher was saved to or opened from."""
        self._subscriptions.commit()

    def refresh(self) -> bool:
        """Follow the commits of another process; return whether there were any. Uncommitted changes are refused."""
        return self._subscriptions.refresh()

    def compact(self) -> None:
        """Merge all segments into one, or into one for each shard; durable with the next commit."""
        self._subscriptions.compact()
        if self._audit is not None:
            # What was matched before must not be distrusted after it.
            self._audit.finish()
            self._audit.trust()

    def reshard(self, shards: int) -> None:
        """Divide the index into shards of about as many subscriptions each; durable with the next commit.

        Spark then matches it in so many shards, and merges keep them. Segments that fit a shard stay as they are; a
        larger one is cut through its stored normal form, which is written at once if there is a folder. Nothing is
        parsed. Raises OptionError if `shards` is less than 1.

        >>> matcher = Matcher.from_table([{"id": f"s{n}", "where": f"a > {n}"} for n in range(12)])
        >>> matcher.reshard(3)
        >>> matcher.stats().segments, matcher.match({"a": 2}).ids
        ((4, 4, 4), ['s0', 's1'])
        """
        self._subscriptions.reshard(shards)

    def close(self) -> None:
        """Wait for a merge under way and let another process write. Uncommitted changes are lost."""
        if self._audit is not None:
            self._audit.finish()
        self._subscriptions.close()


def _event_names(batch: EventBatch, id: str | None) -> pa.Array | None:
    """The values that name the events; None if row numbers do."""
    if id is None:
        return None
    column = batch.column(id)
    if column is None or (len(batch) and not batch.has(id)):
        raise OptionError(f"the events have no column {id!r}", f"They have {', '.join(batch.names())}")
    if not isinstance(column, list):
        return column
    try:
        return pa.array(column)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise EventError(f"the values of {id!r} cannot name events: {error}", "Let all be of one type") from error
