"""The Matcher: ids, scores, tags, evidence, every form of event, explanations."""

import datetime as dt
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tocsin import Matcher, OptionError, SubscriptionError, UnknownSubscriptionError
from tocsin.engine.subscriptions import BUFFER
from tocsin.errors import EventError
from tocsin.matching.auto import AutoMatcher
from tocsin.model.subscription import Subscription


def matcher_of(**wheres: str) -> Matcher:
    return Matcher.from_table(pa.table({"id": list(wheres), "where": list(wheres.values())}))


def found(matcher: Matcher, events: Any, **options: Any) -> list[tuple[Any, str]]:
    rows = matcher.match_batch(events, **options).to_pylist()
    return sorted((row["event"], row["subscription"]) for row in rows)


# Subscriptions come, change and go.


@pytest.mark.parametrize("before", ["buffer", "segment"])
def test_a_subscription_with_a_known_id_replaces_it(before: str) -> None:
    matcher = matcher_of(a="x = 1") if before == "segment" else Matcher()
    matcher.subscribe("a", "x = 1", score=5.0, tags={"t": "1"})
    matcher.subscribe("a", "x = 2")
    assert len(matcher) == 1
    assert matcher["a"] == Subscription("a", "x = 2")
    assert matcher.match({"x": 1}).ids == []
    assert matcher.match({"x": 2}, where_tags={"t": "1"}).ids == []
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
    assert matcher.match({"x": 1}, where_tags={"t": "7"}).ids == ["a"]
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


def test_more_than_a_buffer_of_subscriptions() -> None:
    matcher = Matcher(background_merge=False)
    for number in range(2 * BUFFER + 3):
        matcher.subscribe(f"s{number:04}", f"x = {number % 7}")
    stats = matcher.stats()
    assert stats.segments == (BUFFER, BUFFER, 3)
    assert stats.buffered == 3
    expected = [f"s{number:04}" for number in range(2 * BUFFER + 3) if number % 7 == 3]
    assert matcher.match({"x": 3}).ids == expected
    matcher.merge()
    assert matcher.stats().segments == (2 * BUFFER + 3,)
    assert matcher.match({"x": 3}).ids == expected


def test_a_merge_with_nothing_left() -> None:
    matcher = matcher_of(a="x = 1")
    matcher.unsubscribe("a")
    matcher.merge()
    assert (len(matcher), matcher.match({"x": 1}).ids, matcher.stats().dropped) == (0, [], 0)


# Tables of subscriptions.


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


@pytest.mark.parametrize("algorithms", [{}, {"index": "interval"}, {"matcher": "count"}])
def test_nothing_matches_an_empty_matcher(algorithms: dict[str, str]) -> None:
    matcher = Matcher.from_table(pa.table({"id": ["a"], "where": ["x <"]}), **algorithms)
    assert len(matcher) == 0
    answer = matcher.match({"x": 1})
    assert (answer.ids, answer.evidence.events, answer.evidence.candidates) == ([], 1, 0)
    batch = matcher.match_batch(pa.table({"x": [1, 2]}))
    assert batch.schema.names == ["event", "subscription", "score"]
    assert (len(batch), matcher.stats().subscriptions, matcher.attributes) == (0, 0, frozenset())


# Tags.


def test_only_subscriptions_with_all_tags() -> None:
    matcher = Matcher()
    matcher.subscribe("a", "x > 0", tags={"t": "1", "u": "2"})
    matcher.subscribe("b", "x > 0", tags={"t": "1"})
    matcher.subscribe("c", "x > 0")
    matcher.subscribe("d", "x > 5", tags={"t": "1"})
    wanted: list[tuple[Mapping[str, str] | None, list[str]]] = [
        (None, ["a", "b", "c"]),
        ({}, ["a", "b", "c"]),
        ({"t": "1"}, ["a", "b"]),
        ({"t": "1", "u": "2"}, ["a"]),
        ({"t": "2"}, []),
        ({"strange": "1"}, []),
    ]
    for tags, ids in wanted:
        assert matcher.match({"x": 1}, where_tags=tags).ids == ids
        assert found(matcher, [{"x": 1}], where_tags=tags) == [(0, id) for id in ids]
    matcher.merge()
    matcher.unsubscribe("b")
    assert matcher.match({"x": 1}, where_tags={"t": "1"}).ids == ["a"]


# Evidence.


def test_candidates_are_what_was_verified() -> None:
    """A thousand equalities: an event looks at the postings of its own cell, not at a thousand."""
    matcher = Matcher.from_table(
        pa.table({"id": [f"s{n}" for n in range(1000)], "where": [f"x = {n}" for n in range(1000)]})
    )
    evidence = matcher.match({"x": 500}).evidence
    assert (evidence.matches, evidence.events) == (1, 1)
    assert 1 <= evidence.candidates <= 4
    assert evidence.encode_s >= 0
    assert evidence.match_s >= 0


def test_values_that_no_subscription_compares_with_are_counted() -> None:
    matcher = matcher_of(a="x = 1", b="y = 'z'", c="y > 5")
    events = [{"x": "1", "y": 9}, {"x": "2"}, {"x": 1, "y": True}, {"x": None}, {"x": float("nan")}]
    table = matcher.match_batch(events)
    evidence = json.loads(table.schema.metadata[b"tocsin"])
    assert evidence["mismatches"] == {"x": 2, "y": 1}
    assert evidence["events"] == 5
    assert evidence["matches"] == len(table) == 2
    columns = matcher.match_batch(pa.table({"x": ["1", "2", None]}))
    assert json.loads(columns.schema.metadata[b"tocsin"])["mismatches"] == {"x": 2}


def test_what_cannot_be_read_is_an_error_of_the_event_only() -> None:
    matcher = matcher_of(a="xpath_exists(doc, '/a/b')", b="x = 1")
    events = [{"doc": "<a><b/></a>", "x": 1}, {"doc": "<a><b>", "x": 1}]
    table = matcher.match_batch(events)
    assert found(matcher, events) == [(0, "a"), (0, "b"), (1, "b")]
    errors = json.loads(table.schema.metadata[b"tocsin"])["errors"]
    assert sum(errors.values()) == 1


# Forms of events.


def test_events_are_named_by_a_column() -> None:
    matcher = matcher_of(low="price < 10")
    table = pa.table({"key": ["p", "q", "r"], "price": [5, 50, 6]})
    assert found(matcher, table, id="key") == [("p", "low"), ("r", "low")]
    assert found(matcher, table.to_batches()[0], id="key") == [("p", "low"), ("r", "low")]
    assert found(matcher, table.to_pylist(), id="key") == [("p", "low"), ("r", "low")]
    nested = pa.table({"meta": [{"key": 7}], "price": [1]})
    assert found(matcher, nested, id="meta.key") == [(7, "low")]
    empty = matcher.match_batch(table.slice(0, 0), id="key")
    assert empty.schema.field("event").type == pa.string()
    with pytest.raises(OptionError, match=r"no column 'nobody'.*They have key, price"):
        matcher.match_batch(table, id="nobody")


@pytest.mark.parametrize("events", [[], pa.table({"x": pa.array([], pa.int64())})], ids=["list", "table"])
def test_an_empty_batch(events: Any) -> None:
    table = matcher_of(a="x = 1").match_batch(events)
    assert table.to_pylist() == []
    assert table.schema.names == ["event", "subscription", "score"]


def test_an_event_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(EventError, match="an event is a mapping, not str"):
        matcher_of(a="x = 1").match_batch(["x"])


def test_nested_structs_and_dotted_names() -> None:
    matcher = matcher_of(
        a="user.address.city = 'Athens'", b="\"user.name\" = 'Ada'", c="user IS NULL", d="user.age > 1"
    )
    users = [{"address": {"city": "Athens"}, "name": "Ada", "age": 3}, {"address": None, "name": "Bob"}, None]
    expected = [(0, "a"), (0, "b"), (0, "d"), (2, "c")]
    assert found(matcher, pa.table({"user": users})) == expected
    assert found(matcher, [{"user": user} for user in users]) == expected
    flat = pa.table({"user.name": ["Ada"], "user.address": [{"city": "Athens"}]})
    assert found(matcher, flat) == [(0, "a"), (0, "b"), (0, "c")]


def test_dictionary_columns_in_chunks() -> None:
    matcher = matcher_of(a="s = 'x'", b="s LIKE '%y%'", c="s IS NULL", d="has_words(s, 'y')")
    chunks = [pa.array(["x", "y", None]).dictionary_encode(), pa.array(["y", "x"]).dictionary_encode()]
    expected = [(0, "a"), (1, "b"), (1, "d"), (2, "c"), (3, "b"), (3, "d"), (4, "a")]
    assert found(matcher, pa.table({"s": pa.chunked_array(chunks)})) == expected


def test_decimals_and_floats_mean_what_is_written() -> None:
    matcher = matcher_of(a="price = 19.99", b="price > 19.99", c="price = 0.1")
    decimals = pa.array([Decimal("19.99"), Decimal("19.991"), Decimal("0.100")], pa.decimal128(10, 3))
    expected = [(0, "a"), (1, "b"), (2, "c")]
    assert found(matcher, pa.table({"price": decimals})) == expected
    assert found(matcher, pa.table({"price": [19.99, 19.991, 0.1]})) == expected
    assert found(matcher, [{"price": value} for value in decimals.to_pylist()]) == expected


def test_big_integers_are_exact() -> None:
    """2**53 + 1 is no float64; 2**63 and 10**20 are beyond int64."""
    matcher = matcher_of(
        a="n = 9007199254740993", b="n > 9007199254740992", c="n = 18446744073709551615", d="n < 100000000000000000000"
    )
    values = [2**53, 2**53 + 1, 2**64 - 1]
    expected = [(0, "d"), (1, "a"), (1, "b"), (1, "d"), (2, "b"), (2, "c"), (2, "d")]
    assert found(matcher, pa.table({"n": pa.array(values, pa.uint64())})) == expected
    assert found(matcher, [{"n": value} for value in values]) == expected
    assert matcher.match({"n": 10**20}).ids == ["b"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_timestamps_of_every_unit_and_zone(unit: str, zone: str | None) -> None:
    """Moments with a zone are moments; those without one are UTC."""
    matcher = matcher_of(
        a="t = TIMESTAMP '2026-02-28 12:30:00'", b="t < DATE '2026-03-01'", c="t >= TIMESTAMP '2026-02-28 12:30:01'"
    )
    noon = dt.datetime(2026, 2, 28, 12, 30, tzinfo=dt.UTC)
    moments = [noon, noon + dt.timedelta(seconds=1), noon + dt.timedelta(days=1), None]
    naive = [moment and moment.replace(tzinfo=None) for moment in moments]
    column = pa.array(naive, pa.timestamp(unit)).cast(pa.int64()).cast(pa.timestamp(unit, zone))
    expected = [(0, "a"), (0, "b"), (1, "b"), (1, "c"), (2, "c")]
    assert found(matcher, pa.table({"t": column})) == expected
    assert found(matcher, [{"t": moment} for moment in moments]) == expected


def test_a_nanosecond_is_later() -> None:
    matcher = matcher_of(a="t = TIMESTAMP '1970-01-01'", b="t > TIMESTAMP '1970-01-01'")
    table = pa.table({"t": pa.array([0, 1], pa.int64()).cast(pa.timestamp("ns"))})
    assert found(matcher, table) == [(0, "a"), (1, "b")]


# Explanations.


def test_explain_says_what_held_and_what_failed() -> None:
    matcher = matcher_of(smith="author = 'Smith' AND price BETWEEN 10 AND 30")
    event = {"author": "Smith", "price": 40}
    explanation = matcher.explain(event, "smith")
    assert not explanation.matches
    lines = str(explanation).splitlines()
    assert lines[0] == "smith: does not match: author = 'Smith' AND price BETWEEN 10 AND 30"
    assert sorted(line.split()[:2] for line in lines[1:]) == [["FAILS", "price"], ["holds", "author"]]
    assert matcher.explain({"author": "Smith", "price": 10}, "smith").matches


def test_explain_names_alternatives_contradictions_and_what_always_holds() -> None:
    matcher = matcher_of(either="x = 1 OR y = 2", never="x > 2 AND x < 1", always="TRUE")
    text = str(matcher.explain({"x": 1}, "either"))
    assert "alternative 1 of 2" in text
    assert "alternative 2 of 2" in text
    assert "can never match" in str(matcher.explain({}, "never"))
    assert "holds  always" in str(matcher.explain({}, "always"))


def test_explain_shows_the_step_of_a_path_and_the_old_event() -> None:
    matcher = matcher_of(path="xpath_exists(doc, '/a/b/c')", record="price > ALL (SELECT price FROM history)")
    assert "fails at" in str(matcher.explain({"doc": "<a><b/></a>"}, "path"))
    matcher.publish({"price": 10})
    text = str(matcher.explain({"price": 5}, "record"))
    assert "FAILS" in text
    assert "see the old event {'price': 10}" in text


# What stands.


def test_statistics_name_what_is_useless_or_expensive() -> None:
    matcher = matcher_of(never="x > 2 AND x < 1", costly="NOT has_words(body, 'a')", fine="x = 1 OR y = 2")
    stats = matcher.stats()
    assert (stats.subscriptions, stats.conjunctions) == (3, 3)
    assert (list(stats.never), stats.never_count) == (["never"], 1)
    assert (list(stats.unindexed), stats.unindexed_count) == (["costly"], 1)
    matcher.unsubscribe("never")
    matcher.unsubscribe("costly")
    assert (matcher.stats().never, matcher.stats().unindexed, matcher.stats().dropped) == ({}, {}, 2)


def test_attributes_and_kinds() -> None:
    matcher = matcher_of(a="x = 1 AND user.name = 'Ada'", b="x = 'one'", c="has_words(body, 'a')", d="z IS NULL")
    assert matcher.attributes == {"x", "user.name", "body", "z"}
    kinds = {name: {kind.value for kind in kinds} for name, kinds in matcher.kinds.items()}
    assert kinds == {"x": {"number", "string"}, "user.name": {"string"}, "body": {"string"}}
    assert matcher.nbytes > 0


# Equal conjunctions are evaluated once.


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
    matcher.merge()
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
    segment_matcher = matcher._current().views[0].segment.matcher
    assert isinstance(segment_matcher, AutoMatcher)
    segment_matcher.drift.join()
    assert matcher.match({"body": quiet}).evidence.candidates <= 2
    assert matcher.match({"body": "breaking word7", "x": 1}).ids == ["other", "s7"]
    assert matcher.stats().rekeyed == 1
    assert "chosen anew 1 times" in str(matcher.plan())
