"""History: what a comparison with all earlier events costs as they grow in number, against DuckDB, and in memory."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tocsin.arrays import Float64s, Int32s
from tocsin.bench.runner import Cell, Figure, Report, Result
from tocsin.matcher import Matcher
from tocsin.model.condition import Exists, OldComparedToConstant, OldComparedToNew, Op, Quantified, Quantifier
from tocsin.model.predicate import Conjunction, Range, Ranges, Tested
from tocsin.model.values import Kind, Number
from tocsin.predicates.history.join_table import JoinTable
from tocsin.predicates.history.prefilter import Prefilter
from tocsin.predicates.history.search import Search, narrowed
from tocsin.predicates.history.store import HistoryStore

if TYPE_CHECKING:
    import duckdb

ATTRIBUTES = ["price", "year", "stock"]
AUTHORS = 1000
_DOMAIN = 1 << 40
Event = Mapping[str, object]


def run(quick: bool = False, seed: int = 8, events: int = 100) -> Report:
    """Measure the history. `quick` ends within a minute, with a history of 300,000 events at most."""
    random = np.random.default_rng(seed)
    sizes = [10_000, 100_000, 300_000] if quick else [10_000, 100_000, 1_000_000, 10_000_000]
    report = Report("history", {"subscriptions": 100_000, "old_events": sizes[-1], "events": events, "quick": quick})
    _simple(report, random, sizes, events)
    _conjunctions(report, random, 1000 if quick else 10_000, 100_000 if quick else 1_000_000, events)
    _two_ranges(report, random, [size for size in sizes if size <= 1_000_000], events)
    _prefilter(report, random, 2000 if quick else 10_000, events)
    _many_shapes(report, random, 60 if quick else 300, 500 if quick else 1500)
    _shared_tests(report, random, 1000 if quick else 4950, 500 if quick else 1500)
    _beside_others(report, random, 10_000 if quick else 100_000)
    return report


SHAPES = (
    "{x} {o} {q} (SELECT h.{y} FROM history h)",
    "EXISTS (SELECT 1 FROM history h WHERE h.{x} = event.{x} AND h.{y} {p} event.{z})",
    "{x} {o} {q} (SELECT h.{x} FROM history h WHERE h.s = event.s)",
    "{x} {o} {q} (SELECT h.{y} FROM history h WHERE h.{z} {p} {c})",
    "NOT EXISTS (SELECT 1 FROM history h WHERE h.s = event.s AND h.{y} {p} {c} AND h.{x} {o} event.{x})",
    "EXISTS (SELECT 1 FROM history h WHERE h.{x} {o} event.{x} AND h.{y} {p} event.{y})",
)
"""Shapes of subscriptions that look back, over five numbers a to e and a text s."""


def _mixed(random: np.random.Generator, count: int) -> list[str]:
    """Subscriptions of all shapes in turn, with random attributes, operators and constants."""
    texts = []
    for number in range(count):
        x, y, z = random.choice(list("abcde"), 3, replace=False).tolist()
        o, p = random.choice([op.value for op in Op], 2).tolist()
        choice = {"x": x, "y": y, "z": z, "o": o, "p": p, "q": ("ANY", "ALL")[number % 2], "c": number % 100}
        texts.append(SHAPES[number % len(SHAPES)].format(**choice))
    return texts


def _rows(random: np.random.Generator, count: int) -> pa.Table:
    numbers = {name: random.integers(0, 100, count) for name in "abcde"}
    return pa.table({"n": range(count), **numbers, "s": [f"s{one}" for one in random.integers(0, 20, count)]})


def _many_shapes(report: Report, random: np.random.Generator, count: int, size: int) -> None:
    """Mixed subscriptions over events that become history one by one; DuckDB joins the table with itself."""
    import duckdb

    events, texts = _rows(random, size), _mixed(random, count)
    _published(texts, events.slice(0, 100))
    ours, found = _published(texts, events)
    a_third, _ = _published(texts[: count // 3], events)
    with duckdb.connect() as rival:
        rival.register("rows", events)
        rival.execute("CREATE TABLE events AS FROM rows")
        queries = [_over_one_table(text) for text in texts]
        rival.execute(queries[0]).fetchall()
        start = time.process_time()
        theirs = [rival.execute(query).fetchall() for query in queries]
        spent = time.process_time() - start
    expected = {(n, f"s{number}") for number, rows in enumerate(theirs) for (n,) in rows}
    if found != expected:
        report.disagreements.append(f"{len(found ^ expected)} matches of mixed subscriptions")
    report.results.append(Result(f"{count} mixed subscriptions", events_per_s=size / ours, extra={"events": size}))
    report.results.append(Result("DuckDB, a join for each", events_per_s=size / spent, extra={"events": size}))
    claim = f"{count} mixed subscriptions over {size:,} events: times DuckDB, processor time"
    report.claim(claim, "at least 5", f"{spent / ours:.1f}", spent / ours >= 5)
    each = a_third / size * 1e3
    report.claim(f"{count // 3} shapes, {size:,} events: ms an event", "at most 0.2", f"{each:.2f}", each <= 0.2)
    alone = statistics.median(_published_one_by_one(texts[: count // 3], events.to_pylist())) * 1e3
    report.claim("the same, published one by one, median", "at most 0.2", f"{alone:.2f}", alone <= 0.2)
    long = _rows(random, 20 * size)
    beside = statistics.median(_published_one_by_one(texts[: count // 3], events.slice(0, 100).to_pylist(), long)) * 1e3
    report.claim(f"the same beside {len(long):,} old events", "at most 2", f"{beside:.2f}", beside <= 2)


def _over_one_table(text: str) -> str:
    """The subscription for DuckDB: row e is the event, the rows with lower numbers are its history."""
    text = text.replace("FROM history h WHERE", "FROM events h WHERE h.n < e.n AND")
    text = text.replace("FROM history h", "FROM events h WHERE h.n < e.n").replace("event.", "e.")
    return f"SELECT e.n FROM events e WHERE {text}"


def _published(texts: Sequence[str], events: pa.Table) -> tuple[float, set[tuple[int, str]]]:
    """Publish events to a matcher of the subscriptions; return the processor time, and what matched."""
    matcher = Matcher(background_merge=False)
    matcher.subscribe_many([{"id": f"s{number}", "where": text} for number, text in enumerate(texts)])
    matcher.match_batch(events.slice(0, 2))
    start = time.process_time()
    table = matcher.publish_batch(events)
    spent = time.process_time() - start
    return spent, set(zip(table["event"].to_pylist(), table["subscription"].to_pylist(), strict=True))


def _published_one_by_one(texts: Sequence[str], events: Sequence[Event], before: pa.Table | None = None) -> list[float]:
    """Publish events to a matcher of the subscriptions; return the seconds of each, without the first ten."""
    matcher = Matcher(background_merge=False)
    if before is not None:
        matcher.history.load(before)
    matcher.subscribe_many([{"id": f"s{number}", "where": text} for number, text in enumerate(texts)])
    spent = []
    for event in events:
        start = time.perf_counter()
        matcher.publish(event)
        spent.append(time.perf_counter() - start)
    return spent[10:]


def _shared_tests(report: Report, random: np.random.Generator, count: int, size: int) -> None:
    """Many subscriptions that share 50 tests on the history, each with a constant of its own."""
    tests = _mixed(random, 50)
    texts = [f"c > {number % 100} AND {tests[number % 50]}" for number in range(count)]
    spent, _ = _published(texts, _rows(random, size))
    each = spent / size * 1e3
    report.results.append(Result(f"{count:,} subscriptions of 50 tests", events_per_s=size / spent))
    report.claim(f"{count:,} subscriptions of 50 distinct tests: ms an event", "below 0.64", f"{each:.2f}", each < 0.64)


def _beside_others(report: Report, random: np.random.Generator, count: int) -> None:
    """One subscription that looks back beside many that do not."""
    events = _rows(random, 5000)
    others = [f"s = 's{number % 20}' AND a > {number % 100} AND b = {number % 97}" for number in range(count)]
    looking_back = [*others, "a > ALL (SELECT a FROM history)"]
    _published(looking_back[-50:], events)
    alone, beside = (_published(texts, events)[0] for texts in (others, looking_back))
    claim = f"one subscription on history beside {count:,} others: times a batch without it"
    report.claim(claim, "at most 2", f"{beside / alone:.2f}", beside <= 2 * alone)


def _simple(report: Report, random: np.random.Generator, sizes: Sequence[int], events: int) -> None:
    """100,000 subscriptions, each one quantified comparison, on histories of growing size."""
    tests = [Quantified(a, op, q, b) for a in ATTRIBUTES for b in ATTRIBUTES for op in Op for q in Quantifier]
    of_test = random.integers(0, len(tests), 100_000)
    subscriptions = {test: BitMap(np.flatnonzero(of_test == test)) for test in range(len(tests))}
    tables = []
    for size in sizes:
        store = HistoryStore(attributes=ATTRIBUTES)
        for start in range(0, size, 1_000_000):
            rows = min(1_000_000, size - start)
            store.append_batch(pa.table({name: random.integers(0, _DOMAIN, rows) for name in ATTRIBUTES}))
        tables.append(JoinTable(enumerate(tests), store))
    new: list[Event] = [{name: int(random.integers(0, _DOMAIN)) for name in ATTRIBUTES} for _ in range(events)]

    def matching(table: JoinTable, event: Event) -> BitMap:
        """The subscriptions on tests that are TRUE: the paper's procedure, for subscriptions of one test each."""
        return BitMap.union(BitMap(), *(subscriptions[test] for test in table.probe(event).true.tolist()))

    seconds = _interleaved([partial(matching, table) for table in tables], new)
    for size, table, spent in zip(sizes, tables, seconds, strict=True):
        extra: dict[str, Cell] = {
            "old_events": size,
            "bytes_per_old_value": table.store.nbytes / size / len(ATTRIBUTES),
        }
        report.results.append(Result("simple comparisons", events_per_s=1 / spent, extra=extra))
    ratio = seconds[-1] / seconds[0]
    grown = f"time an event with {sizes[-1]:,} old events to that with {sizes[0]:,}, 100,000 simple subscriptions"
    report.claim(grown, "at most 1.5", f"{ratio:.2f}", ratio <= 1.5)
    most = max(table.store.nbytes / size for size, table in zip(sizes, tables, strict=True)) / len(ATTRIBUTES)
    report.claim("bytes an old event and attribute, index included", "at most 16", f"{most:.1f}", most <= 16)
    points = [(float(size), spent * 1e6) for size, spent in zip(sizes, seconds, strict=True)]
    report.figures.append(
        Figure(
            "history_simple",
            "100,000 subscriptions with one quantified comparison",
            "old events",
            "µs an event",
            {"aggregates": points},
            log_x=True,
        )
    )


def _conjunctions(report: Report, random: np.random.Generator, count: int, size: int, events: int) -> None:
    """`EXISTS (… h.author = event.author AND h.price > constant)`, a constant for each subscription; DuckDB joins."""
    import duckdb

    authors = [f"author {number}" for number in range(AUTHORS)]
    history = pa.table(
        {"author": pa.array(authors).take(random.integers(0, AUTHORS, size)), "price": random.random(size) * 100}
    )
    constants = random.random(count) * 101
    same_author = OldComparedToNew("author", Op.EQ, "author")
    tests = [Exists((same_author, OldComparedToConstant("price", Op.GT, float(c)))) for c in constants]
    store = HistoryStore(attributes=["author", "price"])
    store.append_batch(history)
    table = JoinTable(enumerate(tests), store)
    new: list[Event] = [{"author": authors[number % AUTHORS]} for number in range(events)]
    [ours] = _interleaved([table.probe], new)
    with duckdb.connect() as rival:
        rival.execute("SET enable_progress_bar = false")
        rival.register("history_rows", history)
        rival.register("subscription_rows", pa.table({"id": np.arange(count), "price": constants}))
        rival.execute("CREATE TABLE history AS FROM history_rows")
        rival.execute("CREATE TABLE subscriptions AS FROM subscription_rows")
        joined = (
            "SELECT s.id FROM subscriptions s WHERE EXISTS "
            "(SELECT 1 FROM history h WHERE h.author = $author AND h.price > s.price)"
        )
        by_hand = (
            "SELECT s.id FROM subscriptions s WHERE s.price < "
            "(SELECT max(h.price) FROM history h WHERE h.author = $author)"
        )
        few = new[: max(3, events // 20)]
        engines = {"DuckDB, join": joined, "DuckDB, aggregate written by hand": by_hand}
        asked = [partial(_ask, rival, query) for query in engines.values()]
        spent = dict(zip(engines, _interleaved(asked, few).tolist(), strict=True))
        for event in few:
            found = sorted(rival.execute(joined, dict(event)).fetchnumpy()["id"].tolist())
            if found != sorted(table.probe(event).true.tolist()):
                report.disagreements.append(f"EXISTS for {event}")
    extra: dict[str, Cell] = {"old_events": size, "tests": count}
    report.results.append(Result("conjunctions with an equality", events_per_s=1 / ours, extra=extra))
    for name, seconds in spent.items():
        report.results.append(Result(name, events_per_s=1 / seconds, extra=extra))
    ratio = spent["DuckDB, join"] / ours
    claim = f"{count:,} conjunctions under EXISTS with one equality, {size:,} old events: times DuckDB by joins"
    report.claim(claim, "at least 100", f"{ratio:,.0f}", ratio >= 100)


def _two_ranges(report: Report, random: np.random.Generator, sizes: Sequence[int], events: int) -> None:
    """`EXISTS (… h.price < event.price AND h.stock < event.stock)` where stock falls as price rises: none does."""
    terms = [OldComparedToNew(name, Op.LT, name) for name in ("price", "stock")]
    points: dict[str, list[tuple[float, float]]] = {"scan of both columns": [], "bitmaps": []}
    for size in sizes:
        store = HistoryStore(attributes=["price", "stock"])
        prices = random.permutation(size)
        store.append_batch(pa.table({"price": prices, "stock": size - prices}))
        positions = np.arange(size, dtype=np.int32)

        def scan(event: Event, store: HistoryStore = store, positions: Int32s = positions) -> object:
            return narrowed(store, positions, Search(store, event).bind(terms))

        table = JoinTable([(0, Exists(tuple(terms)))], store)
        middle = random.integers(size // 4, 3 * size // 4, events).tolist()
        new: list[Event] = [{"price": price, "stock": size - price} for price in middle]
        for name, spent in zip(points, _interleaved([scan, table.probe], new), strict=True):
            points[name].append((float(size), spent * 1e6))
    ratio = points["scan of both columns"][-1][1] / points["bitmaps"][-1][1]
    report.claim(f"two ranges that none of {sizes[-1]:,} satisfies: times a scan", "more", f"{ratio:.1f}", ratio > 1)
    title = "EXISTS with two inequalities and no answer"
    figure = Figure("history_two_ranges", title, "old events", "µs an event", points, log_x=True, log_y=True)
    report.figures.append(figure)


def _prefilter(report: Report, random: np.random.Generator, count: int, events: int) -> None:
    """`year = … AND EXISTS (… h.year = event.year AND h.stock = … AND h.price > …)`: most constants never occurred."""
    size = 50_000
    store = HistoryStore(attributes=["year", "stock", "price"])
    columns = {"year": random.integers(2000, 2020, size), "stock": random.integers(0, 500, size)}
    store.append_batch(pa.table({**columns, "price": random.random(size) * 100}))
    tests: dict[int, Exists] = {}
    conjunctions: list[tuple[int, Conjunction]] = []
    constants = zip(
        *(random.integers(*ends, count).tolist() for ends in ((1980, 2040), (0, 1000), (0, 100))), strict=True
    )
    for number, (year, stock, price) in enumerate(constants):
        test = tests[number] = Exists(
            (
                OldComparedToNew("year", Op.EQ, "year"),
                OldComparedToConstant("stock", Op.EQ, stock),
                OldComparedToConstant("price", Op.GT, price),
            )
        )
        point = Range(Number(year), True, Number(year), True)
        conjunctions.append((number, (Ranges("year", Kind.NUMBER, (point,)), Tested(test))))
    prefilter = Prefilter(conjunctions, store)
    table = JoinTable(tests.items(), store)
    wanted = prefilter.surviving()
    filtered = JoinTable(((number, tests[number]) for number in wanted), store)
    new: list[Event] = [{"year": int(year)} for year in random.integers(1990, 2030, events)]
    all_of_them, fewer = _interleaved([table.probe, filtered.probe], new)
    savings = prefilter.savings()
    share = savings.ruled_out / savings.conjunctions
    report.results.append(Result("all tests", events_per_s=1 / all_of_them, extra={"tests": count}))
    report.results.append(
        Result("tests that survive the pre-filter", events_per_s=1 / fewer, extra={"tests": len(wanted)})
    )
    saved = f"{share:.0%} of conjunctions, {savings.constraints:,} conditions; {all_of_them / fewer:.1f} times as fast"
    report.claim("ruled out by the pre-filter before any event", "more than none", saved, savings.ruled_out > 0)


def _ask(rival: "duckdb.DuckDBPyConnection", query: str, event: Event) -> object:
    return rival.execute(query, dict(event)).fetchnumpy()


def _interleaved(works: Sequence[Callable[[Event], object]], events: Sequence[Event]) -> Float64s:
    """The median seconds an event of each work; they take turns, so that a busy machine slows all alike."""
    for work in works:
        work(events[0])
    spent: list[list[float]] = [[] for _ in works]
    for event in events:
        for number, work in enumerate(works):
            start = time.perf_counter()
            work(event)
            spent[number].append(time.perf_counter() - start)
    return np.array([statistics.median(times) for times in spent])
