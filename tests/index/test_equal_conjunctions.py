"""Conjunctions that are equal or covered are stored once, and cost one candidate."""

from pathlib import Path

import pyarrow as pa

from matchers import found, matcher_of
from tocsin import Matcher
from tocsin.conjunctions.choose import CombinedIndex


def test_equal_conjunctions_cost_one_candidate_whatever_is_dropped() -> None:
    wheres = ["x > 1 AND has_words(t, 'a')"] * 6 + [
        "has_words(t, 'a') AND x > 1",
        "y = 1 OR x > 1 AND has_words(t, 'a')",
    ]
    matcher = Matcher.from_table(pa.table({"id": list("abcdefgh"), "where": wheres}), background_merge=False)
    event = {"x": 2, "t": "a", "y": 1}
    assert matcher.stats().conjunctions == 2
    assert matcher.match(event).ids == list("abcdefgh")
    assert matcher.match({"x": 2, "t": "a"}).evidence.candidates <= 2
    for gone in "bch":
        matcher.unsubscribe(gone)
    assert matcher.match(event).ids == list("adefg")
    assert matcher.match_batch([event] * 3).column("subscription").to_pylist() == list("adefg") * 3
    matcher.rescore("f", 2.0)
    assert list(matcher.top_k(event, 2)) == [("f", 2.0), ("a", 1.0)]
    matcher.compact()
    assert matcher.match(event).ids == list("adefg")
    assert matcher.stats().conjunctions == 1


def test_a_covered_conjunction_is_left_out() -> None:
    matcher = matcher_of(a="x = 1 OR (x = 1 AND y = 2) OR (x IN (1, 2) AND has_words(t, 'a')) OR z = 1 AND x = 1")
    assert matcher.stats().conjunctions == 2
    assert found(matcher, [{"x": 1}, {"x": 1, "y": 2}, {"x": 2}, {"x": 2, "t": "a"}]) == [(0, "a"), (1, "a"), (3, "a")]


def test_equal_subscriptions_survive_their_files(tmp_path: Path) -> None:
    matcher = matcher_of(a="x = 1", b="x = 1", c="x = 2")
    matcher.save(tmp_path)
    again = Matcher.open(tmp_path)
    assert found(again, [{"x": 1}, {"x": 2}]) == [(0, "a"), (0, "b"), (1, "c")]
    assert again.stats().conjunctions == 2


def test_candidates_fall_when_words_have_drifted() -> None:
    wheres = {f"s{number}": f"has_words(body, 'word{number} breaking')" for number in range(100)}
    matcher = matcher_of(**wheres, other="x = 1")
    quiet = " ".join(f"word{number}" for number in range(100))
    assert matcher.match({"body": quiet}).evidence.candidates >= 100
    for _ in range(8):
        matcher.match_batch([{"body": quiet}] * 64)
    segment_matcher = matcher._subscriptions.current().states[0].segment.index
    assert isinstance(segment_matcher, CombinedIndex)
    segment_matcher.drift.join()
    assert matcher.match({"body": quiet}).evidence.candidates <= 2
    assert matcher.match({"body": "breaking word7", "x": 1}).ids == ["other", "s7"]
    assert matcher.stats().rekeyed == 1
    assert "chosen anew 1 times" in str(matcher.plan())
