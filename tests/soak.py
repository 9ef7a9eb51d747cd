"""Soak a Matcher: `make soak HOURS=1`, or `python -m soak --hours 1` with tests/ on the path.

Eight threads match beside a writer that subscribes, unsubscribes, rescores, commits and merges; an event loop asks from
its own threads, children are forked and spawned, and the clock jumps by up to a year, both ways. Each answer is
compared with a table that the reference computed beforehand: of the subscriptions that stay, exactly those that hold
must be found; of those that come and go, only such that hold. Prints errors, the slope of memory and latencies. Memory
is stated as it is, and while everybody pauses, without what the allocator gives back if it is asked to; then also what
is in use, as the allocators of C and Python count it. What grows in the first two and not in these is kept by the
allocator of C: it has an arena for each of some threads, and gives back only whole pages (see MALLOC_ARENA_MAX).
"""

import argparse
import asyncio
import ctypes
import datetime as dt
import faulthandler
import gc
import itertools
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from tocsin import Matcher
from tocsin.language.parse import parse
from tocsin.reference import evaluate

THREADS = 8
MOST_STEPS = 32
"""More than there are threads."""
STAYING = 500
CHANGING = 2_000
"""Subscriptions that come and go: so many stand at a time."""
BATCH = 16
FORK_EVERY_S, SPAWN_EVERY_S, JUMP_EVERY_S, SAMPLE_EVERY_S = 10.0, 60.0, 3.0, 15.0
HANGS_S = 120
"""Seconds after which a child that has not ended hangs, however busy the machine is."""
WARM_UP = 0.25
"""Share of the time before memory counts: caches fill, and threads get their arenas."""
YEAR = dt.timedelta(days=365)


class JumpingClock(dt.datetime):
    """The time of day, and what was added to it."""

    ahead = dt.timedelta()

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:  # type: ignore[override]
        """Return the time that everybody sees."""
        return dt.datetime.now(tz) + cls.ahead


class JumpingModule:
    """The module datetime with that clock."""

    datetime = JumpingClock

    def __getattr__(self, name: str) -> Any:
        return getattr(dt, name)


def texts(chance: random.Random, count: int) -> list[str]:
    """Conditions of most families, whose truth does not depend on when they are asked."""
    shapes: list[Callable[[], str]] = [
        lambda: f"a BETWEEN {chance.randrange(90)} AND {chance.randrange(10, 100)} AND b > {chance.randrange(100)}",
        lambda: f"s = 'w{chance.randrange(20)}' AND a < {chance.randrange(100)}",
        lambda: f"s LIKE '%{chance.randrange(10)}' OR b = {chance.randrange(100)}",
        lambda: f"has_words(body, 'w{chance.randrange(20)} w{chance.randrange(20)}')",
        lambda: f"a < b AND NOT (a IN ({chance.randrange(100)}, {chance.randrange(100)}))",
        lambda: f"xpath_exists(xml, '/e/i[@n > {chance.randrange(100)}]')",
        lambda: f"moment < now() AND a > {chance.randrange(100)}",
        lambda: f"moment > now() - INTERVAL 9000 DAYS AND a > {chance.randrange(100)}",
        lambda: f"z{chance.randrange(500)} = 1 OR a IS NULL",
    ]
    return [chance.choice(shapes)() for _ in range(count)]


def event(chance: random.Random) -> dict[str, Any]:
    """An event that has some of the attributes."""
    words = [f"w{chance.randrange(20)}" for _ in range(6)]
    fields = {
        "a": chance.randrange(100),
        "b": chance.randrange(100),
        "s": words[0],
        "body": " ".join(words),
        "xml": f"<e><i n='{chance.randrange(100)}'/></e>",
        "moment": dt.datetime(1990, 1, 1, tzinfo=dt.UTC),
        f"z{chance.randrange(500)}": 1,
    }
    return {name: value for name, value in fields.items() if chance.random() < 0.9}


@dataclass
class World:
    """The texts, the events, and which text holds for which event."""

    texts: list[str]
    events: list[dict[str, Any]]
    holds: list[set[int]]

    @classmethod
    def create(cls, seed: int) -> "World":
        """Draw texts and events, and let the reference decide."""
        chance = random.Random(seed)
        drawn, events = texts(chance, STAYING), [event(chance) for _ in range(64)]
        parsed = [parse(text) for text in drawn]
        holds = [{n for n, said in enumerate(parsed) if evaluate(said, event) is True} for event in events]
        return cls(drawn, events, holds)

    def check(self, number: int, ids: Sequence[str], every: bool = True) -> None:
        """Compare the ids that were found for an event; `every`: all that hold must be among them."""
        staying = {int(id[1:]) for id in ids if id[0] == "s"}
        wrong = staying ^ self.holds[number] if every else staying - self.holds[number]
        wrong |= {int(id[1:].split("-")[0]) for id in ids if id[0] == "c"} - self.holds[number]
        assert not wrong, f"event {number}: {[self.texts[one] for one in sorted(wrong)]}"


@dataclass
class Soak:
    """What the threads share."""

    world: World
    folder: Path
    matcher: Matcher
    stop: threading.Event = field(default_factory=threading.Event)
    errors: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    # Latencies by powers of 1.1 from a microsecond on: their number must not grow with the hours.
    latencies: dict[str, "np.ndarray[Any, np.dtype[np.int64]]"] = field(default_factory=dict)
    steps: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MOST_STEPS))
    """Taken by each step under way, and all of them for a pause."""

    def time(self, name: str, ask: Callable[[], Any]) -> Any:
        """Ask, and count how long it took."""
        start = time.perf_counter()
        answer = ask()
        place = int(np.log(max((time.perf_counter() - start) * 1e6, 1)) / np.log(1.1))
        self.latencies.setdefault(name, np.zeros(250, np.int64))[min(place, 249)] += 1
        return answer

    def run(self, name: str, step: Callable[[random.Random], None], seed: int, every: float = 0) -> threading.Thread:
        """Start a thread that steps until the end, or until an error."""

        def loop() -> None:
            chance = random.Random(seed)
            try:
                while not self.stop.wait(every):
                    with self.steps:
                        step(chance)
                    self.counts[name] = self.counts.get(name, 0) + 1
            except BaseException:
                self.errors.append(f"{name}: {traceback.format_exc()}")

        thread = threading.Thread(target=loop, name=name)
        thread.start()
        return thread

    def match(self, chance: random.Random) -> None:
        """Ask in one of the ways, and check."""
        number = chance.randrange(len(self.world.events))
        asked = self.world.events[number]
        kind = chance.randrange(4)
        if kind < 2:
            self.world.check(number, self.time("match", lambda: self.matcher.match(asked)).ids)
        elif kind == 2:
            numbers = [(number + place) % len(self.world.events) for place in range(BATCH)]
            batch = [self.world.events[one] for one in numbers]
            table = self.time(f"batch of {BATCH}", lambda: self.matcher.match_batch(batch))
            found: list[list[str]] = [[] for _ in batch]
            for row, id in zip(table["event"].to_pylist(), table["subscription"].to_pylist(), strict=True):
                found[row].append(id)
            for one, ids in zip(numbers, found, strict=True):
                self.world.check(one, ids)
        else:
            self.world.check(number, self.time("top_k", lambda: self.matcher.top_k(asked, 10)).ids, every=False)

    def ask_in_a_loop(self, chance: random.Random) -> None:
        """Ask for several events at once from an event loop."""
        numbers = [chance.randrange(len(self.world.events)) for _ in range(4)]

        async def ask() -> None:
            asked = [asyncio.to_thread(self.matcher.match, self.world.events[number]) for number in numbers]
            for number, matches in zip(numbers, await asyncio.gather(*asked), strict=True):
                self.world.check(number, matches.ids)

        asyncio.run(ask())

    def jump(self, chance: random.Random) -> None:
        """Let the clock jump by up to a year, both ways."""
        JumpingClock.ahead = YEAR * chance.uniform(-1, 1)

    def fork(self, chance: random.Random) -> None:
        """Match in a forked child, beside all threads of the parent."""
        number = chance.randrange(len(self.world.events))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads is what is tested
            process = os.fork()
        if process == 0:
            signal.alarm(HANGS_S)
            faulthandler.dump_traceback_later(HANGS_S / 2)
            code = 1
            try:
                self.world.check(number, self.matcher.match(self.world.events[number]).ids)
                self.world.check(
                    number, self.matcher.match_batch([self.world.events[number]])["subscription"].to_pylist()
                )
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        status = os.waitpid(process, 0)[1]
        assert status == 0, f"the forked child ended with {status}"

    def spawn(self, chance: random.Random) -> None:
        """Open the folder in a fresh process, which follows some commits."""
        process = multiprocessing.get_context("spawn").Process(
            target=follow, args=(self.folder, self.world, chance.random())
        )
        process.start()
        process.join(HANGS_S)
        assert process.exitcode == 0, f"the spawned process ended with {process.exitcode}"


def follow(folder: Path, world: World, seed: float) -> None:
    """Match what was committed, some times, each time after what was committed since."""
    chance = random.Random(seed)
    with Matcher.open(folder, mode="read") as reader:
        for _ in range(20):
            number = chance.randrange(len(world.events))
            world.check(number, reader.match(world.events[number]).ids)
            reader.refresh()
            time.sleep(0.1)


class Writer:
    """The one who changes subscriptions: those that stay keep their text, the others come and go.

    As many come as go, so that memory cannot grow with their number.
    """

    def __init__(self, soak: Soak, chance: random.Random) -> None:
        self._soak, self._standing, self._serial = soak, list[str](), itertools.count()
        for _ in range(CHANGING):
            self._subscribe(chance)

    def _subscribe(self, chance: random.Random) -> None:
        matcher, world = self._soak.matcher, self._soak.world
        number = chance.randrange(len(world.texts))
        self._standing.append(f"c{number}-{next(self._serial)}")
        self._soak.time("subscribe", lambda: matcher.subscribe(self._standing[-1], world.texts[number]))

    def change(self, chance: random.Random) -> None:
        """Change something; commit and merge now and then."""
        matcher, world = self._soak.matcher, self._soak.world
        kind = chance.random()
        if kind < 0.9 and len(self._standing) < CHANGING:
            self._subscribe(chance)
        elif kind < 0.9:
            place = chance.randrange(len(self._standing))
            self._standing[place], self._standing[-1] = self._standing[-1], self._standing[place]
            self._soak.time("unsubscribe", lambda: matcher.unsubscribe(self._standing.pop()))
        elif kind < 0.97:
            number = chance.randrange(len(world.texts))
            self._soak.time("rescore", lambda: matcher.rescore(f"s{number}", chance.random()))
        elif kind < 0.998:
            self._soak.time("commit", matcher.commit)
        else:
            self._soak.time("compact", matcher.compact)


def resident_mb() -> float:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


class _MallInfo(ctypes.Structure):
    """What the allocator of glibc says of itself (mallinfo2)."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def in_use_mb() -> float:
    """Memory that was asked of the allocator of C and not given back; NaN if it does not say."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        return float("nan")
    ask.restype = _MallInfo
    said = ask()
    return float((said.uordblks + said.hblkhd) / 1e6)


class Quiet(NamedTuple):
    """Memory of this process while no step is under way, in one segment, and without what the allocator gives back."""

    resident_mb: float
    in_use_mb: float
    python_blocks: float
    """Millions of blocks that the allocator of Python has given out."""


def quiet(soak: Soak) -> Quiet:
    """Let everybody pause, and look."""
    for _ in range(MOST_STEPS):
        soak.steps.acquire()
    try:
        soak.matcher.compact()
        gc.collect()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
        return Quiet(resident_mb(), in_use_mb(), sys.getallocatedblocks() / 1e6)
    finally:
        soak.steps.release(MOST_STEPS)


def quantile(counted: "np.ndarray[Any, np.dtype[np.int64]]", share: float) -> float:
    """The latency, in milliseconds, that so many were not longer than."""
    return float(1.1 ** (np.searchsorted(np.cumsum(counted), share * counted.sum()) + 1) / 1e3)


def main() -> int:
    """Soak for some hours; return 1 if there was an error."""
    ask = argparse.ArgumentParser(prog="soak", description=__doc__)
    ask.add_argument("--hours", type=float, default=1)
    ask.add_argument("--seed", type=int, default=1)
    asked = ask.parse_args()
    world = World.create(asked.seed)
    jumping = JumpingModule()
    with (
        tempfile.TemporaryDirectory() as folder,
        Matcher() as matcher,
        patch("tocsin.model.events.dt", jumping),
        patch("tocsin.model.lookup.dt", jumping),
    ):
        for number, text in enumerate(world.texts):
            matcher.subscribe(f"s{number}", text)
        matcher.save(Path(folder, "index"))
        soak = Soak(world, Path(folder, "index"), matcher)
        writer = Writer(soak, random.Random(asked.seed))
        for number in range(20):  # kernels are compiled before the time counts
            soak.match(random.Random(number))
        soak.latencies.clear()
        threads = [soak.run("matching", soak.match, asked.seed + number) for number in range(THREADS)]
        threads.append(soak.run("writing", writer.change, asked.seed))
        threads.append(soak.run("event loop", soak.ask_in_a_loop, asked.seed, every=0.1))
        threads.append(soak.run("clock jumps", soak.jump, asked.seed, JUMP_EVERY_S))
        threads.append(soak.run("forks", soak.fork, asked.seed, FORK_EVERY_S))
        threads.append(soak.run("spawns", soak.spawn, asked.seed, SPAWN_EVERY_S))
        start, samples = time.monotonic(), list[tuple[float, ...]]()
        while time.monotonic() - start < asked.hours * 3600 and not soak.errors:
            time.sleep(SAMPLE_EVERY_S)
            samples.append(((time.monotonic() - start) / 3600, resident_mb(), *quiet(soak)))
        soak.stop.set()
        for thread in threads:
            thread.join()
    report(soak, samples)
    return 1 if soak.errors else 0


def report(soak: Soak, samples: list[tuple[float, ...]]) -> None:
    """Print what happened."""
    for error in soak.errors:
        print(error)
    print(f"errors: {len(soak.errors)}")
    print(", ".join(f"{name}: {count:,}" for name, count in sorted(soak.counts.items())))
    hours, *several = np.array(samples[int(len(samples) * WARM_UP) :]).T
    names = ("resident, MB", "while all pause, MB", "in use, MB", "in use by Python, million blocks")
    for name, memory in zip(names, several, strict=True):
        slope = np.polyfit(hours, memory, 1)[0] if len(hours) > 1 else float("nan")
        print(f"{name}: {memory[0]:.2f} after the warm-up, {memory[-1]:.2f} at the end, {slope:+.2f} an hour")
    print(f"{'ms':14} {'count':>10} {'p50':>9} {'p99':>9} {'p99.9':>9}")
    for name, counted in sorted(soak.latencies.items()):
        shares = " ".join(f"{quantile(counted, share):9.2f}" for share in (0.5, 0.99, 0.999))
        print(f"{name:14} {counted.sum():10,} {shares}")


if __name__ == "__main__":
    sys.exit(main())
