"""The second half of the workload `ranked`: top-k of conjunctions, in layers against all matches at once."""

import statistics
import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tocsin.arrays import Int32s, Int64s
from tocsin.bench.runner import Report, Result
from tocsin.conjunctions.coded import Conjunctions, Events
from tocsin.conjunctions.pairs.match import PairIndex
from tocsin.matcher import Matcher
from tocsin.papers.ranked.selection import select_from_pairs, select_k
from tocsin.ranking.select import Layer, layer_sizes, top_k_in_layers

K = 20
MATCHES = (2000, 1100, 500, 200, 100, 25)
"""How many subscriptions an event matches."""
WARM_UP = 12
"""Batches that a matcher gets to learn from, as layers are built when they would have paid."""
ROUNDS = 7


def measure_conjunctions(report: Report, count: int, events: int, seed: int) -> None:
    """Exact top-k of conjunctions of 3 of 10 attributes, over the pairs of a segment and through a matcher."""
    for matches in (2000, 200, 25):
        _pairs_in_layers(report, count, matches, events, seed)
    for matches in MATCHES:
        _matcher(report, count, matches, events, seed)


def _compare(base: Callable[[], object], rival: Callable[[], object]) -> tuple[float, float, float]:
    """The processor seconds of both, and how many times as fast the rival is: medians of rounds that take turns."""
    times: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        start = time.process_time()
        base()
        middle = time.process_time()
        rival()
        times.append((middle - start, time.process_time() - middle))
    ratio = statistics.median(one / other for one, other in times)
    return statistics.median(one for one, _ in times), statistics.median(other for _, other in times), ratio


def _claim(report: Report, what: str, matches: float, ratio: float) -> None:
    goal = 5.0 if matches > 1000 else 1 / 1.2
    claim = f"{what}, top-{K} where an event matches {matches:,.0f}"
    report.claim(claim, f">= {goal:.2f} times", f"{ratio:.2f} times", ratio >= goal)


def _pairs_in_layers(report: Report, count: int, matches: int, events: int, seed: int) -> None:
    """The planner's layers against all matches, then the best k."""
    random = np.random.default_rng(seed)
    attributes, codes = 10, 2000
    width = min(int((matches / count) ** (1 / 3) * codes), codes - 2)
    column = np.sort(np.argsort(random.random((count, attributes)), axis=1)[:, :3], axis=1).astype(np.int32)
    low = random.integers(0, codes - width, (count, 3)).astype(np.int32)
    scores = random.random(count)
    batch = random.integers(0, codes, (attributes, events)).astype(np.int32)

    def layer(members: Int32s) -> Layer:
        matcher = _filed(column[members], low[members], width, codes, attributes)
        return Layer.of(lambda rows: matcher.match(_events(batch[:, rows]))[0], members, scores)

    everything = layer(np.arange(count, dtype=np.int32))
    sample = everything.match(np.arange(min(events, 64)))
    typical = float(np.median(np.bincount(sample[:, 0], minlength=min(events, 64))))
    sizes = layer_sizes(count, K, typical)
    ranked = np.argsort(-scores, kind="stable").astype(np.int32)
    cuts = np.cumsum([0, *sizes])
    plan = [everything] if len(sizes) == 1 else [layer(ranked[a:b]) for a, b in pairwise(cuts.tolist())]

    def all_then_select() -> tuple[Int64s, Int32s]:
        return select_from_pairs(everything.match(np.arange(events)), everything.owner, events, scores, K)

    expected = all_then_select()
    answer = top_k_in_layers(plan, events, scores, K)
    if not (np.array_equal(expected[0], answer[0]) and np.array_equal(expected[1], answer[1])):
        report.disagreements.append(f"layers and selection differ at {matches} matches an event")
    base, seconds, ratio = _compare(all_then_select, lambda: top_k_in_layers(plan, events, scores, K))
    for name, taken in (("all, then select", base), (f"layers {sizes}", seconds)):
        report.results.append(
            Result(name, events_per_s=events / taken, matches=answer[1].size, extra={"matches_per_event": typical})
        )
    _claim(report, "pairs", typical, ratio)


def _matcher(report: Report, count: int, matches: int, events: int, seed: int) -> None:
    """The same through `match_batch`: `top_k` against all matches, of which the best k are selected."""
    random = np.random.default_rng(seed)
    width = min((matches / count) ** (1 / 3), 0.9)
    column = np.sort(np.argsort(random.random((count, 10)), axis=1)[:, :3], axis=1).tolist()
    low = (random.random((count, 3)) * (1 - width)).tolist()
    texts = [
        " AND ".join(f"a{name} BETWEEN {begin:.6f} AND {begin + width:.6f}" for name, begin in zip(*row, strict=True))
        for row in zip(column, low, strict=True)
    ]
    ids = [f"s{number:07}" for number in range(count)]
    matcher = Matcher.from_table(pa.table({"id": ids, "where": texts, "score": random.random(count)}))
    batch = pa.table({f"a{name}": random.random(events) for name in range(10)})

    def all_then_select() -> Int32s:
        table = matcher.match_batch(batch)
        numbers = table["subscription"].combine_chunks().indices.to_numpy()
        scores = np.zeros(count)
        scores[numbers] = table["score"].to_numpy()
        offsets = np.searchsorted(table["event"].to_numpy(), np.arange(events + 1))
        return select_k(offsets, numbers, scores, K)[1]

    def top_k() -> pa.Table:
        return matcher.match_batch(batch, top_k=K)

    for _ in range(WARM_UP):
        found = top_k()["subscription"].combine_chunks().indices.to_numpy()
    if not np.array_equal(found, all_then_select()):
        report.disagreements.append(f"top_k and selection differ at {matches} matches an event")
    base, seconds, ratio = _compare(all_then_select, top_k)
    for name, taken in (("match_batch, then select", base), (f"match_batch(top_k={K})", seconds)):
        report.results.append(
            Result(name, events_per_s=events / taken, matches=found.size, extra={"matches_per_event": matches})
        )
    _claim(report, "Matcher", matches, ratio)


def _filed(column: Int32s, low: Int32s, width: int, codes: int, attributes: int) -> PairIndex:
    nothing = np.empty(0, np.int32)
    conjunctions = Conjunctions(
        count=len(column),
        last_code=np.full(attributes, codes - 1, np.int32),
        conjunction=np.repeat(np.arange(len(column), dtype=np.int32), 3),
        column=column.ravel(),
        low=low.ravel(),
        high=(low + width).ravel(),
        test_conjunction=nothing,
        test=nothing,
        test_accepts=nothing,
        test_null_column=nothing,
    )
    return PairIndex.build(conjunctions, [np.linspace(0.0, 1.0, codes + 1)] * attributes)


def _events(batch: Int32s) -> Events:
    starts, nothing = np.zeros(batch.shape[1] + 1, np.int64), np.empty(0, np.int32)
    codes = np.vstack((batch, np.zeros((1, batch.shape[1]), np.int32)))
    return Events(np.ascontiguousarray(codes), starts, nothing, starts, nothing)
