"""Matcher(matcher="reference") is the reference behind the whole surface of the Matcher."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_matcher import ReferenceMatcher
from strategies import conditions, conditions_on_history, events
from tocsin import Matcher
from tocsin.index.by_reference import ReferenceIndex
from tocsin.registry import MatcherName

Event = dict[str, Any]
P = {"p": "urn:p"}


def both(texts: list[str], **options: Any) -> tuple[Matcher, ReferenceMatcher]:
    """Subscriptions in two segments and a buffer, and the reference with the same."""
    matcher, reference = Matcher(matcher="reference", background_merge=False, **options), ReferenceMatcher()
    ids = [str(number) for number in range(len(texts))]
    scores = [float(number % 3) for number in range(len(texts))]
    third = -(-len(texts) // 3)
    table = pa.table({"id": ids, "where": texts, "score": scores})
    matcher.subscribe_many(table.slice(0, third))
    matcher.subscribe_many(table.slice(third, third))
    for id, text, score in list(zip(ids, texts, scores, strict=True))[2 * third :]:
        matcher.subscribe(id, text, score)
    for id, text, score in zip(ids, texts, scores, strict=True):
        reference.subscribe(id, text, score)
    return matcher, reference


@given(
    st.lists(conditions() | conditions_on_history(), min_size=3, max_size=8),
    st.lists(events(), min_size=1, max_size=5),
    st.booleans(),
)
def test_all_that_matches_is_what_the_reference_says(texts: list[str], batch: list[Event], at_once: bool) -> None:
    matcher, reference = both(texts)
    for id in ("0", str(len(texts) - 1)):
        matcher.rescore(id, 7.0)
        reference.rescore(id, 7.0)
    matcher.unsubscribe("1")
    reference.unsubscribe("1")
    expected = [sorted(reference.publish(event)) for event in batch]
    if at_once:
        table = matcher.publish_batch(batch).to_pylist()
        rows = sorted((row["event"], row["subscription"], row["score"]) for row in table)
        assert rows == [(row, *found) for row, matches in enumerate(expected) for found in matches]
    else:
        assert [list(matcher.publish(event)) for event in batch] == expected
    now = sorted(reference.match(batch[0]))
    assert list(matcher.match(batch[0])) == now
    best = sorted(now, key=lambda found: (-found[1], found[0]))
    assert list(matcher.top_k(batch[0], 2)) == best[:2]
    matcher.compact()
    assert list(matcher.match(batch[0])) == now


def test_nothing_but_the_reference_decides() -> None:
    """A wrong specification gives wrong answers, so that the right one is not confirmed by the index it judges."""
    matcher, _ = both(["x < 1", "x > 1", "x = ANY (SELECT x FROM history)"])
    with patch("tocsin.index.by_reference.evaluate", lambda *_: True):
        assert matcher.match({"x": 1}).ids == ["0", "1", "2"]
        assert matcher.top_k({"x": 1}, 2).ids == ["2", "1"]
    found = matcher.match({"x": 1})
    assert (found.ids, found.evidence.candidates) == ([], 3)
    assert "by the reference" in str(matcher.plan())


def test_it_survives_a_file(tmp_path: Path) -> None:
    matcher, _ = both(["x < 5", "price > ALL (SELECT price FROM history)", "xpath_exists(d, '//p:a')"], namespaces=P)
    matcher.publish({"price": 3})
    matcher.save(tmp_path)
    matcher.close()
    opened = Matcher.open(tmp_path)
    assert all(isinstance(state.segment.index, ReferenceIndex) for state in opened._subscriptions.current().states)
    assert opened.match({"x": 1, "price": 4, "d": "<a xmlns='urn:p'/>"}).ids == ["0", "1", "2"]
    assert opened.match({"x": 5, "price": 3, "d": "<a/>"}).ids == []
    opened.close()


@pytest.mark.parametrize("matcher", ["auto", "reference"])
def test_prefixes_of_xpath_are_known_to_explain(matcher: MatcherName) -> None:
    made = Matcher(namespaces=P, matcher=matcher)
    made.subscribe("a", "xpath_exists(d, '//p:a')")
    for document, holds in (("<a xmlns='urn:p'/>", True), ("<a/>", False)):
        assert made.explain({"d": document}, "a").matches == holds
        assert ("a" in made.match({"d": document})) == holds


def test_intervals_and_relaxed_questions_are_answered_as_ever() -> None:
    texts = ["hours BETWEEN 10 AND 20", "hours > 25 AND x = 1", "hours > ALL (SELECT hours FROM history)"]
    matcher, _ = both(texts)
    usual = Matcher.from_table(pa.table({"id": ["0", "1", "2"], "where": texts, "score": [0.0, 1.0, 2.0]}))
    for made in (matcher, usual):
        made.publish({"hours": 30})
    for event in ({"hours": [15, 40]}, {"hours": 31}):
        for mode in ("exact", "relaxed"):
            assert list(matcher.top_k(event, 3, mode=mode)) == list(usual.top_k(event, 3, mode=mode))
