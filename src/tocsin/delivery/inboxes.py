"""Inboxes: what was told to each subscriber, in order, in one SQLite file.

One process writes, inside transactions that it groups; any number read. An entry gets the next number of the file, so
that numbers grow within each inbox, and an entry that was committed is there once. The same transaction has the
published event, its matches in inboxes, and the key of the request, so that a request that is repeated after a crash
is known. Everything is bounded: events, entries of an inbox, keys.

    event       what was published, the newest of them
    answer      the answer to each request with a key
    entry       what was told: a match, or a digest of several
    removed     the newest entry of an inbox that had to make room
    held        matches that wait for their digest, their rate or the end of quiet hours
    told        keys of matches by which repetitions are found
    outbox      entries on their way to a webhook; `dead` once there were too many tries
    setting     how a subscriber wants to be told
    hit         how often each subscription matched, and when last
"""

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tocsin.delivery.policy import Settings

_SCHEMA = """
CREATE TABLE IF NOT EXISTS event (number INTEGER PRIMARY KEY AUTOINCREMENT, time REAL, tenant TEXT, body TEXT);
CREATE TABLE IF NOT EXISTS answer (key TEXT PRIMARY KEY, time REAL, body TEXT) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS answer_time ON answer (time);
CREATE TABLE IF NOT EXISTS entry (number INTEGER PRIMARY KEY AUTOINCREMENT, inbox TEXT, time REAL, body TEXT);
CREATE INDEX IF NOT EXISTS entry_inbox ON entry (inbox, number);
CREATE TABLE IF NOT EXISTS removed (inbox TEXT PRIMARY KEY, number INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS held (number INTEGER PRIMARY KEY AUTOINCREMENT, inbox TEXT, time REAL, body TEXT);
CREATE INDEX IF NOT EXISTS held_inbox ON held (inbox);
CREATE TABLE IF NOT EXISTS told (inbox TEXT, key TEXT, time REAL, PRIMARY KEY (inbox, key)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS told_time ON told (time);
CREATE TABLE IF NOT EXISTS outbox (
    entry INTEGER PRIMARY KEY, inbox TEXT, attempts INTEGER, due REAL, dead INTEGER, reason TEXT, body TEXT);
CREATE INDEX IF NOT EXISTS outbox_due ON outbox (dead, due);
CREATE TABLE IF NOT EXISTS setting (inbox TEXT PRIMARY KEY, body TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS hit (subscription TEXT PRIMARY KEY, count INTEGER, last REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class InboxBounds:
    """How much is kept."""

    events: int = 100_000
    entries: int = 10_000
    """Of one inbox."""
    key_seconds: float = 7 * 86_400.0
    """How long the key of a request, and what makes a repetition, is known."""


class Entry(NamedTuple):
    """What was told to a subscriber."""

    number: int
    time: float
    body: Any


class Parcel(NamedTuple):
    """An entry on its way to a webhook."""

    number: int
    inbox: str
    attempts: int
    body: str


class InboxStore:
    """The file of inboxes, for its one writer or for a reader."""

    def __init__(self, path: Path, *, read_only: bool = False, bounds: InboxBounds | None = None) -> None:
        self._bounds = bounds or InboxBounds()
        self._settings: dict[str, Settings] = {}
        self._sizes: dict[str, int] = {}
        """Entries of each inbox, or more if a change was undone."""
        self.next_release: float | None = None
        """When held matches of some inbox are due, as far as is known."""
        if read_only:
            self._file = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._file.execute("PRAGMA journal_mode=WAL")
        # An acknowledged entry survives a loss of power.
        self._file.execute("PRAGMA synchronous=FULL")
        self._file.executescript(_SCHEMA)
        for inbox, body in self._file.execute("SELECT inbox, body FROM setting"):
            self._settings[inbox] = Settings.of(json.loads(body))
        if self._file.execute("SELECT 1 FROM held LIMIT 1").fetchone():
            self.next_release = 0.0

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all changes within durable at its end, or none of them."""
        self._file.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._file.execute("ROLLBACK")
            raise
        self._file.execute("COMMIT")

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what is done within, and only that, if it raises; within a transaction."""
        self._file.execute("SAVEPOINT request")
        try:
            yield
        except BaseException:
            self._file.execute("ROLLBACK TO request")
            raise
        finally:
            self._file.execute("RELEASE request")

    # What the writer does, within a transaction.

    def answer_of(self, key: str) -> Any:
        """Return the answer to an earlier request with this key; None if there was none."""
        found = self._file.execute("SELECT body FROM answer WHERE key = ?", [key]).fetchone()
        return None if found is None else json.loads(found[0])

    def remember_answer(self, key: str, body: Any, now: float) -> None:
        """Keep the answer to a request with a key."""
        self._file.execute("DELETE FROM answer WHERE time < ?", [now - self._bounds.key_seconds])
        self._file.execute("INSERT OR REPLACE INTO answer VALUES (?, ?, ?)", [key, now, json.dumps(body)])

    def add_events(self, bodies: Sequence[str], tenant: str, now: float) -> list[int]:
        """Keep published events; return their numbers."""
        numbers = []
        for body in bodies:
            added = self._file.execute("INSERT INTO event (time, tenant, body) VALUES (?, ?, ?)", [now, tenant, body])
            numbers.append(int(added.lastrowid or 0))
        if numbers and numbers[-1] % 1000 < len(numbers):
            self._file.execute("DELETE FROM event WHERE number <= ?", [numbers[-1] - self._bounds.events])
        return numbers

    def count_hits(self, subscriptions: Mapping[str, int], now: float) -> None:
        """Count the matches of subscriptions."""
        self._file.executemany(
            "INSERT INTO hit VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count, last = ?3",
            [(subscription, count, now) for subscription, count in subscriptions.items()],
        )

    def tell(self, inbox: str, matches: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], now: float) -> int:
        """Put matches, each with its event, into an inbox, or hold them until they are due; return the repetitions."""
        settings = self._settings.get(inbox)
        if settings is None:
            for match, event in matches:
                self._enter(inbox, {**match, "event": event}, now, None)
            self._bound(inbox)
            return 0
        repeated = 0
        if settings.dedupe:
            self._file.execute("DELETE FROM told WHERE time < ?", [now - self._bounds.key_seconds])
        for match, event in matches:
            key = settings.key(match, event)
            if key is not None:
                added = self._file.execute("INSERT OR IGNORE INTO told VALUES (?, ?, ?)", [inbox, key, now])
                if not added.rowcount:
                    repeated += 1
                    continue
            body = json.dumps({**match, "event": event})
            self._file.execute("INSERT INTO held (inbox, time, body) VALUES (?, ?, ?)", [inbox, now, body])
        self._release(inbox, settings, now)
        return repeated

    def release(self, now: float) -> None:
        """Tell what was held and is due now, in all inboxes."""
        self.next_release = None
        for (inbox,) in self._file.execute("SELECT DISTINCT inbox FROM held").fetchall():
            self._release(inbox, self._settings.get(inbox) or Settings(), now)

    def _release(self, inbox: str, settings: Settings, now: float) -> None:
        held, first = self._file.execute("SELECT count(*), min(time) FROM held WHERE inbox = ?", [inbox]).fetchone()
        if not held:
            return
        told: list[float] = []
        if settings.rate is not None:
            query = "SELECT time FROM entry WHERE inbox = ? ORDER BY number DESC LIMIT ?"
            told = [time for (time,) in self._file.execute(query, [inbox, settings.rate.entries])][::-1]
        due = settings.due(now, first, held, told)
        if due > now:
            self.next_release = due if self.next_release is None else min(due, self.next_release)
            return
        rows = self._file.execute("SELECT body FROM held WHERE inbox = ? ORDER BY number", [inbox]).fetchall()
        matches = [json.loads(body) for (body,) in rows]
        self._file.execute("DELETE FROM held WHERE inbox = ?", [inbox])
        if len(matches) == 1 and settings.digest is None:
            self._enter(inbox, matches[0], now, settings)
        else:
            self._enter(inbox, {"digest": matches}, now, settings)
        self._bound(inbox)

    def _enter(self, inbox: str, body: Any, now: float, settings: Settings | None) -> None:
        text = json.dumps(body)
        if inbox in self._sizes:
            self._sizes[inbox] += 1
        added = self._file.execute("INSERT INTO entry (inbox, time, body) VALUES (?, ?, ?)", [inbox, now, text])
        if settings is not None and settings.webhook is not None:
            row = [added.lastrowid, inbox, now, text]
            self._file.execute("INSERT INTO outbox VALUES (?, ?, 0, ?, 0, '', ?)", row)

    def _bound(self, inbox: str) -> None:
        """Remove the oldest entries of an inbox that has a tenth too many."""
        if inbox not in self._sizes:
            self._sizes[inbox] = self._file.execute("SELECT count(*) FROM entry WHERE inbox = ?", [inbox]).fetchone()[0]
        most = self._bounds.entries
        if self._sizes[inbox] <= most + most // 10:
            return
        query = "SELECT number FROM entry WHERE inbox = ? ORDER BY number DESC LIMIT 1 OFFSET ?"
        last = self._file.execute(query, [inbox, most]).fetchone()
        if last is not None:
            self._file.execute("DELETE FROM entry WHERE inbox = ? AND number <= ?", [inbox, *last])
            self._file.execute("INSERT OR REPLACE INTO removed VALUES (?, ?)", [inbox, *last])
        self._sizes[inbox] = most

    def set(self, inbox: str, settings: Settings) -> None:
        """Set how a subscriber wants to be told."""
        row = [inbox, json.dumps(settings.document)]
        self._file.execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", row)
        self._settings[inbox] = settings
        self.next_release = 0.0

    def webhook(self, inbox: str) -> Settings | None:
        """Return the settings of an inbox, for the writer."""
        return self._settings.get(inbox)

    def parcels(self, now: float, most: int, busy: Collection[str] = ()) -> list[Parcel]:
        """Return the first entry that is due of each inbox, but for those that are `busy` with another."""
        query = (
            "SELECT min(entry), inbox, attempts, body FROM outbox "
            f"WHERE dead = 0 AND due <= ? AND inbox NOT IN ({_marks(busy)}) GROUP BY inbox ORDER BY due LIMIT ?"
        )
        return [Parcel(*row) for row in self._file.execute(query, [now, *busy, most])]

    def next_parcel(self, busy: Collection[str] = ()) -> float | None:
        """Return when the next try of some entry is due, of inboxes that are not `busy`."""
        query = f"SELECT min(due) FROM outbox WHERE dead = 0 AND inbox NOT IN ({_marks(busy)})"
        due: float | None = self._file.execute(query, [*busy]).fetchone()[0]
        return due

    def sent(self, number: int) -> None:
        """Forget an entry that the webhook took."""
        self._file.execute("DELETE FROM outbox WHERE entry = ?", [number])

    def failed(self, number: int, reason: str, again: float | None) -> None:
        """Try an entry again at a time, or let it be a dead letter if `again` is None."""
        self._file.execute(
            "UPDATE outbox SET attempts = attempts + 1, due = ?, dead = ?, reason = ? WHERE entry = ?",
            [again or 0.0, int(again is None), reason[:500], number],
        )

    def retry(self, inbox: str, now: float) -> int:
        """Try the dead letters of an inbox again; return how many there are."""
        query = "UPDATE outbox SET dead = 0, attempts = 0, due = ? WHERE inbox = ? AND dead = 1"
        return self._file.execute(query, [now, inbox]).rowcount

    def fact(self, name: str) -> int | None:
        """Return a number that the writer noted, None if it never did."""
        found = self._file.execute("SELECT value FROM fact WHERE name = ?", [name]).fetchone()
        return None if found is None else int(found[0])

    def note(self, name: str, value: int) -> None:
        """Note a number."""
        self._file.execute("INSERT OR REPLACE INTO fact VALUES (?, ?)", [name, value])

    # What everybody reads.

    def newest(self) -> int:
        """Return the number of the newest entry."""
        return int(self._file.execute("SELECT coalesce(max(number), 0) FROM entry").fetchone()[0])

    def read(self, inbox: str, after: int, most: int) -> list[Entry]:
        """Return the entries of an inbox behind a number, oldest first."""
        query = "SELECT number, time, body FROM entry WHERE inbox = ? AND number > ? ORDER BY number LIMIT ?"
        return [
            Entry(number, time, json.loads(body))
            for number, time, body in self._file.execute(query, [inbox, after, most])
        ]

    def removed(self, inbox: str) -> int:
        """Return the number of the newest entry that had to make room for others; 0 if none had to."""
        found = self._file.execute("SELECT number FROM removed WHERE inbox = ?", [inbox]).fetchone()
        return 0 if found is None else int(found[0])

    def settings(self, inbox: str) -> dict[str, Any]:
        """Return the settings of an inbox as they were given."""
        found = self._file.execute("SELECT body FROM setting WHERE inbox = ?", [inbox]).fetchone()
        return {} if found is None else dict(json.loads(found[0]))

    def dead_letters(self, inbox: str, most: int) -> list[dict[str, Any]]:
        """Return the entries that the webhook of an inbox never took."""
        query = "SELECT entry, attempts, reason, body FROM outbox WHERE inbox = ? AND dead = 1 ORDER BY entry LIMIT ?"
        names = ("number", "attempts", "reason")
        return [
            dict(zip(names, row[:3], strict=True)) | {"body": json.loads(row[3])}
            for row in self._file.execute(query, [inbox, most])
        ]

    def events(self, tenant: str | None, most: int, after: int = 0) -> list[Entry]:
        """Return the newest published events behind a number, oldest first; of one tenant, or of all if None."""
        query = "SELECT number, time, body FROM event WHERE number > ? AND (? IS NULL OR tenant = ?) "
        rows = self._file.execute(query + "ORDER BY number DESC LIMIT ?", [after, tenant, tenant, most]).fetchall()
        return [Entry(number, time, json.loads(body)) for number, time, body in reversed(rows)]

    def hits(self, subscriptions: Iterable[str]) -> dict[str, tuple[int, float]]:
        """Return how often subscriptions matched, and when last; those that never did are left out."""
        query = "SELECT count, last FROM hit WHERE subscription = ?"
        found = {name: self._file.execute(query, [name]).fetchone() for name in subscriptions}
        return {name: tuple(row) for name, row in found.items() if row is not None}

    def busiest(self, most: int, prefix: str = "") -> list[dict[str, Any]]:
        """Return the subscriptions that matched most often; of those whose id starts with a prefix."""
        query = (
            "SELECT subscription, count, last FROM hit WHERE substr(subscription, 1, ?) = ? ORDER BY count DESC LIMIT ?"
        )
        rows = self._file.execute(query, [len(prefix), prefix, most])
        return [{"id": subscription, "hits": count, "last": last} for subscription, count, last in rows]


def _marks(values: Collection[str]) -> str:
    """Return a question mark for each value of a query."""
    return ", ".join("?" * len(values))
