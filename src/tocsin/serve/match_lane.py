"""The lane of a single match: `POST /match` with one event, the request that there are most of.

It is answered without a task, a scope of Starlette or a router, since a match costs less than those. What is not plain,
or not right, goes the usual way, which has the errors.
"""

import json
from collections.abc import Callable
from functools import partial

from starlette.types import Scope

from tocsin.errors import TocsinError
from tocsin.serve import bodies
from tocsin.serve.board import Board
from tocsin.serve.gate import Gate
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
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


class KnownHeads:
    """Heads of requests that led into the lane, as they were sent, with what they say."""

    def __init__(self) -> None:
        self._scopes: dict[bytes, tuple[Scope, int]] = {}

    def learn(self, head: bytes, scope: Scope, length: int) -> None:
        """Keep a head whose request had a body of `length` bytes, if the head says so."""
        said = bodies.header(scope, b"content-length")
        if len(head) > MOST_HEAD_BYTES or not said.isdigit() or int(said) != length:
            return
        if len(self._scopes) >= MOST_HEADS:
            self._scopes.clear()
        self._scopes[head] = {**scope, "state": {}}, length

    def find(self, head: bytes, length: int) -> Scope | None:
        """Return the scope of a request whose head is known, with nobody admitted; None if it is not, or not whole."""
        scope, wanted = self._scopes.get(head, (None, 0))
        if scope is None or wanted != length:
            return None
        scope["state"] = {}
        return scope


class MatchLane:
    """Takes requests that are whole, and answers them when the queue has matched them."""

    path = b"/match"

    def __init__(self, gate: Gate, queue: MatchQueue, board: Board) -> None:
        self._gate = gate
        self._queue = queue
        self._board = board
        self.flush = queue.flush
        self.heads = KnownHeads()

    def take(self, scope: Scope, body: bytes, answer: Answer) -> bool:
        """Take a request and return True, or leave it to the usual way, with who asks in its state."""
        scope["path"] = "/match"
        try:
            tenant = self._gate.admit(scope)
            document = json.loads(body)
            if bodies.content_type(scope) != bodies.JSON or type(document) is not dict or document.keys() - _FIELDS:
                return False
            event, tags = document.get("event"), tenant.bound(bodies.texts_of(document, "tags"))
        except (ValueError, RecursionError, TocsinError):
            return False
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
