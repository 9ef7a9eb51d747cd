"""Endpoints that explain: check, explain, backtest, plan, stats, health, metrics."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tocsin.errors import SubscriptionError
from tocsin.files.event_files import conversions_of_json, converted
from tocsin.language.parameters import bind_parameters
from tocsin.matcher import Matcher
from tocsin.model.condition import HistoryTest
from tocsin.serve import backtest, bodies
from tocsin.serve.advice import check, demand_within_limits
from tocsin.serve.board import SNAPSHOT, STARTED, WRITER_PID
from tocsin.serve.errors_as_json import HttpError, document
from tocsin.serve.service import Service, demand_admin, number_of, reply, tenant_of
from tocsin.serve.truth_tree import tree

MOST_BACKTESTED = 100_000
_TRIED = "condition"
_GAUGES = {"waiting", "merges", "connections"}
MOST_SLOWEST = 10
MOST_REMEMBERED = 2000
"""Published events that a condition which is no subscription is explained against, if it looks back."""


def routes(service: Service) -> list[Route]:
    """Return the routes that explain."""

    async def check_condition(request: Request) -> Response:
        tenant, given = tenant_of(request.scope), await service.document(request)
        try:
            where = _where(given)
        except SubscriptionError as error:
            return reply({"errors": [document(error)], "warnings": [], "attributes": []})
        events = service.recent_events(tenant)
        known = service.matcher.attributes | {name for event in events for name in event}
        return reply(await asyncio.to_thread(check, where, tenant, known, events))

    async def explain(request: Request) -> Response:
        tenant, given = tenant_of(request.scope), await service.document(request)
        [event], _ = bodies.events_of({"event": given.get("event")})
        id = bodies.field(given, "id", str)
        if id is not None:
            subscription = service.find(tenant, id)
            matcher, inside, where = service.matcher, subscription.id, subscription.where
            read = service.queue.timed(event)
        else:
            where, inside = _where(given), _TRIED
            demand_within_limits(where, tenant)
            matcher = service.matcher.alike()
            matcher.subscribe(_TRIED, where)
            conversions = conversions_of_json(matcher.kinds)
            if matcher.looking_back():
                old = [converted(one, conversions) for one in service.recent_events(tenant, MOST_REMEMBERED)]
                await asyncio.to_thread(matcher.publish_batch, old)
            read = converted(event, conversions)
        return reply(await asyncio.to_thread(explained, matcher, inside, where, read, event))

    async def run_backtest(request: Request) -> Response:
        tenant, given = tenant_of(request.scope), await service.document(request)
        where = _where(given)
        demand_within_limits(where, tenant)
        id = bodies.field(given, "id", str)
        present = None if id is None else service.find(tenant, id).where
        parquet = bodies.field(given, "parquet", str)
        if parquet is not None:
            demand_admin(request.scope)
            answer = await asyncio.to_thread(
                backtest.of_parquet, service.matcher.alike(), where, present, parquet, service.settings.data
            )
            return reply(answer)
        times: list[float] | None = None
        if "events" in given:
            events, _ = bodies.events_of({"events": given["events"]})
        else:
            most = bodies.field(given, "limit", int, MOST_BACKTESTED)
            owner = None if tenant.is_admin else tenant.name
            kept = await asyncio.to_thread(service.inboxes.events, owner, max(0, min(most, MOST_BACKTESTED)))
            events, times = [entry.body for entry in kept], [entry.time for entry in kept]
        return reply(
            await asyncio.to_thread(backtest.of_events, service.matcher.alike(), where, present, events, times)
        )

    async def events(request: Request) -> Response:
        tenant = tenant_of(request.scope)
        most = int(number_of(request, "limit", 20, 1000))
        kept = service.inboxes.events(None if tenant.is_admin else tenant.name, most)
        return reply({"events": [{"number": e.number, "time": e.time, "event": e.body} for e in kept]})

    async def plan(request: Request) -> Response:
        demand_admin(request.scope)
        found = await asyncio.to_thread(service.matcher.plan)
        steps = [{"what": step.what, "choice": step.choice, "reason": step.reason} for step in found.steps]
        return reply({"steps": steps})

    async def stats(request: Request) -> Response:
        tenant = tenant_of(request.scope)
        busiest = service.inboxes.busiest(10, tenant.prefix)
        for one in busiest:
            one["id"] = one["id"].removeprefix(tenant.prefix)
        costs = await asyncio.to_thread(service.costs)
        own = [id for id in costs if id.startswith(tenant.prefix)][:MOST_SLOWEST]
        slowest = [{"id": id.removeprefix(tenant.prefix), "share": costs[id]} for id in own]
        if not tenant.is_admin:
            return reply({"busiest": busiest, "slowest": slowest, "attributes": []})
        found = await asyncio.to_thread(service.matcher.stats)
        board = service.board
        return reply(
            {
                "index": vars(found),
                "attributes": sorted(service.matcher.attributes),
                "counters": board.totals(),
                "workers": board.workers,
                "commits": board[SNAPSHOT],
                "uptime_s": time.time() - board[STARTED],
                "busiest": busiest,
                "slowest": slowest,
            }
        )

    async def healthz(_: Request) -> Response:
        ready = service.board[WRITER_PID] > 0
        return reply({"status": "ok" if ready else "starting"}, 200 if ready else 503)

    async def metrics(request: Request) -> Response:
        demand_admin(request.scope)
        lines = []
        for name, value in service.board.totals().items():
            kind = "gauge" if name in _GAUGES else "counter"
            full = f"tocsin_{name}" if kind == "gauge" else f"tocsin_{name}_total"
            lines += [f"# TYPE {full} {kind}", f"{full} {value:.17g}"]
        for name, value in (("subscriptions", len(service.matcher)), ("commit_number", service.board[SNAPSHOT])):
            lines += [f"# TYPE tocsin_{name} gauge", f"tocsin_{name} {value}"]
        lines.append("# TYPE tocsin_worker_requests_total counter")
        for number, value in enumerate(service.board.by_worker("requests")):
            lines.append(f'tocsin_worker_requests_total{{worker="{number}"}} {value:.17g}')
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    return [
        Route("/check", check_condition, methods=["POST"]),
        Route("/explain", explain, methods=["POST"]),
        Route("/backtest", run_backtest, methods=["POST"]),
        Route("/events", events, methods=["GET"]),
        Route("/plan", plan, methods=["GET"]),
        Route("/stats", stats, methods=["GET"]),
        Route("/healthz", healthz, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
    ]


def _where(given: Mapping[str, Any]) -> str:
    where = bodies.field(given, "where", str)
    if where is None:
        raise HttpError(400, "give `where`, a condition", 'Such as {"where": "price < 10"}')
    params = bodies.field(given, "params", dict, {})
    return bind_parameters(where, params) if params or ":" in where else str(where)


def explained(
    matcher: Matcher, id: str, where: str, event: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return why a subscription matches an event or not: the alternatives, the nearest, and the tree of the text.

    `given` is the event as it came, with texts for times and numbers.
    """
    found = matcher.explain(event, id, given=given)
    alternatives = [
        [
            {"text": str(verdict).removeprefix("holds  ").removeprefix("FAILS  "), "holds": verdict.holds}
            for verdict in verdicts
        ]
        for verdicts in found.alternatives
    ]
    failures = [sum(not one["holds"] for one in verdicts) for verdicts in alternatives]
    history = matcher.history

    def judge(test: HistoryTest) -> bool | None:
        return history.holds(test, event) if history.keeps(test) else None

    return {
        "matches": found.matches,
        "alternatives": alternatives,
        "nearest": failures.index(min(failures)) if failures else None,
        "tree": tree(where, event, matcher.options, judge),
        "highlights": found.highlights,
    }
