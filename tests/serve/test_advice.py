"""Advice on a condition before it is a subscription."""

import pytest

from tocsin import Matcher
from tocsin.serve.advice import MEASURED, measured_us


def test_a_cost_is_measured_with_many_events_however_few_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    real, sizes = Matcher.match_batch, []

    def match_batch(self: Matcher, events: list[dict[str, int]]) -> object:
        sizes.append(len(events))
        return real(self, events)

    monkeypatch.setattr(Matcher, "match_batch", match_batch)
    cost = measured_us("NOT (x = 1 AND y = 2)", [{"x": 1}, {"y": 2}])
    assert sizes == [2, MEASURED]
    assert cost is not None
    assert measured_us("x = x", []) is None
