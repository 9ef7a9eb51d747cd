"""What one tenant's subscriptions cost all others: 100,000 range subscriptions, alone and beside something legal.

The base is the workload of `tocsin bench attributes`: three ranges on ten attributes. A row of the table adds what one
tenant may add, and gives the processor time of an event in a batch and alone, over the same without the addition. The
factors are what is left after writing the added matches: a copy of their three columns for a batch; for a single event,
its ids and scores taken from two arrays into lists, which no matcher can do without.

The times are the least of some turns, in which both matchers are measured one after the other: whatever else the
machine does makes a turn slower, never faster.
"""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.bench.attributes import generate
from tocsin.bench.runner import Cell, Report, Result
from tocsin.matcher import Matcher
from tocsin.model.limits import Limits

MOST = 2.0
"""No addition may cost the others more than so many times."""
SINGLE = 200
"""Events that are matched one by one."""
REPEAT = 7
STALL_TURNS = 3
_LIKE = "%(a_)"
_LIMITS = Limits(attributes=None)
"""One row has more than a subscription may name."""


@dataclass(frozen=True)
class Case:
    """What one tenant adds, and the attributes that events have for it."""

    name: str
    texts: Sequence[str]
    columns: dict[str, Any] = field(default_factory=dict)
    """More columns of the events, which the base has as well: a value for all events, or one for each."""
    later: bool = False
    """Whether the subscriptions are added to a built index, as a segment of their own."""
    share: float = 1.0
    """The share of the events that is matched: fewer if an event has many matches."""
    past: int = 0
    """How many events are history."""


def cases(size: float, events: int) -> list[Case]:
    """Return the rows of the table; `size` is 1.0 for the full workload."""
    many, wide = int(50_000 * size), int(20_000 * size)

    def ranges(attributes: int, last: str) -> list[str]:
        """Return wide ranges whose ends are all different; the last attribute decides."""
        return [
            " AND ".join([f"a{column} > {-1 - number / wide:.6f}" for column in range(attributes - 1)])
            + f" AND a{attributes - 1} {last} {2 + number / wide:.6f}"
            for number in range(wide)
        ]

    words = ["alpha", "beta", "gamma", "delta"]
    lines = [f"{words[number % 4]} {words[number // 4 % 4]} news" for number in range(events)]
    return [
        Case(f"{many:,} attribute names", [f"z{number} = 1" for number in range(many)]),
        Case(f"{many // 10:,} attribute names", [f"z{number} = 1" for number in range(many // 10)]),
        Case(
            f"{wide:,} × a <> k AND a0 < a1 AND a1 < a0",
            [f"a2 <> {number} AND a0 < a1 AND a1 < a0" for number in range(wide)],
        ),
        Case(f"{wide:,} wide ranges on 5, never true", ranges(5, ">")),
        Case(f"{wide:,} wide ranges on 9, never true", ranges(9, ">")),
        Case(f"{wide:,} wide ranges on 5, always true", ranges(5, "<"), share=0.1),
        Case(f"{wide:,} wide ranges on 9, always true", ranges(9, "<"), share=0.1),
        Case(f"one AND of {wide:,} names", [" AND ".join(f"z{number} = 1" for number in range(wide))]),
        Case("one subscription on history", ["a0 > ALL (SELECT a0 FROM history)"], past=1_000),
        Case("one comparison of an integer with a float", ["n < a0"], {"n": np.arange(events) % 2}),
        Case("ten constants of 20 digits", [f"a0 > 1234567890123456789{n}" for n in range(10)], later=True),
        Case("ten constants of 20 digits, merged", [f"a0 > 1234567890123456789{n}" for n in range(10)]),
        Case(f"an IN list of {many:,}", [f"a0 IN ({', '.join(str(number / 7) for number in range(many))})"]),
        Case("1,000 always true", [f"a{n % 10} IS NULL OR a{n % 10} IS NOT NULL" for n in range(1000)]),
        Case("1,000 always true, all different", [f"a{n % 10} > {-1 - n}" for n in range(1000)]),
        Case("1,000 × NOT has_words", [f"NOT has_words(t, 'word{n}')" for n in range(1000)], {"t": lines}),
    ]


def run(
    subscriptions: int = 100_000, events: int = 5_000, seed: int = 1, quick: bool = False, only: str = ""
) -> Report:
    """Measure what each addition costs everybody; `only` names the rows to measure by a part of their names."""
    size = 0.1 if quick else 1.0
    if quick:
        subscriptions, events = subscriptions // 10, events // 5
    workload = generate(subscriptions, events, seed)
    base = workload.subscriptions()
    report = Report("tenants", {"subscriptions": subscriptions, "events": events, "seed": seed, "size": size})
    alone = Matcher.from_table(base, background_merge=False)
    for case in cases(size, events):
        if only in case.name:
            _measure(report, case, alone, base, workload.events)
    if only in "LIKE":
        _long_text(report, int(10_000 * size), int(1_000_000 * size))
    if only in "changes":
        _changes(report, base, workload.events, int(50_000 * size))
    return report


def _measure(report: Report, case: Case, alone: Matcher, base: pa.Table, events: pa.Table) -> None:
    """Add a row: microseconds an event, and the factors without the cost of the added matches."""
    table = events
    for name, values in case.columns.items():
        table = table.append_column(name, pa.array(values))
    table = table.slice(0, int(len(table) * case.share))
    added = pa.table({"id": [f"t{number}" for number in range(len(case.texts))], "where": list(case.texts)})
    start = time.process_time()
    if case.later:
        matcher = Matcher.from_table(base, background_merge=False)
        matcher.match_batch(table.slice(0, 1))
        matcher.subscribe_many(added)
    else:
        matcher = Matcher.from_table(pa.concat_tables([base, added]), limits=_LIMITS, background_merge=False)
    assert not matcher.rejected, "everything is added"
    if case.past:
        matcher.history.load(events.slice(0, case.past))
    matcher.match_batch(table.slice(0, 1))
    build_s = time.process_time() - start
    dicts = table.slice(0, SINGLE).to_pylist()
    before, after = _seconds([alone, matcher], table, dicts)
    more = [max(after.matches[way] - before.matches[way], 0) for way in (0, 1)]
    writing = after.copied_s * more[0] / max(after.matches[0], 1), after.made_s * more[1] / max(after.matches[1], 1)
    factors = [
        (now - written) / then for now, written, then in zip(after.match_s, writing, before.match_s, strict=True)
    ]
    report.results.append(
        Result(
            case.name,
            build_s,
            len(table) / after.match_s[0],
            after.matches[0],
            extra={
                "batch_us": 1e6 * after.match_s[0] / len(table),
                "batch_writing_us": 1e6 * writing[0] / len(table),
                "batch_factor": factors[0],
                "single_us": 1e6 * after.match_s[1] / len(dicts),
                "single_writing_us": 1e6 * writing[1] / len(dicts),
                "single_factor": factors[1],
            },
        )
    )
    for way, factor in zip(("batch", "single"), factors, strict=True):
        report.claim(f"{case.name}, {way}: times the base", f"at most {MOST:g}", f"{factor:.2f}", factor <= MOST)


@dataclass(frozen=True)
class _Seconds:
    match_s: tuple[float, float]
    """Of the batch, and of the single events."""
    matches: tuple[int, int]
    copied_s: float
    """What copying the columns of the batch's matches takes."""
    made_s: float
    """What taking the ids and scores of the matches of the single events from arrays takes."""


def _seconds(matchers: list[Matcher], table: pa.Table, dicts: list[dict[str, Any]]) -> list[_Seconds]:
    """Return what each of the matchers takes, and what writing its matches takes, all measured in turns."""
    writings = [_Writing.of(matcher, table, dicts) for matcher in matchers]
    of_batch = _least(
        [lambda matcher=matcher: matcher.match_batch(table) for matcher in matchers]
        + [writing.copy_columns for writing in writings]
    )
    of_single = _least(
        [lambda matcher=matcher: [matcher.match(event) for event in dicts] for matcher in matchers]
        + [writing.make_lists for writing in writings]
    )
    count = len(matchers)
    return [
        _Seconds(
            (of_batch[place], of_single[place]),
            writings[place].matches,
            of_batch[count + place],
            of_single[count + place],
        )
        for place in range(count)
    ]


@dataclass(frozen=True)
class _Writing:
    """The matches of a matcher as columns, to be written again."""

    columns: list[npt.NDArray[Any]]
    """The columns of the batch's matches."""
    ids: npt.NDArray[Any]
    """Of the matches of the single events, one event after the other."""
    scores: npt.NDArray[Any]
    places: list[npt.NDArray[Any]]
    """Where the matches of each single event are."""

    @classmethod
    def of(cls, matcher: Matcher, table: pa.Table, dicts: list[dict[str, Any]]) -> "_Writing":
        """Match the batch and the single events."""
        found = matcher.match_batch(table)
        matches = [matcher.match(event) for event in dicts]
        columns = [
            np.concatenate([np.asarray(chunk.indices) for chunk in found["subscription"].chunks] or [np.empty(0)]),
            found["event"].to_numpy(),
            found["score"].to_numpy(),
        ]
        ids = np.array([id for match in matches for id in match.ids], object)
        scores = np.array([score for match in matches for _, score in match])
        ends = np.cumsum([len(match) for match in matches])
        return cls(columns, ids, scores, np.split(np.arange(ids.size), ends[:-1]))

    @property
    def matches(self) -> tuple[int, int]:
        """How many the batch and the single events have."""
        return self.columns[0].size, self.ids.size

    def copy_columns(self) -> object:
        """Write the matches of the batch."""
        return [column.copy() for column in self.columns]

    def make_lists(self) -> object:
        """Write the matches of the single events."""
        return [(self.ids[some].tolist(), self.scores[some].tolist()) for some in self.places]


def _least(works: Sequence[Callable[[], object]]) -> list[float]:
    """Return the least processor time of each of some works, which take turns."""
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(REPEAT):
        for work, of_work in zip(works, seconds, strict=True):
            gc.collect()
            start = time.process_time()
            work()
            of_work.append(time.process_time() - start)
    return list(map(min, seconds))


def _long_text(report: Report, repeats: int, length: int) -> None:
    """Add rows of a long pattern on a long text, beside a short pattern on it."""
    text = ("(a" * (length // 2))[:length]
    seconds = []
    for pattern in ("%(a)%", _LIKE * repeats):
        matcher = Matcher(background_merge=False)
        matcher.subscribe_many([{"id": "p", "where": f"t LIKE '{pattern}'"}])
        matcher.match_batch([{"t": "x"}])
        seconds += _least([lambda matcher=matcher: matcher.match_batch([{"t": text}])])  # type: ignore[misc]
    factor = seconds[1] / seconds[0]
    name = f"LIKE {_LIKE} × {repeats:,} on {length:,} characters"
    extra: dict[str, Cell] = {"batch_us": 1e6 * seconds[1], "batch_factor": factor}
    report.results.append(Result(name, None, 1 / seconds[1], 0, extra=extra))
    report.claim(f"{name}: times LIKE %(a)%", "at most 20", f"{factor:.1f}", factor <= 20)


def _changes(report: Report, base: pa.Table, events: pa.Table, listed: int) -> None:
    """Add a row: the longest match after each of a hundred small changes of others, beside an IN list.

    It is the least of some turns: a stall that comes from the list is there in each of them.
    """
    kinds: list[list[str]] = [[], [f"a0 IN ({', '.join(str(number / 7) for number in range(listed))})"]]
    turns = [[_longest_stall(base, events.slice(0, 10), texts) for texts in kinds] for _ in range(STALL_TURNS)]
    alone, beside = map(min, zip(*turns, strict=True))
    factor = beside / alone
    name = f"changes beside an IN list of {listed:,}"
    extra: dict[str, Cell] = {"longest_stall_ms": 1e3 * beside, "base_stall_ms": 1e3 * alone, "batch_factor": factor}
    report.results.append(Result(name, extra=extra))
    report.claim(f"{name}, longest stall: times the base", f"at most {MOST:g}", f"{factor:.2f}", factor <= MOST)


def _longest_stall(base: pa.Table, few: pa.Table, texts: list[str]) -> float:
    """Return the longest that a change and the matches after it take, with some more subscriptions."""
    matcher, longest = Matcher.from_table(base, background_merge=False), 0.0
    for number, text in enumerate(texts):
        matcher.subscribe(f"list{number}", text)
    matcher.match_batch(few)
    for number in range(100):
        start = time.process_time()
        matcher.subscribe(f"new{number}", f"a1 > {number / 100}")
        matcher.match_batch(few)
        matcher.match({"a0": 0.5})
        longest = max(longest, time.process_time() - start)
    return longest
