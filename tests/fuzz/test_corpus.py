"""No difference that was ever found comes back, and a difference is found, minimised and kept."""

from pathlib import Path

import pytest

from fuzz import cases
from fuzz.__main__ import turn
from fuzz.targets import TARGETS, Target


@pytest.mark.parametrize("path", sorted(cases.CORPUS.glob("*.case")), ids=lambda path: path.stem)
def test_a_difference_stays_mended(path: Path) -> None:
    cases.replay(path)


def test_a_difference_is_minimised_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def check(texts: list[str], batch: list[object]) -> None:  # noqa: ARG001  # a case has it
        assert not any("BETWEEN" in text for text in texts), "no BETWEEN"

    monkeypatch.setitem(TARGETS, "sql", Target(TARGETS["sql"].cases, check))
    count, found = turn("sql", 1, 50, float("inf"))
    assert found is not None
    assert 0 < count <= 50
    case, wrong = found
    assert case["batch"] == [{}]
    assert {text for text in case["texts"] if "BETWEEN" not in text} <= {"(i = 0)"}
    path = cases.write("sql", case, wrong, tmp_path)
    assert cases.read(path) == case
    assert "no BETWEEN" in path.read_text()
    with pytest.raises(AssertionError, match="no BETWEEN"):
        cases.replay(path)


def test_one_seed_gives_the_same_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    for number in (5, 5, 6):
        seen.append([])
        monkeypatch.setitem(TARGETS, "text", Target(TARGETS["text"].cases, lambda text: seen[-1].append(text)))
        turn("text", number, 20, float("inf"))
    assert seen[0] == seen[1] != seen[2]


def test_the_time_ends_a_turn() -> None:
    assert turn("text", 1, 50, 0.0) == (0, None)
