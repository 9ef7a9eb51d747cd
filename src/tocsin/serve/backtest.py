"""A condition against events of the past: published events that the server kept, posted events, or Parquet files."""

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tocsin.errors import OptionError
from tocsin.files.event_files import conversions_of_json, converted
from tocsin.files.formats import data_files
from tocsin.files.parquet_scan import ReadCounts, scan_parquet
from tocsin.matcher import Matcher

BUCKETS = 40
EXAMPLES = 20
NEW, OLD = "new", "old"


def of_events(
    matcher: Matcher,
    where: str,
    present: str | None,
    events: Sequence[Mapping[str, Any]],
    times: Sequence[float] | None,
) -> dict[str, Any]:
    """Match a condition, and the present version of a subscription if there is one, with events in their order.

    `matcher` is empty, with the options of the index. Returns hits, hits over time (by the times of events, or by their
    order), examples, and what would change.
    """
    _subscribe(matcher, where, present)
    conversions = conversions_of_json(matcher.kinds)
    table = matcher.publish_batch([converted(event, conversions) for event in events])
    rows = list(zip(table["event"].to_pylist(), table["subscription"].to_pylist(), strict=True))
    hits = [event for event, version in rows if version == NEW]
    answer: dict[str, Any] = {
        "events": len(events),
        "hits": len(hits),
        "buckets": buckets(hits, len(events), times),
        "examples": [{"place": place, "event": events[place]} for place in hits[-EXAMPLES:]],
    }
    if present is not None:
        before, after = {event for event, version in rows if version == OLD}, set(hits)
        gained, lost = sorted(after - before), sorted(before - after)
        answer["present"] = {
            "hits": len(before),
            "gained": len(gained),
            "lost": len(lost),
            "gained_examples": [events[place] for place in gained[-5:]],
            "lost_examples": [events[place] for place in lost[-5:]],
        }
    return answer


def of_parquet(matcher: Matcher, where: str, present: str | None, path: str, root: str | None) -> dict[str, Any]:
    """Match a condition with the rows of Parquet files below the folder that the server may read."""
    _subscribe(matcher, where, present)
    match = matcher.publish_batch if matcher.looking_back() else matcher.match_batch
    read, before = ReadCounts(), 0
    examples: list[dict[str, Any]] = []
    hits: list[int] = []
    for numbers, batch in scan_parquet(data_files(_below(path, root), "events", "parquet"), matcher, read):
        table = match(batch)
        versions = table["subscription"].to_pylist()
        rows = [row for row, version in zip(table["event"].to_pylist(), versions, strict=True) if version == NEW]
        hits += numbers[rows].tolist()
        before += versions.count(OLD)
        taken = rows[: EXAMPLES - len(examples)]
        examples += [{"place": int(numbers[row]), "event": batch.slice(row, 1).to_pylist()[0]} for row in taken]
    counts = [0] * BUCKETS
    for hit in hits:
        counts[hit * BUCKETS // read.events] += 1
    answer: dict[str, Any] = {
        "events": read.events,
        "hits": len(hits),
        "buckets": [{"from": read.events * place // BUCKETS, "hits": count} for place, count in enumerate(counts)],
        "examples": examples,
        "bytes_read": read.bytes_read,
        "bytes_skipped": read.bytes_skipped,
    }
    return answer if present is None else answer | {"present": {"hits": before}}


def _subscribe(matcher: Matcher, where: str, present: str | None) -> None:
    matcher.subscribe(NEW, where)
    if present is not None:
        matcher.subscribe(OLD, present)


def _below(path: str, root: str | None) -> Path:
    """Return a path below the folder of data, whatever dots and links it has."""
    if root is None:
        raise OptionError("this server reads no files", "Start it with --data DIR")
    home = Path(root).resolve()
    found = (home / path).resolve()
    if not found.is_relative_to(home) or not found.exists():
        raise OptionError(f"there is no {path!r} in the data of this server", "Name a folder below --data")
    return found


def buckets(hits: Sequence[int], events: int, times: Sequence[float] | None) -> list[dict[str, Any]]:
    """Count hits in equal spans of time, or of the order of events if they have no times.

    >>> [bucket["hits"] for bucket in buckets([0, 3], 4, [0.0, 1.0, 2.0, 40.0])][::39]
    [1, 1]
    """
    if not events:
        return []
    places = list(times) if times is not None else [float(place) for place in range(events)]
    first, last = min(places), max(places)
    width = (last - first) / BUCKETS or 1.0
    counts = [0] * BUCKETS
    for hit in hits:
        counts[min(int((places[hit] - first) / width), BUCKETS - 1)] += 1
    starts: list[Any] = [first + width * place for place in range(BUCKETS)]
    if times is not None:
        starts = [dt.datetime.fromtimestamp(start, dt.UTC).isoformat(timespec="seconds") for start in starts]
    return [{"from": start, "hits": count} for start, count in zip(starts, counts, strict=True)]
