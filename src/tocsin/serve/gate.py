"""The gate: every request passes here. Who asks, how often, and what becomes of an error."""

import math
import time
import traceback
from collections.abc import Awaitable, Callable
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tocsin.errors import TocsinError
from tocsin.serve import bodies
from tocsin.serve.board import Board
from tocsin.serve.errors_as_json import HttpError, document, status_of
from tocsin.serve.service import RefusedError
from tocsin.serve.tenants import ADMIN, KeyFile, Tenant, hash_of

PUBLIC = {"/", "/healthz", "/openapi.json", "/page.js", "/page.css"}
"""What needs no key: the page itself has no data in it."""
_LOCAL = {"localhost", "127.0.0.1", "::1"}
KEY_PROTOCOL = "tocsin.key."
"""A browser cannot give a WebSocket a header; it offers this subprotocol with the key behind it."""

Handler = Callable[[Scope, Receive, Send], Awaitable[None]]


class Gate:
    """The outermost application: it lets requests in, and turns errors into answers."""

    def __init__(self, app: ASGIApp, match: Handler, keys: KeyFile, board: Board) -> None:
        self._app = app
        self._match = match
        self._keys = keys
        self._board = board

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        self._board.count("requests")
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            self.admit(scope)
            if scope["path"] == "/match" and scope["type"] == "http":
                if scope["method"] != "POST":
                    raise HttpError(405, "method not allowed", "Use POST")
                await self._match(scope, receive, watched)
            else:
                # With an application in the scope, Starlette raises what it finds wrong.
                scope["app"] = self
                await self._app(scope, receive, watched)
        except Exception as error:
            refusal = self.refusal(error)
            if started:
                # Half an answer is on its way: break the connection, so that nobody takes it for a whole one.
                raise
            await refusal.send(scope, receive, send)

    def admit(self, scope: Scope) -> None:
        """Note in the scope who asks; a request passes once. Raises HttpError if nobody may."""
        state = scope.setdefault("state", {})
        if "tenant" not in state:
            state["tenant"] = ADMIN if scope["path"] in PUBLIC else self.tenant(Caller.of(scope))

    def tenant(self, caller: "Caller") -> Tenant:
        """Return who asks, and count it as a request. Raises HttpError if nobody may.

        Without keys, only requests that are made to this machine by name, and by pages that it served, are answered: a
        page of another site must not reach the server through the browser of someone on this machine.
        """
        tenants = self._keys.tenants()
        if not tenants:
            if not caller.is_own:
                hint = "Add a key with tocsin keys add, or ask from this machine"
                raise HttpError(403, "without keys this server answers only its own machine", hint)
            return ADMIN
        tenant = tenants.get(caller.key_hash)
        if tenant is None:
            reason = "the key is not known" if caller.key_hash else "a key is needed"
            hint = "Send the header Authorization: Bearer KEY"
            raise HttpError(401, reason, hint, {"www-authenticate": "Bearer"})
        rate = tenant.limits.requests
        if rate is not None and (wait := self._board.take_turn(tenant.name, rate, time.time())):
            hint = f"Wait {wait:.2f} s"
            raise HttpError(
                429, f"{tenant.name} may ask {rate:g} times a second", hint, {"retry-after": str(math.ceil(wait))}
            )
        return tenant

    def refusal(self, error: Exception) -> "Refusal":
        """Return the answer that an error becomes, and count it."""
        self._board.count("errors")
        if isinstance(error, HTTPException):
            error = HttpError(error.status_code, error.detail.lower(), "GET /openapi.json lists what there is")
        elif isinstance(error, RecursionError):
            error = HttpError(400, "the request is nested too deeply")
        elif not isinstance(error, TocsinError):
            traceback.print_exception(error)
            error = HttpError(500, "the request failed")
        return Refusal(error)


class Caller(NamedTuple):
    """Who asks, as the head of a request says it."""

    is_own: bool
    """Whether the request names this machine, and comes from a page that it served or from none."""
    key_hash: str
    """Of the key that it has; empty if it has none."""

    @classmethod
    def of(cls, scope: Scope) -> "Caller":
        """Read it from the head of a request."""
        key = _key(scope)
        is_own = _is_own(bodies.header(scope, b"host"), bodies.header(scope, b"origin"))
        return cls(is_own, hash_of(key) if key else "")


class Refusal:
    """An error as an answer."""

    def __init__(self, error: TocsinError) -> None:
        self._status, self._reason = status_of(error), error.message
        shown = error.error if isinstance(error, RefusedError) else document(error)
        self._content = bodies.dump({"error": shown})
        extra = error.headers if isinstance(error, HttpError) else {}
        self._headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(self._content))]
        self._headers += [(name.encode(), value.encode()) for name, value in extra.items()]

    @property
    def whole(self) -> bytes:
        """Head and body, as they are sent."""
        head = f"HTTP/1.1 {self._status} {HTTPStatus(self._status).phrase}\r\n".encode()
        return head + b"".join(b"%b: %b\r\n" % pair for pair in self._headers) + b"\r\n" + self._content

    async def send(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or close a WebSocket."""
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": self._reason[:100]})
            return
        await send({"type": "http.response.start", "status": self._status, "headers": self._headers})
        await send({"type": "http.response.body", "body": self._content})


@lru_cache(1000)
def _is_own(host: str, origin: str) -> bool:
    """Whether a request names this machine, and comes from a page that it served or from none."""
    try:
        return urlsplit(f"//{host}").hostname in _LOCAL and (not origin or urlsplit(origin).netloc == host)
    except ValueError:
        return False


def _key(scope: Scope) -> str:
    scheme, _, key = bodies.header(scope, b"authorization").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    offered = scope.get("subprotocols") or []
    return next((name.removeprefix(KEY_PROTOCOL) for name in offered if name.startswith(KEY_PROTOCOL)), "")
