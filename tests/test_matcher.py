"""The Matcher: tags, evidence, batches, explanations, statistics."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from matchers import evidence_of, found, matcher_of
from tocsin import Matcher, OptionError
from tocsin.errors import EventError
from tocsin.index.segment import Segment
from tocsin.model.values import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.mark.parametrize("algorithms", [{}, {"index": "interval"}, {"matcher": "count"}])
def test_nothing_matches_an_empty_matcher(algorithms: dict[str, Any]) -> None:
    matcher = Matcher.from_table(pa.table({"id": ["a"], "where": ["x <"]}), **algorithms)
    assert len(matcher) == 0
    answer = matcher.match({"x": 1})
    assert (answer.ids, answer.evidence.events, answer.evidence.candidates) == ([], 1, 0)
    batch = matcher.match_batch(pa.table({"x": [1, 2]}))
    assert batch.schema.names == ["event", "subscription", "score"]
    assert (len(batch), matcher.stats().subscriptions, matcher.attributes) == (0, 0, frozenset())


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
        assert matcher.match({"x": 1}, tags=tags).ids == ids
        assert found(matcher, [{"x": 1}], tags=tags) == [(0, id) for id in ids]
    matcher.compact()
    matcher.unsubscribe("b")
    assert matcher.match({"x": 1}, tags={"t": "1"}).ids == ["a"]


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
    evidence = evidence_of(table)
    assert evidence["mismatches"] == {"x": 2, "y": 1}
    assert evidence["events"] == 5
    assert evidence["matches"] == len(table) == 2
    columns = matcher.match_batch(pa.table({"x": ["1", "2", None]}))
    assert evidence_of(columns)["mismatches"] == {"x": 2}


def test_what_cannot_be_read_is_an_error_of_the_event_only() -> None:
    matcher = matcher_of(a="xpath_exists(doc, '/a/b')", b="x = 1")
    events = [{"doc": "<a><b/></a>", "x": 1}, {"doc": "<a><b>", "x": 1}]
    table = matcher.match_batch(events)
    assert found(matcher, events) == [(0, "a"), (0, "b"), (1, "b")]
    errors = evidence_of(table)["errors"]
    assert sum(errors.values()) == 1


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


def test_statistics_name_what_is_useless_or_expensive() -> None:
    matcher = matcher_of(never="x > 2 AND x < 1", costly="NOT has_words(body, 'a')", fine="x = 1 OR y = 2")
    stats = matcher.stats()
    assert (stats.subscriptions, stats.conjunctions) == (3, 3)
    assert (list(stats.never), stats.never_count) == (["never"], 1)
    assert (list(stats.unindexed), stats.unindexed_count) == (["costly"], 1)
    matcher.unsubscribe("never")
    matcher.unsubscribe("costly")
    assert (matcher.stats().never, matcher.stats().unindexed, matcher.stats().dropped) == ({}, {}, 2)


def test_kinds_of_new_subscriptions_build_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of the segment that would be built, also for derived attributes and what never matches."""
    wheres = [
        "price < 3 AND made > '2026-01-01'::timestamp",
        "name = 'x' OR user.age IS NULL",
        "price < 1 AND price > 2",
    ]
    wheres += ["price * quantity > 10", "ok = TRUE", "code IN ('a', 'b') AND code <> 'c'"]
    wheres += ["has_words(body, 'fire') OR has_phrase(body, 'a fire')", "lower(city) LIKE 'x%y%'", "model ~ 'a.c'"]
    wheres += ["price > cost", "day > date_trunc('month', now())", "array_contains(labels, 'a')"]
    wheres += [
        "within_distance(lat, lon, 1, 2, '3 km')",
        "xpath_exists(document, '/a/b')",
        "body LIKE '%x%' AND body > 3",
    ]
    matcher = Matcher()
    matcher.subscribe("old", "headline LIKE '%a%' AND price > 3")
    matcher.match_batch([{}])
    for number, where in enumerate(wheres):
        matcher.subscribe(str(number), where)
    with monkeypatch.context() as patched:
        patched.setattr(Segment, "build", None)
        found = matcher.kinds
    matcher.match_batch([{}])
    assert found == matcher.kinds
    assert found["made"] == {Kind.TIME}
    assert (found["document"], found["day"], found["lat"]) == ({Kind.STRING}, {Kind.TIME}, {Kind.NUMBER})
    matcher.subscribe("items", "EXISTS (SELECT 1 FROM UNNEST(items) i WHERE i.qty > 3 AND stock > 3)")
    assert matcher.kinds["stock"] == {Kind.NUMBER}


def test_attributes_and_kinds() -> None:
    matcher = matcher_of(a="x = 1 AND user.name = 'Ada'", b="x = 'one'", c="has_words(body, 'a')", d="z IS NULL")
    assert matcher.attributes == {"x", "user.name", "body", "z"}
    kinds = {name: {kind.value for kind in kinds} for name, kinds in matcher.kinds.items()}
    assert kinds == {"x": {"number", "string"}, "user.name": {"string"}, "body": {"string"}}
    assert matcher.nbytes > 0


def test_an_attribute_has_the_kind_of_what_its_tests_compare_it_with() -> None:
    matcher = matcher_of(
        a="code LIKE '1%' AND regexp_matches(model, '^1')",
        b="made >= date_trunc('month', now()) - INTERVAL 1 MONTH AND low < high",
        c="either < date_trunc('day', now()) AND abs(price) < either",
    )
    kinds = {name: {kind.value for kind in kinds} for name, kinds in matcher.kinds.items()}
    both = {"either": {"time", "number"}, "price": {"number"}}
    assert kinds == {"code": {"string"}, "model": {"string"}, "made": {"time"}, **both}


def test_an_explanation_tells_missing_from_of_another_type_from_false() -> None:
    matcher = Matcher()
    matcher.subscribe("s", "price < 10 AND low < high AND day > DATE '2026-01-01' AND title LIKE '%x%'")
    event = {"price": "5", "low": 3, "high": 2, "title": "y" * 1000}
    said = {verdict.detail.split(" is ")[0]: verdict.detail for verdict in matcher.explain(event, "s").alternatives[0]}
    assert said["price"] == "price is '5', a value of another type"
    assert said["high"] == "high is 2, low is 3"
    assert said["day"] == "day is missing"
    assert said["title"].startswith("title is 'yyy")
    assert len(said["title"]) < 80
    assert "(price is 4)" in str(matcher.explain({"price": 4}, "s"))
