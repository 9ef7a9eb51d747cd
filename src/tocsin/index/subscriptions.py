"""The set of standing subscriptions: it changes while it is used, survives crashes, and is shared by processes."""

import math
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.errors import (
    OptionError,
    StorageError,
    SubscriptionError,
    TenantLimitError,
    UnknownSubscriptionError,
)
from tocsin.forks import Guard, Level, tell_children
from tocsin.index import commit as store
from tocsin.index import intake
from tocsin.index.buffer import Buffer, Fresh, columns
from tocsin.index.fresh_rows import FreshView
from tocsin.index.history import History
from tocsin.index.id_order import IdOrders
from tocsin.index.merge import Merger, due
from tocsin.index.options import Options
from tocsin.index.reshard import cut, pieces_of
from tocsin.index.segment import Segment
from tocsin.index.snapshot import LiveSegment, Snapshot
from tocsin.index.stats import Statistics, statistics
from tocsin.index.tenant_usage import TenantUsage, joined, usage_by_tenant, usage_of_one
from tocsin.index.thread_switching import QUICK_SWITCHING
from tocsin.index.write_throttle import WriteThrottle
from tocsin.language.lint import lint_all
from tocsin.language.normal_form import ColumnKey, NormalForm, form_of
from tocsin.language.normalise import Expression
from tocsin.model.condition import HistoryTest
from tocsin.model.limits import TENANT_TAG, Limits
from tocsin.model.predicate import Tested
from tocsin.model.schema import EventSchema
from tocsin.model.subscription import Subscription, SubscriptionWarning
from tocsin.storage.container import reading
from tocsin.storage.folder import Folder

MOST_BUFFERED = 8192
"""A full buffer becomes a segment beside changes: that takes 30 to 150 ms. Beyond so many subscriptions, `subscribe`
does it and waits."""
FEW = 256
"""New subscriptions that a commit writes into the snapshot itself: one takes 1.5 ms of processor time and two syncs,
where a segment of its own takes 7 ms and four. Whoever opens the index parses 256 of them in 40 ms at most, and who
follows it parses those that are new: of 10 changes a commit, 2.3 ms; a new segment takes it 7 ms."""


class SubscriptionSet:
    """Subscriptions in segments, with a buffer of new ones; a folder on disk, if it has one.

    Changes are visible to the next match and durable after `commit`. Readers work on snapshots that never change. A
    fork waits for changes under way; the child has what stood then, and is a reader of the folder until it may write.
    """

    def __init__(self, options: Options, *, background_merge: bool = True) -> None:
        self.rejected: list[SubscriptionError] = []
        self.warnings: list[SubscriptionWarning] = []
        """The subscriptions that a bulk load left out, and why."""
        self.options = options
        self._lock = Guard(Level.SUBSCRIPTIONS)
        self._segments: tuple[LiveSegment, ...] = ()
        self._buffer = Buffer()
        self._committed_fresh: Sequence[Subscription] = []
        """The subscriptions of the buffer that the last commit has."""
        self._throttle = WriteThrottle()
        self._id_orders = IdOrders()
        self._snapshot: Snapshot | None = None
        self._of_segments: Snapshot | None = None
        """The last snapshot of the segments, while none of them has changed."""
        self._for_one: tuple[Snapshot, FreshView | None] | None = None
        self._folder: Folder | None = None
        self._source: tuple[Folder, int] | None = None
        """The folder that these subscriptions were read from or saved to, and the snapshot: its history is theirs."""
        self.read_only = False
        """Whether changes are refused."""
        self.verify: store.Verify = "open"
        """When the files of the folder are verified."""
        self._number = 0
        self._background_merge = background_merge
        self._merging: threading.Thread | None = None
        self._merges = 0
        self._history: History | None = None
        self._tenant_limits: dict[str, Limits] = {}
        """Of tenants to whom those of the options do not apply."""
        self._fewest_matches = math.inf
        """The smallest limit on matches of these tenants."""
        self._usage: dict[str, TenantUsage] | None = None
        """What each tenant has; None: it was not counted, as nobody asked."""
        self._has_old_names = False
        """Whether attributes may be counted that no subscription names any more."""
        tell_children(self)

    def become_child(self) -> None:
        """After a fork: the threads and the history of the folder are the parent's."""
        self._throttle, self._merging = WriteThrottle(), None
        self._leave_history()

    def _leave_history(self) -> None:
        """Leave the history of the folder to its writer; what is committed of it can be read."""
        if self._history is not None and self._history.store.is_stored:
            self._history = None

    def subscribe(
        self,
        id: str,
        where: str,
        score: float,
        weights: Mapping[str, float] | None,
        tags: Mapping[str, str] | None,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a subscription, or replace the one with this id."""
        limits = self.options.limits
        limits.check_tags(id, weights, tags)
        subscription = intake.checked(id, where, score, weights, tags, params)
        limits.check_text(id, subscription.where)
        with self._throttle.changing():
            expression = self.options.normalise_one(subscription.where, id)
            self._check_history(expression, subscription)
            self._throttle.between_steps()
            with self._writing():
                added = self._admitted(subscription, expression)
                self._drop(id)
                self._buffer.put(id, Fresh(subscription, expression))
                self._account(subscription.tags, added)
                if not self._buffer.may_be_viewed and self._throttle.has_matches():
                    # Otherwise the next match would build it, and wait. Until it is built, matches have what was there.
                    with QUICK_SWITCHING:
                        self._buffer.index(self._build)
                if len(self._buffer) >= MOST_BUFFERED or (self._buffer.is_full and not self._background_merge):
                    self._seal()
                if self._buffer.is_full or not self._buffer.fresh:
                    self._merge_in_background()

    def subscribe_many(self, table: pa.Table, schema: EventSchema | None = None) -> list[SubscriptionError]:
        """Add the subscriptions of a table at once; return an error for each bad row.

        With a schema of the events, what is probably not meant is added to `warnings`.
        """
        given, rejected = intake.read(table, self.options.limits)
        rows, form, errors = intake.parse_rows(given, self.options, self._kept)
        if schema is not None:
            self.warnings += lint_all(zip(rows.ids, rows.texts, strict=True), schema)
        segment = Segment.build(rows, form, self.options)
        with self._lock:
            over = self._over_limits(segment)
            if over:
                within = np.setdiff1d(np.arange(len(rows.ids)), list(over))
                segment = Segment.build(rows.take(within), form.select(within), self.options)
            rejected += errors + list(over.values())
            self.add(segment, rejected)
        return rejected

    def add(self, segment: Segment, rejected: Sequence[SubscriptionError] = ()) -> None:
        """Add the subscriptions of a segment; they replace those with the same ids."""
        with self._writing():
            self.rejected += rejected
            self._drop_all(segment)
            live = LiveSegment(segment)
            self._segments += (live,)
            if self._usage is not None:
                self._usage = joined([self._usage, usage_by_tenant(live)])

    # Tenants have limits of their own.

    def usage(self, tenant: str) -> TenantUsage:
        """What a tenant has. Costs O(all subscriptions) once, then O(1)."""
        with self._lock:
            if self._has_old_names:
                self._count()
            return self._counted.get(tenant, TenantUsage())

    @property
    def _counted(self) -> dict[str, TenantUsage]:
        return self._count() if self._usage is None else self._usage

    def _count(self) -> dict[str, TenantUsage]:
        found = joined(map(usage_by_tenant, self._all_segments))
        for one in self._buffer.fresh.values():
            tenant = one.subscription.tags.get(TENANT_TAG)
            if tenant is not None:
                found[tenant] = found.get(tenant, TenantUsage()).add(TenantUsage.of(*one))
        self._usage, self._has_old_names = found, False
        return found

    def _limits_of(self, tenant: str) -> Limits:
        return self._tenant_limits.get(tenant, self.options.limits)

    def limit_tenant(self, tenant: str, limits: Limits | None) -> None:
        """Let other limits hold for a tenant than those of the options; None: these."""
        with self._lock:
            if self._tenant_limits.get(tenant) == limits:
                return
            if limits is None:
                del self._tenant_limits[tenant]
            else:
                self._tenant_limits[tenant] = limits
            several = (limits.matches for limits in self._tenant_limits.values())
            self._fewest_matches = min((most for most in several if most is not None), default=math.inf)

    def _admitted(self, subscription: Subscription, expression: Expression) -> TenantUsage | None:
        """What a subscription adds to its tenant's, None without one. Raises TenantLimitError if it is too much."""
        tenant = subscription.tags.get(TENANT_TAG)
        if tenant is None:
            return None
        added = TenantUsage.of(subscription, expression)
        error = self._refused(subscription.id, tenant, self._counted.get(tenant, TenantUsage()), added)
        if error is not None and self._has_old_names:
            error = self._refused(subscription.id, tenant, self._count().get(tenant, TenantUsage()), added)
        if error is not None:
            raise error
        return added

    def _refused(self, id: str, tenant: str, has: TenantUsage, added: TenantUsage) -> TenantLimitError | None:
        """The error of a subscription that would be added to what its tenant has, or replace one of that."""
        error = has.add(added).error(tenant, self._limits_of(tenant), id)
        if error is not None and id in self and self[id].tags.get(TENANT_TAG) == tenant:
            error = has.add(self._usage_of(id), -1).add(added).error(tenant, self._limits_of(tenant), id)
        return error

    @property
    def fewest_matches(self) -> float:
        """So many subscriptions an event may satisfy, whoever has them."""
        most = self.options.limits.matches
        return self._fewest_matches if most is None else min(most, self._fewest_matches)

    def beyond_matches(self, ids: Sequence[str], scores: Sequence[float]) -> dict[str, list[int]]:
        """By tenant, the places among an event's matches that are more than it may have: all but the best."""
        with self._lock:
            if not any(usage.subscriptions > self._most_matches(tenant) for tenant, usage in self._counted.items()):
                return {}
            places: dict[str, list[int]] = {}
            for place, id in enumerate(ids):
                tenant = self._tenant_of(id)
                if tenant is not None:
                    places.setdefault(tenant, []).append(place)
            return {
                tenant: sorted(own, key=lambda place: (-scores[place], ids[place]))[int(most) :]
                for tenant, own in places.items()
                if len(own) > (most := self._most_matches(tenant))
            }

    def _most_matches(self, tenant: str) -> float:
        most = self._limits_of(tenant).matches
        return math.inf if most is None else most

    def _tenant_of(self, id: str) -> str | None:
        """The tenant of a subscription; None if it has none, or is gone since it was matched."""
        fresh = self._buffer.fresh.get(id)
        if fresh is not None:
            return fresh.subscription.tags.get(TENANT_TAG)
        for live in self._all_segments:
            number = live.find(id)
            if number is not None:
                tenants, place = live.segment.tenants
                return tenants[place[number]] if place[number] >= 0 else None
        return None

    def _usage_of(self, id: str) -> TenantUsage:
        if id in self._buffer.fresh:
            return TenantUsage.of(*self._buffer.fresh[id])
        live, number = self._find(id)
        return usage_of_one(live.segment, number)

    def _account(self, tags: Mapping[str, str], usage: TenantUsage | None, sign: int = 1) -> None:
        """Add to what a tenant has, or subtract."""
        if self._usage is not None and usage is not None and TENANT_TAG in tags:
            tenant = tags[TENANT_TAG]
            self._usage[tenant] = self._usage.get(tenant, TenantUsage()).add(usage, sign)
            self._has_old_names |= sign < 0

    def _over_limits(self, incoming: Segment) -> dict[int, TenantLimitError]:
        """The subscriptions of a segment that would be too much for their tenants, by number; the first are taken."""
        new = usage_by_tenant(LiveSegment(incoming))
        over: dict[int, TenantLimitError] = {}
        for tenant, added in new.items():
            limits = self._limits_of(tenant)
            has = self._counted.get(tenant, TenantUsage())
            if has.add(added).beyond(limits) is not None and self._has_old_names:
                has = self._count().get(tenant, TenantUsage())
            if has.add(added).beyond(limits) is None:
                continue
            for number in np.flatnonzero(incoming.tagged(((TENANT_TAG, tenant),))).tolist():
                id, one = incoming.ids[number], usage_of_one(incoming, number)
                error = self._refused(id, tenant, has, one)
                if error is not None:
                    over[number] = error
                    continue
                is_standing = id in self and self[id].tags.get(TENANT_TAG) == tenant
                has = (has.add(self._usage_of(id), -1) if is_standing else has).add(one)
        return over

    def _check_history(self, expression: Expression, said: Subscription) -> None:
        """Refuse a subscription that looks back at what is not remembered."""
        predicates = (predicate for conjunction in expression.leaves for predicate in conjunction)
        if any(isinstance(one, Tested) and isinstance(one.test, HistoryTest) for one in predicates):
            form = form_of([expression])
            intake.refuse_unkept(form, [said.id], [said.where], self.options, self._kept)
            if form.errors:
                raise form.errors[0]

    def _kept(self) -> frozenset[str] | None:
        """The attributes that are known of all old events; None: all."""
        is_stored = self._source is not None and self._stored_history.exists()
        return self.history.kept if is_stored or self._history is not None else self.options.kept

    def unsubscribe(self, id: str) -> None:
        """Remove a subscription; the next match does not see it. Raises UnknownSubscriptionError."""
        with self._throttle.changing(), self._writing():
            if not self._drop(id):
                raise _unknown(id)

    def rescore(self, id: str, score: float) -> None:
        """Give a subscription another score. Raises UnknownSubscriptionError."""
        score = intake.number(id, "score", score)
        with self._throttle.changing(), self._writing():
            if id in self._buffer.fresh:
                fresh = self._buffer.fresh[id]
                self._buffer.put(id, fresh._replace(subscription=replace(fresh.subscription, score=score)))
            else:
                live, number = self._find(id)
                live.rescore(number, score)

    def commit(self) -> None:
        """Make all changes durable, in the folder that the set was saved to or opened from."""
        with self._lock:
            if self._folder is None:
                raise OptionError("these subscriptions have no folder", "Call save(path) first")
            self._begin_write()
            if len(self._buffer) > FEW:
                self._seal()
            self._segments = tuple(live for live in self._segments if len(live))
            fresh = self._buffer.subscriptions()
            store.commit(self._folder, self._number + 1, self._segments, self.options, fresh)
            # The snapshot stands, whatever becomes of the history.
            self._number, self._committed_fresh = self._number + 1, fresh
            if self._history is not None:
                self._history.commit()
            self._folder.clean()
        self._merge_in_background()

    def save(self, path: str | Path) -> None:
        """Write everything to a folder, from which `open` maps it; `commit` goes there from now on.

        If that fails, both the folder and these subscriptions are as before.
        """
        with self._lock:
            self._demand_writable()
            folder = Folder(Path(path))
            if self._folder is not None and self._folder.path == folder.path:
                self.commit()
                return
            is_stored = self._source is not None and self._stored_history.exists()
            history = self.history if is_stored else self._history
            with nullcontext() if history is None else history.lock:
                self._move_to(folder, history)
        self._merge_in_background()

    def _move_to(self, folder: Folder, history: History | None) -> None:
        folder.lock()
        number = (folder.newest() or 0) + 1
        new_history = folder.new_history(number)
        self._seal()
        segments = tuple(live for live in self._segments if len(live))
        names = [(live, live.file, live.changes_file) for live in segments]
        moved = None
        try:
            if history is not None or folder.history(number).exists():
                shutil.rmtree(new_history, ignore_errors=True)
                moved = (history or History(self.options)).copy_to(new_history)
            for live in segments:
                live.file = live.changes_file = None
            store.commit(folder, number, segments, self.options)
        except BaseException:
            for live, file, changes_file in names:
                live.file, live.changes_file = file, changes_file
            shutil.rmtree(new_history, ignore_errors=True)
            folder.unlock()
            raise
        if self._folder is not None:
            self._folder.unlock()
        self._folder, self._number, self._segments, self._source = folder, number, segments, (folder, number)
        self._committed_fresh = []
        if history is not None and moved is not None:
            history.go_on_from(moved)
        place = folder.settle_history(number)
        if moved is not None:
            moved.moved_to(place)
        folder.clean()

    def refresh(self) -> bool:
        """Follow the commits of another process; return whether there were any. Uncommitted changes are refused."""
        with self._lock:
            if self._folder is None:
                raise OptionError("these subscriptions have no folder", "Open an index with open(path)")
            newest = self._folder.newest()
            if newest is None or newest == self._number:
                return False
            if not self._is_committed:
                raise StorageError(
                    f"{self._folder.path} was committed by another process, and there are changes of our own",
                    "Commit or drop them before refresh",
                )
            self.attach(self._folder)
            return True

    def close(self) -> None:
        """Wait for a merge under way and let another process write. Uncommitted changes are lost."""
        if self._merging is not None:
            self._merging.join()
        with self._lock:
            if self._folder is not None:
                self._folder.unlock()
                self._leave_history()

    def compact(self) -> None:
        """Merge all segments into one, or one for each shard; durable with the next commit."""
        with self._writing():
            self._seal()
            is_clean = not any(live.dropped for live in self._segments)
            if self.options.shards is not None:
                if len(self._segments) != self.options.shards or not is_clean:
                    self._segments = tuple(self._cut(self._segments, self.options.shards, self.options))
            elif len(self._segments) > 1 or not is_clean:
                self._merge(self._segments)

    def reshard(self, shards: int) -> None:
        """Divide the subscriptions into shards: cut segments that are larger than one; durable with the next commit."""
        with self._writing():
            options = replace(self.options, shards=shards)
            self._seal()
            pieces = pieces_of(list(map(len, self._segments)), shards)
            divided: list[LiveSegment] = []
            for live, count in zip(self._segments, pieces, strict=True):
                divided += [live] if count == 1 else self._cut([live], count, options)
            self._segments, self.options = tuple(divided), options

    def _cut(self, segments: Sequence[LiveSegment], pieces: int, options: Options) -> list[LiveSegment]:
        """Divide the subscriptions of some segments evenly; what has a folder lies there, not in memory."""
        made = cut(segments, pieces, options)
        if self._folder is None:
            return [LiveSegment(segment) for segment in made]
        return [store.write_segment(self._folder, segment) for segment in made]

    def stats(self) -> Statistics:
        """Counts, bytes by family, segments, and the subscriptions that no index helps to find."""
        with self._lock:
            buffered = len(self._buffer)
            return statistics(self.current(), self._number, buffered, self._merges)

    @property
    def history(self) -> History:
        """The events that were published: in the folder of the index for its writer, in memory for all others."""
        with self._lock:
            if self._history is None:
                if self._is_writer:
                    self._history = History(self.options, self._stored_history)
                elif self._source is not None and self._stored_history.exists():
                    self._history = History.of_reader(lambda: self._stored_history, self.options)
                else:
                    self._history = History(self.options)
            return self._history

    @property
    def _stored_history(self) -> Path:
        assert self._source is not None, "subscriptions with a folder have it as their source"
        folder, number = self._source
        return folder.history(number)

    @property
    def path(self) -> Path | None:
        """The folder, if there is one."""
        return None if self._folder is None else self._folder.path

    @property
    def _is_committed(self) -> bool:
        """Whether there is no change since the last commit."""
        if self.read_only:
            return True
        # A match that builds a segment of the buffer puts it into another order.
        now, committed = (
            {one.id: one for one in some} for some in (self._buffer.subscriptions(), self._committed_fresh)
        )
        return now == committed and all(live.is_committed for live in self._segments)

    @property
    def _is_writer(self) -> bool:
        return self._folder is not None and self._folder.is_locked

    def __getitem__(self, id: str) -> Subscription:
        with self._lock:
            if id in self._buffer.fresh:
                return self._buffer.fresh[id].subscription
            live, number = self._find(id)
            return live.subscription(number)

    def __contains__(self, id: object) -> bool:
        with self._lock:
            return id in self._buffer.fresh or any(live.find(str(id)) is not None for live in self._all_segments)

    def __len__(self) -> int:
        with self._lock:
            return len(self._buffer) + sum(len(live) for live in self._segments)

    def subscriptions(self) -> Iterator[Subscription]:
        """All subscriptions as they were given, with their scores of now."""
        with self._lock:
            segments, fresh = self._all_segments, [fresh.subscription for fresh in self._buffer.fresh.values()]
            standing = [live.live_numbers().tolist() for live in segments]
        for live, numbers in zip(segments, standing, strict=True):
            for number in numbers:
                yield live.subscription(number)
        yield from fresh

    @property
    def _all_segments(self) -> tuple[LiveSegment, ...]:
        return self._segments + self._buffer.segments

    def attach(self, folder: Folder) -> None:
        """Take the subscriptions of a folder."""
        found = store.load(folder, self._segments, self.verify)
        buffer, before = self._buffer, self._committed_fresh
        if found.options != self.options:
            # Texts that were parsed with other options may mean something else.
            buffer, before = Buffer(), ()
        with reading(folder.snapshot(found.number)):
            buffer.follow(before, found.fresh, found.options.normalise_one)
        self._number, self.options, self._segments = found.number, found.options, found.segments()
        self._buffer, self._committed_fresh, self._usage = buffer, found.fresh, None
        self._folder, self._source = folder, (folder, self._number)
        self._changed()
        if not self._is_writer:
            self._history = None

    def know(self, other: "SubscriptionSet") -> None:
        """Let `attach` take segments from another set, without its changes, where the folder has the same."""
        with other._lock:
            self._segments = tuple(live.without_changes() for live in other._segments if live.file is not None)

    def detach(self) -> None:
        """Go on without the folder, with a copy of its history."""
        self._folder = None
        self._number = 0
        self._forget_files()

    def _forget_files(self) -> None:
        for live in self._segments:
            live.file = live.changes_file = None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A change of the set: under its lock, and with the folder's lock if it has a folder."""
        with self._lock:
            self._begin_write()
            try:
                yield
            finally:
                self._changed()

    def _changed(self) -> None:
        self._snapshot = self._for_one = None
        self._let_go_of_segments()

    def _let_go_of_segments(self) -> None:
        """Let go of the last snapshot of the segments if they are others by now: it borrows what changes write to."""
        if self._of_segments is not None:
            segments, states = [live for live in self._all_segments if len(live)], self._of_segments.states
            if len(segments) != len(states) or not all(map(LiveSegment.is_at, segments, states)):
                self._of_segments = None

    def _demand_writable(self) -> None:
        if self.read_only:
            raise OptionError(
                f"{self.path} was opened for reading",
                "Open it with mode='write', or mode='copy' to change a copy of it",
            )

    def _begin_write(self) -> None:
        """Take the folder's lock, and see that nobody committed since we read."""
        self._demand_writable()
        if self._folder is None or not self._folder.lock():
            return
        # As a reader we had what was committed of the history.
        self._history = None
        try:
            newest = self._folder.newest()
            if newest is None:
                self._forget_files()
            elif newest != self._number:
                if not self._is_committed:
                    raise StorageError(f"{self._folder.path} was committed by another process", "Open the index again")
                self.attach(self._folder)
            self._folder.settle_history(self._number)
        except StorageError:
            self._folder.unlock()
            raise

    def current(self, to_remember: bool = False) -> Snapshot:
        """The snapshot that a match holds on to: later changes do not touch it. Only a writer may remember events."""
        snapshot = self._snapshot
        if snapshot is not None and not to_remember:
            return snapshot
        with self._lock:
            if to_remember:
                self._begin_write()
            if self._snapshot is None:
                with self._throttle.building():
                    self._buffer.index(self._build)
                    self._snapshot = self._snapshot_now()
            return self._snapshot

    def _snapshot_now(self) -> Snapshot:
        """A snapshot of the segments, without what is too new to be in one."""
        self._let_go_of_segments()
        if self._of_segments is None:
            states = tuple(live.state() for live in self._all_segments if len(live))
            self._of_segments = Snapshot(states, self._id_orders)
        return self._of_segments

    def current_for_one(self) -> tuple[Snapshot, FreshView | None]:
        """The same for a single event: a snapshot of the segments, and what is too new to be in one.

        Nothing is built, unless many new subscriptions must be judged by their definition, or one cannot be, or the
        user chose an index, which shall then do the work and count it.
        """
        state = self._for_one
        if state is not None:
            return state
        with self._lock:
            if self._snapshot is not None or not (self.options.is_auto and self._buffer.may_be_viewed):
                self._for_one = self.current(), None
            else:
                self._for_one = self._snapshot_now(), self._buffer.view()
            return self._for_one

    def current_for_kinds(self) -> tuple[Snapshot, set[ColumnKey]]:
        """A snapshot of the segments, and what subscriptions compare that are too new to be in one.

        Nothing is built unless one looks back or at the elements of a list: a reader that follows every commit pays
        little.
        """
        with self._lock:
            kinds = self._buffer.kinds() if self._snapshot is None else None
            return (self.current(), set()) if kinds is None else (self._snapshot_now(), kinds)

    def matching(self) -> AbstractContextManager[None]:
        """A match under way, which changes make room for: within it, ask for the `current` snapshot."""
        return self._throttle.matching()

    def _build(self, subscriptions: Sequence[Subscription], forms: Sequence[NormalForm]) -> Segment:
        """Build a segment of subscriptions in any order, with their normal forms."""
        rows = intake.SubscriptionRows.of(subscriptions)
        by_id = np.argsort(np.array(rows.ids, object), kind="stable")
        return Segment.build(rows.take(by_id), NormalForm.joined(forms).select(by_id), self.options)

    def _seal(self) -> None:
        """Turn the buffer into a segment."""
        self._segments += self._buffer.empty(self._build)

    def _merge(self, segments: Sequence[LiveSegment]) -> None:
        merger = Merger(segments)
        self._replace(segments, merger.finish(merger.build(self.options)))

    def _replace(self, segments: Sequence[LiveSegment], merged: LiveSegment) -> None:
        self._segments = (*(live for live in self._segments if live not in segments), merged)
        self._merges += 1
        self._changed()

    def _merge_in_background(self) -> None:
        idle = self._merging is None or not self._merging.is_alive()
        if self._background_merge and idle and (self._buffer.is_full or due(self._segments, self.options.shards)):
            self._merging = threading.Thread(target=self._merge_what_is_due, name="tocsin-merge", daemon=True)
            self._merging.start()

    def _merge_what_is_due(self) -> None:
        """Seal a full buffer and merge tier by tier; the lock is held only to look and to put the result in place."""
        segments = self._seal_beside()
        while True:
            with self._lock:
                segments = segments if len(segments) > 1 else due(self._segments, self.options.shards)
                merger = Merger(segments)
            if not segments:
                return
            merged = merger.build(self.options)
            with self._lock:
                if not all(live in self._segments for live in segments):
                    return
                self._replace(segments, merger.finish(merged))
            segments = self._seal_beside()

    def _seal_beside(self) -> Sequence[LiveSegment]:
        """Build a segment of a full buffer beside changes; return the segments that take its place."""
        with self._lock:
            if not self._buffer.is_full:
                return ()
        self._build_beside()
        with self._lock:
            sealed = self._buffer.hand_over()
            self._segments += sealed
            self._changed()
        return sealed

    def _build_beside(self) -> None:
        """Let the fresh subscriptions be a segment of the buffer, which is built while others come and go."""
        with self._lock:
            buffer, taken = self._buffer, dict(self._buffer.fresh)
        if taken:
            built = self._build(*columns(taken))
            with self._lock:
                buffer.settle(taken, built)
                self._changed()

    def _drop(self, id: str) -> bool:
        if id in self._buffer.fresh:
            fresh = self._buffer.fresh[id]
            self._account(fresh.subscription.tags, TenantUsage.of(*fresh) if self._usage else None, -1)
            return self._buffer.drop(id)
        for live in self._all_segments:
            number = live.find(id)
            if number is not None:
                self._leave(live, number)
                return True
        return False

    def _leave(self, live: LiveSegment, number: int) -> None:
        """Drop a subscription of a segment."""
        if self._usage:
            self._account(live.segment.subscription(number).tags, usage_of_one(live.segment, number), -1)
        live.drop(number)

    def _drop_all(self, incoming: Segment) -> None:
        """Drop the standing subscriptions whose ids come in with a segment."""
        ids = incoming.ids.arrow()
        for live in self._all_segments:
            places = np.asarray(pc.index_in(live.segment.ids.arrow(), value_set=ids).is_valid())
            for number in set(np.flatnonzero(places).tolist()) - live.dropped:
                self._leave(live, number)
        if self._buffer.fresh:
            for id in ids.to_pylist():
                if id in self._buffer.fresh:
                    self._drop(id)

    def form_of(self, id: str) -> NormalForm:
        """The normal form of a subscription."""
        with self._lock:
            if id in self._buffer.fresh:
                return form_of([self._buffer.fresh[id].expression])
            live, number = self._find(id)
            return live.segment.normal_form(np.array([number], np.int32))

    def _find(self, id: str) -> tuple[LiveSegment, int]:
        for live in self._all_segments:
            number = live.find(id)
            if number is not None:
                return live, number
        raise _unknown(id)


def _unknown(id: str) -> UnknownSubscriptionError:
    return UnknownSubscriptionError(f"there is no subscription {id!r}", "List the ids with list(matcher)")
