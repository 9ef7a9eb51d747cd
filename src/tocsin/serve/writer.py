"""The writer: the one process that changes the index and the inboxes.

Requests of all workers wait in one queue. A thread takes all that wait, carries them out in order, commits the index
and the inboxes once for all of them, announces the commit on the board, and answers. So a change that was acknowledged
is durable, and every worker sees it before it takes up a later request. Events are matched here when they are
published, since each becomes history for the next.

If a commit fails, the process ends and is started again from the last commit: what was not acknowledged is gone.
"""

import asyncio
import contextlib
import gc
import json
import os
import queue
import sqlite3
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tocsin.delivery.inboxes import InboxBounds, InboxStore, Parcel
from tocsin.delivery.policy import Settings
from tocsin.delivery.webhook import ATTEMPTS, IDEMPOTENCY_KEY, SIGNATURE, backoff, post, sign
from tocsin.errors import StorageError, SubscriptionError, TocsinError
from tocsin.files.event_files import conversions_of_json, converted
from tocsin.matcher import Matcher
from tocsin.model.limits import Limits
from tocsin.serve import frames
from tocsin.serve.board import ENTRY, SNAPSHOT, WRITER_PID, Board
from tocsin.serve.errors_as_json import HttpError, document, status_of, unknown_subscription
from tocsin.serve.match_queue import split
from tocsin.serve.settings import ServerSettings
from tocsin.serve.tenants import Tenant, inbox_of
from tocsin.storage.atomic_files import write_file
from tocsin.tuning import TUNING

Message = dict[str, Any]
Answer = Callable[[Message], None]

CHANGES = ("put", "delete", "bulk")
MOST_AT_ONCE = 1000
"""Requests that share a commit."""
SENDERS = 8
"""Webhooks that are called at a time."""
SETTLE_S = 2.0
"""After so long without a change the merges of the background are committed, so that workers see fewer segments."""
LOOK_S = 5.0
"""How often costs and merges are counted, if there is something to do at all."""
RETAINED = InboxBounds().events
"""Published events that the history of an index keeps that the server makes."""
REMEMBERED = "remembered"
"""The number that the history gave to its next event, as of the last commit of the inboxes."""


class Writer:
    """Carries out changes and published events, a group at a time."""

    def __init__(self, settings: ServerSettings, board: Board) -> None:
        self._settings = settings
        self._board = board
        self.waiting: queue.SimpleQueue[tuple[Message, Answer]] = queue.SimpleQueue()
        path = Path(settings.index)
        if not (path.is_dir() and any(path.glob("snapshot-*.json"))):
            new = Matcher(retain_events=RETAINED)
            new.save(path)
            new.close()
        self._matcher = Matcher.open(path)
        self._remembers = self._matcher.history.is_kept
        self._inboxes = InboxStore(settings.inboxes)
        self._noted = self._inboxes.fact(REMEMBERED)
        self._changed = True
        self._settle_at: float | None = None
        self._next_commit = self._next_look = 0.0
        self._addresses: dict[str, str | None] = {}
        self._conversions = conversions_of_json(self._matcher.kinds)
        self._follow()
        self._senders = ThreadPoolExecutor(SENDERS, thread_name_prefix="webhook")
        self._sending: set[str] = set()
        """Inboxes with an entry on its way: one at a time, so that a slow webhook holds up no other inbox."""
        # Takes the lock of the index: from here on nobody else writes it.
        self._matcher.commit()
        self._replay()
        self._announce()
        board.announce(WRITER_PID, os.getpid())

    def _replay(self) -> None:
        """Remember the events that were delivered before the history was committed, if the writer died in between."""
        noted = self._inboxes.fact(REMEMBERED)
        if not self._remembers or noted is None:
            return
        missing = noted - self._matcher.history.store.next
        if missing > 0:
            events = self._inboxes.events(None, missing)
            self._matcher.publish_batch([converted(event.body, self._conversions) for event in events])
            self._matcher.commit()

    def _announce(self) -> None:
        self._board.announce(SNAPSHOT, self._board[SNAPSHOT] + 1)
        self._board.announce(ENTRY, self._inboxes.newest())

    # The thread of the writer.

    def run(self) -> None:
        """Carry out requests until the process ends."""
        while True:
            group = self._next_group()
            self._board.set("waiting", len(group))
            answers = self._carry_out(group)
            for (_, answer), result in zip(group, answers, strict=True):
                answer(result)
            arrived = [message["arrived"] for message, _ in group if "arrived" in message]
            self._board.count("answered", len(arrived))
            self._board.count("answer_seconds", len(arrived) * time.monotonic() - sum(arrived))

    def _next_group(self) -> list[tuple[Message, Answer]]:
        """Wait for requests; take all that are there."""
        group: list[tuple[Message, Answer]] = []
        with contextlib.suppress(queue.Empty):
            group.append(self.waiting.get(timeout=self._pause()))
            if group[0][0]["do"] in CHANGES:
                time.sleep(max(0.0, self._next_commit - time.monotonic()))
            while len(group) < MOST_AT_ONCE:
                group.append(self.waiting.get_nowait())
        return group

    def _pause(self) -> float:
        """Return the seconds until something is due without a request."""
        now = time.time()
        due = [self._inboxes.next_release, self._settle_at, self._next_parcel()]
        return min(max(min((at - now for at in due if at is not None), default=60.0), 0.0), 60.0)

    def _next_parcel(self) -> float | None:
        return self._inboxes.next_parcel(self._sending) if len(self._sending) < SENDERS else None

    def _carry_out(self, group: Sequence[tuple[Message, Answer]]) -> list[Message]:
        now = time.time()
        with self._inboxes.transaction():
            answers = [self._answer(message, now) for message, _ in group]
            if self._inboxes.next_release is not None and self._inboxes.next_release <= now:
                self._inboxes.release(now)
            if self._remembers:
                if not self._is_followed and len(self._matcher.history):
                    self._follow()
                following = self._matcher.history.store.next
                if following != self._noted:
                    # Only if it changed: a transaction that writes nothing costs no sync of the disk.
                    self._inboxes.note(REMEMBERED, following)
                    self._noted = following
            parcels = self._inboxes.parcels(now, SENDERS - len(self._sending), self._sending)
        newest = self._inboxes.newest()
        self._board.count("entries", newest - self._board[ENTRY])
        self._board.announce(ENTRY, newest)
        if self._settle_at is not None and now >= self._settle_at and not self._changed:
            self._changed, self._settle_at = True, None
            self._commit()
        elif self._changed:
            self._settle_at = now + SETTLE_S
            self._commit()
        if now >= self._next_look:
            self._next_look = now + LOOK_S
            self._tell_costs()
        for parcel in parcels:
            self._sending.add(parcel.inbox)
            self._senders.submit(self._send, parcel)
        return answers

    def _commit(self) -> None:
        start = time.perf_counter()
        self._matcher.commit()
        self._next_commit = time.monotonic() + TUNING.commit_interval_s
        self._board.announce(SNAPSHOT, self._board[SNAPSHOT] + 1)
        self._board.count("commits")
        self._board.count("commit_seconds", time.perf_counter() - start)
        self._changed = False

    def _tell_costs(self) -> None:
        """Let workers know what subscriptions cost when events are published, and how often segments were merged."""
        stats = self._matcher.stats()
        self._board.set("merges", stats.merges)
        content = json.dumps(stats.expensive).encode()
        write_file(self._settings.costs, lambda file: file.write(content))

    def _answer(self, message: Message, now: float) -> Message:
        handler: Callable[[Message, float], Message] = getattr(self, f"_do_{message['do']}")
        try:
            with self._inboxes.savepoint():
                return handler(message, now)
        except (StorageError, sqlite3.Error, OSError):
            raise
        except TocsinError as error:
            return {"status": status_of(error), "error": document(error)}
        except Exception as error:
            # A fault of ours in one request must not take the others of its group along.
            traceback.print_exc()
            return {"status": 500, "error": {"type": type(error).__name__, "message": "the request failed"}}

    # Subscriptions.

    def _do_put(self, message: Message, _: float) -> Message:
        tenant = _tenant(message)
        id = message["id"]
        is_new = id not in self._matcher
        if not is_new and not tenant.owns(self._matcher[id]):
            raise HttpError(409, f"the id {id!r} is taken", "Choose another id")
        self._limit(tenant)
        self._matcher.subscribe(
            id, message["where"], message["score"], weights=message["weights"], tags=message["tags"]
        )
        self._subscriptions_changed(1)
        return {"status": 201 if is_new else 200}

    def _do_delete(self, message: Message, _: float) -> Message:
        tenant, id = _tenant(message), message["id"]
        if id not in self._matcher or not tenant.owns(self._matcher[id]):
            raise unknown_subscription(id.removeprefix(tenant.prefix))
        self._matcher.unsubscribe(id)
        self._subscriptions_changed(1)
        return {"status": 200}

    def _do_bulk(self, message: Message, _: float) -> Message:
        tenant, rows = _tenant(message), message["rows"]
        self._limit(tenant)
        foreign = [
            row["id"] for row in rows if row["id"] in self._matcher and not tenant.owns(self._matcher[row["id"]])
        ]
        rejected = [SubscriptionError("its id is taken", "Choose another id", subscription=id) for id in foreign]
        if foreign:
            rows = [row for row in rows if row["id"] not in foreign]
        if rows:
            rejected += self._matcher.subscribe_many(rows)
            self._matcher.rejected.clear()
        self._subscriptions_changed(len(rows))
        return {"status": 200, "rejected": [document(error) for error in rejected]}

    def _limit(self, tenant: Tenant) -> None:
        """Let the limits of a tenant's key hold: its subscriptions have its name as their tag."""
        if not tenant.is_admin:
            self._matcher.limit_tenant(tenant.name, tenant.limits)

    def _subscriptions_changed(self, count: int) -> None:
        self._changed = True
        self._is_followed = False
        self._board.count("changes", count)

    def _follow(self) -> None:
        """Learn what the subscriptions of now ask of events and of the history, before a worker or an event asks."""
        self._looks_back = bool(self._matcher.looking_back())
        before, self._conversions = self._conversions.keys(), conversions_of_json(self._matcher.kinds)
        new = sorted(self._conversions.keys() - before)
        if new and self._matcher.history.has_texts(new):
            # Older events as well: what a subscription sees must not depend on who subscribed before.
            self._matcher.history.convert(lambda event: converted(event, self._conversions))
            self._matcher.commit()
        self._addresses.clear()
        self._is_followed = True

    # Events.

    def _do_publish(self, message: Message, now: float) -> Message:
        tenant, key = _tenant(message), message["key"]
        if key is not None:
            key = f"{tenant.name}/{key}"
            known = self._inboxes.answer_of(key)
            if known is not None:
                return dict(known) | {"repeated": True}
        if not self._is_followed:
            self._follow()
        events, tags = message["events"], message["tags"] or None
        timed = [converted(event, self._conversions) for event in events]
        self._limit(tenant)
        if self._remembers:
            table = self._matcher.publish_batch(timed, tags=tags)
            if self._looks_back:
                self._changed = True
            elif self._settle_at is None:
                # Nobody reads it yet: the commit can wait. If the writer dies, it replays the events.
                self._settle_at = now + SETTLE_S
        else:
            table = self._matcher.match_batch(timed, tags=tags)
        found = split(table, len(events))
        numbers = self._inboxes.add_events([json.dumps(event) for event in events], tenant.name, now)
        by_inbox: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
        for event, number, (ids, scores) in zip(events, numbers, found, strict=True):
            for id, score in zip(ids, scores, strict=True):
                inbox = self._address(id)
                if inbox is not None:
                    owner = inbox.partition("/")[0]
                    seen = id.removeprefix(f"{owner}/") if owner else id
                    match = {"subscription": seen, "score": score, "event_number": number}
                    by_inbox.setdefault(inbox, []).append((match, event))
        self._inboxes.count_hits(Counter(id for ids, _ in found for id in ids), now)
        for inbox, matches in by_inbox.items():
            self._board.count("suppressed", self._inboxes.tell(inbox, matches, now))
        self._board.count("published_events", len(events))
        self._board.count("published_matches", len(table))
        left_out = sum(json.loads(table.schema.metadata[b"tocsin"])["left_out"].values())
        answer = {"status": 200, "numbers": numbers, "found": found, "left_out": left_out}
        if key is not None:
            self._inboxes.remember_answer(key, answer, now)
        return answer

    def _address(self, id: str) -> str | None:
        if id not in self._addresses:
            self._addresses[id] = inbox_of(self._matcher[id])
        return self._addresses[id]

    # Inboxes.

    def _do_settings(self, message: Message, _: float) -> Message:
        settings = Settings.of(message["settings"])
        self._inboxes.set(message["inbox"], settings)
        return {"status": 200}

    def _do_retry(self, message: Message, now: float) -> Message:
        return {"status": 200, "retried": self._inboxes.retry(message["inbox"], now)}

    def _do_sent(self, message: Message, now: float) -> Message:
        number, reason = message["entry"], message["reason"]
        self._sending.discard(message["inbox"])
        if not reason:
            self._inboxes.sent(number)
            self._board.count("webhooks_sent")
            return {}
        is_last = message["attempts"] + 1 >= ATTEMPTS
        self._inboxes.failed(number, reason, None if is_last else now + backoff(message["attempts"] + 1))
        self._board.count("dead_letters" if is_last else "webhooks_failed")
        return {}

    def _send(self, parcel: Parcel) -> None:
        """Call a webhook, in a thread; its outcome is one more request to the writer."""
        reason = "the inbox has no webhook any more"
        settings = self._inboxes.webhook(parcel.inbox)
        if settings is not None and settings.webhook is not None:
            tenant, _, subscriber = parcel.inbox.partition("/")
            content = {"subscriber": subscriber, "number": parcel.number, "entry": json.loads(parcel.body)}
            body = json.dumps(content).encode()
            headers = {
                "Content-Type": "application/json",
                IDEMPOTENCY_KEY: f"{parcel.inbox}/{parcel.number}",
                SIGNATURE: sign(settings.webhook.secret, int(time.time()), body),
            }
            public_only = bool(tenant) and not self._settings.allow_private_webhooks
            reason = post(settings.webhook.url, body, headers, public_only=public_only)
        outcome = {
            "do": "sent",
            "inbox": parcel.inbox,
            "entry": parcel.number,
            "attempts": parcel.attempts,
            "reason": reason,
        }
        self.waiting.put((outcome, lambda _: None))


def _tenant(message: Message) -> Tenant:
    """Return who asks, as a worker has found out."""
    name, tags, limits = message["tenant"]
    return Tenant(name, tags, Limits(**limits))


async def _serve(writer: Writer, path: Path) -> None:
    """Take requests from the workers, and hand answers back."""
    loop = asyncio.get_running_loop()

    async def connected(reader: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        def send(message: Message) -> None:
            if not answers.is_closing():
                answers.write(frames.pack(message))

        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                message = await frames.read(reader) | {"arrived": time.monotonic()}
                number = message["number"]

                def answer(result: Message, number: int = number) -> None:
                    loop.call_soon_threadsafe(send, result | {"number": number})

                writer.waiting.put((message, answer))
        answers.close()

    path.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(connected, str(path), limit=1 << 20)
    async with server:
        await server.serve_forever()


def main(argument: str) -> None:
    """Run the writer process."""
    settings = ServerSettings.of(argument)
    writer = Writer(settings, Board(settings.board, settings.workers, row=1))
    # What was loaded stays: to look at it for cycles held up a group of changes by 100 ms.
    gc.collect()
    gc.freeze()

    def work() -> None:
        try:
            writer.run()
        except BaseException:
            traceback.print_exc()
            # Crash, and start again from the last commit: whatever was half done is in no file.
            os._exit(1)

    threading.Thread(target=work, name="writer", daemon=True).start()
    asyncio.run(_serve(writer, settings.socket))
