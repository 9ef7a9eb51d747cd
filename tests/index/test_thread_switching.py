"""Threads switch quickly while something is built, and as before when nothing is."""

import sys
import threading

import pytest

from tocsin import Matcher
from tocsin.index.buffer import MOST_FILED, Buffer
from tocsin.index.thread_switching import QUICK, QuickSwitching


def test_the_interval_is_what_it_was_when_the_last_build_is_done() -> None:
    usual, building = sys.getswitchinterval(), QuickSwitching()
    with building:
        assert sys.getswitchinterval() == pytest.approx(QUICK)
        with pytest.raises(ValueError, match="a build fails"), building:
            raise ValueError("a build fails")
        assert sys.getswitchinterval() == pytest.approx(QUICK)
    assert sys.getswitchinterval() == usual


def test_a_child_does_not_build() -> None:
    usual, building = sys.getswitchinterval(), QuickSwitching()
    with building:
        building.become_child()
        assert sys.getswitchinterval() == usual
        building.__enter__()
    assert sys.getswitchinterval() == usual


@pytest.mark.parametrize("beside_matches", [True, False])
def test_beside_matches_a_change_builds_and_not_the_next_match(
    beside_matches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who match meanwhile have what was there before; afterwards all is found."""
    builders: list[int] = []
    index = Buffer.index

    def noted(buffer: Buffer, build: object) -> None:
        builders.append(threading.get_ident())
        index(buffer, build)  # type: ignore[arg-type]  # it is handed on

    monkeypatch.setattr(Buffer, "index", noted)
    matcher = Matcher()
    event = {"body": "a word"}

    def subscribe() -> None:
        for number in range(MOST_FILED + 1):
            matcher.subscribe(f"s{number}", "has_words(body, 'word')")

    with matcher._subscriptions.matching() if beside_matches else pytest.MonkeyPatch.context():
        writer = threading.Thread(target=subscribe)
        writer.start()
        writer.join()
    assert bool(builders) == beside_matches
    assert len(matcher.match(event)) == MOST_FILED + 1
    assert (threading.get_ident() in builders) != beside_matches
