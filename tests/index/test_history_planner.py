"""What the planner saves: tests that constants or the pre-filter rule out are not judged, and shares are learned."""

import pytest
from pyroaring import BitMap

from tocsin import Matcher
from tocsin.index import history_planner
from tocsin.predicates.history.join_table import JoinTable, Truths

Asked = list[BitMap | None]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The tests that were asked for, event by event."""
    found: Asked = []
    probe = JoinTable.probe

    def noting(self: JoinTable, event: dict[str, object], wanted: BitMap | None = None) -> Truths:
        found.append(wanted)
        return probe(self, event, wanted)

    monkeypatch.setattr(JoinTable, "probe", noting)
    return found


def test_constants_that_do_not_hold_spare_the_tests(asked: Asked) -> None:
    matcher = Matcher()
    for number in range(10):
        matcher.subscribe(f"s{number}", f"kind = {number} AND price > ALL (SELECT cost{number} FROM history)")
    matcher.publish({f"cost{number}": 5 for number in range(10)})
    asked.clear()
    assert matcher.match({"kind": 3, "price": 9}).ids == ["s3"]
    assert [len(wanted or ()) for wanted in asked] == [1], "constants come first: one test of ten"
    asked.clear()
    assert matcher.match({"kind": 77, "price": 9}).ids == []
    assert asked == [], "no constants hold"


def test_conjunctions_that_no_event_can_satisfy_spare_their_tests(asked: Asked) -> None:
    matcher = Matcher()
    where = "year > 0 AND EXISTS (SELECT 1 FROM history h WHERE h.year = event.year AND h.stock = {})"
    for stock in range(5):
        matcher.subscribe(f"s{stock}", where.format(stock))
    matcher.publish({"year": 1, "stock": 99})
    asked.clear()
    assert matcher.match({"year": 1}).ids == []
    assert asked == [], "no old event has such a stock"
    matcher.publish({"year": 1, "stock": 3})
    assert matcher.match({"year": 1}).ids == ["s3"]
    assert [len(wanted or ()) for wanted in asked] == [1], "one stock of five has occurred"


def test_the_share_that_passes_the_constants_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """If nearly all constants hold, they spare nothing, and the history comes first."""
    monkeypatch.setattr(history_planner, "LEARNED", 8)
    for least, choice in ((0, "history first"), (1000, "constants first")):
        matcher = Matcher()
        for number in range(12):
            matcher.subscribe(f"s{number}", f"a > {least} AND b > {least} AND c{number} > ALL (SELECT a FROM history)")
            matcher.subscribe(f"t{number}", f"a > {number} AND b < {number}")
        assert "order of phases: constants first" in str(matcher.plan())
        for number in range(12):
            matcher.publish({"a": 5, "b": 5, "c1": number})
        assert f"order of phases: {choice}" in str(matcher.plan())
