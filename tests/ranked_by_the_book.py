"""What the best k subscriptions are, by the book, for all tests that rank."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from expressions import alternatives
from tocsin import Subscription
from tocsin.language.normalise import normalise
from tocsin.language.parse import parse
from tocsin.model.condition import Aggregated, AttributeComparison, Exists
from tocsin.model.predicate import Predicate, Ranges
from tocsin.predicates.evaluate import holds
from tocsin.ranking.question import ScoreBy
from tocsin.ranking.score_function import ScoreRule
from tocsin.reference import evaluate

Event = dict[str, Any]
Ranked = list[tuple[str, float]]

ATTRIBUTES = ("i", "j", "d", "s", "flag", "day", "body", "tags", "doc", "a", "b", "hours")


def root_of_sum(held: Mapping[str, float]) -> float:
    """A function of the weights that hold: no sum of theirs, and no maximum."""
    return math.sqrt(max(0.0, sum(held[name] for name in ("i", "j", "hours", "s"))))


EXPRESSIONS: dict[str, ScoreRule] = {
    "2 * i + greatest(j, hours)": lambda held: 2 * held["i"] + max(held["j"], held["hours"]),
    "CASE WHEN i > 0.5 THEN 3 ELSE 0 END + s": lambda held: (3 if held["i"] > 0.5 else 0) + held["s"],
}
"""Expressions over the weights that hold, and what they mean."""


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
    if isinstance(predicate.test, Aggregated):
        return predicate.test.attribute or predicate.test.old or ""
    return predicate.test.attribute


def combined(held: Sequence[str], weights: Mapping[str, float], score_by: ScoreBy) -> float:
    """The score of a conjunction from the attributes of its predicates that hold."""
    if isinstance(score_by, str) and score_by in EXPRESSIONS:
        score_by = EXPRESSIONS[score_by]
    if callable(score_by):
        by_attribute: dict[str, float] = defaultdict(float)
        for name in sorted(held):
            by_attribute[name] += weights.get(name, 1.0)
        return score_by(by_attribute)
    coefficients = score_by if isinstance(score_by, Mapping) else {}
    terms = [coefficients.get(name, 1.0) * weights.get(name, 1.0) for name in sorted(held)]
    return max(terms) if score_by == "max" else sum(terms)


def relaxed_scores(
    subscriptions: Sequence[Subscription], event: Event, score_by: ScoreBy = "sum", history: Sequence[Event] = ()
) -> dict[str, float]:
    """The relaxed score of each subscription that has one, by the book."""
    scores: dict[str, float] = {}
    for subscription in subscriptions:
        for conjunction in alternatives(normalise(parse(subscription.where))):
            held = [attribute_of(predicate) for predicate in conjunction if holds(predicate, event, history)]
            if held:
                score = combined(held, subscription.weights, score_by)
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


def as_row(subscription: Subscription) -> dict[str, Any]:
    row = {"id": subscription.id, "where": subscription.where, "score": subscription.score}
    weights = {name: subscription.weights.get(name) for name in ATTRIBUTES}
    return row | {"weights": weights, "tags": {"tenant": subscription.tags.get("tenant")}}
