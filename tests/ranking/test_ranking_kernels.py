"""The kernels of the best k, against sorting with NumPy."""

from typing import TYPE_CHECKING

import numpy as np
import pytest

from expressions import is_true, multiplied, nested
from tocsin.conjunctions.coded import FALSE, NULL, TRUE, Events
from tocsin.ranking import kernels
from tocsin.ranking.kernels import (
    EXACT,
    MAX,
    SUM,
    Asked,
    BestHeaps,
    Weighed,
    hold_attributes,
    offer,
    offer_matches,
    offer_once,
    offer_pairs,
    offer_weighed,
    sort_best,
    unsettled,
    weigh_tree,
)
from tocsin.ranking.select import nothing_yet

if TYPE_CHECKING:
    from tocsin.arrays import Int32s, Int64s

Ranked = list[tuple[int, float]]
NO_BOOLS = np.empty(0, np.bool_)


def ranked(best: BestHeaps) -> list[Ranked]:
    """What the heaps hold, event by event."""
    offsets, ids, scores = sort_best(best)
    rows = list(zip(ids.tolist(), scores.tolist(), strict=True))
    return [rows[start:end] for start, end in zip(offsets[:-1], offsets[1:], strict=True)]  # noqa: RUF007  # arrays


def by_rank(scores: dict[int, float], k: int) -> Ranked:
    """The best k: higher scores first, equal ones by id."""
    return sorted(scores.items(), key=lambda one: (-one[1], one[0]))[:k]


def is_heap(best: BestHeaps, event: int) -> bool:
    """Whether each match ranks before the one above it: the worst is on top."""
    size = best.sizes[event]
    key = list(zip(best.scores[event, :size], -best.ids[event, :size], strict=True))
    return all(key[(place - 1) // 2] <= key[place] for place in range(1, size))


def test_worse() -> None:
    for score, identity in ((1.0, 3), (2.0, 3), (2.0, 4)):
        for than_score, than_identity in ((1.0, 3), (2.0, 3), (2.0, 4)):
            after = (-score, identity) > (-than_score, than_identity)
            assert kernels._worse(score, identity, than_score, than_identity) == after


@pytest.mark.parametrize("k", [0, 1, 5, 40])
def test_offer_and_sort_best(k: int) -> None:
    """Matches in any order, some of them again, to two events; `offer_once` for those that come once."""
    random = np.random.default_rng(k)
    scores = random.integers(0, 6, 30).astype(float)
    best = nothing_yet(2, k)
    for identity in random.permutation(np.repeat(np.arange(30), 2)).tolist():
        offer(best, 0, identity, scores[identity])
        assert is_heap(best, 0)
    for identity in random.permutation(30).tolist():
        offer_once(best, 1, identity, scores[identity])
        assert is_heap(best, 1)
    expected = by_rank(dict(enumerate(scores.tolist())), k)
    assert ranked(best) == [expected, expected]
    assert best.sizes.tolist() == [0, 0], "the heaps are empty afterwards"


def test_sink() -> None:
    """The top is replaced, and the heap stays one."""
    for seed in range(20):
        random = np.random.default_rng(seed)
        best = nothing_yet(1, 9)
        for identity in range(9):
            offer_once(best, 0, identity, float(random.integers(0, 5)))
        before = set(zip(best.ids[0, 1:].tolist(), best.scores[0, 1:].tolist(), strict=True))
        kernels._sink(best, 0, 9, 100, float(random.integers(0, 5)))
        after = set(zip(best.ids[0].tolist(), best.scores[0].tolist(), strict=True))
        assert is_heap(best, 0)
        assert before < after
        assert {identity for identity, _ in after - before} == {100}


def test_offer_pairs_and_unsettled() -> None:
    random = np.random.default_rng(1)
    owner = random.integers(0, 12, 20).astype(np.int32)
    scores = random.integers(0, 4, 12).astype(float)
    rows = np.array([3, 0, 4])
    pairs = np.argwhere(random.random((3, 20)) < [[0.5], [0.1], [0.02]]).astype(np.int32, order="C")
    random.shuffle(pairs)
    best = nothing_yet(5, 3)
    offer_pairs(best, pairs, rows, owner, scores)
    expected: list[Ranked] = [[] for _ in range(5)]
    for place, event in enumerate(rows.tolist()):
        matched = {int(owner[c]) for e, c in pairs.tolist() if e == place}
        expected[event] = by_rank({one: float(scores[one]) for one in matched}, 3)
    for score in (0.0, 1.0, 3.0):
        for identity in (0, 6, 20):
            changed = [
                event
                for event in rows.tolist()
                if len(expected[event]) < 3 or (-score, identity) < (-expected[event][-1][1], expected[event][-1][0])
            ]
            assert unsettled(best, rows, score, identity).tolist() == changed
    assert ranked(best) == expected


@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("k", [0, 2, 50])
def test_offer_matches(some: bool, k: int) -> None:
    """Pairs with repetitions of subscriptions with several conjunctions; some subscriptions are left out."""
    random = np.random.default_rng(k)
    score, identity = random.integers(0, 5, 15).astype(float), random.permutation(15).astype(np.int32)
    several, left_out = random.random(15) < 0.5, random.random(15) < 0.3
    pairs = np.ascontiguousarray(np.argwhere(random.random((4, 15)) < 0.6))
    if some:
        pairs = np.concatenate([pairs, pairs[several[pairs[:, 1]]]])
    random.shuffle(pairs)
    best = nothing_yet(4, k)
    arrays = pairs.astype(np.int32), score[pairs[:, 1]], identity[pairs[:, 1]]
    offer_matches(best, *arrays, left_out if some else NO_BOOLS, several if some else NO_BOOLS)
    expected = []
    for event in range(4):
        matched = [s for e, s in pairs.tolist() if e == event and not (some and left_out[s])]
        expected.append(by_rank({int(identity[s]): float(score[s]) for s in matched}, k))
    assert ranked(best) == expected


class Case:
    """Subscriptions with weights over two columns and three tests, and events."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.subscriptions = [[self.conjunction(random) for _ in range(random.integers(0, 3))] for _ in range(12)]
        self.codes = random.integers(-1, 8, (2, 9)).astype(np.int32)
        self.null_column = np.array([-1, 0, 1], np.int32)
        truth = random.choice([TRUE, FALSE, NULL], (3, 9))
        for test in (1, 2):
            truth[test] = np.where(truth[test] == NULL, FALSE, truth[test])
            # A test may be TRUE although its column is NULL only if phase 1 says so: it does not.
            truth[test, self.codes[self.null_column[test]] < 0] = NULL
        self.truth = truth

    @staticmethod
    def conjunction(random: np.random.Generator) -> list[tuple[int, list[tuple[int, int]], int, int, float]]:
        """Predicates (column or -1, ranges, test, accepts, weight)."""
        predicates = []
        for _ in range(random.integers(1, 4)):
            weight = float(random.integers(-2, 5))
            if random.random() < 0.5:
                ranges = [(0, 2), (4, 5), (7, 7)][: random.integers(1, 4)]
                predicates.append((int(random.integers(0, 2)), ranges, -1, 0, weight))
            else:
                predicates.append((-1, [], int(random.integers(0, 3)), int(random.integers(1, 7)), weight))
        return predicates

    def weighed(self) -> Weighed:
        conjunctions = [conjunction for subscription in self.subscriptions for conjunction in subscription]
        predicates = [predicate for conjunction in conjunctions for predicate in conjunction]
        ends = np.cumsum([len(ranges) for _, ranges, *_ in predicates])
        of_ranges = [
            (end - len(p[1]), end) if p[0] >= 0 else (p[2], p[3]) for p, end in zip(predicates, ends, strict=True)
        ]
        first, end = np.array(of_ranges, np.int32).T.copy()
        low, high = np.array([ends for p in predicates for ends in p[1]], np.int32).T.copy()
        return Weighed(
            np.cumsum([0, *map(len, self.subscriptions)]),
            np.cumsum([0, *map(len, conjunctions)]),
            np.array([p[0] for p in predicates], np.int32),
            first,
            end,
            np.array([max(p[0], 0) if p[0] >= 0 else 2 for p in predicates], np.int32),
            np.array([p[4] for p in predicates]),
            low,
            high,
            self.null_column,
            np.zeros(len(self.subscriptions) + 1, np.int64),
            np.empty(0, np.uint8),
            np.empty(0, np.uint8),
        )

    def events(self) -> Events:
        true = [np.flatnonzero(self.truth[:, event] == TRUE) for event in range(9)]
        null = [np.flatnonzero((self.truth[:, event] == NULL) & (self.null_column < 0)) for event in range(9)]
        lists: list[Int64s | Int32s] = []
        for of_event in (true, null):
            lists += [np.cumsum([0, *map(len, of_event)]), np.concatenate(of_event).astype(np.int32)]
        return Events(self.codes, *lists)  # type: ignore[arg-type]  # two of each


@pytest.mark.parametrize("kind", [SUM, MAX, EXACT])
def test_weigh_tree(kind: int) -> None:
    """The best of the conjunctions that the tree multiplies into; some weights are negative."""
    nesting = [(2, 0), (1, 0), (0, 1), (1, 0), (1, 0), (0, 2), (0, 1), (0, 1)]
    tree, random = nested(nesting), np.random.default_rng(kind)
    opens, closes = np.array(nesting, np.uint8).T.copy()
    for _ in range(300):
        held = random.integers(-1 if kind == EXACT else 0, 3, len(nesting))
        total = np.where(held > 0, random.integers(-3, 4, len(nesting)), 0).astype(float)
        found, score = weigh_tree(opens, closes, held, total, kind)
        if kind == EXACT:
            assert found == is_true(tree, (held >= 0).tolist())
            continue
        chosen = [[total[leaf] for leaf in leaves if held[leaf] > 0] for leaves in multiplied(tree)]
        totals = [sum(weights) if kind == SUM else max(weights) for weights in chosen if weights]
        assert found == bool(totals)
        assert not totals or score == max(totals)


def test_weigh() -> None:
    case = Case(5)
    weighed, factors, none = case.weighed(), np.array([1.0, 2.0, 0.5]), np.empty(0, bool)
    asked = Asked(SUM, factors, none, np.ones(12), np.arange(12, dtype=np.int32))
    number = 0
    for conjunctions in case.subscriptions:
        for conjunction in conjunctions:
            truth, code = np.array(case.truth[:, 0], np.uint8), case.codes[:, 0]
            held = [
                factors[column if column >= 0 else 2] * weight
                for column, ranges, test, accepts, weight in conjunction
                if (column < 0 and truth[test] & accepts)
                or (column >= 0 and any(low <= code[column] <= high for low, high in ranges))
            ]
            count, total = kernels._weigh(weighed, asked, truth, case.codes, case.codes, 0, number)
            assert count == len(held)
            assert total == pytest.approx(sum(held))
            number += 1


@pytest.mark.parametrize("seed", range(5))
def test_hold_attributes(seed: int) -> None:
    """Each predicate that `_holds` counts once, with its weight at its attribute."""
    case = Case(seed)
    weighed, factors, events = case.weighed(), np.array([1.0, 2.0, 0.5]), case.events()
    truth = np.empty(weighed.null_column.size, np.uint8)
    for event in range(events.codes.shape[1]):
        kernels._set_truths(truth, weighed, events, event)
        held, weights = hold_attributes(weighed, factors, events, case.codes, case.codes, event)
        expected = np.zeros_like(weights)
        for conjunction in range(len(held)):
            rows = range(weighed.predicates[conjunction], weighed.predicates[conjunction + 1])
            true = [p for p in rows if kernels._holds(weighed, truth, case.codes, case.codes, event, p)]
            assert held[conjunction] == len(true)
            for p in true:
                expected[conjunction, weighed.attribute[p]] += factors[weighed.attribute[p]] * weighed.weight[p]
        np.testing.assert_allclose(weights, expected)


def test_set_truths() -> None:
    case = Case(3)
    truth, weighed, events = np.empty(3, np.uint8), case.weighed(), case.events()
    for event in range(9):
        kernels._set_truths(truth, weighed, events, event)
        assert truth.tolist() == case.truth[:, event].tolist()


@pytest.mark.parametrize("kind", [SUM, MAX, EXACT])
@pytest.mark.parametrize("seed", range(3))
def test_offer_weighed(seed: int, kind: int) -> None:
    """The best conjunction of a subscription counts; with intervals, ranges hold that overlap the event's."""
    case, random = Case(seed), np.random.default_rng(seed)
    factors, scores = np.array([1.0, 2.0, 0.5]), random.integers(0, 9, 12).astype(float)
    identity, left_out = random.permutation(12).astype(np.int32), random.random(12) < 0.2
    latest = (case.codes + random.integers(0, 2, case.codes.shape)).astype(np.int32)
    best = nothing_yet(9, 5)
    offer_weighed(
        best, case.weighed(), Asked(kind, factors, left_out, scores, identity), case.events(), latest, case.codes
    )
    expected = []
    for event in range(9):
        found: dict[int, float] = {}
        for number, conjunctions in enumerate(case.subscriptions):
            totals = []
            for conjunction in conjunctions:
                held = []
                for column, ranges, test, accepts, weight in conjunction:
                    if column < 0:
                        holds = case.truth[test, event] & accepts != 0
                    else:
                        first, last = case.codes[column, event], latest[column, event]
                        holds = any(low <= last and high >= first for low, high in ranges)
                    if holds:
                        held.append(factors[column if column >= 0 else 2] * weight)
                if kind == EXACT and len(held) == len(conjunction):
                    totals.append(scores[number])
                elif kind != EXACT and held:
                    totals.append(sum(held) if kind == SUM else max(held))
            if totals and not left_out[number]:
                found[int(identity[number])] = float(max(totals))
        expected.append(by_rank(found, 5))
    assert ranked(best) == expected
