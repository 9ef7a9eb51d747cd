"""The reference is tested against DuckDB, word for word; to_sql and the normal form against the reference."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

import strategies
from expressions import judged
from tocsin.language.bulk import normalise_texts
from tocsin.language.normalise import Expression, normalise
from tocsin.language.parse import parse
from tocsin.language.to_sql import to_sql
from tocsin.predicates.evaluate import holds
from tocsin.reference import evaluate

if TYPE_CHECKING:
    from tocsin.model.predicate import Conjunction

Judge = Callable[..., list[tuple[bool | None, ...]]]
Events = list[dict[str, Any]]

SEVERAL_EVENTS = st.lists(strategies.events(), min_size=1, max_size=8)


def values(texts: Sequence[str], events: Events, history: Events | None = None) -> list[tuple[bool | None, ...]]:
    parsed = [parse(text) for text in texts]
    return [tuple(evaluate(condition, event, history or []) for condition in parsed) for event in events]


def matches(form: Expression, event: dict[str, Any], history: Events) -> bool:
    return judged(form, lambda leaf: all(holds(predicate, event, history) for predicate in leaf))


@given(
    texts=st.lists(
        strategies.logic(st.one_of(strategies.comparisons(), strategies.patterns(), strategies.elements())),
        min_size=1,
        max_size=8,
    ),
    events=SEVERAL_EVENTS,
)
def test_reference_equals_duckdb_word_for_word(judge: Judge, texts: list[str], events: Events) -> None:
    assert values(texts, events) == judge(texts, events)


@given(texts=st.lists(strategies.conditions(), min_size=1, max_size=8), events=SEVERAL_EVENTS)
def test_to_sql_means_the_condition(judge: Judge, texts: list[str], events: Events) -> None:
    assert values(texts, events) == judge([to_sql(parse(text)) for text in texts], events)


@settings(max_examples=60)
@given(
    texts=st.lists(strategies.conditions_on_history(), min_size=1, max_size=4),
    events=SEVERAL_EVENTS,
    history=st.lists(strategies.events(), max_size=5),
)
def test_history_equals_duckdb(judge: Judge, texts: list[str], events: Events, history: Events) -> None:
    expected = judge(texts, events, history)
    assert values(texts, events, history) == expected
    assert judge([to_sql(parse(text)) for text in texts], events, history) == expected


@given(
    text=st.one_of(strategies.conditions(), strategies.odd_conditions(), strategies.conditions_on_history()),
    events=st.lists(strategies.events() | strategies.odd_events(), min_size=1, max_size=8),
    history=st.lists(strategies.events() | strategies.odd_events(), max_size=4),
)
def test_normal_form_means_the_condition(text: str, events: Events, history: Events) -> None:
    condition = parse(text)
    form = normalise(condition)
    for event in events:
        assert matches(form, event, history) == (evaluate(condition, event, history) is True)
    for conjunction in form.leaves:
        assert len(set(conjunction)) == len(conjunction)


@given(text=st.one_of(strategies.conditions(), strategies.conditions_on_history()))
def test_a_condition_survives_the_way_back(text: str) -> None:
    condition = parse(text)
    assert normalise(parse(to_sql(condition, as_written=True))) == normalise(condition)


@given(
    shapes=st.lists(strategies.conditions() | strategies.odd_conditions(), min_size=1, max_size=3),
    copies=st.integers(1, 6),
)
def test_bulk_gives_what_one_by_one_gives(shapes: list[str], copies: int) -> None:
    texts = shapes * copies
    form = normalise_texts(texts)
    assert not form.errors
    by_text: dict[int, list[Conjunction]] = {number: [] for number in range(len(texts))}
    for owner, conjunction in zip(form.owner.tolist(), form.conjunctions(), strict=True):
        by_text[owner].append(conjunction)
    assert form.owner.tolist() == sorted(form.owner.tolist())
    for number, text in enumerate(texts):
        expected = normalise(parse(text)).leaves
        assert (number in form.never) == (not expected)
        assert {frozenset(found) for found in by_text[number]} == {frozenset(found) for found in expected}
