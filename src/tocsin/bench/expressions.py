"""Ranges on 20 derived attributes, against the same ranges on attributes that have their values already."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.bench.runner import Report, Result, timed
from tocsin.matcher import Matcher

Columns = Mapping[str, Any]
MINUTES_OF_A_MONTH = 31 * 24 * 60
PREDICATES = 3
SHARE = 0.05
"""The share of the events that one predicate holds for."""
ROUNDS = 5

EXPRESSIONS: dict[str, Callable[[Columns], Any]] = {
    "price * quantity": lambda c: c["price"] * c["quantity"],
    "price * (1 + tax)": lambda c: c["price"] * (1 + c["tax"]),
    "price - discount": lambda c: c["price"] - c["discount"],
    "(bid + ask) / 2": lambda c: (c["bid"] + c["ask"]) / 2,
    "ask - bid": lambda c: c["ask"] - c["bid"],
    "(ask - bid) / bid": lambda c: (c["ask"] - c["bid"]) / c["bid"],
    "abs(price - ask)": lambda c: np.abs(c["price"] - c["ask"]),
    "floor(price * 10)": lambda c: np.floor(c["price"] * 10),
    "n % 1000": lambda c: c["n"] % 1000,
    "-n": lambda c: -c["n"],
    "n + quantity": lambda c: c["n"] + c["quantity"],
    "n * 2 - quantity": lambda c: c["n"] * 2 - c["quantity"],
    "greatest(bid, price)": lambda c: np.maximum(c["bid"], c["price"]),
    "least(ask, price)": lambda c: np.minimum(c["ask"], c["price"]),
    "coalesce(tax, 0)": lambda c: c["tax"],
    "CASE WHEN quantity > 50 THEN price ELSE price * 2 END": lambda c: np.where(
        c["quantity"] > 50, c["price"], c["price"] * 2
    ),
    "length(lower(name))": lambda c: c["length"],
    "hour(at)": lambda c: c["minute"] // 60 % 24,
    "date_diff('minute', TIMESTAMP '2026-01-01 00:00:00', at)": lambda c: c["minute"],
    "sign(price - ask) * price": lambda c: np.sign(c["price"] - c["ask"]) * c["price"],
}
"""Each expression, and how NumPy computes it: the values of the plain attribute that stands beside it."""


def run(subscriptions: int = 1_000_000, events: int = 20_000, seed: int = 1, quick: bool = False) -> Report:
    """Match the same events against the same ranges, on expressions and on attributes; compare the processor time."""
    if quick:
        subscriptions, events = min(subscriptions, 50_000), min(events, 5_000)
    report = Report("expressions", {"subscriptions": subscriptions, "events": events, "seed": seed, "quick": quick})
    given, plain = _events(events, seed)
    drawn = _ranges(subscriptions, plain, seed)
    ways = {"plain attributes": (list(plain.column_names), plain), "derived attributes": (list(EXPRESSIONS), given)}
    matchers, tables = {}, {}
    for way, (names, table) in ways.items():
        texts = _texts(names, *drawn)
        rows = pa.table({"id": [f"s{number}" for number in range(subscriptions)], "where": texts})
        build_s, matchers[way] = timed(lambda rows=rows: Matcher.from_table(rows))  # type: ignore[misc]
        found = matchers[way].match_batch(table)
        tables[way] = found.select(["event", "subscription"])
        report.results.append(Result(way, build_s=build_s, matches=len(found)))
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    # In turn: what else the machine does falls on both.
    for _ in range(ROUNDS):
        for way, (_, table) in ways.items():
            start = time.process_time()
            matchers[way].match_batch(table)
            seconds[way].append(time.process_time() - start)
    for result in report.results:
        result.events_per_s = events / statistics.median(seconds[result.engine])
    report.expect_equal_matches()
    if not tables["plain attributes"].equals(tables["derived attributes"]):
        report.disagreements.append("expressions match other events than the attributes of the same values")
    ratio = statistics.median(seconds["derived attributes"]) / statistics.median(seconds["plain attributes"])
    report.claim(
        f"time on {len(EXPRESSIONS)} derived attributes over plain ones", "at most 1.3", f"{ratio:.2f}", ratio <= 1.3
    )
    return report


def _events(count: int, seed: int) -> tuple[pa.Table, pa.Table]:
    """The attributes inside the expressions, and the values of the expressions as attributes."""
    draw = np.random.default_rng(seed)
    length, minute = draw.integers(1, 60, count), draw.integers(0, MINUTES_OF_A_MONTH, count)
    bid = draw.uniform(1, 100, count)
    columns = {
        "price": draw.uniform(1, 100, count),
        "quantity": draw.integers(1, 100, count),
        "tax": draw.uniform(0, 0.3, count),
        "discount": draw.uniform(0, 10, count),
        "bid": bid,
        "ask": bid * draw.uniform(1, 1.1, count),
        "n": draw.integers(0, 1_000_000, count),
    }
    values = {**columns, "length": length, "minute": minute}
    plain = {f"p{place}": compute(values) for place, compute in enumerate(EXPRESSIONS.values())}
    name = pa.array(["Ab" * 30] * count)
    texts = {
        "name": pa.array([text[:size] for text, size in zip(name.to_pylist(), length.tolist(), strict=True)]),
        "at": pa.array(np.datetime64("2026-01-01", "us") + minute.astype("timedelta64[m]")),
    }
    return pa.table({**columns, **texts}), pa.table(plain)


def _ranges(count: int, plain: pa.Table, seed: int) -> tuple[Any, Any, Any]:
    """Which expressions each subscription is on, and the ends of their ranges, each between two values of events."""
    draw = np.random.default_rng(seed + 1)
    chosen = draw.random((count, plain.num_columns)).argpartition(PREDICATES, axis=1)[:, :PREDICATES]
    ordered = np.sort(np.stack([column.to_numpy().astype(np.float64) for column in plain.columns]), axis=1)
    start = draw.integers(0, int(ordered.shape[1] * (1 - SHARE)), chosen.shape)
    end = start + int(ordered.shape[1] * SHARE)
    return chosen, ordered[chosen, start].round(6), ordered[chosen, end].round(6)


def _texts(names: list[str], chosen: Any, low: Any, high: Any) -> list[str]:
    rows = zip(chosen.tolist(), low.tolist(), high.tolist(), strict=True)
    return [
        " AND ".join(f"{names[place]} BETWEEN {a} AND {b}" for place, a, b in zip(*row, strict=True)) for row in rows
    ]
