"""The best k subscriptions equal their definition: exact and relaxed, for every family and in every state of a set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import conditions, conditions_on_history, events
from tocsin import Matcher, Subscription
from tocsin.language.normalise import normalise
from tocsin.language.parse import parse
from tocsin.model.condition import AttributeComparison, Exists
from tocsin.model.predicate import Predicate, Ranges
from tocsin.reference import evaluate, holds

Event = dict[str, Any]
Ranked = list[tuple[str, float]]
Combine = str | Mapping[str, float]

ATTRIBUTES = ("i", "j", "d", "s", "flag", "day", "body", "tags", "doc", "a", "b", "hours")
WEIGHTS = st.dictionaries(st.sampled_from(ATTRIBUTES), st.sampled_from([0.1, 0.25, 1.0, 2.0, 3.3, -0.5]), max_size=3)
SCORES = st.sampled_from([0.5, 1.0, 1.0, 2.0, 2.5])
TAGS = st.sampled_from([{}, {"tenant": "acme"}, {"tenant": "zeta"}])
PATHS = ["xpath_exists(doc, '//b')", "NOT xpath_exists(doc, '/a/c')", "xpath_exists(doc, '/a[@x=\"1\"]') AND i > 0"]
WHERE = conditions() | st.sampled_from(PATHS)
DOCUMENTS = st.sampled_from(["<a><b/></a>", '<a x="1"/>', "<a><c/>", None])
COMBINE = st.sampled_from(["sum", "max", {"i": 2.0, "s": 0.5, "body": 0.0}])


def best(scored: Mapping[str, float], k: int) -> Ranked:
    """The first k by falling score, then by id."""
    return sorted(scored.items(), key=lambda item: (-item[1], item[0]))[:k]


def attribute_of(predicate: Predicate) -> str:
    """The attribute whose weight a predicate has."""
    if isinstance(predicate, Ranges):
        return predicate.attribute
    if isinstance(predicate.test, AttributeComparison):
        return predicate.test.left
    if isinstance(predicate.test, Exists):
        return predicate.test.terms[0].old if predicate.test.terms else ""
    return predicate.test.attribute


def combined(held: Sequence[str], weights: Mapping[str, float], combine: Combine) -> float:
    """The score of a conjunction from the attributes of its predicates that hold."""
    coefficients = {} if isinstance(combine, str) else combine
    terms = [coefficients.get(name, 1.0) * weights.get(name, 1.0) for name in sorted(held)]
    return max(terms) if combine == "max" else sum(terms)


def relaxed_scores(
    subscriptions: Sequence[Subscription], event: Event, combine: Combine = "sum", history: Sequence[Event] = ()
) -> dict[str, float]:
    """The relaxed score of each subscription that has one, by the book."""
    scores: dict[str, float] = {}
    for subscription in subscriptions:
        for conjunction in normalise(parse(subscription.where)):
            held = [attribute_of(predicate) for predicate in conjunction if holds(predicate, event, history)]
            if held:
                score = combined(held, subscription.weights, combine)
                scores[subscription.id] = max(score, scores.get(subscription.id, score))
    return scores


def exact_scores(
    subscriptions: Sequence[Subscription], event: Event, history: Sequence[Event] = ()
) -> dict[str, float]:
    """The score of each subscription that matches, by the book."""
    matching = [s for s in subscriptions if evaluate(parse(s.where), event, history) is True]
    return {subscription.id: subscription.score for subscription in matching}


def rows_of(table: pa.Table, count: int) -> list[Ranked]:
    """The rows of a batch's answer, event by event, in their order."""
    found: list[Ranked] = [[] for _ in range(count)]
    for row in table.to_pylist():
        found[row["event"]].append((row["subscription"], row["score"]))
    assert table["event"].to_pylist() == sorted(table["event"].to_pylist()), "events come one after the other"
    return found


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
        matcher.load(pa.Table.from_pylist([as_row(subscription) for subscription in loaded]))
        standing |= {subscription.id: subscription for subscription in loaded}
    if draw(st.booleans()):
        buffered = Subscription("buffered", draw(where), draw(SCORES), draw(WEIGHTS), draw(TAGS))
        matcher.subscribe(*vars_of(buffered))
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


def vars_of(subscription: Subscription) -> tuple[Any, ...]:
    return (
        subscription.id,
        subscription.where,
        subscription.score,
        subscription.weights,
        subscription.tags,
    )


def as_row(subscription: Subscription) -> dict[str, Any]:
    names = ("id", "where", "score")
    row: dict[str, Any] = dict(zip(names, vars_of(subscription)[:3], strict=True))
    weights = {name: subscription.weights.get(name) for name in ATTRIBUTES}
    return row | {"weights": weights, "tags": {"tenant": subscription.tags.get("tenant")}}


def full_events() -> st.SearchStrategy[Event]:
    return st.builds(lambda event, doc: event | {"doc": doc}, events(), DOCUMENTS)


@settings(max_examples=80, deadline=None)
@given(changed(), st.lists(full_events(), min_size=1, max_size=4), st.sampled_from([0, 1, 3, 100]))
def test_exact_equals_the_definition(state: Changed, batch: list[Event], k: int) -> None:
    expected = [best(exact_scores(state.subscriptions, event), k) for event in batch]
    assert [list(state.matcher.top_k(event, k)) for event in batch] == expected
    assert rows_of(state.matcher.match_batch(batch, top_k=k), len(batch)) == expected


@settings(max_examples=80, deadline=None)
@given(changed(), st.lists(full_events(), min_size=1, max_size=4), st.sampled_from([0, 1, 3, 100]), COMBINE)
def test_relaxed_equals_the_definition(state: Changed, batch: list[Event], k: int, combine: Combine) -> None:
    for event in batch:
        expected = best(relaxed_scores(state.subscriptions, event, combine), k)
        assert list(state.matcher.top_k(event, k, "relaxed", combine)) == expected
    summed = [best(relaxed_scores(state.subscriptions, event), k) for event in batch]
    assert rows_of(state.matcher.match_batch(batch, top_k=k, mode="relaxed"), len(batch)) == summed


@settings(max_examples=40, deadline=None)
@given(changed(), full_events())
def test_only_subscriptions_with_the_tags_are_ranked(state: Changed, event: Event) -> None:
    acme = [subscription for subscription in state.subscriptions if subscription.tags == {"tenant": "acme"}]
    tags = {"tenant": "acme"}
    assert list(state.matcher.top_k(event, 3, where_tags=tags)) == best(exact_scores(acme, event), 3)
    relaxed = state.matcher.top_k(event, 3, "relaxed", where_tags=tags)
    assert list(relaxed) == best(relaxed_scores(acme, event), 3)
    table = state.matcher.match_batch([event], where_tags=tags, top_k=3, mode="relaxed")
    assert rows_of(table, 1) == [list(relaxed)]


@settings(max_examples=40, deadline=None)
@given(
    changed(conditions_on_history()), st.lists(events(), min_size=1, max_size=4), st.sampled_from(["exact", "relaxed"])
)
def test_earlier_events_count(state: Changed, batch: list[Event], mode: str) -> None:
    def expected(event: Event, history: Sequence[Event]) -> Ranked:
        if mode == "exact":
            return best(exact_scores(state.subscriptions, event, history), 3)
        return best(relaxed_scores(state.subscriptions, event, history=history), 3)

    table = state.matcher.match_batch(batch, remember=True, top_k=3, mode=mode)
    assert rows_of(table, len(batch)) == [expected(event, batch[:row]) for row, event in enumerate(batch)]
    assert list(state.matcher.top_k(batch[0], 3, mode)) == expected(batch[0], batch)
