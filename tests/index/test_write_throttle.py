"""Changes rest while there are matches, for as long as their work asks; otherwise they never do."""

import threading

import pytest

from tocsin import Matcher, UnknownSubscriptionError
from tocsin.index import write_throttle as turns
from tocsin.index.write_throttle import WriteThrottle


class Clock:
    """Time that passes only when somebody works or sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(turns, "time", clock)
    return clock


def change(taken: WriteThrottle, clock: Clock, seconds: float) -> None:
    with taken.changing():
        clock.now += seconds


class Elsewhere:
    """The ident of threads as tests say it is."""

    Lock = staticmethod(threading.Lock)

    def __init__(self) -> None:
        self.ident = 1

    def get_ident(self) -> int:
        return self.ident


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    threads = Elsewhere()
    monkeypatch.setattr(turns, "threading", threads)
    return threads


def test_where_nobody_matches_nobody_rests(clock: Clock) -> None:
    taken = WriteThrottle()
    for _ in range(100):
        change(taken, clock, 0.05)
    assert clock.slept == []


def test_a_change_rests_for_the_work_of_the_one_before_it(clock: Clock) -> None:
    taken = WriteThrottle()
    with taken.matching():
        change(taken, clock, 0.02)
        change(taken, clock, 0.03)
        change(taken, clock, 0.0)
    assert clock.slept == pytest.approx([0.02 * turns.REST, 0.03 * turns.REST])


def test_a_change_rests_between_its_steps(clock: Clock) -> None:
    taken = WriteThrottle()
    with taken.matching():
        with taken.changing():
            clock.now += 0.02
            taken.between_steps()
            clock.now += 0.01
        change(taken, clock, 0.0)
    assert clock.slept == pytest.approx([0.02 * turns.REST, 0.01 * turns.REST])


def test_without_matches_a_change_does_not_rest_between_its_steps(clock: Clock) -> None:
    taken = WriteThrottle()
    with taken.changing():
        clock.now += 0.02
        taken.between_steps()
    assert clock.slept == []


def test_what_a_match_builds_for_changes_counts(clock: Clock) -> None:
    taken = WriteThrottle()
    with taken.matching():
        with taken.building():
            clock.now += 0.04
        change(taken, clock, 0.0)
    assert clock.slept == pytest.approx([0.04 * turns.REST])


def test_beside_matches_that_build_nothing_each_change_rests_at_once(clock: Clock) -> None:
    taken = WriteThrottle()
    with taken.matching():
        for _ in range(3):
            change(taken, clock, 0.0001)
    assert clock.slept == pytest.approx([0.0001 * turns.REST] * 2)


def test_short_rests_are_put_off_where_matches_build_and_long_ones_cut(clock: Clock) -> None:
    taken = WriteThrottle()
    with taken.matching():
        with taken.building():
            pass
        for _ in range(5):
            change(taken, clock, 0.003 / turns.REST)
        assert clock.slept == pytest.approx([0.012])
        change(taken, clock, 60.0)
        change(taken, clock, 0.0)
    assert clock.slept[-1] == turns.LONGEST


def test_a_thread_that_matches_and_changes_by_turns_never_rests(clock: Clock) -> None:
    taken = WriteThrottle()
    for _ in range(10):
        with taken.matching(), taken.building():
            clock.now += 0.05
        change(taken, clock, 0.05)
    assert clock.slept == []


def test_matches_that_follow_each_other_are_a_stream_and_old_ones_are_forgotten(
    clock: Clock, threads: Elsewhere
) -> None:
    taken = WriteThrottle()
    with taken.matching():
        change(taken, clock, 0.02)
    threads.ident = 2
    clock.now += turns.LATELY / 2
    change(taken, clock, 0.02)
    assert len(clock.slept) == 1
    clock.now += turns.LATELY * 2
    change(taken, clock, 0.02)
    assert len(clock.slept) == 1


def test_changes_take_at_most_their_share_of_a_stream(clock: Clock) -> None:
    taken = WriteThrottle()
    begin = clock.now
    with taken.matching():
        for _ in range(1_000):
            change(taken, clock, 0.0015)
    assert 1_000 * 0.0015 / (clock.now - begin) == pytest.approx(1 / (1 + turns.REST), rel=0.05)


def test_a_change_that_fails_lets_the_next_one_pass() -> None:
    matcher = Matcher()
    with pytest.raises(UnknownSubscriptionError):
        matcher.unsubscribe("nobody")
    matcher.subscribe("a", "x > 1")
    assert matcher.match({"x": 2}).ids == ["a"]
