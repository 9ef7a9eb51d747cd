"""The workload `single`: how long one event takes, given as a dict, quiet, right after changes and beside them."""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.bench.runner import Cell, Report, Result
from tocsin.matcher import Matcher

SIZES = (10_000, 100_000, 1_000_000)
RULES = 3_600
"""Security rules: about as many as the public Sigma rules."""
RULE_ATTRIBUTES = 166
ATTRIBUTES, DOMAIN = 10, 6
K = 10
WARM_UP = 200
PERCENTILES = (50.0, 99.0, 99.9)
WIDE_WIDTH = 0.4

Event = dict[str, Any]


@dataclass(frozen=True)
class Workload:
    """Subscriptions, events, and texts for subscriptions to come."""

    name: str
    texts: Sequence[str]
    events: Sequence[Event]
    fresh: Sequence[str]


def run(events: int = 5_000, seed: int = 1, largest: int = SIZES[-1], quick: bool = False) -> Report:
    """Measure match and top_k of single dict events: p50, p99 and p99.9 in microseconds."""
    if quick:
        events, largest = 500, SIZES[0]
    report = Report("single", {"events": events, "seed": seed, "largest": largest})
    for size in SIZES:
        if size <= largest:
            for workload in workloads(size, events, seed):
                _measure(report, workload, size)
    _measure(report, security(RULES, events, seed), RULES)
    _dict_batches(report, narrow(min(largest, SIZES[1]), events, seed))
    _many_attributes(report, events, seed)
    return report


def workloads(size: int, events: int, seed: int) -> Iterator[Workload]:
    """Narrow ranges, wide ranges, equalities and words."""
    yield narrow(size, events, seed)
    yield wide(size, events, seed)
    yield equalities(size, events, seed)
    yield words(size, events, seed)


def narrow(size: int, events: int, seed: int) -> Workload:
    """3 of 10 ranges; an event has about 100 matches, whatever the size."""
    return _ranges("narrow", size, events, seed, 3, ATTRIBUTES, min((100 / size) ** (1 / 3), 0.5))


def wide(size: int, events: int, seed: int) -> Workload:
    """10 of 20 ranges of width 0.4."""
    return _ranges("wide", size, events, seed, 10, 2 * ATTRIBUTES, WIDE_WIDTH)


def _ranges(name: str, size: int, events: int, seed: int, predicates: int, attributes: int, width: float) -> Workload:
    drawn = np.random.default_rng(seed)

    def texts(number: int) -> list[str]:
        chosen = np.argsort(drawn.random((number, attributes)), axis=1)[:, :predicates]
        low = drawn.random((number, predicates)) * (1 - width)
        rows = zip(chosen.tolist(), low.tolist(), strict=True)
        return [
            " AND ".join(f"a{a} BETWEEN {b:.{DOMAIN}f} AND {b + width:.{DOMAIN}f}" for a, b in zip(*row, strict=True))
            for row in rows
        ]

    values = drawn.random((events, attributes)).round(DOMAIN).tolist()
    batch = [{f"a{place}": value for place, value in enumerate(row)} for row in values]
    return Workload(name, texts(size), batch, texts(events))


def equalities(size: int, events: int, seed: int) -> Workload:
    """2 of 10 equalities, strings and integers, of as many constants as give an event some 10 matches."""
    drawn = random.Random(seed)
    constants = max(int((45 * size / 450) ** 0.5), 2)

    def value(attribute: int) -> Any:
        number = drawn.randrange(constants)
        return f"v{number}" if attribute % 2 else number

    def text() -> str:
        return " AND ".join(f"a{a} = {value(a)!r}" for a in sorted(drawn.sample(range(ATTRIBUTES), 2)))

    batch = [{f"a{a}": value(a) for a in range(ATTRIBUTES)} for _ in range(events)]
    return Workload("equalities", [text() for _ in range(size)], batch, [text() for _ in range(events)])


def words(size: int, events: int, seed: int) -> Workload:
    """Three words of 20,000, common ones more often, in texts of 30 words."""
    drawn = np.random.default_rng(seed)
    vocabulary = np.array([f"word{number}" for number in range(20_000)])
    share = 1 / np.arange(1, vocabulary.size + 1)
    share /= share.sum()

    def some(number: int, length: int) -> list[list[str]]:
        chosen: list[list[str]] = drawn.choice(vocabulary, (number, length), p=share).tolist()
        return chosen

    def texts(number: int) -> list[str]:
        return [" AND ".join(f"has_words(body, '{word}')" for word in row) for row in some(number, 3)]

    batch = [{"body": " ".join(row), "channel": "mail"} for row in some(events, 30)]
    return Workload("words", texts(size), batch, texts(events))


def security(size: int, events: int, seed: int) -> Workload:
    """Rules as Sigma has them: LIKE patterns, lists and exclusions over many text attributes; events name 5 to 10."""
    drawn = random.Random(seed)
    attributes = [f"field{number}" for number in range(RULE_ATTRIBUTES)]
    weights = [1 / (number + 1) for number in range(RULE_ATTRIBUTES)]
    parts = [f"{first}{number}" for number in range(400) for first in ("proc", "lib", "tmp", "user", "svc")]

    def attribute() -> str:
        return drawn.choices(attributes, weights)[0]

    def pattern(name: str) -> str:
        part = drawn.choice(parts)
        shape = drawn.choice(("%{}%", "%\\{}.exe", "{}%", "%{}%-enc%"))
        return f"{name} ILIKE '{shape.format(part)}'"

    def text() -> str:
        terms = []
        for _ in range(drawn.randint(1, 3)):
            name = attribute()
            several = [pattern(name) for _ in range(drawn.choice((1, 1, 2, 5)))]
            terms.append(f"({' OR '.join(several)})")
        if drawn.random() < 0.3:
            terms.append(f"NOT {pattern(attribute())}")
        if drawn.random() < 0.3:
            terms.append(f"level IN ({', '.join(map(str, drawn.sample(range(20), 3)))})")
        return " AND ".join(terms)

    def event() -> Event:
        named = {attribute() for _ in range(drawn.randint(6, 14))}
        values = {name: "\\".join(drawn.choices(parts, k=drawn.randint(1, 6))) + ".exe" for name in sorted(named)}
        return {**values, "level": drawn.randrange(20)}

    return Workload(
        "security", [text() for _ in range(size)], [event() for _ in range(events)], [text() for _ in range(events)]
    )


def _measure(report: Report, workload: Workload, size: int) -> None:
    """Quiet, right after each kind of change, and while another thread changes."""
    ids = [f"s{number:07}" for number in range(len(workload.texts))]
    start = time.perf_counter()
    matcher = Matcher.from_table(pa.table({"id": ids, "where": list(workload.texts)}))
    built = time.perf_counter() - start
    if matcher.rejected:
        report.disagreements.append(f"{workload.name}: {len(matcher.rejected)} texts were refused")
    matches = _agree(report, matcher, workload)
    fresh, gone, other = iter(workload.fresh), count(), count()

    def subscribe() -> None:
        number = next(gone)
        matcher.subscribe(f"new{number:07}", next(fresh))

    def unsubscribe() -> None:
        matcher.unsubscribe(f"new{next(other):07}")

    def rescore() -> None:
        matcher.rescore(drawn.choice(ids), drawn.random())

    drawn = random.Random(size)
    quiet: dict[str, list[float]] = {}
    for what, ask in (("match", matcher.match), (f"top_k({K})", lambda event: matcher.top_k(event, K))):
        for event in workload.events[:WARM_UP]:
            ask(event)
        quiet[what] = _latencies(ask, workload.events)
        _record(report, workload, size, what, "quiet", quiet[what], matches, built)
    least = min(len(workload.fresh), len(workload.events) // 2)
    for change in (subscribe, rescore, unsubscribe):
        taken = _latencies(matcher.match, workload.events[:least], change)
        _record(report, workload, size, "match", f"right after {change.__name__}", taken, matches)
        ratio = taken[0] / quiet["match"][0]
        _claim(report, f"{workload.name}, {size:,}: p50 right after {change.__name__} over quiet", 2.0, ratio)
    taken = _beside_changes(matcher, workload, ids, drawn)
    _record(report, workload, size, "match", "beside changes", taken, matches)
    _claim(report, f"{workload.name}, {size:,}: p99 over p50 beside a thread of changes", 4.0, taken[1] / taken[0])
    goals = {("narrow", SIZES[1]): 40.0, ("wide", SIZES[2]): 400.0, ("security", RULES): 1000.0}
    if (workload.name, size) in goals:
        _claim(report, f"{workload.name}, {size:,}: p50, µs", goals[workload.name, size], quiet["match"][0])
    matcher.close()


def _agree(report: Report, matcher: Matcher, workload: Workload) -> float:
    """The matches of an event; `match` and `match_batch` must find the same."""
    some = workload.events[: min(WARM_UP, len(workload.events))]
    found = [(row, id) for row, event in enumerate(some) for id in matcher.match(event).ids]
    table = matcher.match_batch(list(some))
    rows = zip(table["event"].to_pylist(), table["subscription"].to_pylist(), strict=True)
    if found != list(rows):
        report.disagreements.append(f"{workload.name}: match and match_batch differ")
    return len(found) / len(some)


def _latencies(
    ask: Callable[[Event], object], events: Sequence[Event], change: Callable[[], None] | None = None
) -> list[float]:
    """The percentiles of the time that an event takes, in microseconds; before each of them there may be a change."""
    taken = np.empty(len(events))
    for place, event in enumerate(events):
        if change is not None:
            change()
        start = time.perf_counter_ns()
        ask(event)
        taken[place] = time.perf_counter_ns() - start
    percentiles: list[float] = (np.percentile(taken, PERCENTILES) / 1000).tolist()
    return percentiles


def _beside_changes(matcher: Matcher, workload: Workload, ids: Sequence[str], drawn: random.Random) -> list[float]:
    """Match while another thread subscribes and rescores for as long as it takes."""
    stop = threading.Event()

    def change() -> None:
        for number in count():
            if stop.is_set():
                return
            matcher.subscribe(f"beside{number % len(workload.fresh):07}", workload.fresh[number % len(workload.fresh)])
            matcher.rescore(ids[drawn.randrange(len(ids))], float(number))

    thread = threading.Thread(target=change)
    thread.start()
    try:
        return _latencies(matcher.match, workload.events)
    finally:
        stop.set()
        thread.join()


def _dict_batches(report: Report, workload: Workload) -> None:
    """A batch of dicts against the same events as an Arrow table, in processor time."""
    ids = [f"s{number:07}" for number in range(len(workload.texts))]
    matcher = Matcher.from_table(pa.table({"id": ids, "where": list(workload.texts)}))
    given: dict[str, Any] = {"dicts": list(workload.events), "Arrow": pa.Table.from_pylist(list(workload.events))}
    taken = {}
    for name, batch in given.items():
        matcher.match_batch(batch)
        seconds = []
        for _ in range(5):
            start = time.process_time()
            matcher.match_batch(batch)
            seconds.append(time.process_time() - start)
        taken[name] = min(seconds)
        rate = len(workload.events) / taken[name]
        report.results.append(Result(f"match_batch of {name}", events_per_s=rate))
    _claim(report, "a batch of dicts over one of Arrow", 2.0, taken["dicts"] / taken["Arrow"])


def _many_attributes(report: Report, events: int, seed: int) -> None:
    """An event with 10 attributes, where subscriptions name 10 in all and where they name 10,000."""
    drawn = random.Random(seed)
    taken = {}
    for attributes in (10, 10_000):
        texts = [f"a{number % attributes} BETWEEN {number % 90} AND {number % 90 + 5}" for number in range(20_000)]
        matcher = Matcher.from_table(pa.table({"id": [f"s{n:05}" for n in range(len(texts))], "where": texts}))
        batch = [{f"a{a}": drawn.randrange(100) for a in drawn.sample(range(attributes), 10)} for _ in range(events)]
        _latencies(matcher.match, batch)
        taken[attributes] = _latencies(matcher.match, batch)
        extra: dict[str, Cell] = {"case": "quiet", **_named(taken[attributes])}
        report.results.append(Result(f"match, 10 of {attributes:,} attributes", extra=extra))
    _claim(report, "10 of 10,000 attributes over 10 of 10, p50", 1.5, taken[10_000][0] / taken[10][0])


def _named(percentiles: Sequence[float]) -> dict[str, Cell]:
    return {f"p{which:g}_us": value for which, value in zip(PERCENTILES, percentiles, strict=True)}


def _record(
    report: Report,
    workload: Workload,
    size: int,
    what: str,
    case: str,
    percentiles: Sequence[float],
    matches: float,
    built: float | None = None,
) -> None:
    extra: dict[str, Cell] = {"subscriptions": size, "case": case, **_named(percentiles), "matches_per_event": matches}
    report.results.append(Result(f"{workload.name}, {what}", built, extra=extra))


def _claim(report: Report, claim: str, most: float, measured: float) -> None:
    report.claim(claim, f"at most {most:g}", f"{measured:.3g}", measured <= most)
