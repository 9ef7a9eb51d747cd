"""The measure of `tocsin bench tenants`: in turns, and without the cost of writing the added matches."""

import pytest

from tocsin.bench import tenants


def test_works_take_turns() -> None:
    done: list[str] = []
    least = tenants._least([lambda: done.append("a"), lambda: done.append("b")])
    assert done == ["a", "b"] * tenants.REPEAT
    assert len(least) == 2
    assert min(least) >= 0


def test_the_cost_of_writing_added_matches_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenants, "REPEAT", 1)
    report = tenants.run(subscriptions=2_000, events=500, quick=True, only="1,000 always true, all different")
    [result] = report.results
    assert result.matches is not None
    assert result.matches >= 1_000 * 100
    for way in ("batch", "single"):
        time, written = result.extra[f"{way}_us"], result.extra[f"{way}_writing_us"]
        assert isinstance(time, float)
        assert isinstance(written, float)
        assert written > 0
    assert [claim.claim.split(": ")[0] for claim in report.claims] == [
        f"{result.engine}, batch",
        f"{result.engine}, single",
    ]
