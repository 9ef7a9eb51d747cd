"""Bodies of requests and answers: JSON, lines of JSON, Arrow streams; bounded in size and in time."""

import asyncio
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from starlette.types import Receive, Scope

from tocsin.serve.errors_as_json import HttpError

JSON, LINES, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"


def header(scope: Scope, name: bytes) -> str:
    """Return a header of a request; the empty text if it has none."""
    for key, value in scope["headers"]:
        if key == name:
            text: str = value.decode("latin-1")
            return text
    return ""


def content_type(scope: Scope) -> str:
    """Return the type of a request's body, JSON if it says nothing."""
    return header(scope, b"content-type").partition(";")[0].strip().lower() or JSON


async def read_body(scope: Scope, receive: Receive, most: int, seconds: float) -> bytes:
    """Read a body. Raises HttpError if it is too large, or comes too slowly."""
    length = header(scope, b"content-length")
    if length.isdigit() and int(length) > most:
        raise _too_large(most)
    parts = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise HttpError(400, "the client went away")
                part = message.get("body", b"")
                size += len(part)
                if size > most:
                    raise _too_large(most)
                parts.append(part)
                if not message.get("more_body"):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
    except TimeoutError:
        hint = "Send it faster, or in several requests"
        raise HttpError(408, f"the body took longer than {seconds:g} s", hint, {"connection": "close"}) from None


def _too_large(most: int) -> HttpError:
    return HttpError(
        413, f"the body has more than {most:,} bytes", "Send it in several requests", {"connection": "close"}
    )


def parse(body: bytes | str) -> Any:
    """Parse JSON. Raises HttpError with the position of what is wrong."""
    try:
        return json.loads(body)
    except RecursionError:
        raise HttpError(400, "the JSON is nested too deeply", "Nest less") from None
    except UnicodeDecodeError as error:
        raise HttpError(400, f"the body is not UTF-8: {error.reason} at byte {error.start}") from None
    except json.JSONDecodeError as error:
        problem = HttpError(400, f"the body is not JSON: {error.msg}", "Check the place in `position`")
        problem.position = error.pos
        raise problem from None
    except ValueError as error:
        raise HttpError(400, f"the body is not JSON: {error}") from None


def parse_object(body: bytes) -> dict[str, Any]:
    """Parse a JSON object."""
    document = parse(body)
    if not isinstance(document, dict):
        raise HttpError(400, f"the body is a JSON {_kind(document)}, not an object", 'Send {"name": value, …}')
    return document


def parse_lines(body: bytes) -> Iterator[tuple[int, dict[str, Any] | HttpError]]:
    """Parse each line as a JSON object; yield its number, counted from 1, with the object or what is wrong."""
    for number, line in enumerate(body.split(b"\n"), 1):
        if line.strip():
            try:
                yield number, parse_object(line)
            except HttpError as error:
                yield number, error


def parse_arrow(body: bytes) -> pa.Table:
    """Read an Arrow stream whose values are what their types allow."""
    try:
        table = pa.ipc.open_stream(body).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        hint = "Write it with pyarrow.ipc.new_stream"
        raise HttpError(400, f"the body is not an Arrow stream: {error}", hint) from None
    return table


def arrow_bytes(table: pa.Table) -> bytes:
    """Return a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def dump(document: Any) -> bytes:
    """Return a document as JSON, which has no infinities: null stands for them."""
    try:
        return json.dumps(document, allow_nan=False, default=str).encode()
    except ValueError:
        return json.dumps(_finite(document), default=str).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def events_of(document: Mapping[str, Any]) -> tuple[list[dict[str, Any]], bool]:
    """Return the events of a request, and whether it has only one, under `event`."""
    if ("event" in document) == ("events" in document):
        raise HttpError(400, "give `event`, or `events`", 'Such as {"event": {"price": 12}}')
    is_one = "event" in document
    events = [document["event"]] if is_one else document["events"]
    if not isinstance(events, list):
        raise HttpError(400, f"`events` is a JSON {_kind(events)}, not a list", "Send a list of objects")
    for place, event in enumerate(events):
        if not isinstance(event, dict):
            which = "`event`" if is_one else f"event {place}"
            raise HttpError(400, f"{which} is a JSON {_kind(event)}, not an object", 'Send {"name": value, …}')
    return events, is_one


def field(document: Mapping[str, Any], name: str, kind: type, default: Any = None) -> Any:
    """Return a field of a request, checked for its type; `default` if it is missing or null."""
    value = document.get(name)
    if value is None:
        return default
    good = isinstance(value, (int, float)) if kind is float else isinstance(value, kind)
    if not good or (isinstance(value, bool) and kind is not bool):
        wanted = {
            str: "text",
            float: "number",
            int: "whole number",
            dict: "object",
            list: "list",
            bool: "true or false",
        }
        raise HttpError(400, f"`{name}` is a JSON {_kind(value)}", f"It is a {wanted[kind]}")
    return value


def texts_of(document: Mapping[str, Any], name: str) -> dict[str, str] | None:
    """Return a field that maps names to texts, such as tags; None if it is missing."""
    given = field(document, name, dict)
    if given is None:
        return None
    for key, value in given.items():
        if not isinstance(value, (str, int, float)):
            raise HttpError(400, f"`{name}` has a JSON {_kind(value)} for {key!r}", "Its values are texts")
    return {key: str(value) for key, value in given.items()}


def _kind(value: Any) -> str:
    names = {dict: "object", list: "list", str: "text", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "null")
