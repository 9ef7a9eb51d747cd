"""What the endpoints of a worker share: the matcher, the writer, the inboxes, the board."""

import contextlib
import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from tocsin.delivery.inboxes import InboxStore
from tocsin.matcher import Matcher
from tocsin.model.subscription import Subscription
from tocsin.serve import bodies
from tocsin.serve.board import Board
from tocsin.serve.errors_as_json import HttpError, unknown_subscription
from tocsin.serve.frames import WriterClient
from tocsin.serve.match_queue import MatchQueue
from tocsin.serve.settings import ServerSettings
from tocsin.serve.tenants import Tenant

RECENT = 200
"""Published events that are looked at for the attributes that events have, and to measure a cost."""


@dataclass
class Service:
    """The parts of one worker."""

    settings: ServerSettings
    board: Board
    queue: MatchQueue
    inboxes: InboxStore
    writer: WriterClient
    is_stopping: bool = False
    """Whether the worker is to end: who waits for entries of an inbox is told that there are none."""

    @property
    def matcher(self) -> Matcher:
        """The matcher, with everything that was acknowledged before now."""
        return self.queue.matcher()

    def costs(self) -> dict[str, float]:
        """Return the most expensive subscriptions with their shares of the time of an event, the largest first.

        Both this worker and the writer, which matches published events, have measured some of them.
        """
        found = dict(self.matcher.stats().expensive)
        with contextlib.suppress(FileNotFoundError):
            for id, share in json.loads(self.settings.costs.read_text(encoding="utf-8")).items():
                found[id] = max(share, found.get(id, 0.0))
        return dict(sorted(found.items(), key=lambda cost: -cost[1]))

    async def body(self, request: Request) -> bytes:
        """Read the body of a request."""
        return await bodies.read_body(
            request.scope, request.receive, self.settings.max_body, self.settings.body_seconds
        )

    async def document(self, request: Request) -> dict[str, Any]:
        """Read a body that is a JSON object."""
        if bodies.content_type(request.scope) != bodies.JSON:
            raise HttpError(415, f"the body is {bodies.content_type(request.scope)}", f"Send {bodies.JSON}")
        return bodies.parse_object(await self.body(request))

    async def change(self, tenant: Tenant, message: dict[str, Any]) -> dict[str, Any]:
        """Let the writer carry out a change; return its answer once it is durable. Raises HttpError."""
        who = [tenant.name, dict(tenant.tags), dataclasses.asdict(tenant.limits)]
        answer = await self.writer.ask(message | {"tenant": who})
        if "error" in answer:
            error = answer["error"]
            if "subscription" in error:
                error["subscription"] = error["subscription"].removeprefix(tenant.prefix)
            raise RefusedError(answer["status"], error)
        return answer

    def find(self, tenant: Tenant, id: str) -> Subscription:
        """Return a subscription of a tenant by the id that the tenant knows. Raises UnknownSubscriptionError."""
        matcher = self.matcher
        inside = tenant.prefix + id
        if inside not in matcher or not tenant.owns(matcher[inside]):
            raise unknown_subscription(id)
        return matcher[inside]

    def recent_events(self, tenant: Tenant, most: int = RECENT) -> list[dict[str, Any]]:
        """Return the newest published events of a tenant, oldest first."""
        return [entry.body for entry in self.inboxes.events(None if tenant.is_admin else tenant.name, most)]


class RefusedError(HttpError):
    """A change that the writer refused, with its error as it is."""

    def __init__(self, status: int, error: dict[str, Any]) -> None:
        super().__init__(status, error["message"], error.get("hint", ""))
        self.error = error


def tenant_of(scope: Scope) -> Tenant:
    """Return who asks, as the gate has found out."""
    tenant: Tenant = scope["state"]["tenant"]
    return tenant


def demand_admin(scope: Scope) -> None:
    """Raise HttpError unless an administrator asks."""
    if not tenant_of(scope).is_admin:
        raise HttpError(403, "this shows all tenants", "Use the key of an administrator")


def reply(document: Any, status: int = 200) -> Response:
    """Return a JSON answer."""
    return Response(bodies.dump(document), status, media_type=bodies.JSON)


def number_of(request: Request, name: str, default: float, most: float) -> float:
    """Return a number of the query, between 0 and `most`."""
    text = request.query_params.get(name)
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise HttpError(400, f"`{name}` is {text!r}", "Give a number from 0 on")
    return min(value, most)


def tags_of(request: Request) -> dict[str, str]:
    """Return the tags of a query such as `tag=user:ada&tag=team:x`."""
    tags = {}
    for text in request.query_params.getlist("tag"):
        name, colon, value = text.partition(":")
        if not colon:
            raise HttpError(400, f"`tag` is {text!r}", "Write it as name:value")
        tags[name] = value
    return tags
