"""Endpoints of events: match, and publish, which remembers and delivers."""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, cast

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tocsin.errors import OptionError
from tocsin.language.to_sql import describe
from tocsin.ranking.question import Interval, Mode, ScoreBy
from tocsin.serve import bodies
from tocsin.serve.errors_as_json import HttpError
from tocsin.serve.match_json import listed, open_objects
from tocsin.serve.match_queue import split
from tocsin.serve.service import Service, tags_of, tenant_of
from tocsin.serve.tenants import Tenant

FIELDS = {"event", "events", "tags", "top_k", "mode", "score_by", "interval", "highlight", "id"}
MOST_HIGHLIGHTED = 100
INLINE = 64
"""Batches up to this size are matched in the event loop, larger ones in a thread beside it."""
_HEADERS = [(b"content-type", b"application/json")]


async def match(service: Service, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer POST /match. This one is not routed: it is the request that there are most of."""
    body = await bodies.read_body(scope, receive, service.settings.max_body, service.settings.body_seconds)
    kind = bodies.content_type(scope)
    if kind == bodies.ARROW:
        response = await _match_arrow(service, Request(scope, receive), body)
        await response(scope, receive, send)
        return
    if kind != bodies.JSON:
        raise HttpError(415, f"the body is {kind}", f"Send {bodies.JSON} or {bodies.ARROW}")
    # The lane has read what is not for it.
    document = scope["state"].pop("document", None) or bodies.parse_object(body)
    content = await answer(service, tenant_of(scope), document)
    length = (b"content-length", str(len(content)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, length]})
    await send({"type": "http.response.body", "body": content})


async def answer(service: Service, tenant: Tenant, document: Mapping[str, Any]) -> bytes:
    """Return the matches of the events of a request, as JSON."""
    unknown = sorted(document.keys() - FIELDS)
    if unknown:
        raise HttpError(400, f"a match has no field {unknown[0]!r}", f"Use {', '.join(sorted(FIELDS))}")
    events, is_one = bodies.events_of(document)
    tags = tenant.bound(bodies.texts_of(document, "tags"))
    ranked, highlight = _ranked(document), bodies.field(document, "highlight", bool, False)
    id = bodies.field(document, "id", str)
    if is_one and ranked is None:
        found = [await service.queue.match(events[0], tags)]
    else:
        timed = [service.queue.timed(event) for event in events]
        found = split(await _match(service, timed, tags, ranked), len(events))
    demand_few_matches(tenant, map(len, (ids for ids, _ in found)))
    objects = [open_objects(tenant, ids, scores) for ids, scores in found]
    if highlight:
        for event, (ids, _), matches in zip(events, found, objects, strict=True):
            _highlight(service, event, ids, matches)
    names: Iterable[object] | None = None
    if not is_one:
        names = count() if id is None else (event.get(id) for event in events)
    return f'{{"matches": {listed(objects, names)}}}'.encode()


def _ranked(document: Mapping[str, Any]) -> dict[str, Any] | None:
    k = bodies.field(document, "top_k", int)
    if k is None:
        return None
    score_by = document.get("score_by", "sum")
    if not isinstance(score_by, (str, dict)):
        raise HttpError(400, "`score_by` is not understood", "It is sum, max, or an object of coefficients")
    return {
        "top_k": k,
        "mode": cast(Mode, bodies.field(document, "mode", str, "exact")),
        "score_by": cast(ScoreBy, score_by),
        "interval": cast(Interval, bodies.field(document, "interval", str, "overlaps")),
    }


async def _match(
    service: Service,
    events: list[dict[str, Any]] | pa.Table,
    tags: Mapping[str, str],
    ranked: Mapping[str, Any] | None,
    id: str | None = None,
) -> pa.Table:
    """Match the events of one request, beside the event loop if they are many."""

    def work() -> pa.Table:
        return service.matcher.match_batch(events, tags=tags or None, id=id, **(ranked or {}))

    table = work() if len(events) <= INLINE else await asyncio.to_thread(work)
    service.board.count("matched_events", len(events))
    service.board.count("matches", len(table))
    return table


def demand_few_matches(tenant: Tenant, counts: Any) -> None:
    """Raise HttpError if an event has more matches than its tenant may see."""
    most = tenant.limits.matches
    if most is not None and (largest := max(counts, default=0)) > most:
        raise HttpError(422, f"an event matches {largest:,} subscriptions", f"The limit is {most:,}; ask for top_k")


def _highlight(service: Service, event: Mapping[str, Any], ids: Sequence[str], matches: list[str]) -> None:
    """Add to the first matches of an event the predicates of an alternative that held, and where in its texts."""
    matcher, timed = service.matcher, service.queue.timed(event)
    for place, id in enumerate(ids[:MOST_HIGHLIGHTED]):
        if id in matcher:
            found = matcher.explain(timed, id)
            held = [verdicts for verdicts in found.alternatives if all(verdict.holds for verdict in verdicts)]
            because = [describe(verdict.predicate) for verdict in (held[0] if held else [])]
            added = bodies.dump({"highlights": found.highlights, "because": because}).decode()
            matches[place] += f", {added[1:-1]}"


async def _match_arrow(service: Service, request: Request, body: bytes) -> Response:
    """Answer with an Arrow stream; what JSON says in fields stands in the query."""
    tenant, query = tenant_of(request.scope), request.query_params
    try:
        k = int(query["top_k"]) if "top_k" in query else None
    except ValueError:
        raise HttpError(400, f"`top_k` is {query['top_k']!r}", "Give a whole number") from None
    ranked = None if k is None else {"top_k": k, "mode": query.get("mode", "exact")}
    events, tags = bodies.parse_arrow(body), tenant.bound(tags_of(request))
    name, most = query.get("id"), tenant.limits.matches
    table = await _match(service, events, tags, ranked, name)
    if most is not None and len(table) > most:
        # Counted by number: several events may have one name.
        numbered = table if name is None else await _match(service, events, tags, ranked)
        demand_few_matches(tenant, pa.compute.value_counts(numbered["event"]).field("counts").to_pylist())
    if tenant.prefix:
        ids = table["subscription"].cast(pa.large_string())
        table = table.set_column(1, "subscription", pa.compute.utf8_slice_codeunits(ids, len(tenant.prefix)))
    return Response(bodies.arrow_bytes(table), media_type=bodies.ARROW)


def routes(service: Service) -> list[Route]:
    """Return the route of published events."""

    async def publish(request: Request) -> Response:
        tenant = tenant_of(request.scope)
        body = await service.body(request)
        kind = bodies.content_type(request.scope)
        key: str | None = bodies.header(request.scope, b"idempotency-key") or None
        if kind == bodies.JSON:
            document = bodies.parse_object(body)
            unknown = sorted(document.keys() - {"event", "events", "tags", "key"})
            if unknown:
                raise HttpError(400, f"a publish has no field {unknown[0]!r}", "Use event, events, tags, key")
            events, is_one = bodies.events_of(document)
            tags = tenant.bound(bodies.texts_of(document, "tags"))
            key = bodies.field(document, "key", str, key)
        elif kind == bodies.LINES:
            events, is_one, tags = [], False, tenant.bound(tags_of(request))
            for line, event in bodies.parse_lines(body):
                if isinstance(event, HttpError):
                    event.message = f"line {line}: {event.message}"
                    raise event
                events.append(event)
        elif kind == bodies.ARROW:
            events, is_one, tags = bodies.parse_arrow(body).to_pylist(), False, tenant.bound(tags_of(request))
        else:
            raise HttpError(415, f"the body is {kind}", f"Send {bodies.JSON}, {bodies.LINES} or {bodies.ARROW}")
        if key is not None and len(key) > 200:
            raise OptionError(f"the key has {len(key)} characters", "Use at most 200")
        message = {"do": "publish", "events": events, "tags": tags, "key": key}
        done = await service.change(tenant, message)
        matches = listed((open_objects(tenant, *found) for found in done["found"]), None if is_one else count())
        numbers = f'"number": {done["numbers"][0]}' if is_one else f'"numbers": {json.dumps(done["numbers"])}'
        repeated = json.dumps(done.get("repeated", False))
        left_out = done.get("left_out", 0)
        content = f'{{{numbers}, "matches": {matches}, "left_out": {left_out}, "repeated": {repeated}}}'.encode()
        return Response(content, media_type=bodies.JSON)

    return [Route("/publish", publish, methods=["POST"])]
