"""The lane of a single match: `POST /match` with one event, the request that there are most of.

It is answered without a task, a scope of Starlette or a router, since a match costs less than those. What is not plain,
or not right, goes the usual way, which has the errors.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.types import Scope

from tocsin.errors import TocsinError
from tocsin.serve import bodies
from tocsin.serve.board import Board
from tocsin.serve.gate import Caller, Gate
from tocsin.serve.match_json import listed, open_objects
from tocsin.serve.match_queue import Found, MatchQueue
from tocsin.serve.match_routes import demand_few_matches
from tocsin.serve.tenants import Tenant

Answer = Callable[[bytes], None]
"""Sends an answer, head and body."""
_FIELDS = {"event", "tags"}
MOST_HEADS = 2000
"""Heads that are known; when there would be more, all are forgotten."""
MOST_HEAD_BYTES = 2000
_decode = json.JSONDecoder().decode
"""What `json.loads` does with a text; other encodings than UTF-8 go the usual way."""
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


class KnownHeads:
    """Heads of requests that led into the lane, as they were sent, with who asks and how long the body is."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[Caller, int]] = {}

    def learn(self, head: bytes, scope: Scope, length: int) -> None:
        """Keep a head whose request had a body of `length` bytes, if the head says so."""
        said = bodies.header(scope, b"content-length")
        if len(head) > MOST_HEAD_BYTES or not said.isdigit() or int(said) != length:
            return
        if len(self._known) >= MOST_HEADS:
            self._known.clear()
        self._known[head] = Caller.of(scope), length

    def find(self, head: bytes, length: int) -> Caller | None:
        """Return who asks, if the head is known and the body whole."""
        known = self._known.get(head)
        return known[0] if known is not None and known[1] == length else None


class MatchLane:
    """Takes requests that are whole, and answers them when the queue has matched them."""

    def __init__(self, gate: Gate, queue: MatchQueue, board: Board) -> None:
        self._gate = gate
        self._queue = queue
        self._board = board
        self.flush = queue.flush
        self.heads = KnownHeads()

    @staticmethod
    def is_for(scope: Scope, url: bytes, method: bytes) -> bool:
        """Whether a request may be one for the lane, by its head."""
        return url == b"/match" and method == b"POST" and bodies.content_type(scope) == bodies.JSON

    def take(self, caller: Caller, body: bytes, answer: Answer, state: dict[str, Any]) -> bool:
        """Take a request, or return False: it goes the usual way with who asks, and what was read, in its state."""
        try:
            tenant = state["tenant"] = self._gate.tenant(caller)
            document = _decode(str(body, "utf-8"))
            if type(document) is not dict:
                return False
            if not document.keys() <= _FIELDS:
                state["document"] = document
                return False
            tags = tenant.tags if "tags" not in document else tenant.bound(bodies.texts_of(document, "tags"))
        except (ValueError, RecursionError, TocsinError):
            return False
        event = document.get("event")
        if type(event) is not dict:
            return False
        self._board.count("requests")
        self._queue.submit(event, tags, partial(self._answer, tenant, answer))
        return True

    def _answer(self, tenant: Tenant, answer: Answer, found: Found | Exception) -> None:
        try:
            if isinstance(found, Exception):
                raise found
            ids, scores = found
            demand_few_matches(tenant, (len(ids),))
            content = f'{{"matches": {listed([open_objects(tenant, ids, scores)])}}}'.encode()
            whole = _HEAD % len(content) + content
        except Exception as error:
            whole = self._gate.refusal(error).whole
        answer(whole)
