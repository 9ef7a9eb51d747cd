"""Endpoints of subscriptions: put, get, delete, bulk, list."""

import asyncio
import heapq
import math
from collections.abc import Collection
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tocsin.errors import SubscriptionError, TocsinError
from tocsin.language.parameters import bind_parameters
from tocsin.matcher import Matcher
from tocsin.model.subscription import Subscription
from tocsin.serve import bodies
from tocsin.serve.advice import demand_within_limits, schema_of, warnings_of
from tocsin.serve.errors_as_json import HttpError, document
from tocsin.serve.service import Service, number_of, reply, tags_of, tenant_of
from tocsin.serve.tenants import SUBSCRIBER_TAG, Tenant

FIELDS = {"id", "where", "score", "weights", "tags", "params", "subscriber"}
MOST_LISTED = 1000
MOST_REJECTED = 1000


def routes(service: Service) -> list[Route]:
    """Return the routes of subscriptions."""

    async def put(request: Request) -> Response:
        tenant, id = tenant_of(request.scope), request.path_params["id"]
        row = row_of(tenant, await service.document(request) | {"id": id})
        try:
            demand_within_limits(row["where"], tenant)
        except SubscriptionError as error:
            raise error.of(id) from None
        answer = await service.change(tenant, {"do": "put", **row})
        return reply({"id": id}, answer["status"])

    async def get(request: Request) -> Response:
        tenant = tenant_of(request.scope)
        subscription = service.find(tenant, request.path_params["id"])
        return reply(shown(tenant, subscription))

    async def delete(request: Request) -> Response:
        tenant, id = tenant_of(request.scope), request.path_params["id"]
        await service.change(tenant, {"do": "delete", "id": tenant.prefix + id})
        return reply({"id": id})

    async def bulk(request: Request) -> Response:
        tenant = tenant_of(request.scope)
        body = await service.body(request)
        kind = bodies.content_type(request.scope)
        if kind == bodies.ARROW:
            given: list[tuple[int, dict[str, Any] | HttpError]] = [
                (line, _as_json(row)) for line, row in enumerate(bodies.parse_arrow(body).to_pylist(), 1)
            ]
        elif kind == bodies.LINES:
            given = list(bodies.parse_lines(body))
        else:
            raise HttpError(415, f"the body is {kind}", f"Send {bodies.LINES} or {bodies.ARROW}")
        rows, rejected = await asyncio.to_thread(_checked, tenant, given)
        answer = await service.change(tenant, {"do": "bulk", "rows": list(rows.values())})
        lines = {row["id"]: line for line, row in rows.items()}
        rejected += [
            error
            | {
                "line": lines.get(error.get("subscription", "")),
                "subscription": error.get("subscription", "").removeprefix(tenant.prefix),
            }
            for error in answer["rejected"]
        ]
        rejected.sort(key=lambda error: error["line"] or 0)
        taken = len({row["id"] for row in rows.values()}) - len(answer["rejected"])
        return reply({"taken": taken, "rejected_count": len(rejected), "rejected": rejected[:MOST_REJECTED]})

    async def listed(request: Request) -> Response:
        tenant, tags = tenant_of(request.scope), tags_of(request)
        most = int(number_of(request, "limit", 100, MOST_LISTED)) or 1
        text, cursor = request.query_params.get("text", "").lower(), request.query_params.get("cursor", "")
        matcher = service.matcher
        wanted = tenant.bound(tags)

        def find() -> list[Subscription]:
            found = (
                subscription
                for subscription in matcher.subscriptions()
                if subscription.id > tenant.prefix + cursor
                and subscription.id.startswith(tenant.prefix)
                and wanted.items() <= subscription.tags.items()
                and (not text or text in subscription.where.lower() or text in subscription.id.lower())
            )
            return heapq.nsmallest(most + 1, found, key=lambda subscription: subscription.id)

        found = await asyncio.to_thread(find)
        page = found[:most]
        hits = service.inboxes.hits(subscription.id for subscription in page)
        events = service.recent_events(tenant)
        costs = await asyncio.to_thread(service.costs)
        notes = await asyncio.to_thread(_notes, matcher, page, hits, events)
        shown_page = []
        for subscription in page:
            count, last = hits.get(subscription.id, (0, None))
            extra = {"hits": count, "last_match": last, "cost_share": costs.get(subscription.id)}
            shown_page.append(shown(tenant, subscription) | extra | {"warnings": notes[subscription.id]})
        more = shown_page[-1]["id"] if len(found) > most else None
        return reply({"subscriptions": shown_page, "cursor": more})

    return [
        Route("/subscriptions", listed, methods=["GET"]),
        Route("/subscriptions:bulk", bulk, methods=["POST"]),
        Route("/subscriptions/{id:path}", put, methods=["PUT"]),
        Route("/subscriptions/{id:path}", get, methods=["GET"]),
        Route("/subscriptions/{id:path}", delete, methods=["DELETE"]),
    ]


def _notes(
    matcher: Matcher, page: list[Subscription], hits: Collection[str], events: list[dict[str, Any]]
) -> dict[str, list[str]]:
    """Return the warnings of each subscription of a page.

    One that has matched names what events have, and so may others; one that never did may have a name that is wrong.
    """
    stats = matcher.stats()
    of_matched, of_unmatched = schema_of(matcher.attributes, events), schema_of((), events)
    notes: dict[str, list[str]] = {}
    for subscription in page:
        schema = of_matched if subscription.id in hits else of_unmatched
        notes[subscription.id] = [one.message for one in warnings_of(subscription.where, schema)]
        if subscription.id in stats.unindexed:
            notes[subscription.id].append(f"every event verifies it: {stats.unindexed[subscription.id]}")
    return notes


def shown(tenant: Tenant, subscription: Subscription) -> dict[str, Any]:
    """Return a subscription as its tenant sees it."""
    tags = {name: value for name, value in subscription.tags.items() if name not in tenant.tags}
    return {
        "id": subscription.id.removeprefix(tenant.prefix),
        "where": subscription.where,
        "score": subscription.score,
        "weights": dict(subscription.weights),
        "tags": tags,
        "subscriber": subscription.tags.get(SUBSCRIBER_TAG),
    }


def row_of(tenant: Tenant, given: dict[str, Any]) -> dict[str, Any]:
    """Return a subscription of a request as the writer takes it. Raises HttpError, OptionError or SubscriptionError."""
    unknown = sorted(set(given) - FIELDS)
    if unknown:
        raise HttpError(400, f"a subscription has no field {unknown[0]!r}", f"Use {', '.join(sorted(FIELDS))}")
    id, where = bodies.field(given, "id", str, ""), bodies.field(given, "where", str)
    if not id or where is None:
        raise HttpError(400, "a subscription has an id and `where`", 'Such as {"where": "price < 10"}')
    score = bodies.field(given, "score", float, 1.0)
    weights = bodies.field(given, "weights", dict, {})
    for name, value in [("score", score), *weights.items()]:
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
            raise SubscriptionError(f"its {name} is {value!r}", "Give a finite number", subscription=id)
    tags = bodies.texts_of(given, "tags") or {}
    subscriber = bodies.field(given, "subscriber", str)
    if subscriber is not None and tags.setdefault(SUBSCRIBER_TAG, subscriber) != subscriber:
        raise HttpError(400, f"`subscriber` and the tag {SUBSCRIBER_TAG} differ", "Give one of them")
    params = bodies.field(given, "params", dict, {})
    try:
        where = bind_parameters(where, params) if params or ":" in where else where
    except SubscriptionError as error:
        raise error.of(id) from None
    return {"id": tenant.prefix + id, "where": where, "score": score, "weights": weights, "tags": tenant.bound(tags)}


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of Arrow as JSON would have it: a map is a list of pairs there, or JSON in a text."""
    plain = {name: value for name, value in row.items() if value is not None}
    for name in ("tags", "weights", "params"):
        value = plain.get(name)
        if isinstance(value, list):
            plain[name] = dict(value)
        elif isinstance(value, str):
            plain[name] = bodies.parse(value)
    return plain


def _checked(
    tenant: Tenant, given: list[tuple[int, dict[str, Any] | HttpError]]
) -> tuple[dict[int, dict[str, Any]], list[dict[str, Any]]]:
    """Return the good rows by their line, and what is wrong with the others."""
    rows: dict[int, dict[str, Any]] = {}
    rejected = []
    for line, row in given:
        try:
            if isinstance(row, HttpError):
                raise row
            rows[line] = row_of(tenant, row)
            if not tenant.is_admin:
                demand_within_limits(rows[line]["where"], tenant)
        except TocsinError as error:
            rows.pop(line, None)
            name = row.get("id") if isinstance(row, dict) else None
            rejected.append(document(error) | {"line": line, "subscription": name})
    return rows, rejected
