"""Endpoints of inboxes: long poll, server-sent events, WebSocket, settings, dead letters."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from tocsin.delivery.inboxes import Entry
from tocsin.delivery.policy import Settings
from tocsin.delivery.webhook import check_public
from tocsin.serve import bodies
from tocsin.serve.board import ENTRY
from tocsin.serve.errors_as_json import HttpError
from tocsin.serve.service import Service, number_of, reply, tenant_of

LONGEST_WAIT_S = 60.0
MOST_ENTRIES = 1000
LOOK_S = 0.02
"""How often a waiting request looks at the board for new entries: one read of shared memory."""
KEEP_ALIVE_S = 15.0


def routes(service: Service) -> list[BaseRoute]:
    """Return the routes of inboxes."""

    async def poll(request: Request) -> Response:
        inbox = _inbox(request.scope, request.path_params["subscriber"])
        after = int(number_of(request, "after", 0, 2**53))
        most = int(number_of(request, "limit", 100, MOST_ENTRIES)) or 1
        wait = number_of(request, "wait", 0, LONGEST_WAIT_S)
        entries = await _next(service, inbox, after, most, wait)
        last = entries[-1].number if entries else after
        missed = 0 < after < service.inboxes.removed(inbox)
        return reply({"entries": [_shown(entry) for entry in entries], "after": last, "missed": missed})

    async def stream(request: Request) -> Response:
        inbox = _inbox(request.scope, request.path_params["subscriber"])
        last_seen = bodies.header(request.scope, b"last-event-id")
        after = int(last_seen) if last_seen.isdigit() else int(number_of(request, "after", 0, 2**53))

        async def events() -> AsyncIterator[bytes]:
            seen = after
            yield b"retry: 1000\n\n"
            while not (service.is_stopping or await request.is_disconnected()):
                entries = await _next(service, inbox, seen, 100, KEEP_ALIVE_S)
                for entry in entries:
                    seen = entry.number
                    yield b"id: %d\ndata: " % seen + bodies.dump(_shown(entry)) + b"\n\n"
                if not entries:
                    yield b": still here\n\n"

        return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def socket(client: WebSocket) -> None:
        inbox = _inbox(client.scope, client.path_params["subscriber"])
        text = client.query_params.get("after", "0")
        offered = client.scope.get("subprotocols") or []
        await client.accept(offered[0] if offered else None)
        seen = int(text) if text.isdigit() else 0

        async def send() -> None:
            nonlocal seen
            while not service.is_stopping:
                for entry in await _next(service, inbox, seen, 100, KEEP_ALIVE_S):
                    seen = entry.number
                    await client.send_text(bodies.dump(_shown(entry)).decode())

        async def receive() -> None:
            while True:
                await client.receive_text()

        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            tasks = [asyncio.create_task(send()), asyncio.create_task(receive())]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in tasks:
                    task.cancel()

    async def get_settings(request: Request) -> Response:
        settings = service.inboxes.settings(_inbox(request.scope, request.path_params["subscriber"]))
        if "webhook" in settings:
            settings["webhook"] = {"url": settings["webhook"]["url"]}
        return reply(settings)

    async def put_settings(request: Request) -> Response:
        tenant = tenant_of(request.scope)
        given = await service.document(request)
        settings = Settings.of(given)
        if settings.webhook is not None and not tenant.is_admin and not service.settings.allow_private_webhooks:
            await asyncio.to_thread(check_public, settings.webhook.url)
        inbox = _inbox(request.scope, request.path_params["subscriber"])
        await service.change(tenant, {"do": "settings", "inbox": inbox, "settings": given})
        return reply({})

    async def dead(request: Request) -> Response:
        inbox = _inbox(request.scope, request.path_params["subscriber"])
        return reply({"dead": service.inboxes.dead_letters(inbox, MOST_ENTRIES)})

    async def retry(request: Request) -> Response:
        if request.method != "POST":
            raise HttpError(405, "method not allowed", "Use POST")
        tenant = tenant_of(request.scope)
        inbox = _inbox(request.scope, request.path_params["subscriber"])
        answer = await service.change(tenant, {"do": "retry", "inbox": inbox})
        return reply({"retried": answer["retried"]})

    # A name may have slashes, so that the inbox alone comes last.
    inbox = "/inbox/{subscriber:path}"
    return [
        Route(f"{inbox}/stream", stream, methods=["GET"]),
        WebSocketRoute(f"{inbox}/socket", socket),
        Route(f"{inbox}/settings", get_settings, methods=["GET"]),
        Route(f"{inbox}/settings", put_settings, methods=["PUT"]),
        Route(f"{inbox}/dead", dead, methods=["GET"]),
        # GET as well, else it would read the inbox of such a name.
        Route(f"{inbox}/dead:retry", retry, methods=["GET", "POST"]),
        Route(inbox, poll, methods=["GET"]),
    ]


async def _next(service: Service, inbox: str, after: int, most: int, wait: float) -> list[Entry]:
    """Return the entries behind a number; wait for the first if there is none."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait
    while True:
        newest = service.board[ENTRY]
        entries = service.inboxes.read(inbox, after, most)
        if entries or service.is_stopping or loop.time() >= deadline:
            return entries
        while service.board[ENTRY] == newest and loop.time() < deadline and not service.is_stopping:
            await asyncio.sleep(LOOK_S)


def _inbox(scope: Any, subscriber: str) -> str:
    """Return the inbox of a subscriber. An administrator may name that of a tenant, as `tenant/subscriber`.

    So a subscriber of its own whose name has a slash is named with one in front.
    """
    tenant = tenant_of(scope)
    return subscriber if tenant.is_admin and "/" in subscriber else tenant.inbox(subscriber)


def _shown(entry: Entry) -> dict[str, Any]:
    return {"number": entry.number, "time": entry.time, **entry.body}
