"""Subscriptions come, change and go, one by one and by table."""

import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from matchers import matcher_of
from tocsin import Matcher, OptionError, SubscriptionError, UnknownSubscriptionError
from tocsin.index.segment import Segment
from tocsin.index.subscriptions import SubscriptionSet
from tocsin.model.subscription import Subscription


@pytest.mark.parametrize("before", ["buffer", "segment"])
def test_a_subscription_with_a_known_id_replaces_it(before: str) -> None:
    matcher = matcher_of(a="x = 1") if before == "segment" else Matcher()
    matcher.subscribe("a", "x = 1", score=5.0, tags={"t": "1"})
    matcher.subscribe("a", "x = 2")
    assert len(matcher) == 1
    assert matcher["a"] == Subscription("a", "x = 2")
    assert matcher.match({"x": 1}).ids == []
    assert matcher.match({"x": 2}, tags={"t": "1"}).ids == []
    assert list(matcher.match({"x": 2})) == [("a", 1.0)]


def test_a_bad_subscription_leaves_the_old_one() -> None:
    matcher = matcher_of(a="x = 1")
    with pytest.raises(SubscriptionError, match="subscription 'a'"):
        matcher.subscribe("a", "x =")
    assert matcher.match({"x": 1}).ids == ["a"]


@pytest.mark.parametrize("id", ["", None, 5, "\ud800"])
def test_an_id_is_a_text(id: Any) -> None:
    with pytest.raises(OptionError, match=r"id is a text that is not empty|half a surrogate pair"):
        Matcher().subscribe(id, "x = 1")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"score": "high"}, "its score is 'high'"),
        ({"score": None}, "its score is None"),
        ({"score": float("nan")}, "its score is nan"),
        ({"weights": {"x": "heavy"}}, "its weight of x is 'heavy'"),
        ({"weights": ["x"]}, "its weights are"),
        ({"tags": "{"}, "its tags are '{'"),
        ({"tags": {"t": "\ud800"}}, "half a surrogate pair"),
    ],
)
def test_what_comes_with_a_subscription_is_checked_when_it_comes(given: dict[str, Any], complaint: str) -> None:
    matcher = matcher_of(good="x = 1")
    with pytest.raises(SubscriptionError, match=complaint):
        matcher.subscribe("bad", "x = 1", **given)
    assert matcher.match({"x": 1}).ids == ["good"]


def test_numbers_of_any_type_are_weights_and_scores() -> None:
    matcher = Matcher()
    matcher.subscribe("a", "x = 1", score=Decimal("0.5"), weights={"x": np.float32(0.25)}, tags={"t": 7})  # type: ignore[dict-item,arg-type]  # what users pass
    assert matcher["a"] == Subscription("a", "x = 1", 0.5, {"x": 0.25}, {"t": "7"})
    assert matcher.match({"x": 1}, tags={"t": "7"}).ids == ["a"]
    with pytest.raises(SubscriptionError, match="its score is 'high'"):
        matcher.rescore("a", "high")  # type: ignore[arg-type]  # the point of the test


@pytest.mark.parametrize("buffered", [True, False])
def test_rescore_is_seen_by_the_next_match(buffered: bool) -> None:
    matcher = Matcher() if buffered else matcher_of(a="x > 0")
    matcher.subscribe("a" if buffered else "b", "x > 0")
    matcher.rescore("a", 7)
    assert dict(matcher.match({"x": 1}))["a"] == 7.0
    assert matcher["a"].score == 7.0
    batch = matcher.match_batch([{"x": 1}]).to_pylist()
    assert {row["subscription"]: row["score"] for row in batch}["a"] == 7.0


@pytest.mark.parametrize(
    "use",
    [
        lambda matcher: matcher.unsubscribe("b"),
        lambda matcher: matcher.rescore("b", 1.0),
        lambda matcher: matcher["b"],
        lambda matcher: matcher.explain({}, "b"),
    ],
    ids=["unsubscribe", "rescore", "get", "explain"],
)
def test_an_unknown_id_is_named(use: Callable[[Matcher], object]) -> None:
    with pytest.raises(UnknownSubscriptionError, match="there is no subscription 'b'"):
        use(matcher_of(a="x = 1"))
    assert issubclass(UnknownSubscriptionError, KeyError), "matcher[id] behaves as a mapping does"


def test_an_id_that_was_removed_is_unknown_and_free() -> None:
    matcher = matcher_of(a="x = 1", b="x = 1")
    matcher.unsubscribe("a")
    assert "a" not in matcher
    assert list(matcher) == ["b"]
    with pytest.raises(UnknownSubscriptionError):
        matcher.unsubscribe("a")
    matcher.subscribe("a", "x = 1")
    assert matcher.match({"x": 1}).ids == ["a", "b"]


BUFFER = 512


@pytest.fixture
def small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer that has room for BUFFER subscriptions of any kind."""
    monkeypatch.setattr("tocsin.index.buffer.MOST_ROWS", BUFFER)
    monkeypatch.setattr("tocsin.index.buffer.MOST_OTHERS", BUFFER)


@pytest.mark.usefixtures("small_buffer")
def test_more_than_a_buffer_of_subscriptions() -> None:
    matcher = Matcher(background_merge=False)
    for number in range(2 * BUFFER + 3):
        matcher.subscribe(f"s{number:04}", f"x = {number % 7}")
    stats = matcher.stats()
    assert stats.segments == (BUFFER, BUFFER, 3)
    assert stats.buffered == 3
    expected = [f"s{number:04}" for number in range(2 * BUFFER + 3) if number % 7 == 3]
    assert matcher.match({"x": 3}).ids == expected
    matcher.compact()
    assert matcher.stats().segments == (2 * BUFFER + 3,)
    assert matcher.match({"x": 3}).ids == expected


def test_a_merge_with_nothing_left() -> None:
    matcher = matcher_of(a="x = 1")
    matcher.unsubscribe("a")
    matcher.compact()
    assert (len(matcher), matcher.match({"x": 1}).ids, matcher.stats().dropped) == (0, [], 0)


def test_the_last_of_several_rows_with_one_id_counts() -> None:
    table = pa.table({"id": ["a", "b", "a"], "where": ["x = 1", "x = 1", "x = 2"], "score": [1.0, 2.0, 3.0]})
    matcher = Matcher.from_table(table)
    assert list(matcher.match({"x": 1})) == [("b", 2.0)]
    assert list(matcher.match({"x": 2})) == [("a", 3.0)]


def test_bad_rows_are_rejected_by_name_and_the_rest_is_taken() -> None:
    wheres = ["x >", "x = 1", None, "frobnicate(x)", "y = 2"]
    matcher = Matcher.from_table(pa.table({"id": list("abcde"), "where": wheres}))
    assert [error.subscription for error in matcher.rejected] == ["a", "c", "d"]
    assert all(error.hint for error in matcher.rejected)
    assert matcher.match({"x": 1, "y": 2}).ids == ["b", "e"]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("score", ["1.5", "high", None]),
        ("score", [1.5, float("nan"), None]),
        ("weights", ['{"x": 0.5}', "{", ""]),
        ("weights", ['{"x": 0.5}', "[1]", None]),
        ("weights", ['{"x": 0.5}', '{"x": "heavy"}', "{}"]),
        ("tags", [None, ["t"], None]),
    ],
)
def test_a_bad_value_rejects_its_row_only(column: str, values: list[Any]) -> None:
    matcher = Matcher.from_table(pa.table({"id": list("abc"), "where": ["x = 1"] * 3, column: values}))
    assert [error.subscription for error in matcher.rejected] == ["b"]
    assert matcher.match({"x": 1}).ids == ["a", "c"]
    assert matcher["c"] == Subscription("c", "x = 1")


def test_a_row_without_an_id_is_rejected() -> None:
    matcher = Matcher.from_table(pa.table({"id": ["a", None, ""], "where": ["x = 1"] * 3}))
    assert list(matcher) == ["a"]
    assert [error.subscription for error in matcher.rejected] == ["row 1", "row 2"]


def test_columns_of_a_table() -> None:
    table = pa.table(
        {
            "id": pa.array([1, 2]),
            "where": pa.array(["x = 1", "x = 1"]).dictionary_encode(),
            "score": pa.array([None, 3], pa.int32()),
            "weights": pa.array([[("x", 0.5)], None], pa.map_(pa.string(), pa.float64())),
            "tags": pa.array([{"tenant": "acme", "team": None}, None]),
        }
    )
    matcher = Matcher.from_table(table)
    assert matcher["1"] == Subscription("1", "x = 1", 1.0, {"x": 0.5}, {"tenant": "acme"})
    assert matcher["2"] == Subscription("2", "x = 1", 3.0)


def test_a_table_without_the_columns_is_refused() -> None:
    with pytest.raises(OptionError, match=r"no column 'id' and no column 'where'.*It has name, condition"):
        Matcher.from_table(pa.table({"name": ["a"], "condition": ["x = 1"]}))


MEANWHILE: dict[str, Callable[[Matcher], object]] = {
    "nothing": lambda _: None,
    "a batch": lambda matcher: matcher.match_batch([{"x": 1}]),
    "a single event": lambda matcher: matcher.match({"x": 1}),
    "compact": lambda matcher: matcher.compact(),
    "commit": lambda matcher: matcher.commit(),
}


@pytest.mark.usefixtures("small_buffer")
@pytest.mark.parametrize("first", MEANWHILE)
@pytest.mark.parametrize("then", ["nothing", "a batch", "commit"])
def test_changes_while_a_full_buffer_becomes_a_segment(
    first: str, then: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    matcher = Matcher()
    matcher.save(tmp_path)
    expected = {f"s{number:04}": 1.0 for number in range(BUFFER) if number % 7 == 3}
    built: list[Segment] = []

    def change_and_build(self: SubscriptionSet, *given: Any) -> Segment:
        segment = build(self, *given)
        if threading.current_thread() is not threading.main_thread() and not built:
            built.append(segment)
            MEANWHILE[first](matcher)
            matcher.unsubscribe("s0003")
            matcher.rescore("s0010", 5.0)
            matcher.subscribe("s0017", "x = 4")
            matcher.subscribe("s0018", "x = 3", score=2.0)
            matcher.unsubscribe("s0024")
            matcher.subscribe("s0024", "x = 3", score=4.0)
            matcher.subscribe("new", "x = 3")
            MEANWHILE[then](matcher)
        return segment

    build = SubscriptionSet._build
    monkeypatch.setattr(SubscriptionSet, "_build", change_and_build)
    for number in range(BUFFER):
        matcher.subscribe(f"s{number:04}", f"x = {number % 7}")
        if number == BUFFER // 2:
            # Part of the buffer is in a segment of its own already.
            matcher.match_batch([{"x": 3}])
    thread = matcher._subscriptions._merging
    assert thread is not None
    thread.join()
    assert built, "the buffer was sealed by the thread that merges"
    del expected["s0003"], expected["s0017"]
    if first == then == "nothing":
        assert matcher.stats().buffered < 10
    # What was in the segment of the buffer, and what was too new for it.
    expected |= {"s0010": 5.0, "s0018": 2.0, "s0024": 4.0, "new": 1.0}
    for _ in range(2):
        assert dict(matcher.match({"x": 3})) == expected
        assert sorted(matcher.match_batch([{"x": 3}])["subscription"].to_pylist()) == sorted(expected)
        assert len(matcher) == BUFFER
        matcher.commit()
    matcher.close()
    with Matcher.open(tmp_path) as again:
        assert dict(again.match({"x": 3})) == expected


@pytest.mark.usefixtures("small_buffer")
def test_matches_beside_many_single_subscriptions_see_each_of_them_from_its_start() -> None:
    matcher = Matcher()
    seen: list[int] = []
    wrong: list[str] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            before = len(seen)
            found = matcher.match({"x": 1}).ids
            if len(found) < before or len(set(found)) != len(found):
                wrong.append(f"{len(found)} of at least {before}")

    watching = threading.Thread(target=look)
    watching.start()
    try:
        for number in range(3 * BUFFER):
            matcher.subscribe(f"s{number}", "x > 0")
            seen.append(number)
    finally:
        done.set()
        watching.join()
    matcher.close()
    assert not wrong
    assert len(matcher.match({"x": 1}).ids) == 3 * BUFFER


def test_tests_beside_narrow_ranges_alone_are_not_combined() -> None:
    """Enough conjunctions with a test, none of them with wide ranges: there was nothing to combine, and it raised."""
    rows = [{"id": str(n), "where": f"high > low AND price BETWEEN {n} AND {n + 1}"} for n in range(400)]
    matcher = Matcher.from_table(rows)
    assert matcher.match({"high": 2, "low": 1, "price": 7.5}).ids == ["7"]
