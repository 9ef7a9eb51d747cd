"""What the audit costs, and how soon it finds a defect: mutants of an index, each wrong in one place.

Every mutant answers for the same subscriptions, of every family, and the same batches; the answers of the sound index
say which pairs of a batch and a subscription (cells) are wrong. One batch in 16 is taken, and 16 times the share of its
cells is judged. A cell that is judged is found wrong for sure if a wrong row is a comparison of columns. Of the rows in
doubt (words, patterns and the like) the audit judges 8 that were answered and 8 that were not, so that such a cell is
found with the chance d that a wrong row is among these. So an audit promises to find something in a batch with the
chance (1 - product of (1 - 16 share d) over the wrong cells) / 16. Measured is the mean of some audits, each with its
own chance.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.arrays import Ragged
from tocsin.bench.runner import Cell, Report, Result
from tocsin.conjunctions.boolean.match import Trees
from tocsin.conjunctions.choose import CombinedIndex
from tocsin.conjunctions.pairs.match import PairIndex
from tocsin.index import answer as answering
from tocsin.index import audit as auditing
from tocsin.index import encoding, id_order
from tocsin.index import segment as segments
from tocsin.index.answer import Request, Rows, answer
from tocsin.index.combined_tests import CombinedTests
from tocsin.index.rare_attributes import RareRanges
from tocsin.index.second_way import Held, PlainColumns
from tocsin.index.snapshot import SegmentState, Snapshot
from tocsin.language.parse import parse
from tocsin.matcher import Matcher
from tocsin.model.events import EventBatch
from tocsin.predicates.patterns.index import Patterns
from tocsin.predicates.places.index import Places
from tocsin.predicates.regexps.index import Regexps
from tocsin.predicates.words.index import Vocabulary

BATCH = 2048
TRIALS = 20
SHARE = 0.01
MOST_EVENTS = 50_000_000
Change = Callable[[Any], Any]


def _pairs(change: Callable[[Any], Any]) -> Change:
    """Let a change loose on the (event, conjunction) pairs that phase 2 found."""

    def mutate(real: Any) -> Any:
        def match(self: Any, *arguments: Any, **named: Any) -> Any:
            pairs, candidates = real(self, *arguments, **named)
            return np.ascontiguousarray(change(np.ascontiguousarray(pairs))).astype(np.int32), candidates

        return match

    return mutate


def _ranges(change: Callable[[Any], Any]) -> Change:
    """Let a change loose on the ranges of codes that a segment is built from."""
    return lambda real: lambda *arguments: change(real(*arguments))


def _some(said: Any, field: str, by: int) -> Any:
    """Move an end of every hundredth range of codes that stays one."""
    moved = getattr(said, field).copy()
    places = np.arange(moved.size)[::100]
    places = places[(said.low[places] >= 0) & (said.low[places] < said.high[places])]
    moved[places] += np.int32(by)
    return replace(said, **{field: moved})


def _null_is_a_value(said: Any) -> Any:
    return replace(said, **{end: np.maximum(getattr(said, end), 0) for end in ("low", "high")})


def _lists(change: Callable[[Any, Any], Any]) -> Change:
    """Let a change loose on lists of tests that hold: where the list of each text starts, and the tests."""

    def mutate(real: Any) -> Any:
        def probe(self: Any, *arguments: Any) -> Any:
            found = real(self, *arguments)
            return (*change(found[0], found[1]), *found[2:])

        return probe

    return mutate


def _without(keep: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """Keep some of the values of lists."""

    def change(starts: Any, values: Any) -> Any:
        kept = keep(values)
        return np.append(0, np.cumsum(kept))[starts].astype(starts.dtype), values[kept]

    return change


def _no_last_segment(real: Any) -> Any:
    return lambda snapshot, *arguments: list(real(snapshot, *arguments))[:-1]


def _next_id(real: Any) -> Any:
    def ordered(self: Any, lists: Any) -> Any:
        starts, ranks = real(self, lists)
        return starts, np.minimum(ranks + (ranks == 77), len(self.ids) - 1).astype(ranks.dtype)

    return ordered


def _null_is_low(real: Any) -> Any:
    return lambda values, column: np.maximum(real(values, column), 0)


def _off_by_a_bit(real: Any) -> Any:
    def with_short_codes(self: Any, events: Any) -> Any:
        if events.short.size:
            return events
        found = real(self, events)
        return found._replace(short=np.where(found.short > 1, found.short ^ 1, found.short).astype(found.short.dtype))

    return with_short_codes


MUTANTS: dict[str, tuple[Any, str, Change]] = {
    "every tenth pair is lost": (CombinedIndex, "match", _pairs(lambda p: p[np.arange(len(p)) % 10 > 0])),
    "the last pair of a batch is lost": (CombinedIndex, "match", _pairs(lambda p: p[:-1])),
    "one conjunction is never found": (CombinedIndex, "match", _pairs(lambda p: p[p[:, 1] != 40])),
    "one conjunction is found for its neighbour": (
        CombinedIndex,
        "match",
        _pairs(lambda p: p + (p == 40) * np.array([0, 1])),
    ),
    "the last event has no match": (CombinedIndex, "match", _pairs(lambda p: p[p[:, 0] != BATCH - 1])),
    "a word of 64 events is skipped": (CombinedIndex, "match", _pairs(lambda p: p[p[:, 0] // 64 != 3])),
    "events are off by one": (CombinedIndex, "match", _pairs(lambda p: np.maximum(p - np.array([1, 0]), 0))),
    "a low end is one too high": (segments, "conjunctions_of", _ranges(lambda said: _some(said, "low", 1))),
    "a high end is one too low": (segments, "conjunctions_of", _ranges(lambda said: _some(said, "high", -1))),
    "IS NULL is taken for IS NOT NULL": (segments, "conjunctions_of", _ranges(_null_is_a_value)),
    "NULL is the lowest value": (encoding, "codes_of_column", _null_is_low),
    "short codes are off by a bit": (PairIndex, "with_short_codes", _off_by_a_bit),
    "the last segment is dropped": (answering, "match_segments", _no_last_segment),
    "tombstones are ignored": (SegmentState, "left_out", lambda _: lambda _self, _tags: segments.NO_BOOLS),
    "an id is taken for the next one": (id_order.IdOrder, "ordered", _next_id),
    "trees are not verified": (Trees, "verify", lambda _: lambda *_arguments: (None, 0)),
    "no word is found": (Vocabulary, "_find", _lists(_without(lambda v: np.zeros(v.size, bool)))),
    "one pattern is never found": (Patterns, "probe_texts", _lists(_without(lambda v: v != 3))),
    # Their numbers follow the hashes of texts, and three of the ten occur in no event.
    "four regular expressions are never found": (Regexps, "probe_texts", _lists(_without(lambda v: v > 3))),
    "one area is never found": (Places, "probe", _lists(_without(lambda v: v != 5))),
    "ranges on rare attributes never hold": (
        RareRanges,
        "probe",
        lambda _: lambda _self, batch, _evidence: Ragged(np.zeros(len(batch) + 1, np.int64), np.empty(0, np.int32)),
    ),
    "combined tests never hold": (CombinedTests, "added_to", lambda _: lambda _self, true: true),
}


@contextmanager
def seeded(name: str) -> Iterator[None]:
    """Put a mutant in the place of what it mutates. What the audit logs of it is thousands of lines: none is shown."""
    place, attribute, change = MUTANTS[name]
    real = getattr(place, attribute)
    setattr(place, attribute, change(real))
    log = logging.getLogger("tocsin.audit")
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = False
        setattr(place, attribute, real)


def subscriptions() -> list[dict[str, Any]]:
    """Subscriptions of every family that the mutants are about."""
    rows = [f"a BETWEEN {i % 300} AND {i % 300 + 9} AND b < {i % 50} AND c >= {i % 20}" for i in range(1500)]
    rows += [f"(a < {i} OR a IS NULL) AND b = {i % 60}" for i in range(200)]
    rows += [f"has_words(t, 'w{i % 60}') AND c > {i % 20}" for i in range(120)]
    rows += [f"t LIKE '%w{i}_%'" for i in range(60)]
    rows += [f"regexp_matches(t, 'w{i}[02468] .*common')" for i in range(10)]
    rows += [f"within_distance(lat, lon, {i % 50}, {i % 40}, '{50 * (1 + i % 20)} km')" for i in range(60)]
    rows += [f"r{i} > {i % 60} AND c < {i % 25}" for i in range(100)]
    rows += [" AND ".join(f"q{k} > {i * k % 20}" for k in range(1, 64)) for i in range(20)]
    rows += [f"c <> {i} AND w1 < w2 AND w3 < w4" for i in range(60)]
    rows += [" AND ".join(f"(a < {k} OR b = {k + i} OR name = 'n{k}')" for k in range(12)) for i in range(20)]
    return [{"id": f"s{number:04}", "where": where} for number, where in enumerate(rows)]


def events(count: int, seed: int) -> pa.Table:
    """Events that satisfy some subscriptions of each kind."""
    chance = np.random.default_rng(seed)
    words = np.array(["common", "two", *(f"w{k}" for k in range(600))])
    columns: dict[str, Any] = {
        "a": pa.array(np.round(chance.uniform(0, 320, count)), mask=chance.random(count) < 0.1),
        "b": chance.integers(0, 60, count),
        "c": chance.integers(0, 25, count),
        "name": [f"n{k}" for k in chance.integers(0, 12, count)],
        "t": [" ".join(words[chance.integers(0, 80, 6)]) + " common" for _ in range(count)],
        "lat": chance.uniform(0, 50, count),
        "lon": chance.uniform(0, 50, count),
    }
    columns |= {f"w{k}": chance.integers(0, 60, count) for k in range(1, 5)}
    columns |= {f"r{k}": chance.integers(0, 90, count) for k in range(0, 100, 3)}
    columns |= {f"q{k}": chance.integers(10, 60, count) for k in range(1, 64)}
    return pa.table(columns)


def _matcher() -> Matcher:
    """A matcher of two segments, one of them with tombstones."""
    matcher = Matcher(background_merge=False)
    rows = subscriptions()
    matcher.subscribe_many(rows[: len(rows) // 2])
    matcher.match_batch(events(8, 0))
    matcher.compact()
    matcher.subscribe_many([*rows[len(rows) // 2 :], *({**row, "id": f"x{row['id']}"} for row in rows[::9])])
    matcher.match_batch(events(8, 0))
    for row in rows[::9]:
        matcher.unsubscribe(f"x{row['id']}")
    return matcher


def _answers(batches: list[EventBatch]) -> tuple[Matcher, Snapshot, list[list[Rows]]]:
    matcher = _matcher()
    snapshot, options = matcher._subscriptions.current(), matcher._subscriptions.options
    fresh = [EventBatch(batch.table, batch.now) for batch in batches]
    return matcher, snapshot, [answer(snapshot, batch, Request(), None, options).rows for batch in fresh]


def _said(rows: list[Rows]) -> dict[str, set[int]]:
    """Return the events that each subscription was answered for."""
    found: dict[str, set[int]] = {}
    for one in rows:
        event = np.repeat(np.arange(one.starts.size - 1), np.diff(one.starts))
        for row, id in zip(event.tolist(), one.subscriptions.to_pylist(), strict=True):
            found.setdefault(id, set()).add(row)
    return found


def _wrong(said: dict[str, set[int]], right: dict[str, set[int]]) -> dict[str, set[int]]:
    """Return the events of each subscription for which it was wrongly answered, or not answered."""
    differing = {id: said.get(id, set()) ^ right.get(id, set()) for id in said.keys() | right.keys()}
    return {id: events for id, events in differing.items() if events}


def _chance_of_cell(held: Held, said: set[int], wrong: set[int]) -> float:
    """Return the chance that a cell is found wrong if it is judged."""
    doubt = set(held.doubt.tolist())
    if not wrong <= doubt:
        return 1.0
    missed = 1.0
    for group in (doubt & said, doubt - said):
        drawn = min(auditing.MOST_JUDGED, len(group))
        missed *= math.comb(len(group - wrong), drawn) / math.comb(len(group), drawn)
    return 1 - missed


def _chance_of_batch(cells: list[float]) -> float:
    """Return the chance that an audit finds something in a batch with wrong cells of these chances."""
    gathered = min(auditing.GATHERED, int(1 / SHARE))
    return float(1 - np.prod(1 - SHARE * gathered * np.array(cells))) / gathered


def _batches_until_found(chances: list[float]) -> float:
    """Return the mean number of batches until something is found, if batches of these chances come again and again."""
    nothing = np.cumprod(1 - np.array(chances))
    return float((1 + nothing[:-1].sum()) / (1 - nothing[-1]))


def _until_found(snapshot: Snapshot, batches: list[EventBatch], rows: list[list[Rows]], options: Any) -> int | None:
    """Return how many events an audit sees until it finds something wrong."""
    audit = auditing.Audit(SHARE, options)
    while audit.report.events < MOST_EVENTS:
        place = audit.report.events // BATCH % len(batches)
        audit._see(snapshot, batches[place], Request(), rows[place])
        if audit._waiting or audit._thread is not None:
            audit.finish()
        if audit.report.wrong:
            return audit.report.events
    return None


def detect(report: Report, names: list[str], trials: int, seed: int) -> None:
    """Add a row for each mutant: how much of it is wrong, and the events until it is found, promised and measured."""
    batches = [EventBatch(events(BATCH, seed + number)) for number in range(4)]
    matcher, _, rows = _answers(batches)
    sound, where = [_said(one) for one in rows], {one.id: one.where for one in matcher.subscriptions()}
    columns = [PlainColumns(batch) for batch in batches]
    held = cache(lambda place, id: columns[place].true(parse(where[id])))
    before = auditing.HEAD_START, auditing.PARTITIONED
    auditing.HEAD_START, auditing.PARTITIONED = math.inf, 10**9
    try:
        for name in names:
            with seeded(name):
                matcher, snapshot, rows = _answers(batches)
            answers = [_said(one) for one in rows]
            wrong = [_wrong(said, right) for said, right in zip(answers, sound, strict=True)]
            cells = float(np.mean([len(of_batch) for of_batch in wrong]))
            wrong_events = float(np.mean([len(set().union(*of_batch.values())) for of_batch in wrong])) / BATCH
            # One that was dropped is wrong wherever it is answered: nothing is left in doubt.
            chances = [
                [
                    _chance_of_cell(held(place, id), said.get(id, set()), events) if id in where else 1.0
                    for id, events in of_batch.items()
                ]
                for place, (said, of_batch) in enumerate(zip(answers, wrong, strict=True))
            ]
            promised = BATCH * _batches_until_found(list(map(_chance_of_batch, chances))) if cells else None
            found = [
                _until_found(snapshot, batches, rows, matcher._subscriptions.options)
                for _ in range(trials if cells else 0)
            ]
            measured = float(np.mean([one or MOST_EVENTS for one in found])) if found else None
            extra: dict[str, Cell] = {
                "wrong_events": wrong_events,
                "wrong_cells": cells,
                "promised": promised,
                "measured": measured,
            }
            report.results.append(Result(name, extra=extra))
    finally:
        auditing.HEAD_START, auditing.PARTITIONED = before


def overhead(report: Report, count: int, events_of_batch: int, rounds: int, seed: int) -> None:
    """Compare the processor time of batches with and without an audit, in turns.

    `audit_time` is what the audit itself says that it took; the difference has the noise of two times as well.
    """
    chance = np.random.default_rng(seed)
    low = chance.uniform(0, 0.9, (count, 3))
    names = [chance.choice(20, 3, replace=False) for _ in range(count)]
    wheres = [
        " AND ".join(f"v{name} BETWEEN {at:.4f} AND {at + 0.05:.4f}" for name, at in zip(of, row, strict=True))
        for of, row in zip(names, low.tolist(), strict=True)
    ]
    table = pa.table({"id": [f"s{n}" for n in range(count)], "where": wheres})
    batch = pa.table({f"v{k}": chance.random(events_of_batch) for k in range(20)})
    matchers = {share: Matcher.from_table(table, audit=share) for share in (0.0, 0.001)}
    spent = dict.fromkeys(matchers, 0.0)
    for matcher in matchers.values():
        matcher.match_batch(batch)
    for round_ in range(rounds):
        for share in list(matchers)[:: 1 if round_ % 2 else -1]:
            start = time.process_time()
            matchers[share].match_batch(batch)
            audit = matchers[share]._audit
            if audit is not None and audit._thread is not None:
                audit._thread.join()
            spent[share] += time.process_time() - start
    audited, audit = matchers[0.001].audit, matchers[0.001]._audit
    assert audited is not None
    assert audit is not None
    audit_s = audit._spent
    extra = spent[0.001] / spent[0.0] - 1
    report.results.append(
        Result(
            f"{count:,} subscriptions, audit=0.001",
            events_per_s=rounds * events_of_batch / spent[0.001],
            extra={
                "overhead": extra,
                "audit_time": audit_s / spent[0.0],
                "judged_share": audited.judged / audited.pairs,
                "wrong_at_most": audited.wrong_at_most,
                "missed_at_most": audited.missed_at_most,
            },
        )
    )
    report.claim("the audit costs at most 2 percent", "0.02", f"{extra:.4f}", extra <= 0.02)


def run(*, quick: bool = False, seed: int = 1) -> Report:
    """Run the mutants, and measure the overhead."""
    names = list(MUTANTS)[:2] if quick else list(MUTANTS)
    trials = 3 if quick else TRIALS
    report = Report("audit", {"share": SHARE, "batch": BATCH, "trials": trials, "mutants": len(names), "seed": seed})
    detect(report, names, trials, seed)
    found = [result for result in report.results if result.extra["measured"] is not None]
    report.claim("mutants that change an answer", f"{len(names)}", f"{len(found)}", len(found) == len(names))
    ratio = float(np.mean([float(one.extra["measured"]) / float(one.extra["promised"]) for one in found]))  # type: ignore[arg-type]
    report.claim(
        "measured over promised events until detection, mean", "0.8 to 1.25", f"{ratio:.2f}", 0.8 <= ratio <= 1.25
    )
    overhead(report, 5_000 if quick else 100_000, 4_096 if quick else 32_768, 4 if quick else 200, seed)
    return report
