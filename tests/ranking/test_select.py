"""Selection from known matches, and top-k by layers of subscriptions."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.arrays import Int32s, Int64s
from tocsin.errors import OptionError
from tocsin.papers.ranked.selection import Postings, select_from_pairs, select_k, top_k_of_held
from tocsin.ranking.select import Layer, layer_sizes, top_k_in_layers

# Scores by subscription, and for each event its matches, some of them twice.
scores_and_matches = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=30).flatmap(
    lambda scores: st.tuples(
        st.just(scores), st.lists(st.lists(st.integers(0, len(scores) - 1), max_size=40), max_size=6)
    )
)
Case = tuple[list[float], list[list[int]]]


def best(matches: list[int], scores: list[float], k: int) -> list[int]:
    return sorted(set(matches), key=lambda s: (-scores[s], s))[:k]


def split(answer: tuple[Int64s, Int32s]) -> list[list[int]]:
    offsets, ids = answer
    return [ids[a:b].tolist() for a, b in itertools.pairwise(offsets.tolist())]


@settings(max_examples=200, deadline=None)
@given(scores_and_matches, st.integers(0, 12))
def test_selects_the_best_of_each_event(case: Case, k: int) -> None:
    scores, events = case
    offsets = np.cumsum([0, *(len(matches) for matches in events)])
    chosen = select_k(offsets, [s for matches in events for s in matches], scores, k)
    assert split(chosen) == [best(matches, scores, k) for matches in events]


@settings(max_examples=200, deadline=None)
@given(scores_and_matches, st.integers(0, 12), st.randoms())
def test_selects_from_pairs_in_any_order(case: Case, k: int, random: object) -> None:
    scores, events = case
    rows = [(event, s) for event, matches in enumerate(events) for s in matches]
    random.shuffle(rows)  # type: ignore[attr-defined]  # Hypothesis gives a random.Random
    pairs = np.array(rows, np.int32).reshape(-1, 2)
    owner = np.arange(len(scores), dtype=np.int32)
    chosen = select_from_pairs(pairs, owner, len(events), np.array(scores), k)
    assert split(chosen) == [best(matches, scores, k) for matches in events]


def make_layer(members: list[int], scores: list[float], events: list[list[int]], asked: list[list[int]]) -> Layer:
    def match(rows: Int64s) -> Int32s:
        asked.append(rows.tolist())
        found = [(i, members.index(s)) for i, e in enumerate(rows.tolist()) for s in events[e] if s in members]
        return np.array(found, np.int32).reshape(-1, 2)

    return Layer.of(match, np.array(members, np.int32), np.array(scores))


@settings(max_examples=200, deadline=None)
@given(scores_and_matches, st.integers(0, 12), st.lists(st.integers(1, 10), min_size=1, max_size=5))
def test_layers_give_the_same_answer_and_stop_at_k(case: Case, k: int, sizes: list[int]) -> None:
    scores, events = case
    ranked = best(list(range(len(scores))), scores, len(scores))
    cuts = np.cumsum([0, *sizes, len(scores)]).tolist()
    parts = [ranked[a:b] for a, b in itertools.pairwise(cuts) if ranked[a:b]]
    asked: list[list[int]] = []
    layers = [make_layer(part, scores, events, asked) for part in parts]
    answer = top_k_in_layers(layers[::-1], len(events), np.array(scores), k)
    assert split(answer) == [best(matches, scores, k) for matches in events]
    before: set[int] = set()
    for rows, part in zip(asked, parts, strict=False):
        lacking = [e for e, matches in enumerate(events) if len(before & set(matches)) < min(k, len(scores))]
        assert rows == lacking, "a layer matches only the events that lack matches"
        before |= set(part)


@settings(max_examples=200, deadline=None)
@given(scores_and_matches, st.integers(0, 12), st.data())
def test_layers_of_several_segments_and_new_scores_may_overlap(case: Case, k: int, data: st.DataObject) -> None:
    scores, events = case
    home = data.draw(st.lists(st.integers(0, 3), min_size=len(scores), max_size=len(scores)))
    parts = [[s for s in range(len(scores)) if home[s] == part] for part in range(4)]
    layers = [make_layer(part, scores, events, []) for part in parts]
    changed = data.draw(st.integers(0, len(scores) - 1))
    scores[changed] = data.draw(st.integers(0, 6).map(float))
    layer = layers[home[changed]]
    if (-scores[changed], changed) < (-layer.best_score, layer.best_id):
        layers[home[changed]] = layer._replace(best_score=scores[changed], best_id=changed)
    answer = top_k_in_layers(layers, len(events), np.array(scores), k)
    assert split(answer) == [best(matches, scores, k) for matches in events]


@pytest.mark.parametrize("combine", ["sum", "max"])
@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(-2, 4).map(float)), max_size=8), max_size=6),
    st.data(),
    st.integers(0, 12),
)
def test_held_predicates_of_any_kind_add_their_weights(
    combine: str, predicates: list[list[tuple[int, float]]], data: st.DataObject, k: int
) -> None:
    held_lists = st.lists(st.integers(0, len(predicates) - 1), unique=True).map(sorted) if predicates else st.just([])
    events = data.draw(st.lists(held_lists, max_size=5))
    flat = [posting for postings in predicates for posting in postings]
    postings = Postings(
        np.cumsum([0, *map(len, predicates)]),
        np.array([subscription for subscription, _ in flat], np.int32),
        np.array([weight for _, weight in flat]),
    )
    offsets = np.cumsum([0, *map(len, events)])
    held = np.array([predicate for event in events for predicate in event], np.int32)
    cuts, ids, scores = top_k_of_held(offsets, held, postings, 10, k, combine)
    for number, event in enumerate(events):
        weights: dict[int, list[float]] = {}
        for predicate in event:
            for subscription, weight in predicates[predicate]:
                weights.setdefault(subscription, []).append(weight)
        combined = {s: sum(given) if combine == "sum" else max(given) for s, given in weights.items()}
        expected = sorted(combined, key=lambda s: (-combined[s], s))[:k]
        assert ids[cuts[number] : cuts[number + 1]].tolist() == expected
        assert scores[cuts[number] : cuts[number + 1]].tolist() == [combined[s] for s in expected]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 100), st.floats(0, 1e6))
def test_layers_cover_all_and_are_few(subscriptions: int, k: int, matches: float) -> None:
    sizes = layer_sizes(subscriptions, k, matches)
    assert sum(sizes) == subscriptions
    assert sizes == sorted(sizes) or len(sizes) == 2
    assert len(sizes) <= 6


def test_a_negative_k_is_refused() -> None:
    with pytest.raises(OptionError, match="k is -1"):
        select_k([0, 0], [], [], -1)
