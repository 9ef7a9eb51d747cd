"""The gate: every request passes here. Who asks, how often, and what becomes of an error."""

import time
import traceback
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tocsin.errors import TocsinError
from tocsin.serve import bodies
from tocsin.serve.board import Board
from tocsin.serve.errors_as_json import HttpError, document, status_of
from tocsin.serve.service import RefusedError
from tocsin.serve.tenants import ADMIN, KeyFile, Tenant

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
            scope.setdefault("state", {})["tenant"] = self._tenant(scope)
            if scope["path"] == "/match" and scope["type"] == "http":
                if scope["method"] != "POST":
                    raise HttpError(405, "method not allowed", "Use POST")
                await self._match(scope, receive, watched)
            else:
                # With an application in the scope, Starlette raises what it finds wrong.
                scope["app"] = self
                await self._app(scope, receive, watched)
        except HTTPException as error:
            problem = HttpError(error.status_code, error.detail.lower(), "GET /openapi.json lists what there is")
            await self._refuse(scope, receive, send, problem, started)
        except TocsinError as error:
            await self._refuse(scope, receive, send, error, started)
        except RecursionError:
            await self._refuse(scope, receive, send, HttpError(400, "the request is nested too deeply"), started)
        except Exception:
            traceback.print_exc()
            await self._refuse(scope, receive, send, HttpError(500, "the request failed"), started)

    def _tenant(self, scope: Scope) -> Tenant:
        """Return who asks. Raises HttpError if nobody may."""
        if scope["path"] in PUBLIC:
            return ADMIN
        if self._keys.is_open:
            self._demand_local(scope)
            return ADMIN
        key = _key(scope)
        tenant = self._keys.tenant(key) if key else None
        if tenant is None:
            reason = "the key is not known" if key else "a key is needed"
            hint = "Send the header Authorization: Bearer KEY"
            raise HttpError(401, reason, hint, {"www-authenticate": "Bearer"})
        rate = tenant.limits.requests
        if rate is not None and (wait := self._board.take_turn(tenant.name, rate, time.time())):
            hint = f"Wait {wait:.2f} s"
            raise HttpError(429, f"{tenant.name} may ask {rate:g} times a second", hint, {"retry-after": f"{wait:.0f}"})
        return tenant

    def _demand_local(self, scope: Scope) -> None:
        """Without keys, answer only requests that are made to this machine by name, and by pages that it served.

        A page of another site must not reach the server through the browser of someone on this machine.
        """
        host = bodies.header(scope, b"host")
        origin = bodies.header(scope, b"origin")
        try:
            name = urlsplit(f"//{host}").hostname
            is_own = not origin or urlsplit(origin).netloc == host
        except ValueError:
            name, is_own = None, False
        if name not in _LOCAL or not is_own:
            hint = "Add a key with tocsin keys add, or ask from this machine"
            raise HttpError(403, "without keys this server answers only its own machine", hint)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, error: TocsinError, started: bool) -> None:
        self._board.count("errors")
        if started:
            # Half an answer is on its way: break the connection, so that nobody takes it for a whole one.
            raise error
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": error.message[:100]})
            return
        shown = error.error if isinstance(error, RefusedError) else document(error)
        content = bodies.dump({"error": shown})
        extra = error.headers if isinstance(error, HttpError) else {}
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        headers += [(name.encode(), value.encode()) for name, value in extra.items()]
        await send({"type": "http.response.start", "status": status_of(error), "headers": headers})
        await send({"type": "http.response.body", "body": content})


def _key(scope: Scope) -> str:
    scheme, _, key = bodies.header(scope, b"authorization").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    offered = scope.get("subprotocols") or []
    return next((name.removeprefix(KEY_PROTOCOL) for name in offered if name.startswith(KEY_PROTOCOL)), "")
