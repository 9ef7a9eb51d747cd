"""Advice on a condition before it is a subscription: its errors with positions, warnings, and its cost.

A condition is tried in a matcher of its own, so that the errors are those of the library.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

from tocsin.errors import SubscriptionError
from tocsin.language.lint import lint
from tocsin.language.normalise import normalise
from tocsin.language.parse import parse
from tocsin.matcher import Matcher
from tocsin.model.schema import ANYTHING, EventSchema
from tocsin.model.subscription import SubscriptionWarning
from tocsin.serve.errors_as_json import HttpError, document
from tocsin.serve.tenants import Tenant

_TRIED = "condition"
MEASURED = 1000
"""Events with which the cost of a condition is measured."""


@dataclass(frozen=True)
class Advice:
    """What can be said of a condition that was understood."""

    attributes: list[str]
    predicates: int
    looks_back: bool
    unindexed: bool

    @classmethod
    def of(cls, where: str) -> "Advice":
        """Try a condition. Raises SubscriptionError."""
        matcher = Matcher(background_merge=False)
        matcher.subscribe(_TRIED, where)
        stats = matcher.stats()
        explained = matcher.explain({}, _TRIED)
        alternatives = explained.alternatives
        return cls(
            sorted(matcher.attributes),
            sum(map(len, alternatives)) if explained.predicates is None else explained.predicates,
            bool(matcher.looking_back()),
            bool(stats.unindexed_count) or any(not verdicts for verdicts in alternatives),
        )

    def warnings(self, where: str, schema: EventSchema) -> list[dict[str, Any]]:
        """Return what is probably not meant, given what events and other subscriptions have."""
        found: list[dict[str, Any]] = [
            {"code": one.code, "message": one.message, "hint": one.hint, "position": one.position}
            for one in warnings_of(where, schema)
        ]
        if self.unindexed:
            message = "every event verifies it: it demands no constant, word or path"
            found.append({"code": "unindexed", "message": message})
        return found


def warnings_of(where: str, schema: EventSchema) -> list[SubscriptionWarning]:
    """Return what is probably not meant in a condition: what the library warns of, and that it always holds.

    >>> [one.code for one in warnings_of("price > 5 OR TRUE", EventSchema({}))]
    ['always']
    """
    found = lint(where, schema if schema.kinds else None)
    form = normalise(parse(where))
    if not form.nesting and not all(form.leaves):
        found.append(SubscriptionWarning("always", "every event satisfies it", "Look for OR in place of AND"))
    return found


def schema_of(known: Collection[str], events: Sequence[Mapping[str, Any]]) -> EventSchema:
    """Return what recent events have; nothing is known of the values of other attributes that subscriptions name."""
    seen = EventSchema.of(events)
    kinds = {**dict.fromkeys(known, ANYTHING), **{name: kinds or ANYTHING for name, kinds in seen.kinds.items()}}
    return EventSchema(kinds, elements=seen.elements)


def demand_within_limits(where: str, tenant: Tenant, advice: Advice | None = None) -> None:
    """Raise if a condition is more than its tenant may have. Costs 5 ms to try it, unless for an administrator."""
    limits = tenant.limits
    limits.check_text("", where)
    if tenant.is_admin:
        return
    advice = advice or Advice.of(where)
    if limits.predicates is not None and advice.predicates > limits.predicates:
        raise HttpError(
            422,
            f"the condition has {advice.predicates:,} predicates over all its alternatives",
            f"{tenant.name} may use {limits.predicates:,}: split it, or use IN (…) in place of OR",
        )
    if advice.looks_back:
        # The history of an index is one: it has the events of all tenants.
        raise HttpError(422, "the condition looks back at the history", "Only an administrator may, as all share it")


def measured_us(where: str, events: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the microseconds that a condition costs an event when every event verifies it; None without events."""
    if not events:
        return None
    matcher = Matcher(background_merge=False)
    matcher.subscribe(_TRIED, where)
    matcher.match_batch(events)
    # Few events are taken again and again: a batch costs half a millisecond, however small.
    many = list(islice(cycle(events), max(MEASURED, len(events))))
    start = time.thread_time()
    matcher.match_batch(many)
    return (time.thread_time() - start) / len(many) * 1e6


def check(where: str, tenant: Tenant, known: Collection[str], events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return everything that can be said of a condition: errors, warnings, attributes, cost."""
    try:
        advice = Advice.of(where)
        demand_within_limits(where, tenant, advice)
    except (SubscriptionError, HttpError) as error:
        return {"errors": [document(error)], "warnings": [], "attributes": []}
    warnings = advice.warnings(where, schema_of(known, events))
    if advice.unindexed:
        cost = measured_us(where, events)
        for warning in warnings:
            if warning["code"] == "unindexed" and cost is not None:
                warning["message"] += f"; measured {cost:.1f} µs an event"
                warning["cost_us"] = f"{cost:.1f}"
    return {
        "errors": [],
        "warnings": warnings,
        "attributes": advice.attributes,
        "predicates": advice.predicates,
        "looks_back": advice.looks_back,
    }
