"""The stored form says what the texts say: in memory, from a file, selected, joined and merged."""

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import conditions, conditions_on_history, odd_conditions
from tocsin import Matcher
from tocsin.index.options import Options
from tocsin.index.segment import Segment
from tocsin.language.normal_form import NormalForm
from tocsin.model.predicate import Predicate

TEXTS = st.lists(conditions() | odd_conditions() | conditions_on_history(), min_size=1, max_size=8)


def meaning(form: NormalForm) -> list[list[frozenset[Predicate]]]:
    """The conjunctions of each text, as sets of predicates."""
    found: list[list[frozenset[Predicate]]] = [[] for _ in range(form.texts)]
    for owner, conjunction in zip(form.owner.tolist(), form.conjunctions(), strict=True):
        found[owner].append(frozenset(conjunction))
    return found


def matcher_of(texts: list[str]) -> tuple[Matcher, list[str]]:
    """A matcher of the texts that can be understood, and those texts."""
    ids = [f"{number:03}" for number in range(len(texts))]
    matcher = Matcher.from_table(pa.table({"id": ids, "where": texts}), background_merge=False)
    refused = {error.subscription for error in matcher.rejected}
    return matcher, [text for id, text in zip(ids, texts, strict=True) if id not in refused]


def segment_of(matcher: Matcher) -> Segment:
    (state,) = matcher._subscriptions.current().states
    return state.segment


@settings(max_examples=60)
@given(TEXTS)
def test_what_is_stored_is_what_the_texts_say(texts: list[str]) -> None:
    matcher, taken = matcher_of(texts)
    if not taken:
        return
    parsed = matcher._subscriptions.options.normalise(taken, taken)
    segment = segment_of(matcher)
    again = Segment.of(segment.container())
    expected = meaning(parsed)
    numbers = np.arange(len(taken), dtype=np.int32)
    assert meaning(segment.normal_form(numbers)) == expected
    assert meaning(again.normal_form(numbers[::-1].copy())) == expected[::-1]
    assert segment.normal_form(numbers).never == parsed.never


@settings(max_examples=60)
@given(TEXTS, TEXTS, st.randoms())
def test_forms_are_selected_and_joined(some: list[str], others: list[str], random: Random) -> None:
    options = Options()
    forms = [options.normalise(texts, texts) for texts in (some, others)]
    expected = [one for form in forms for one in meaning(form)]
    joined = NormalForm.joined(forms)
    assert meaning(joined) == expected
    order = list(range(len(expected)))
    random.shuffle(order)
    chosen = order[: max(1, len(order) // 2)]
    assert meaning(joined.select(np.array(chosen))) == [expected[place] for place in chosen]


def test_a_merge_parses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = Matcher(background_merge=False)
    for number in range(20):
        matcher.subscribe(f"s{number:02}", f"x >= {number} AND author = 'Ad{number}' OR has_words(t, 'a{number}')")
        if number % 7 == 6:
            matcher.subscribe_many(pa.table({"id": [f"t{number}"], "where": ["x IN (1, 2.5, 3) AND NOT y IS NULL"]}))
    matcher.save(tmp_path)
    matcher.close()
    reader = Matcher.open(tmp_path, background_merge=False)

    def refuse(*_: object) -> NormalForm:
        raise AssertionError("a text is parsed again")

    monkeypatch.setattr("tocsin.index.options.Options.normalise", refuse)
    reader.compact()
    assert len(reader.stats().segments) == 1
    event = {"x": 3, "author": "Ad2", "t": "a4 b", "y": 1}
    assert reader.match(event).ids == ["s02", "s04", "t13", "t6"]
    assert reader.explain(event, "s02").matches
    assert reader.top_k(event, 2, mode="relaxed").ids == ["s02", "t13"]
