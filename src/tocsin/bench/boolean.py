"""Random AND/OR/NOT trees of 10 to 1,000 predicates, against DuckDB and the reference on samples.

ANDs and ORs alternate, 2 to 8 levels deep, from a random one on; one node in seven is negated. The number of predicates
is spread evenly over its orders of magnitude. A predicate is an equality with one of 200 words, a range of a number, a
list, or IS NULL, on one of 20 attributes; one in seven is negated, and one value in twenty of an event is NULL.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from tocsin.bench.runner import Cell, Report, Result
from tocsin.language.parse import parse
from tocsin.matcher import Matcher
from tocsin.reference import evaluate

NUMBERS, WORDS, DISTINCT = 10, 10, 200
FEWEST, MOST = 10, 1_000
NEGATED = 1 / 7
NULL_SHARE = 0.05


def make_events(random: np.random.Generator, count: int) -> pa.Table:
    """Events with ten numbers, uniform in [0, 1), and ten words."""
    columns = {}
    for number in range(NUMBERS):
        columns[f"n{number}"] = pa.array(random.random(count).round(6), mask=random.random(count) < NULL_SHARE)
    for number in range(WORDS):
        words = [f"w{word}" for word in random.integers(0, DISTINCT, count).tolist()]
        columns[f"s{number}"] = pa.array(words, mask=random.random(count) < NULL_SHARE)
    return pa.table(columns)


def make_predicate(random: np.random.Generator) -> str:
    """One predicate."""
    kind, number = random.random(), random.integers(0, NUMBERS)
    low, words = random.random(), random.integers(0, DISTINCT, 4).tolist()
    if kind < 0.45:
        text = f"s{number} = 'w{words[0]}'"
    elif kind < 0.75:
        text = f"n{number} BETWEEN {low:.6f} AND {low + 0.1:.6f}"
    elif kind < 0.85:
        text = f"n{number} < {low:.6f}"
    elif kind < 0.95:
        listed = ", ".join(f"'w{word}'" for word in words)
        text = f"s{number} IN ({listed})"
    else:
        text = f"{'ns'[int(low < 0.5)]}{number} IS NULL"
    return f"NOT ({text})" if random.random() < NEGATED else text


def make_tree(random: np.random.Generator, predicates: int, depth: int, join: str) -> str:
    """One tree, of so many predicates and at most so deep."""
    if depth == 1 or predicates < 4:
        parts = [make_predicate(random) for _ in range(predicates)]
    else:
        width = max(2, round(predicates ** (1 / depth)))
        sizes = 1 + random.multinomial(predicates - width, np.full(width, 1 / width))
        other = " OR " if join == " AND " else " AND "
        parts = [
            make_predicate(random) if size == 1 else f"({make_tree(random, int(size), depth - 1, other)})"
            for size in sizes
        ]
        parts = [f"NOT {part}" if part[0] == "(" and random.random() < NEGATED else part for part in parts]
    return join.join(parts)


def make_trees(random: np.random.Generator, sizes: Sequence[int]) -> list[str]:
    """Trees of so many predicates each, 2 to 8 levels deep."""
    joins, depths = (" AND ", " OR "), random.integers(2, 9, len(sizes)).tolist()
    return [
        make_tree(random, size, depth, joins[int(random.integers(2))])
        for size, depth in zip(sizes, depths, strict=True)
    ]


def run(
    *, subscriptions: int = 100_000, events: int = 1_000, sample: int = 200, seed: int = 1, quick: bool = False
) -> Report:
    """Build and match the trees, DuckDB a sample of them, the reference a sample of both."""
    if quick:
        subscriptions, sample = 2_000, 50
    random = np.random.default_rng(seed)
    sizes = np.exp(random.uniform(np.log(FEWEST), np.log(MOST), subscriptions)).astype(int)
    texts, table = make_trees(random, sizes.tolist()), make_events(random, events)
    report = Report(
        "boolean",
        {"subscriptions": subscriptions, "predicates": int(sizes.sum()), "events": events, "seed": seed},
    )
    build_s, matcher = _built(texts)
    matcher.match_batch(table)
    match_s = _processor_seconds(lambda: matcher.match_batch(table))
    found = matcher.match_batch(table)
    report.results.append(
        Result(
            "tocsin",
            build_s,
            events / match_s,
            len(found),
            matcher.nbytes / subscriptions,
            {"ns_a_tree_and_event": 1e9 * match_s / events / subscriptions},
        )
    )
    rejected = len(matcher.rejected)
    report.claim("trees that are refused", "0", f"{rejected}", rejected == 0)

    step = max(subscriptions // sample, 1)
    chosen = range(0, subscriptions, step)
    counts = dict(zip(*(column.to_pylist() for column in found["subscription"].value_counts().flatten()), strict=True))
    ours = [counts.get(f"{number:06}", 0) for number in chosen]
    rival_s = _duckdb(report, table, [texts[number] for number in chosen], ours)
    ratio = rival_s / len(chosen) * subscriptions / match_s
    report.claim("times DuckDB, the better of its two ways", "at least 100", f"{ratio:,.0f}", ratio >= 100)

    some = list(chosen)[:20]
    rows = table.slice(0, 50).to_pylist()
    expected = {
        (row, f"{number:06}")
        for number in some
        for row, event in enumerate(rows)
        if evaluate(parse(texts[number]), event) is True
    }
    pairs = zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True)
    wanted = {f"{number:06}" for number in some}
    if {pair for pair in pairs if pair[0] < len(rows) and pair[1] in wanted} != expected:
        report.disagreements.append("the reference finds other matches for some trees")

    each = [_by_size(report, random, size, table, quick) for size in (FEWEST, MOST)]
    for name, (small, large) in zip(("build time", "bytes", "match time"), zip(*each, strict=True), strict=True):
        growth = large / small
        claim = f"{name} a predicate, of trees of {MOST:,} over trees of {FEWEST}"
        report.claim(claim, "at most 1.5", f"{growth:.2f}", growth <= 1.5)
    return report


def _built(texts: Sequence[str]) -> tuple[float, Matcher]:
    """The processor time of building, and the matcher."""
    table = pa.table({"id": [f"{number:06}" for number in range(len(texts))], "where": texts})
    start = time.process_time()
    matcher = Matcher.from_table(table, background_merge=False)
    return time.process_time() - start, matcher


def _processor_seconds(work: Callable[[], object], repeat: int = 3) -> float:
    """The least processor time of some runs."""
    seconds = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def _by_size(
    report: Report, random: np.random.Generator, size: int, events: pa.Table, quick: bool
) -> tuple[float, float, float]:
    """Seconds of building, bytes and seconds of matching, for each predicate of trees of one size."""
    predicates = 20_000 if quick else 200_000
    build_s, matcher = _built(make_trees(random, [size] * (predicates // size)))
    matcher.match_batch(events)
    match_s = _processor_seconds(lambda: matcher.match_batch(events))
    each = build_s / predicates, matcher.nbytes / predicates, match_s / predicates
    extra: dict[str, Cell] = {"us_to_build_a_predicate": 1e6 * each[0], "bytes_a_predicate": each[1]}
    extra["ns_a_tree_and_event"] = 1e9 * match_s / (predicates // size) / len(events)
    report.results.append(
        Result(f"tocsin, {predicates // size:,} trees of {size:,}", build_s, len(events) / match_s, extra=extra)
    )
    return each


def _duckdb(report: Report, events: pa.Table, texts: Sequence[str], counts: Sequence[int]) -> float:
    """The seconds of DuckDB for all texts: a query for each, and one query for all; the better of both."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute("CREATE TABLE event AS SELECT * FROM events")

    def one_by_one() -> list[int]:
        queries = (f"SELECT count(*) FROM event WHERE {text}" for text in texts)
        return [int(connection.execute(query).fetchall()[0][0]) for query in queries]

    def together() -> list[int]:
        counted = ", ".join(f"count(*) FILTER (WHERE {text})" for text in texts)
        return [int(value) for value in connection.execute(f"SELECT {counted} FROM event").fetchall()[0]]

    seconds = []
    for name, ask in (("duckdb, query by query", one_by_one), ("duckdb, one query", together)):
        if ask() != list(counts):
            report.disagreements.append(f"{name} finds other matches")
        seconds.append(_processor_seconds(ask, 1))
        each = seconds[-1] / len(texts) / len(events)
        report.results.append(
            Result(
                f"{name} ({len(texts)} trees)",
                events_per_s=len(events) / seconds[-1],
                matches=sum(counts),
                extra={"ns_a_tree_and_event": 1e9 * each},
            )
        )
    return min(seconds)
