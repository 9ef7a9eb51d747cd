"""What is printed stays a screenful for rules with hundreds of attributes, and everything can be had."""

import pytest

from tocsin.matcher import Matcher

ATTRIBUTES = [f"a{number:03}" for number in range(200)]


@pytest.fixture
def matcher() -> Matcher:
    matcher = Matcher()
    matcher.subscribe("many", " OR ".join(f"{name} LIKE '%x{name}%' AND b = 1" for name in ATTRIBUTES))
    matcher.subscribe("few", "a000 LIKE '%x%' AND b = 1")
    matcher.compact()
    return matcher


def test_a_plan_counts_steps_of_the_same_kind(matcher: Matcher) -> None:
    plan = matcher.plan()
    assert len(str(plan).splitlines()) < 30
    assert "and 196 steps of the same kind" in str(plan)
    assert all(f"patterns on {name}:" in plan.details() for name in ATTRIBUTES)


def test_an_explanation_shows_the_alternative_that_holds(matcher: Matcher) -> None:
    explanation = matcher.explain({"a117": "-xa117-", "b": 1}, "many")
    assert explanation.matches
    [_, *verdicts] = str(explanation).splitlines()[1:]
    assert [verdict.split()[0] for verdict in verdicts] == ["holds", "holds"]
    assert "a117" in str(explanation).splitlines()[2] + str(explanation).splitlines()[3]
    assert explanation.details().count("FAILS") == len(ATTRIBUTES) - 1


def test_an_explanation_shows_the_failures_of_the_nearest(matcher: Matcher) -> None:
    explanation = matcher.explain({"a042": "-xa042-"}, "many")
    assert not explanation.matches
    lines = str(explanation).splitlines()
    assert lines[1] == "  alternative 43 of 200, which comes nearest"
    assert lines[2:] == ["    FAILS  b = 1  (b is missing)"]


def test_a_short_explanation_is_whole(matcher: Matcher) -> None:
    explanation = matcher.explain({"b": 2}, "few")
    assert str(explanation) == explanation.details()
    assert str(explanation).count("FAILS") == 2
