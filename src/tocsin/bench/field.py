"""The workload `field`: ranges as the papers on event matching compare themselves, against REIN, HEM and DuckDB.

By default a million subscriptions of 10 ranges of width 0.4 over 20 attributes of a domain of a million integers, all
uniform; each sweep varies one of the parameters. Times are processor time. What is timed of Tocsin is a segment: from
an Arrow table of events (a dict for a single event) to the numbers of the subscriptions of each event. Its index is
built from arrays, not from texts, so that the build time is that of domains, codes, equal conjunctions and the index,
and has no parsing in it.
"""

import gc
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.arrays import Float64s, Int32s
from tocsin.bench.field_rivals import Ranges, hem, match_events, nbytes, rein
from tocsin.bench.runner import Cell, Figure, Report, Result, processor_timed
from tocsin.conjunctions.choose import CombinedIndex
from tocsin.conjunctions.protocol import Filing
from tocsin.index.build import CodedColumn, spread_of_events
from tocsin.index.intake import SubscriptionRows
from tocsin.index.options import Options
from tocsin.index.rare_attributes import RareRanges
from tocsin.index.segment import Segment
from tocsin.language.normal_form import NormalForm, RangeColumn
from tocsin.model.events import EventBatch
from tocsin.model.values import Kind

BATCHES = (1, 32, 2_000)
MOST_MATCHES = 10_000_000
"""Events of a batch are cut so that it has about this many matches at most."""
RIVAL_EVENTS = 20
DUCKDB_EVENTS = 2
DUCKDB_SUBSCRIPTIONS = 100_000
"""DuckDB gets the first so many subscriptions: its time is linear in them."""
OURS = ("auto", "pairs", "bitmaps")
MOST_BY_PAIRS = 50_000_000
"""Predicates that are filed by access pairs alone: 90 million, those of nine million subscriptions, take over 24 GB."""
LONG_S = 20.0
"""What has taken so many seconds is not repeated: access pairs take minutes where nobody would choose them."""


@dataclass(frozen=True)
class Point:
    """The parameters of one point of a sweep."""

    sweep: str
    x: float
    subscriptions: int
    attributes: int = 20
    predicates: tuple[int, int] = (10, 10)
    event_size: tuple[int, int] = (20, 20)
    width: tuple[float, float] = (0.4, 0.4)
    domain: int = 1_000_000
    zipf: float = 0.0
    """The exponent by which subscriptions and events prefer the first attributes."""

    @property
    def name(self) -> str:
        """The point as a report names it."""
        return f"{self.sweep} {self.x:g}"


def points(subscriptions: int, values: int, most_attributes: int = 10_000) -> Iterator[Point]:
    """The default point and those of all sweeps, with about so many values each, the first and the last among them."""
    default = Point("default", 0, subscriptions)
    yield default

    def some(*steps: float) -> list[float]:
        if len(steps) <= values:
            return list(steps)
        return [steps[number] for number in sorted({round(i * (len(steps) - 1) / (values - 1)) for i in range(values)})]

    for x in some(0.3, 1, 3, 5, 7, 9):
        yield replace(default, sweep="subscriptions", x=x * subscriptions, subscriptions=int(x * subscriptions))
    for x in some(5, 10, 15, 20, 25, 30):
        both, wide = (int(x), int(x)), (0.8, 0.8)
        yield replace(default, sweep="predicates", x=x, attributes=30, predicates=both, event_size=(30, 30), width=wide)
    five = replace(default, predicates=(5, 5))
    for x in some(30, 40, 50, 60, 70, 80):
        yield replace(five, sweep="event size", x=x, attributes=80, event_size=(int(x), int(x)))
    for x in some(0.1, 0.3, 0.5, 0.7, 0.9):
        yield replace(five, sweep="width", x=x, width=(x, x))
    for x in some(*(x for x in (30, 100, 300, 1_000, 3_000, 10_000) if x <= most_attributes)):
        yield replace(five, sweep="attributes", x=x, attributes=int(x), width=(0.8, 0.8))
    for x in some(0, 1, 2, 3, 4, 5):
        yield replace(default, sweep="zipf", x=x, attributes=100, zipf=x)
    for x in some(100, 1_000, 10_000, 100_000, 1_000_000):
        yield replace(default, sweep="domain", x=x, domain=int(x))
    yield replace(
        default, sweep="mixed", x=1, attributes=100, predicates=(1, 10), event_size=(1, 40), width=(0.0, 1.0), zipf=1.0
    )


@dataclass(frozen=True)
class Workload:
    """The ranges of a point, sorted by subscription, and its events: `values[attribute, event]`, -1 for none."""

    point: Point
    ranges: Ranges
    values: Int32s

    def events(self, first: int, end: int) -> pa.Table:
        """Some events as columns a0, a1 and so on."""
        part = self.values[:, first:end]
        return pa.table({f"a{n}": pa.array(row, pa.int32(), mask=row < 0) for n, row in enumerate(part)})


def generate(point: Point, events: int, seed: int) -> Workload:
    """Make the workload of a point; the same seed gives the same workload."""
    random = np.random.default_rng(seed)
    attribute, subscription = _attributes(random, point, point.subscriptions, point.predicates)
    width = random.uniform(*point.width, attribute.size)
    length = np.maximum((width * point.domain).astype(np.int64), 1)
    low = (random.random(attribute.size) * (point.domain - length + 1)).astype(np.int64)
    present, event = _attributes(random, point, events, point.event_size)
    values = np.full((point.attributes, events), -1, np.int32)
    values[present, event] = random.integers(0, point.domain, present.size)
    ranges = Ranges(subscription, attribute, low.astype(np.int32), (low + length - 1).astype(np.int32))
    return Workload(point, ranges, values)


def _attributes(random: np.random.Generator, point: Point, rows: int, sizes: tuple[int, int]) -> tuple[Int32s, Int32s]:
    """Draw distinct attributes for each row, the first ones more often by Zipf's law; return them with their rows."""
    count = random.integers(sizes[0], min(sizes[1], point.attributes) + 1, rows)
    weight = -point.zipf * np.log(np.arange(1, point.attributes + 1))
    chosen, owner = [], []
    step = max(1, 20_000_000 // point.attributes)
    most = int(count.max())
    for first in range(0, rows, step):
        part = count[first : first + step]
        # The largest of weights with Gumbel noise are a sample without replacement by weight.
        noise = weight - np.log(-np.log(random.random((part.size, point.attributes), np.float32) + 1e-12))
        best = np.argsort(-noise, axis=1) if most == point.attributes else np.argpartition(-noise, most - 1, axis=1)
        if sizes[0] < sizes[1]:
            best = np.argsort(-noise, axis=1)
        taken = np.arange(most) < part[:, None]
        chosen.append(best[:, :most][taken].astype(np.int32))
        owner.append(np.repeat(np.arange(first, first + part.size, dtype=np.int32), part))
    attribute, row = np.concatenate(chosen), np.concatenate(owner)
    order = np.argsort(row.astype(np.int64) * point.attributes + attribute, kind="stable")
    return attribute[order], row[order]


def build_segment(workload: Workload) -> Segment:
    """Build a segment from arrays, as if the subscriptions had been parsed; their texts are empty."""
    ranges, count = workload.ranges, workload.point.subscriptions
    order = np.argsort(ranges.attribute, kind="stable")
    ends = np.searchsorted(ranges.attribute[order], np.arange(workload.point.attributes + 1))
    columns = {}
    for number in range(workload.point.attributes):
        rows = order[ends[number] : ends[number + 1]]
        if rows.size:
            yes = np.ones(rows.size, bool)
            low, high = ranges.low[rows].astype(np.float64), ranges.high[rows].astype(np.float64)
            columns[f"a{number}", Kind.NUMBER] = RangeColumn(ranges.subscription[rows], low, high, yes, yes, yes, yes)
    nothing = np.empty(0, np.int32)
    form = NormalForm(count, np.arange(count, dtype=np.int32), columns, [], nothing, nothing, {}, [])
    empty = [""] * count
    rows_of = SubscriptionRows([f"{number:08}" for number in range(count)], empty, np.ones(count), empty)
    return Segment.build(rows_of, form, Options())


def by_one_way(segment: Segment, in_bitmaps: bool) -> Segment:
    """The same segment, filed by access pairs only or in bitmaps only."""
    numbers, conjunctions = segment.owners.owner, segment.conjunctions()
    first_of = np.sort(numbers[numbers >= 0]) if not segment.is_one_to_one else np.arange(conjunctions.count)
    assert first_of.size == conjunctions.count, "no two subscriptions are equal"
    coded = []
    for place, column in enumerate(segment.columns):
        rows = np.flatnonzero(conjunctions.column == place)
        fields = (array[rows] for array in (conjunctions.conjunction, conjunctions.low, conjunctions.high))
        coded.append(CodedColumn(column.attribute, column.kind, column.domain, *fields))
    shares = spread_of_events(coded)
    del coded
    short = {p: c.quantizer.of_codes(c.domain) for p, c in enumerate(segment.columns) if c.quantizer is not None}
    none = np.full(conjunctions.count, -1, np.int32)
    filing = Filing(conjunctions, conjunctions.count, shares, none, np.empty(0), short, np.empty(0, bool))
    index = CombinedIndex.by_one_way(filing, in_bitmaps)
    # All ranges are filed, also those on rare attributes: events need a column of codes for each of them.
    return replace(segment, index=index, rare=RareRanges.none(), needs_codes=index.needs_codes or segment.needs_codes)


def without_index(segment: Segment) -> Segment:
    """The same segment with nothing filed: for two indexes of nine million subscriptions there is no room."""
    nothing = segment.conjunctions().select(np.empty(0, np.int32))
    filing = Filing(nothing, 0, [], np.empty(0, np.int32), np.empty(0), {}, np.empty(0, bool))
    return replace(segment, index=CombinedIndex.by_one_way(filing, in_bitmaps=False))


def run(
    subscriptions: int = 1_000_000,
    events: int = 2_000,
    values: int = 3,
    seed: int = 1,
    quick: bool = False,
    full: bool = False,
    rivals: bool = True,
    sweep: str = "",
) -> Report:
    """Match every point by each of our ways, REIN, HEM and DuckDB; `--full` takes all values of every sweep.

    `--sweep` names one sweep; `--quick` has few subscriptions, attributes and events, and the ends of each sweep.
    """
    if quick:
        subscriptions, values, events = min(subscriptions, 3_000), 2, min(events, 128)
    of_all = points(subscriptions, 100 if full else values, 100 if quick else 10_000)
    chosen = [point for point in of_all if not sweep or point.sweep == sweep]
    report = Report("field", {"subscriptions": subscriptions, "events": events, "seed": seed, "points": len(chosen)})
    for point in chosen:
        _measure_point(report, point, events, seed, rivals)
        gc.collect()
    _claims(report, chosen)
    report.figures = [figure(report, [point.name for point in chosen])]
    return report


def figure(report: Report, names: Sequence[str]) -> Figure:
    """Draw what an event takes at some points: Tocsin in batches of three sizes, each way of ours, and the rivals."""
    engines = dict.fromkeys(str(result.extra["way"]) for result in report.results)
    curves = {"Tocsin, batches of 2,000": ("auto", 2_000), "batches of 32": ("auto", 32), "one event": ("auto", 1)}
    curves |= {f"{way} alone": (way, 2_000) for way in OURS[1:]}
    curves |= {rival: (rival, 2_000) for rival in engines if rival not in OURS}
    series = {}
    for label, (way, size) in curves.items():
        times = _times(report, way, size)
        series[label] = [(float(number), times[name]) for number, name in enumerate(names) if name in times]
    title = "Processor time an event, at every point of every sweep"
    return Figure("field", title, "", "µs an event", series, log_y=True, ticks=names)


def _times(report: Report, way: str, size: int = 2_000) -> dict[str, float]:
    """Microseconds an event in batches of a size, by point."""
    return {
        str(result.extra["point"]): float(str(result.extra[f"us_{size}"]))
        for result in report.results
        if result.extra["way"] == way and result.extra[f"us_{size}"]
    }


def _measure_point(report: Report, point: Point, events: int, seed: int, rivals: bool) -> None:
    workload = generate(point, events, seed)
    build_s, segment = processor_timed(lambda: build_segment(workload))
    few = min(events, DUCKDB_EVENTS)
    matched = np.empty(0, np.int32)
    for way in OURS:
        if way == "pairs" and workload.ranges.attribute.size > MOST_BY_PAIRS:
            continue
        if way != "auto":
            segment = without_index(segment)
            build_s, segment = processor_timed(lambda way=way, of=segment: by_one_way(of, way == "bitmaps"))  # type: ignore[misc]
        found = segment.match(EventBatch(workload.events(0, few)))[0].values
        if way == "auto":
            matched = found
        at_once = max(1, min(events, MOST_MATCHES * few // max(found.size, 1)))
        times = {f"us_{size}": _batches(segment, workload, min(size, at_once)) for size in BATCHES}
        sample = min(at_once, RIVAL_EVENTS)
        matches = segment.match(EventBatch(workload.events(0, sample)))[0].values.size / sample
        _add(report, point, way, build_s, segment.index_bytes, matches, times)
        if found.size != matched.size:
            report.disagreements.append(f"{point.name}: {way} finds {found.size} matches, auto {matched.size}")
    del segment
    if not rivals:
        return
    of_rivals = workload.values[:, : min(RIVAL_EVENTS, events)]
    for name, make in (("REIN", rein), ("HEM", hem)):
        made_s, ends = processor_timed(
            lambda make=make: make(workload.ranges, point.subscriptions, point.attributes, point.domain)  # type: ignore[misc]
        )
        match_events(ends, of_rivals[:, :1])
        seconds, count = processor_timed(lambda ends=ends: match_events(ends, of_rivals))  # type: ignore[misc]
        each = 1e6 * seconds / of_rivals.shape[1]
        times = {f"us_{size}": each for size in BATCHES}
        _add(report, point, name, made_s, nbytes(ends), count / of_rivals.shape[1], times)
        count = match_events(ends, workload.values[:, :few])
        if count != matched.size:
            report.disagreements.append(f"{point.name}: {name} finds {count} matches, tocsin {matched.size}")
        del ends
    _duckdb(report, workload, matched, few)


def _batches(segment: Segment, workload: Workload, size: int) -> float:
    """Microseconds of processor time an event in batches of a size: the median of up to three runs after one."""
    attributes, count = workload.values.shape
    # Ten thousand columns make a batch of one event expensive, whatever is matched.
    wanted = max(size, (64 if size == 1 else 256) // (1 + attributes // 500))
    starts = range(0, min(count // size * size, wanted), size)
    tables = [workload.events(start, start + size) for start in starts]
    # One event comes as a mapping of what it has: a table of one row costs more than its match.
    batches: list[Any] = [
        [{name: value for name, value in table.to_pylist()[0].items() if value is not None}] if size == 1 else table
        for table in tables
    ]
    seconds: list[float] = []
    while len(seconds) < 2 or (len(seconds) < 4 and sum(seconds) < LONG_S):
        seconds.append(processor_timed(lambda: [segment.match(EventBatch(batch)) for batch in batches])[0])
    return 1e6 * statistics.median(seconds[1:]) / (len(batches) * size)


def _add(
    report: Report, point: Point, way: str, build_s: float, size: int, matches: float, times: dict[str, float]
) -> None:
    extra: dict[str, Cell] = {"point": point.name, "way": way, "matches_an_event": round(matches, 2)}
    report.results.append(
        Result(
            f"{point.name}: {way}",
            round(build_s, 2),
            None,
            None,
            round(size / point.subscriptions, 1),
            extra | {name: round(each, 2) for name, each in times.items()},
        )
    )


def _duckdb(report: Report, workload: Workload, matched: Int32s, events: int) -> None:
    """Judge and time DuckDB on a few events and the first subscriptions, if it has few enough columns to join.

    `matched` are the subscriptions that these events match.
    """
    point, ranges = workload.point, workload.ranges
    if point.attributes > 100:
        return
    import duckdb

    count = min(point.subscriptions, DUCKDB_SUBSCRIPTIONS)
    rows = slice(0, int(np.searchsorted(ranges.subscription, count)))
    bounds: dict[str, pa.Array] = {}
    for end, values in (("l", ranges.low[rows]), ("h", ranges.high[rows])):
        table: Float64s = np.full((point.attributes, count), np.nan)
        table[ranges.attribute[rows], ranges.subscription[rows]] = values
        bounds |= {f"{end}{n}": pa.array(row, mask=np.isnan(row)) for n, row in enumerate(table)}
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("events", workload.events(0, events))
    connection.register("bounds", pa.table(bounds))
    join = " AND ".join(f"(l{n} IS NULL OR a{n} BETWEEN l{n} AND h{n})" for n in range(point.attributes))
    query = f"SELECT count(*) FROM events JOIN bounds ON {join}"
    seconds, answers = processor_timed(lambda: connection.execute(query).fetchall())
    found = int(answers[0][0])
    expected = int((matched < count).sum())
    if found != expected:
        report.disagreements.append(f"{point.name}: DuckDB finds {found} matches, tocsin {expected}")
    each = 1e6 * seconds / events * point.subscriptions / count
    _add(report, point, "DuckDB", 0.0, 0, found / events, {f"us_{size}": each for size in BATCHES})


def _claims(report: Report, chosen: list[Point]) -> None:
    ours = _times(report, "auto")
    by_way = {way: _times(report, way) for way in ("pairs", "bitmaps", "REIN", "HEM")}
    if "default 0" in ours:
        own = ours["default 0"]
        report.claim("default: µs an event in batches of 2,000", "at most 60", f"{own:.1f}", own <= 60)
        for rival, least in (("HEM", 15), ("REIN", 100)):
            if by_way[rival]:
                ratio = by_way[rival]["default 0"] / own
                report.claim(f"default: times {rival}", f"at least {least}", f"{ratio:.1f}", ratio >= least)
    by_one = [by_way[way] for way in ("pairs", "bitmaps")]
    best_of_ours = {point.name: min(times[point.name] for times in by_one if point.name in times) for point in chosen}
    worst = max(chosen, key=lambda point: ours[point.name] / best_of_ours[point.name]).name
    ratio = ours[worst] / best_of_ours[worst]
    report.claim(f"auto over the best of our ways, at worst ({worst})", "at most 1.5", f"{ratio:.2f}", ratio <= 1.5)
    if by_way["REIN"]:
        of_rivals = {point.name: min(by_way[way][point.name] for way in ("REIN", "HEM")) for point in chosen}
        worst = max(chosen, key=lambda point: ours[point.name] / of_rivals[point.name]).name
        ratio = of_rivals[worst] / ours[worst]
        report.claim(f"times the best rival, at worst ({worst})", "at least 1", f"{ratio:.2f}", ratio >= 1)
