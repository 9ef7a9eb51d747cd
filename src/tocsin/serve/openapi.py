"""The OpenAPI document: one entry for each route; tests compare it with the routes there are."""

from typing import Any

_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "required": ["type", "message"],
            "properties": {
                "type": {"type": "string"},
                "message": {"type": "string"},
                "hint": {"type": "string"},
                "position": {"type": "integer", "description": "Where in the text, counted from 0."},
                "subscription": {"type": "string"},
            },
        }
    },
}
_TAGS = {"type": "object", "additionalProperties": {"type": "string"}}
_EVENT = {"type": "object", "description": "Attributes by name; nested objects are dotted names."}
_SUBSCRIPTION = {
    "type": "object",
    "required": ["where"],
    "properties": {
        "where": {"type": "string", "description": "A condition in SQL."},
        "score": {"type": "number", "default": 1.0},
        "weights": {"type": "object", "additionalProperties": {"type": "number"}},
        "tags": _TAGS,
        "params": {"type": "object", "description": "Values of the :names of the condition."},
        "subscriber": {"type": "string", "description": "Whose inbox the matches go to; the same as the tag `user`."},
    },
}
_EVENTS = {"event": _EVENT, "events": {"type": "array", "items": _EVENT}}
_MATCH = {
    "type": "object",
    "properties": {
        **_EVENTS,
        "tags": _TAGS,
        "top_k": {"type": "integer", "minimum": 1},
        "mode": {"enum": ["exact", "relaxed"]},
        "score_by": {},
        "interval": {"enum": ["overlaps", "within"]},
        "highlight": {
            "type": "boolean",
            "description": "Add to each match what held, and where in texts.",
        },
        "id": {"type": "string", "description": "The attribute that names an event in the answer."},
    },
}
_SETTINGS = {
    "type": "object",
    "properties": {
        "digest": {"type": "object", "description": "minutes or seconds, and matches: whichever comes first."},
        "dedupe": {"description": "Names whose values make a match a repetition: subscription, or attributes."},
        "rate": {"type": "object", "description": "At most `entries` within `minutes` or `seconds`."},
        "quiet": {"type": "object", "description": "`from` and `to`, times of day, in `zone`."},
        "webhook": {"type": "object", "description": "`url`, and a `secret` of 16 characters or more."},
    },
}


def _condition(**more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"where": {"type": "string"}, "params": {"type": "object"}, **more}}


def _call(summary: str, body: Any = None, query: tuple[str, ...] = (), kinds: tuple[str, ...] = ()) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": summary,
        "responses": {
            "200": {"description": "Done."},
            "default": {
                "description": "What is wrong, where, and the way out.",
                "content": {"application/json": {"schema": _ERROR}},
            },
        },
    }
    if body is not None:
        content = {"application/json": {"schema": body}} if body else {}
        described["requestBody"] = {"content": content | {kind: {} for kind in kinds}}
    if query:
        described["parameters"] = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in query]
    return described


_ARROW, _LINES = "application/vnd.apache.arrow.stream", "application/x-ndjson"
_INBOX = "/inbox/{subscriber}"
CALLS: dict[str, dict[str, dict[str, Any]]] = {
    "/subscriptions": {
        "get": _call("List subscriptions in the order of their ids.", query=("tag", "text", "cursor", "limit"))
    },
    "/subscriptions:bulk": {
        "post": _call("Add many subscriptions; bad rows are reported, the rest taken.", {}, (), (_LINES, _ARROW))
    },
    "/subscriptions/{id}": {
        "put": _call("Add or replace a subscription.", _SUBSCRIPTION),
        "get": _call("Return a subscription."),
        "delete": _call("Remove a subscription."),
    },
    "/match": {
        "post": _call("Return the subscriptions that events satisfy.", _MATCH, ("tag", "top_k", "id"), (_ARROW,))
    },
    "/publish": {
        "post": _call(
            "Match events, remember them, and deliver the matches. An Idempotency-Key makes a repetition harmless.",
            {"type": "object", "properties": {**_EVENTS, "tags": _TAGS, "key": {"type": "string"}}},
            ("tag",),
            (_LINES, _ARROW),
        )
    },
    "/explain": {
        "post": _call("Say why a subscription or a condition holds for an event.", _condition(event=_EVENT, id={}))
    },
    "/check": {"post": _call("Return errors and warnings of a condition, with positions.", _condition())},
    "/backtest": {
        "post": _call(
            "Match a condition with published events, posted events or Parquet files.",
            _condition(id={}, events=_EVENTS["events"], parquet={"type": "string"}, limit={"type": "integer"}),
        )
    },
    "/events": {"get": _call("Return the newest published events.", query=("limit",))},
    "/plan": {"get": _call("Say how events are matched, and why.")},
    "/stats": {"get": _call("Return counts of the index and of the server.")},
    "/healthz": {"get": _call("Say whether the server is ready.")},
    "/metrics": {"get": _call("Return counters for Prometheus.")},
    _INBOX: {"get": _call("Return entries behind a number; wait for the first.", query=("after", "limit", "wait"))},
    f"{_INBOX}/stream": {"get": _call("Follow an inbox as server-sent events.", query=("after",))},
    f"{_INBOX}/settings": {
        "get": _call("Return how a subscriber is told."),
        "put": _call("Set how a subscriber is told.", _SETTINGS),
    },
    f"{_INBOX}/dead": {"get": _call("Return entries that the webhook never took.")},
    f"{_INBOX}/dead:retry": {"post": _call("Try dead letters again.")},
}
"""Of the WebSocket `/inbox/{subscriber}/socket` OpenAPI cannot speak; docs/serve.md does."""


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tocsin", "version": "1", "description": "Standing subscriptions, matched with events."},
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{"key": []}],
        "paths": CALLS,
    }
