"""Selection from known matches, and top-k by layers of subscriptions."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.errors import OptionError
from tocsin.ranking.select import Match, layer_sizes, select_k, top_k_in_layers

scores_and_matches = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=30).flatmap(
    lambda scores: st.tuples(
        st.just(scores),
        st.lists(st.lists(st.integers(0, len(scores) - 1), unique=True, max_size=30), max_size=6),
    )
)


def best(matches: list[int], scores: list[float], k: int) -> list[int]:
    return sorted(matches, key=lambda s: (-scores[s], s))[:k]


@settings(max_examples=200, deadline=None)
@given(scores_and_matches, st.integers(0, 12))
def test_selects_the_best_of_each_event(case: tuple[list[float], list[list[int]]], k: int) -> None:
    scores, events = case
    offsets = np.cumsum([0, *(len(matches) for matches in events)])
    kept, chosen = select_k(offsets, [s for matches in events for s in matches], scores, k)
    answers = [chosen[a:b].tolist() for a, b in itertools.pairwise(kept)]
    assert answers == [best(matches, scores, k) for matches in events]


@settings(max_examples=200, deadline=None)
@given(scores_and_matches, st.integers(0, 12), st.lists(st.integers(1, 10), min_size=1, max_size=5))
def test_layers_give_the_same_answer_and_stop_at_k(
    case: tuple[list[float], list[list[int]]], k: int, sizes: list[int]
) -> None:
    scores, events = case
    ranked = best(list(range(len(scores))), scores, len(scores))
    cuts = np.cumsum([0, *sizes, len(scores)])
    asked: list[list[int]] = []

    def layer(members: set[int]) -> Match:
        def match(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            asked.append(rows.tolist())
            found = [[s for s in events[row] if s in members] for row in rows.tolist()]
            ids = np.array([s for matches in found for s in matches], np.int32)
            return np.cumsum([0, *(len(matches) for matches in found)]), ids

        return match

    parts = [ranked[a:b] for a, b in itertools.pairwise(cuts)]
    offsets, ids = top_k_in_layers([layer(set(part)) for part in parts], len(events), np.array(scores), k)
    answers = [ids[a:b].tolist() for a, b in itertools.pairwise(offsets)]
    assert answers == [best(matches, scores, k) for matches in events]
    before: set[int] = set()
    for number, rows in enumerate(asked):
        if number:
            lacking = [e for e, matches in enumerate(events) if len(before & set(matches)) < k]
            assert rows == lacking, "a layer matches only the events that lack matches"
        before |= set(parts[number])


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 100), st.floats(0, 1e6))
def test_layers_cover_all_and_grow(subscriptions: int, k: int, matches: float) -> None:
    sizes = layer_sizes(subscriptions, k, matches)
    assert sum(sizes) == subscriptions
    assert sizes[:-1] == sorted(sizes[:-1])
    assert len(sizes) <= 9


def test_a_negative_k_is_refused() -> None:
    with pytest.raises(OptionError, match="k is -1"):
        select_k([0, 0], [], [], -1)
