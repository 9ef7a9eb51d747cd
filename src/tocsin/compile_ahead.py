"""Compile ahead of time: everything that a family of predicates needs, in parallel processes.

A kernel is compiled for the arguments of its first call, and every later call has the same. So each family is driven
once, in a process of its own, through what a user does: batches of several sizes, single events, the best k, changes,
files that are mapped, refreshed and merged. The cache keeps what they compile, and its locks keep two of them from
compiling the same kernel (`_kernel_cache.py`).
"""

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin._compile import load_compiler
from tocsin.arrays import FEW_STRINGS, MANY_PLACES, Strings
from tocsin.conjunctions.key.index import KeyIndex
from tocsin.errors import OptionError, TocsinError
from tocsin.index.id_order import ids_at, ids_in_order
from tocsin.matcher import Matcher
from tocsin.model.values import Kind
from tocsin.predicates.history.tree import FENCED, TAIL
from tocsin.ranking.question import Mode
from tocsin.tuning import TUNING

EVENTS = 300
"""Enough for every kernel of a batch; a few events are matched by other ones."""


def _ranges() -> Iterator[str]:
    for n in range(400):
        yield f"a > {n / 100} AND b < {n} AND s = 'v{n % 7}'"
        yield f"a BETWEEN {n / 200} AND {n / 100} AND c >= {n % 40}"
        yield f"b IN ({n}, {n + 3}, {n + 9}) AND d < {n % 11} AND c < {n % 37} AND a < {n / 50} AND e > {n % 13}"
    for n in range(40):
        yield f"s = 'v{n}'"
        yield f"b = {n}"
        yield f"a < {n} OR (b > {n} AND c <> 4) OR s > 'v{n}'"
        yield f"s IS NULL AND b < {n}"
        yield f"NOT (a > {n} AND b < 7) AND flag"
        yield f"at > TIMESTAMP '2024-01-01 00:00:{n:02}' AND day <= DATE '2024-02-01'"
    for n in range(100):
        yield f"rare{n} > {n} AND a < {n}"
        yield f"rare{n} = {n}"
        yield f"a > -{n} AND b > -{n}"
    yield "b > 9007199254740993"
    yield " OR ".join(f"(a < {n} AND b < {n + 1})" for n in range(12))


def _trees() -> Iterator[str]:
    for n in range(40):
        # 64 conjunctions: more than are written out.
        excluded = " AND ".join(f"NOT (b = {n + m} AND c = {m})" for m in range(6))
        yield f"s = 'v{n}' AND {excluded}"
        yield excluded


def _words() -> Iterator[str]:
    for n in range(60):
        yield f"has_words(t, 'word{n}')"
        yield f"has_words(t, 'word{n} text') AND NOT has_words(t, 'other')"
        yield f"has_phrase(t, 'some word{n}') AND a > {n / 10}"
        yield f"has_words(t, 'wor* naïve{n}')"
    yield "has_words(t, '" + " ".join(f"word{n}" for n in range(40)) + "')"


def _patterns() -> Iterator[str]:
    for n in range(60):
        yield f"t LIKE '%ord{n}%'"
        yield f"t LIKE 'some%' AND a > {n}"
        yield f"t ILIKE '%T_XT{n}%' AND s = 'v1'"
        yield f"t NOT LIKE '%é{n}%' AND b < {n}"
    yield "t LIKE '_%'"


def _regexps() -> Iterator[str]:
    for n in range(40):
        yield f"t ~ 'word{n}.*text'"
        yield f"t ~* 'SOME .{{3}}d{n}' AND a > {n}"
        yield f"t !~ 'naïve[{n % 9}]' AND b < {n}"
    yield "t ~ '[0-9]+$'"


def _places() -> Iterator[str]:
    for n in range(40):
        yield f"within_distance(a, b, {n}, {n}, '{100 + n} km')"
        yield f"within_polygon(a, b, 'POLYGON (({n} 0, {n + 9} 0, {n + 9} 9, {n} 0))') AND c > {n}"
        yield f"NOT within_distance(a, b, {n}, 7, '10 km') AND e < {n}"


def _arrays() -> Iterator[str]:
    for n in range(40):
        yield f"array_contains(tags, 'x{n}')"
        yield f"array_contains(numbers, {n}) AND a > {n}"
        yield f"NOT array_contains(tags, 'x{n}') AND b < {n}"


def _attributes() -> Iterator[str]:
    for n in range(40):
        yield f"a < b AND c > {n}"
        yield f"a = c OR s = 'v{n}'"
        yield f"NOT (b >= c) AND a < {n}"
        yield f"a < b AND b < c AND d <> {n}"


def _xpath() -> Iterator[str]:
    for n in range(40):
        yield f"xpath_exists(x, '/a/b[@c={n}]')"
        yield f"xpath_exists(x, '//b[@c=\"{n}\"]/d') AND a > {n}"
        yield f"xpath_exists(x, '//d{n}')"
        yield f"xpath_exists(x, '/a/*/d[text()=\"t{n}\"]')"
        yield f"xpath_exists(x, '/a[b/d]//e[@f > {n}]')"
        yield f"xpath_exists(x, '/a/b[@c][@g != \"{n}\"]') AND NOT xpath_exists(x, '//z')"
        yield f"xpath_exists(x, '//b[d=\"t{n}\"]')"


def _history() -> Iterator[str]:
    for n in range(10):
        yield f"a > ALL (SELECT a FROM history) AND b < {n}"
        yield f"b < ANY (SELECT b FROM history WHERE s = 'v{n}')"
        yield f"s IN (SELECT s FROM history) AND a > {n}"
        yield "s NOT IN (SELECT s FROM history)"
        yield f"EXISTS (SELECT 1 FROM history h WHERE h.s = event.s AND event.a < h.a AND h.b > {n})"
        yield f"NOT EXISTS (SELECT 1 FROM history h WHERE h.b = event.b AND h.c < {n})"
        yield f"EXISTS (SELECT 1 FROM history h WHERE h.a < event.a AND h.b > event.b AND h.c = {n})"


FAMILIES: dict[str, Callable[[], Iterator[str]]] = {
    "ranges": _ranges,
    "xpath": _xpath,
    "words": _words,
    "patterns": _patterns,
    "regexps": _regexps,
    "places": _places,
    "history": _history,
    "arrays": _arrays,
    "attributes": _attributes,
    "trees": _trees,
}
"""Subscriptions that need every kernel of a family, by its name; the longest to compile come first."""


def warm(families: Sequence[str] | None = None, progress: Callable[[str, int, float], None] | None = None) -> int:
    """Compile what the families need, all of them by default; return how many kernels were compiled now.

    `progress` is told each family when it is ready, with the kernels that it compiled and the seconds it took.
    """
    chosen = list(FAMILIES) if families is None else list(families)
    for name in chosen:
        if name not in FAMILIES:
            raise OptionError(f"there is no family {name!r}", f"Choose among {', '.join(FAMILIES)}")
    compiled = 0
    # Two processes are kept busy even on one core: they wait for each other's kernels.
    with ThreadPoolExecutor(max(2, len(os.sched_getaffinity(0)))) as pool:
        started = {pool.submit(_drive_in_process, name): (name, time.perf_counter()) for name in chosen}
        for future in as_completed(started):
            name, start = started[future]
            compiled += future.result()
            if progress is not None:
                progress(name, future.result(), time.perf_counter() - start)
    return compiled


def _drive_in_process(family: str) -> int:
    program = f"from tocsin.compile_ahead import drive; print(drive({family!r}))"
    search = os.pathsep.join(path for path in sys.path if path)
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": search}
    )
    if answer.returncode:
        raise TocsinError(f"{family} did not compile: {answer.stderr[-2000:]}", "Report it with this text")
    return int(answer.stdout.split()[-1])


def compile_for(matcher: Matcher, top_k: int | None = None, mode: Mode = "exact") -> None:
    """Compile, or load, what a matcher needs for a batch, by matching two events with a value for each attribute."""
    load_compiler()
    event = full_event(matcher)
    matcher.match_batch(pa.Table.from_pylist([event, event]), top_k=top_k, mode=mode, ordered=False)


def full_event(matcher: Matcher) -> dict[str, Any]:
    """Return an event with a value for each attribute that subscriptions name, of a kind that they compare it with."""
    values = {
        Kind.NUMBER: 1.5,
        Kind.BOOLEAN: True,
        Kind.TIME: datetime(2024, 1, 1, tzinfo=UTC),
        # Text for words and patterns, and a document for XPath.
        Kind.STRING: "<a>some text</a>",
        Kind.ANY: 1.5,
    }
    event = {name: values[min(kinds)] if kinds else values[Kind.STRING] for name, kinds in matcher.kinds.items()}
    return event | dict.fromkeys(matcher.attributes - event.keys(), values[Kind.STRING])


def drive(family: str) -> int:
    """Call every kernel of a family, in this process; return how many were compiled for it."""
    load_compiler()
    table = subscriptions(family)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        with Matcher(background_merge=False) as matcher:
            matcher.subscribe_many(table.slice(0, 1))
            matcher.match_batch(events(10))
            matcher.subscribe_many(table.slice(1))
            _ask(matcher)
            matcher.publish_batch(events(20))
            matcher.unsubscribe("2")
            matcher.rescore("3", 2.0)
            matcher.subscribe("new", table["where"][0].as_py(), score=3.0, tags={"kind": "new"})
            _ask(matcher)
            matcher.save(path)
        with (
            Matcher.open(path, background_merge=False) as writer,
            Matcher.open(path, mode="read", background_merge=False) as reader,
        ):
            for step in range(3):
                _ask(reader)
                writer.unsubscribe(f"{5 + step}")
                writer.subscribe(f"late{step}", table["where"][step].as_py())
                writer.match_batch(events(10))
                writer.commit()
                reader.refresh()
            _ask(reader)
            writer.compact()
            writer.publish(_event(1))
            _ask(writer)
    for further in FURTHER.get(family, ()):
        further()
    from tocsin import _numba

    return len(_numba.COMPILATIONS)


BOX_SIZES = {"a": 97, "b": 89, "c": 83, "d": 79, "e": 73}
"""Different primes, so that thousands of boxes are different."""


def _match_many_ranges() -> None:
    """Match with so many constants that values are quantized, so wide ranges that bitmaps are cheaper, two segments."""
    count = TUNING.min_even_codes
    exact = [f"a > {n / 7} AND s = 'v{n % 7}'" for n in range(count)]
    wide = [
        f"a < {90 + n / 9} AND b < {200 + n} AND c < {n % 99} AND d < {9 + n % 9} AND e < {n}" for n in range(count)
    ]
    boxes = [
        " AND ".join(f"{name} BETWEEN {n % size} AND {n % size + size // 3}" for name, size in BOX_SIZES.items())
        for n in range(count)
    ]
    narrow = [
        " AND ".join(f"{name} BETWEEN {n % size} AND {n % size + size // 10}" for name, size in BOX_SIZES.items())
        for n in range(count)
    ]
    without_a_word = [f"{text} AND NOT has_words(t, 'word{n % 9}')" for n, text in enumerate(narrow)]
    for first, second in (
        (exact + wide, boxes[:1]),
        (boxes, wide),
        (exact, exact),
        (narrow, narrow[:1]),
        (without_a_word, narrow[:1]),
    ):
        with Matcher.from_table(_numbered(first), background_merge=False) as matcher:
            for size in (1, 2, EVENTS):
                matcher.match_batch(events(size))
            matcher.match(_event(3))
            matcher.unsubscribe("0")
            matcher.match_batch(events(EVENTS))
            matcher.subscribe_many(_numbered(second, first=len(first)))
            matcher.match_batch(events(TUNING.shared_layout_min_events))


def _score_by_a_function() -> None:
    with Matcher.from_table(_numbered(["a > 1 AND b > 2", "a < 9"])) as matcher:
        matcher.top_k(_event(3), 2, mode="relaxed", score_by=lambda held: 2 * held["a"])


def _look_far_back() -> None:
    """Look back at so many events that trees and bitmaps of them are used, and at constants that came later."""
    old = np.arange(FENCED + TAIL)
    with Matcher(background_merge=False) as matcher:
        matcher.publish_batch(pa.table({"key": old, "p": old % 2, "q": 1 - old % 2, "r": old % 7}))
        # Half of the old events satisfy each condition, and none both.
        matcher.subscribe("never", "EXISTS (SELECT 1 FROM history h WHERE h.p = event.p AND h.q = event.q)")
        for n in range(3):
            constants = f"h.r > {n} AND h.q < {n}"
            matcher.subscribe(
                f"of key {n}", f"EXISTS (SELECT 1 FROM history h WHERE h.key = event.key AND {constants})"
            )
            matcher.subscribe(f"any {n}", f"r < ANY (SELECT r FROM history WHERE p = {n})")
        for key in range(2):
            matcher.publish({"key": key, "p": 1, "q": 1, "r": 1})


def _look_back_in_many_ways() -> None:
    """Look back with so many shapes of tests that a single event is judged by all of them at once."""
    with Matcher(background_merge=False) as matcher:
        for number, (name, op) in enumerate(itertools.product("abcde", ("<", ">", "<=", ">="))):
            terms = f"h.{name} {op} event.{name} AND h.s = event.s"
            matcher.subscribe(f"{number}", f"EXISTS (SELECT 1 FROM history h WHERE {terms})")
        for number in range(4):
            matcher.publish(_event(number))


def _match_many_keys() -> None:
    """Match with more tests than 16 bits can name."""
    numbers, tests = np.arange(2, dtype=np.int32), 1 << 16
    index = KeyIndex.build(numbers, np.array([0, 1, 3]), np.array([0, 0, 1], np.int32), np.ones(tests))
    for events in (1, 2):
        index.match(np.arange(events + 1), np.zeros(events, np.int32))


def _take_some_ids() -> None:
    """Take the ids of a single event with some matches among many subscriptions."""
    ids, places = Strings.of([str(number) for number in range(FEW_STRINGS + 1)]), np.arange(MANY_PLACES - 1)
    ids_at(ids, places.astype(np.int32))
    ids_in_order(ids, places.astype(np.int32))


FURTHER = {
    "ranges": (_match_many_ranges, _score_by_a_function, _take_some_ids),
    "words": (_match_many_keys,),
    "history": (_look_far_back, _look_back_in_many_ways),
}
"""What else a family is driven through."""


def subscriptions(family: str) -> pa.Table:
    """The subscriptions that a family is driven with."""
    table = _numbered(list(FAMILIES[family]()))
    return table.append_column("score", pa.array([1.0 + number % 5 for number in range(len(table))]))


def _numbered(texts: Sequence[str], first: int = 0) -> pa.Table:
    return pa.table({"id": [str(number) for number in range(first, first + len(texts))], "where": texts})


def events(count: int) -> pa.Table:
    """Events with the attributes of all families, some of them NULL."""
    return pa.Table.from_pylist([_event(number) for number in range(count)])


def _event(n: int) -> dict[str, Any]:
    return {
        "a": n % 97 / 7,
        "b": n % 450,
        "c": None if n % 5 == 0 else n % 41,
        "d": n % 9,
        "e": n % 17,
        "s": None if n % 11 == 0 else f"v{n % 45}",
        "flag": n % 2 == 0,
        "at": datetime(2024, 1, 1, 0, 0, n % 60, tzinfo=UTC),
        "day": date(2024, 1 + n % 3, 1),
        "t": f"Some word{n % 70} text{n % 50} naïve{n % 9}" if n % 3 else f"other word{n % 70} some",
        "tags": [f"x{n % 50}", "y"],
        "numbers": [n % 60, 1],
        "x": f"<a><b c='{n % 50}' g='1'><d>t{n % 50}</d><d{n % 50}/></b><e f='{n % 60}'/></a>" if n % 7 else "<a/>",
    }


def _ask(matcher: Matcher) -> None:
    """Match in all ways: single events, batches of several sizes, the best k; with and without a history."""
    large = events(EVENTS)
    for event in large.slice(0, 3).to_pylist():
        matcher.match(event)
        matcher.top_k(event, 3)
        matcher.top_k(event, 3, mode="relaxed")
        matcher.explain(event, "1")
    # Each event is judged against all of the history, which has its own kernels for every one.
    for count in (2, 40) if matcher.looking_back() else (2, 40, EVENTS):
        matcher.match_batch(large.slice(0, count))
        matcher.match_batch(large.slice(0, count), ordered=False)
        matcher.match_batch(large.slice(0, count), top_k=3)
    matcher.match_batch(large.slice(0, 20), top_k=3, mode="relaxed")
    matcher.match_batch(large.slice(0, 20), tags={"kind": "new"})
