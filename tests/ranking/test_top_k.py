"""The best k subscriptions equal their definition: exact and relaxed, for every family and in every state of a set."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expressions import alternatives
from ranked_by_the_book import (
    ATTRIBUTES,
    EXPRESSIONS,
    Event,
    Ranked,
    as_row,
    attribute_of,
    best,
    combined,
    exact_scores,
    relaxed_scores,
    root_of_sum,
    rows_of,
)
from strategies import conditions, conditions_on_history, events
from tocsin import Matcher, OptionError, Subscription
from tocsin.language.normalise import normalise
from tocsin.language.parse import parse
from tocsin.model.predicate import Predicate, Ranges
from tocsin.model.values import Kind
from tocsin.papers.ranked import range_rows
from tocsin.predicates.evaluate import holds
from tocsin.ranking import exact as ranked
from tocsin.ranking import relaxed as weights_module
from tocsin.ranking.question import Interval, Mode, ScoreBy
from tocsin.ranking.score_function import ScoreFunction
from tocsin.registry import RankedName, RankingName

WEIGHTS = st.dictionaries(st.sampled_from(ATTRIBUTES), st.sampled_from([0.1, 0.25, 1.0, 2.0, 3.3, -0.5]), max_size=3)
SCORES = st.sampled_from([0.5, 1.0, 1.0, 2.0, 2.5])
TAGS = st.sampled_from([{}, {"tenant": "acme"}, {"tenant": "zeta"}])
PATHS = ["xpath_exists(doc, '//b')", "NOT xpath_exists(doc, '/a/c')", "xpath_exists(doc, '/a[@x=\"1\"]') AND i > 0"]
WHERE = conditions() | st.sampled_from(PATHS)
DOCUMENTS = st.sampled_from(["<a><b/></a>", '<a x="1"/>', "<a><c/>", None])
SCORE_BY = st.sampled_from(["sum", "max", {"i": 2.0, "s": 0.5, "body": 0.0}])


@dataclass
class Changed:
    """A matcher with several segments, after drops and new scores, and what stands in it."""

    matcher: Matcher
    subscriptions: list[Subscription]


@st.composite
def changed(draw: st.DrawFn, where: st.SearchStrategy[str] = WHERE) -> Changed:
    matcher = Matcher(background_merge=False)
    standing: dict[str, Subscription] = {}
    for segment in range(draw(st.integers(1, 3))):
        texts = draw(st.lists(where, min_size=1, max_size=5))
        loaded = []
        for number, text in enumerate(texts):
            # Ids that come again replace, and do not come in order.
            id_ = draw(st.sampled_from([f"s{number}", f"{9 - number}-{segment}", f"é{number}"]))
            loaded.append(Subscription(id_, text, draw(SCORES), draw(WEIGHTS), draw(TAGS)))
        matcher.subscribe_many(pa.Table.from_pylist([as_row(subscription) for subscription in loaded]))
        standing |= {subscription.id: subscription for subscription in loaded}
    if draw(st.booleans()):
        buffered = Subscription("buffered", draw(where), draw(SCORES), draw(WEIGHTS), draw(TAGS))
        matcher.subscribe(**asdict(buffered))
        standing["buffered"] = buffered
    for id_ in draw(st.lists(st.sampled_from(sorted(standing)), max_size=2, unique=True)):
        matcher.unsubscribe(id_)
        del standing[id_]
    if standing:
        for id_ in draw(st.lists(st.sampled_from(sorted(standing)), max_size=2, unique=True)):
            score = draw(SCORES)
            matcher.rescore(id_, score)
            standing[id_] = replace(standing[id_], score=score)
    return Changed(matcher, list(standing.values()))


def full_events() -> st.SearchStrategy[Event]:
    return st.builds(lambda event, doc: event | {"doc": doc}, events(), DOCUMENTS)


@settings(max_examples=50, deadline=None)
@given(changed(), st.lists(full_events(), min_size=1, max_size=4), st.sampled_from([0, 1, 3, 100]))
def test_exact_equals_the_definition(state: Changed, batch: list[Event], k: int) -> None:
    expected = [best(exact_scores(state.subscriptions, event), k) for event in batch]
    assert [list(state.matcher.top_k(event, k)) for event in batch] == expected
    assert rows_of(state.matcher.match_batch(batch, top_k=k), len(batch)) == expected


@settings(max_examples=50, deadline=None)
@given(changed(), st.lists(full_events(), min_size=1, max_size=4), st.sampled_from([0, 1, 3, 100]), SCORE_BY)
def test_relaxed_equals_the_definition(state: Changed, batch: list[Event], k: int, score_by: ScoreBy) -> None:
    for event in batch:
        expected = best(relaxed_scores(state.subscriptions, event, score_by), k)
        assert list(state.matcher.top_k(event, k, mode="relaxed", score_by=score_by)) == expected
    expected_rows = [best(relaxed_scores(state.subscriptions, event, score_by), k) for event in batch]
    table = state.matcher.match_batch(batch, top_k=k, mode="relaxed", score_by=score_by)
    assert rows_of(table, len(batch)) == expected_rows


FACTORS = st.sampled_from([None, "x", -1.0, 0, 0.25, 1, 2.0])
BY_EVENT: dict[str, Callable[[float, float], float]] = {
    "score * event.ctr": lambda own, ctr: own * ctr,
    "event.ctr": lambda _, ctr: ctr,
    "least(score, 1.5) * EVENT . ctr + score": lambda own, ctr: min(own, 1.5) * ctr + own,
}


@settings(max_examples=50, deadline=None)
@given(
    changed(),
    st.lists(st.builds(lambda event, ctr: event | {"ctr": ctr}, full_events(), FACTORS), min_size=1, max_size=4),
    st.sampled_from([0, 1, 3, 100]),
    st.sampled_from(sorted(BY_EVENT)),
)
def test_exact_by_an_expression_over_the_event(state: Changed, batch: list[Event], k: int, score_by: str) -> None:
    """Where the event has no number, the score is 0; where its factor is negative, the expression falls."""
    expected = []
    for event in batch:
        ctr, rule = event["ctr"], BY_EVENT[score_by]
        factor = ctr if isinstance(ctr, (int, float)) else None
        found = exact_scores(state.subscriptions, event)
        scores = {id: 0.0 if factor is None else float(rule(own, factor)) for id, own in found.items()}
        expected.append(best(scores, k))
    assert [list(state.matcher.top_k(event, k, score_by=score_by)) for event in batch] == expected
    assert rows_of(state.matcher.match_batch(batch, top_k=k, score_by=score_by), len(batch)) == expected


@settings(max_examples=30, deadline=None)
@given(
    changed(),
    st.lists(st.builds(lambda event, ctr: event | {"ctr": ctr}, full_events(), FACTORS), min_size=1, max_size=3),
    st.sampled_from([1, 3, 100]),
)
def test_relaxed_by_an_expression_over_the_event(state: Changed, batch: list[Event], k: int) -> None:
    score_by, expected = "i * coalesce(event.ctr, 3) + j", []
    for event in batch:
        ctr: Any = 3 if event["ctr"] is None else event["ctr"]

        def rule(held: Mapping[str, float], ctr: Any = ctr) -> float:
            return 0.0 if ctr == "x" else held["i"] * ctr + held["j"]

        expected.append(best(relaxed_scores(state.subscriptions, event, rule), k))
    found = [list(state.matcher.top_k(event, k, mode="relaxed", score_by=score_by)) for event in batch]
    assert found == expected
    table = state.matcher.match_batch(batch, top_k=k, mode="relaxed", score_by=score_by)
    assert rows_of(table, len(batch)) == expected


def test_scores_below_the_bound_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher, computed = Matcher(), []
    matcher.subscribe_many([{"id": f"s{n:03}", "where": "a > 0", "score": float(n)} for n in range(100)])
    original = ScoreFunction.scores

    def counting(self: ScoreFunction, held: Any, attributes: Sequence[str]) -> Any:
        computed.extend(held.ravel().tolist())
        return original(self, held, attributes)

    monkeypatch.setattr(ScoreFunction, "scores", counting)
    found = matcher.top_k({"a": 1, "ctr": 0.5}, 3, score_by="score * event.ctr")
    assert list(found) == [("s099", 49.5), ("s098", 49.0), ("s097", 48.5)]
    assert sorted(set(computed)) == [0.0, 96.0, 97.0, 98.0, 99.0], "three, the next as a bound, and the least"


VALUES = st.sampled_from([20, 20.5, 25, 30, 31, float("inf")])
RANKED_NAMES = get_args(RankedName)
CONJUNCTIONS = st.sampled_from(
    [
        *("i > 1 AND j < 5", "i BETWEEN -1 AND 3 AND hours > 20 AND s = 'a'", "hours < 25", "j = 2", "s >= 'b'"),
        *(
            "i > 1 OR j > 1",
            "i IS NULL",
            "i <> 2 AND j > 0",
            "s LIKE '%a%' AND i < 3",
            "has_words(body, 'a') OR hours = 20",
        ),
    ]
)


@pytest.mark.parametrize("index", ["auto", *RANKED_NAMES])
@settings(max_examples=15, deadline=None)
@given(
    changed(CONJUNCTIONS),
    st.lists(st.builds(lambda event, hours: event | {"hours": hours}, events(), VALUES), min_size=1, max_size=3),
    st.sampled_from([0, 1, 3, 100]),
    st.sampled_from(["sum", "max", {"i": 2.0, "j": 0.0}, root_of_sum, *EXPRESSIONS]),
)
def test_every_ranked_index_and_function_equals_the_definition(
    index: RankingName, state: Changed, batch: list[Event], k: int, score_by: ScoreBy
) -> None:
    expected = [best(relaxed_scores(state.subscriptions, event, score_by), k) for event in batch]
    found = [list(state.matcher.top_k(e, k, mode="relaxed", score_by=score_by, index=index)) for e in batch]
    assert found == expected
    table = state.matcher.match_batch(batch, top_k=k, mode="relaxed", score_by=score_by, index=index)
    assert rows_of(table, len(batch)) == expected
    expected = [best(exact_scores(state.subscriptions, event), k) for event in batch]
    assert [list(state.matcher.top_k(event, k, index=index)) for event in batch] == expected


def test_a_named_index_does_the_work() -> None:
    """Single ranges are found by the index; the rest is looked at one by one."""
    matcher = Matcher()
    matcher.subscribe_many([{"id": f"{n:03}", "where": f"x BETWEEN {n} AND {n + 9}", "score": n} for n in range(200)])
    for mode in ("exact", "relaxed"):
        assert matcher.top_k({"x": 50}, 2, mode=mode, index="ir-tree").ids[0] == ("050" if mode == "exact" else "041")
    weights = matcher._subscriptions.current().states[0].ranking.weights()
    assert {(name, exact) for name, exact in weights._range_rows} == {("ir-tree", True), ("ir-tree", False)}
    matcher.rescore("045", 1000.0)
    assert matcher.top_k({"x": 50}, 1, index="ir-tree").ids == ["045"]
    with pytest.raises(OptionError, match="an event has an interval"):
        matcher.top_k({"x": [3, 5]}, 1, mode="relaxed", index="ir-tree")


def test_a_function_cannot_score_a_tree() -> None:
    matcher = Matcher()
    matcher.subscribe("large", " AND ".join(f"(a{n} = 1 OR b{n} = 2)" for n in range(12)))
    assert matcher.top_k({"a1": 1}, 1, mode="relaxed").scores == [1.0]
    with pytest.raises(OptionError, match="too large an expression"):
        matcher.top_k({"a1": 1}, 1, mode="relaxed", score_by=root_of_sum)


@settings(max_examples=30, deadline=None)
@given(changed(), full_events())
def test_only_subscriptions_with_the_tags_are_ranked(state: Changed, event: Event) -> None:
    acme = [subscription for subscription in state.subscriptions if subscription.tags == {"tenant": "acme"}]
    tags = {"tenant": "acme"}
    assert list(state.matcher.top_k(event, 3, tags=tags)) == best(exact_scores(acme, event), 3)
    relaxed = state.matcher.top_k(event, 3, mode="relaxed", tags=tags)
    assert list(relaxed) == best(relaxed_scores(acme, event), 3)
    table = state.matcher.match_batch([event], tags=tags, top_k=3, mode="relaxed")
    assert rows_of(table, 1) == [list(relaxed)]


@settings(max_examples=30, deadline=None)
@given(
    changed(conditions_on_history()), st.lists(events(), min_size=1, max_size=4), st.sampled_from(["exact", "relaxed"])
)
def test_earlier_events_count(state: Changed, batch: list[Event], mode: Mode) -> None:
    def expected(event: Event, history: Sequence[Event]) -> Ranked:
        if mode == "exact":
            return best(exact_scores(state.subscriptions, event, history), 3)
        return best(relaxed_scores(state.subscriptions, event, history=history), 3)

    table = state.matcher.publish_batch(batch, top_k=3, mode=mode)
    assert rows_of(table, len(batch)) == [expected(event, batch[:row]) for row, event in enumerate(batch)]
    assert list(state.matcher.top_k(batch[0], 3, mode=mode)) == expected(batch[0], batch)


RANGES = st.sampled_from(
    [
        *("hours > 20", "hours BETWEEN 20 AND 30", "hours <> 25", "hours IN (20, 30)", "hours < 20 OR hours > 30"),
        *("hours IS NULL", "hours IS NOT NULL", "NOT (hours >= 20.5)", "hours = 20 AND i > 1", "hours > i AND i < 3"),
        *("(hours > 25) IS NOT TRUE", "hours >= 30 AND s = 'a'", "hours = 'x' OR i = 1", "array_contains(hours, 20)"),
    ]
)
HOURS = st.one_of(VALUES, st.lists(VALUES, min_size=1, max_size=3), st.none(), st.just([20, None]), st.just("x"))


def holds_for_interval(predicate: Predicate, event: Event, interval: Interval) -> bool:
    """What `holds` says, where a list of two numbers in order is an interval of numbers."""
    if not isinstance(predicate, Ranges) or predicate.kind is not Kind.NUMBER:
        return holds(predicate, event)
    value = event.get(predicate.attribute)
    if not isinstance(value, list) or len(value) != 2 or None in value or value[0] > value[1]:
        return holds(predicate, event)
    first, last = value if interval == "within" else value[::-1]

    def begins(low: Any, closed: bool) -> bool:
        return low is None or low.exact < first or (low.exact == first and closed)

    def ends(high: Any, closed: bool) -> bool:
        return high is None or high.exact > last or (high.exact == last and closed)

    return any(begins(r.low, r.low_closed) and ends(r.high, r.high_closed) for r in predicate.ranges)


def by_interval(
    subscriptions: Sequence[Subscription], event: Event, interval: Interval, score_by: ScoreBy = "sum"
) -> tuple[dict[str, float], dict[str, float]]:
    """The exact and the relaxed scores, by the book, for an event that may have intervals."""
    scores: dict[str, float] = {}
    weights: dict[str, float] = {}
    for subscription in subscriptions:
        for conjunction in alternatives(normalise(parse(subscription.where))):
            held = [attribute_of(p) for p in conjunction if holds_for_interval(p, event, interval)]
            if len(held) == len(conjunction):
                scores[subscription.id] = subscription.score
            if held:
                total = combined(held, subscription.weights, score_by)
                weights[subscription.id] = max(total, weights.get(subscription.id, total))
    return scores, weights


@pytest.fixture(params=["without layers and indexes", "with layers and indexes"])
def paid(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Build layers and indexes for relaxed questions after the first batch, or never."""
    if request.param == "with layers and indexes":
        monkeypatch.setattr(ranked, "REPAID", -1)
        monkeypatch.setattr(ranked, "layer_sizes", lambda count, *_: [count // 2, count - count // 2])
        monkeypatch.setattr(weights_module, "LARGE", 0)
        monkeypatch.setattr(weights_module, "MANY", 0)
        monkeypatch.setattr(range_rows, "prefer_counting", lambda *_: False)


@pytest.mark.usefixtures("paid")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changed(RANGES),
    st.lists(st.builds(lambda event, hours: event | {"hours": hours}, events(), HOURS), min_size=1, max_size=4),
    st.sampled_from(["overlaps", "within"]),
    SCORE_BY,
)
def test_intervals_overlap_or_are_contained(
    state: Changed, batch: list[Event], interval: Interval, score_by: ScoreBy
) -> None:
    matcher = state.matcher
    for event in batch:
        without = event | {"hours": 25}
        plain = best(by_interval(state.subscriptions, without, interval)[0], 3)
        assert rows_of(matcher.match_batch([without], top_k=3), 1) == [plain]
        relaxed = matcher.match_batch([without], top_k=3, mode="relaxed")
        assert rows_of(relaxed, 1) == [best(by_interval(state.subscriptions, without, interval)[1], 3)]
    answers = [by_interval(state.subscriptions, event, interval, score_by) for event in batch]
    exact, relaxed_ = [best(scores, 3) for scores, _ in answers], [best(weights, 3) for _, weights in answers]
    assert [list(matcher.top_k(event, 3, interval=interval)) for event in batch] == exact
    assert [
        list(matcher.top_k(event, 3, mode="relaxed", score_by=score_by, interval=interval)) for event in batch
    ] == relaxed_
    assert rows_of(matcher.match_batch(batch, top_k=3, interval=interval), len(batch)) == exact
    table = matcher.match_batch(batch, top_k=3, mode="relaxed", score_by=score_by, interval=interval)
    assert rows_of(table, len(batch)) == relaxed_
    acme = [subscription for subscription in state.subscriptions if subscription.tags == {"tenant": "acme"}]
    scores, _ = by_interval(acme, batch[0], interval)
    assert list(matcher.top_k(batch[0], 3, interval=interval, tags={"tenant": "acme"})) == best(scores, 3)


def test_a_column_of_lists_is_read_as_intervals() -> None:
    matcher = Matcher()
    matcher.subscribe("late", "hours > 22")
    matcher.subscribe("early", "hours < 12")
    table = pa.table({"hours": [[20, 30], [5, 10], [5, 25], None]})
    found = rows_of(matcher.match_batch(table, top_k=2), 4)
    assert [[id_ for id_, _ in row] for row in found] == [["late"], ["early"], ["early", "late"], []]
    evidence = matcher.top_k({"hours": [20, 30]}, 1).evidence
    assert evidence.mismatches == {}
    assert matcher.top_k({"hours": [30, 20]}, 1).evidence.mismatches == {"hours": 1}


def test_saved_weights_are_opened(tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.subscribe("a", "x > 1 AND y = 'p'", weights={"y": 3.0})
    matcher.subscribe("b", "x > 1 AND has_words(t, 'one two')", weights={"t": 0.75})
    matcher.subscribe("c", "EXISTS (SELECT 1 FROM history h WHERE h.x = event.x) AND y > 'a'", weights={"x": 0.5})
    matcher.publish({"x": 2})
    matcher.save(tmp_path / "index")
    event = {"x": 2, "y": "p", "t": "two or one"}
    expected = [("a", 4.0), ("b", 2.5), ("c", 1.5)]
    assert list(matcher.top_k(event, 5, mode="relaxed")) == expected
    opened = Matcher.open(tmp_path / "index")
    assert list(opened.top_k(event, 5, mode="relaxed")) == expected
    matcher.close()


def test_duckdb_orders_the_same_way() -> None:
    random = np.random.default_rng(7)
    operators = [("x", "<"), ("y", ">="), ("z", "<>"), ("x", ">"), ("y", "=")]
    rows = {name: random.integers(0, 10, 40).tolist() for name in "xyz"}
    table = pa.table({"event": range(40), **rows})
    matcher = Matcher()
    exact, relaxed = [], []
    for number in range(60):
        places = random.choice(len(operators), 3, replace=False).tolist()
        chosen = sorted({operators[place][0]: operators[place] for place in places}.values())
        predicates = [(name, f"{name} {operator} {random.integers(0, 10)}") for name, operator in chosen]
        weights = {name: float(random.integers(1, 9)) / 4 for name, _ in predicates}
        score = float(random.integers(0, 6))
        where = " AND ".join(text for _, text in predicates)
        matcher.subscribe(f"s{number}", where, score, weights=weights)
        exact.append(f"SELECT event, 's{number}' AS id, {score} AS score FROM events WHERE {where}")
        total = " + ".join(f"CASE WHEN {text} THEN {weights[name]} ELSE 0 END" for name, text in predicates)
        some = " OR ".join(text for _, text in predicates)
        relaxed.append(f"SELECT event, 's{number}' AS id, {total} AS score FROM events WHERE {some}")
    connection = duckdb.connect()
    connection.register("events", table)
    asked: list[tuple[Mode, list[str]]] = [("exact", exact), ("relaxed", relaxed)]
    for mode, parts in asked:
        query = f"""
            SELECT event, id, score FROM ({" UNION ALL ".join(parts)})
            QUALIFY row_number() OVER (PARTITION BY event ORDER BY score DESC, id) <= 7
            ORDER BY event, score DESC, id"""
        judged = [(event, id_, float(score)) for event, id_, score in connection.execute(query).fetchall()]
        found = matcher.match_batch(table, id="event", top_k=7, mode=mode).to_pylist()
        assert [tuple(row.values()) for row in found] == judged
        assert judged


def test_an_empty_set_has_no_best() -> None:
    matcher = Matcher()
    assert list(matcher.top_k({"x": 1}, 5)) == []
    table = matcher.match_batch([{"x": 1}], top_k=5, mode="relaxed")
    assert table.column_names == ["event", "subscription", "score"]
    assert len(table) == 0
    assert len(matcher.match_batch([], top_k=5)) == 0


def test_always_true_matches_exactly_and_has_nothing_to_weigh() -> None:
    matcher = Matcher()
    matcher.subscribe("all", "TRUE", score=3.0)
    assert list(matcher.top_k({}, 1)) == [("all", 3.0)]
    assert list(matcher.top_k({}, 1, mode="relaxed")) == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"k": -1}, "k is -1"),
        ({"k": 1, "mode": "best"}, "mode is 'best'"),
        ({"k": 1, "interval": "inside"}, "interval is 'inside'"),
        ({"k": 1, "mode": "relaxed", "score_by": "mean"}, "score_by is 'mean'"),
        ({"k": 1, "mode": "relaxed", "score_by": "price +"}, "score_by is 'price \\+'"),
        ({"k": 1, "mode": "relaxed", "score_by": "price > 1"}, "score_by is 'price > 1'"),
        ({"k": 1, "mode": "relaxed", "score_by": lambda a, b: a + b}, "score_by takes 2 arguments"),
        ({"k": 1, "mode": "relaxed", "score_by": lambda: 1}, "score_by takes 0 arguments"),
        ({"k": 1, "index": "b-tree"}, "no ranked index 'b-tree'"),
        ({"k": 1, "score_by": "max"}, "score_by has no meaning"),
        ({"k": 1, "score_by": "bid * event.ctr"}, "score_by has no meaning"),
        ({"k": 1, "score_by": "score * event.ctr", "index": "ir-tree"}, "index is 'ir-tree'"),
        ({"k": 1, "mode": "relaxed", "score_by": {"x": -1.0}}, "coefficient of 'x' is -1.0"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        Matcher().top_k({}, **options)


@pytest.mark.parametrize(
    ("score_by", "named"),
    [
        (lambda _: "much", "gives 'much' for {'x': 2.0}"),
        (lambda _: float("nan"), "gives nan"),
        ("nullif(x, x)", "is NULL for {'x': 2.0}"),
    ],
)
def test_a_score_that_is_no_number_is_named(score_by: ScoreBy, named: str) -> None:
    matcher = Matcher()
    matcher.subscribe("a", "x > 1", weights={"x": 2.0})
    with pytest.raises(OptionError, match=re.escape(named)):
        matcher.top_k({"x": 5}, 1, mode="relaxed", score_by=score_by)


@pytest.mark.parametrize(
    "options", [{"mode": "relaxed"}, {"index": "ir-tree"}, {"score_by": "max"}, {"interval": "within"}]
)
def test_what_asks_for_the_best_is_refused_without_a_k(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="all matches are wanted"):
        Matcher().match_batch([{}], **options)


def test_the_best_conjunction_counts() -> None:
    matcher = Matcher()
    matcher.subscribe("first", "(x > 1 AND y > 1) OR z > 1")
    matcher.subscribe("last", "z > 1 OR (x > 1 AND y > 1)")
    matcher.subscribe("weighed", "(x > 1 AND y > 1) OR z > 1", weights={"z": 5.0})
    event = {"x": 2, "y": 2, "z": 2}
    assert list(matcher.top_k(event, 3, mode="relaxed")) == [("weighed", 5.0), ("first", 2.0), ("last", 2.0)]
    assert list(matcher.top_k({"x": 2, "z": 0}, 1, mode="relaxed")) == [("first", 1.0)]


@pytest.mark.parametrize("mode", ["exact", "relaxed"])
def test_equal_scores_go_by_id_over_all_segments(mode: Mode) -> None:
    matcher = Matcher(background_merge=False)
    for ids in (["d", "b"], ["c", "é", "a"]):
        matcher.subscribe_many(pa.table({"id": ids, "where": ["x > 1"] * len(ids)}))
    assert matcher.top_k({"x": 2}, 4, mode=mode).ids == ["a", "b", "c", "d"]
    assert matcher.match_batch([{"x": 2}] * 2, top_k=3, mode=mode)["subscription"].to_pylist() == ["a", "b", "c"] * 2
