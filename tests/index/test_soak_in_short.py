"""What `make soak` does for hours, for a few steps: threads, forks, a new process, an event loop, a jumping clock."""

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import pytest

import soak as soaking
from tocsin import Matcher

THREADS = 4


@pytest.fixture
def soak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[soaking.Soak]:
    monkeypatch.setattr(soaking, "STAYING", 60)
    monkeypatch.setattr(soaking, "CHANGING", 40)
    world, jumping = soaking.World.create(1), soaking.JumpingModule()
    with Matcher() as matcher, patch("tocsin.model.events.dt", jumping), patch("tocsin.model.lookup.dt", jumping):
        for number, text in enumerate(world.texts):
            matcher.subscribe(f"s{number}", text)
        matcher.save(tmp_path / "index")
        yield soaking.Soak(world, tmp_path / "index", matcher)


def test_answers_stay_right_beside_a_writer_forks_spawns_loops_and_clock_jumps(soak: soaking.Soak) -> None:
    writer = soaking.Writer(soak, random.Random(1))
    work: list[tuple[Callable[[random.Random], None], int]] = [
        *[(soak.match, 30)] * THREADS,
        (writer.change, 80),
        (soak.ask_in_a_loop, 5),
        (soak.jump, 50),
        (soak.fork, 2),
        (soak.spawn, 1),
    ]

    def steps(step: Callable[[random.Random], None], count: int, seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(count):
            step(chance)

    with ThreadPoolExecutor(len(work)) as pool:
        futures = [pool.submit(steps, step, count, seed) for seed, (step, count) in enumerate(work)]
        for future in futures:
            future.result()
    for number in range(len(soak.world.events)):
        soak.world.check(number, soak.matcher.match(soak.world.events[number]).ids)


def test_a_wrong_answer_is_seen(soak: soaking.Soak) -> None:
    number = next(number for number, holds in enumerate(soak.world.holds) if holds)
    soak.world.check(number, soak.matcher.match(soak.world.events[number]).ids)
    soak.matcher.unsubscribe(f"s{min(soak.world.holds[number])}")
    with pytest.raises(AssertionError, match=f"event {number}"):
        soak.world.check(number, soak.matcher.match(soak.world.events[number]).ids)


def test_memory_is_told_by_who_holds_it(soak: soaking.Soak, capsys: pytest.CaptureFixture[str]) -> None:
    samples: list[tuple[float, ...]] = [(hour / 4, soaking.resident_mb(), *soaking.quiet(soak)) for hour in range(4)]
    soaking.report(soak, samples)
    said = capsys.readouterr().out
    for name in ("resident, MB", "while all pause, MB", "in use, MB", "in use by Python, million blocks"):
        assert f"{name}: " in said
