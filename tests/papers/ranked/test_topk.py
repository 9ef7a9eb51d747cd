"""Exact and relaxed top-k over several attributes, judged by the definition and by DuckDB."""

from collections.abc import Callable
from typing import Any, NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tocsin.arrays import Float64s
from tocsin.errors import OptionError
from tocsin.papers.ranked import RANKED, SOPTRTree
from tocsin.papers.ranked.counting import prefer_counting, top_k_by_counting, top_k_relaxed
from tocsin.papers.ranked.exact import ExactTopK
from tocsin.papers.ranked.rows import NULL, Rows, as_probe, as_rows
from tocsin.papers.ranked.threshold import RelaxedTopK

ATTRIBUTES = 3


class Case(NamedTuple):
    """Subscriptions as {attribute: (lo, hi, weight)}, their scores, and an event as codes."""

    predicates: list[dict[int, tuple[int, int, float]]]
    scores: list[float]
    event: list[int]

    def rows(self) -> Rows:
        table = [(a, *self.predicates[s][a], s) for s in range(len(self.predicates)) for a in self.predicates[s]]
        columns = zip(*table, strict=True) if table else [()] * 5
        return as_rows(*columns, attributes=ATTRIBUTES, count=len(self.predicates))

    def held(self, subscription: int) -> list[float]:
        """The weights by attribute, 0 where a predicate does not hold or is not there."""
        weights = [0.0] * ATTRIBUTES
        for attribute, (lo, hi, weight) in self.predicates[subscription].items():
            if self.event[attribute] != NULL and lo <= self.event[attribute] <= hi:
                weights[attribute] = weight
        return weights

    def holds(self, subscription: int) -> int:
        return sum(
            self.event[a] != NULL and lo <= self.event[a] <= hi
            for a, (lo, hi, _) in self.predicates[subscription].items()
        )


def ranked(scores: dict[int, float], k: int) -> tuple[list[int], list[float]]:
    best = sorted(scores, key=lambda s: (-scores[s], s))[:k]
    return best, [scores[s] for s in best]


def cases(weights: st.SearchStrategy[float]) -> st.SearchStrategy[Case]:
    codes = st.integers(0, 6)
    predicate = st.tuples(codes, codes, weights).map(lambda p: (min(p[0], p[1]), max(p[0], p[1]), p[2]))
    subscription = st.dictionaries(st.integers(0, ATTRIBUTES - 1), predicate, max_size=ATTRIBUTES)
    sizes = st.integers(0, 40)
    return sizes.flatmap(
        lambda n: st.builds(
            Case,
            st.lists(subscription, min_size=n, max_size=n),
            st.lists(st.integers(0, 4).map(float), min_size=n, max_size=n),
            st.lists(st.integers(NULL, 6), min_size=ATTRIBUTES, max_size=ATTRIBUTES),
        )
    )


whole_numbers = st.integers(-2, 4).map(float)
any_weights = st.floats(-1e3, 1e3)
ks = st.integers(0, 45)


@pytest.mark.parametrize("name", RANKED)
@settings(max_examples=60, deadline=None)
@given(case=cases(whole_numbers), k=ks)
def test_exact_answers_are_the_best_that_match(name: str, case: Case, k: int) -> None:
    matches = {s: case.scores[s] for s in range(len(case.scores)) if case.holds(s) == len(case.predicates[s])}
    exact = ExactTopK.build(case.rows(), case.scores, RANKED[name])
    assert exact.top_k(as_probe(case.event), k).tolist() == ranked(matches, k)[0]


def add(weights: list[float]) -> float:
    total = 0.0
    for weight in weights:
        total += weight
    return total


def as_function(weights: Float64s) -> Float64s:
    """Monotone and neither a sum nor a maximum: the median."""
    middle: Float64s = np.sort(weights, axis=1)[:, ATTRIBUTES // 2]
    return middle


COMBINATIONS: dict[str, tuple[Any, Callable[[list[float]], float], list[float] | None]] = {
    "sum": ("sum", add, None),
    "max": ("max", max, None),
    "weighted sum": ("sum", lambda w: add([w[0] * 0.5, w[1] * 0.0, w[2] * 3.0]), [0.5, 0.0, 3.0]),
    "weighted max": ("max", lambda w: max(w[0] * 0.5, w[1] * 0.0, w[2] * 3.0), [0.5, 0.0, 3.0]),
    "function": (as_function, lambda w: sorted(w)[ATTRIBUTES // 2], None),
}


@pytest.mark.parametrize("name", COMBINATIONS)
@settings(max_examples=100, deadline=None)
@given(case=st.one_of(cases(whole_numbers), cases(any_weights), cases(st.just(1.0))), k=ks)
def test_relaxed_answers_are_the_best_by_combined_weight(name: str, case: Case, k: int) -> None:
    combine, define, coefficients = COMBINATIONS[name]
    expected = ranked({s: define(case.held(s)) for s in range(len(case.scores)) if case.holds(s)}, k)
    relaxed = RelaxedTopK.build(case.rows())
    ids, scores = relaxed.top_k(as_probe(case.event), k, combine, coefficients)
    assert (ids.tolist(), scores.tolist()) == expected


@pytest.mark.parametrize("coefficients", [None, [0.5, 0.0, 3.0]])
@settings(max_examples=100, deadline=None)
# The list of attribute 0 leaves nothing to come, and yet attribute 1 brings a tie with a smaller id.
@example(case=Case([{1: (0, 0, 0.0)}, {0: (0, 0, 0.0)}], [0.0, 0.0], [0, 0, 0]), k=1)
@given(case=st.one_of(cases(whole_numbers), cases(any_weights), cases(st.just(1.0))), k=ks)
def test_counting_gives_the_same_answers(coefficients: list[float] | None, case: Case, k: int) -> None:
    factors = coefficients or [1.0] * ATTRIBUTES
    define = {
        s: add([f * w for f, w in zip(factors, case.held(s), strict=True)])
        for s in range(len(case.scores))
        if case.holds(s)
    }
    ids, scores = top_k_by_counting(RelaxedTopK.build(case.rows()), as_probe(case.event), k, coefficients)
    assert (ids.tolist(), scores.tolist()) == ranked(define, k)


@pytest.fixture(scope="module")
def workload() -> Any:
    """20,000 subscriptions with predicates on some of six attributes, as rows and as a DuckDB table."""
    random = np.random.default_rng(11)
    count, attributes = 20_000, 6
    attribute, subscription = np.nonzero(random.random((attributes, count)) < 0.4)
    lo = random.integers(0, 900, attribute.size)
    hi = lo + random.integers(0, 400, attribute.size)
    weight = random.integers(1, 41, attribute.size) / 8
    scores = random.integers(0, 3000, count) / 4
    rows = as_rows(attribute, lo, hi, weight, subscription, attributes=attributes, count=count)
    judge = duckdb.connect()
    judge.execute("CREATE TABLE score (id INTEGER, score DOUBLE)")
    judge.execute("INSERT INTO score SELECT unnest($1), unnest($2)", [list(range(count)), scores.tolist()])
    judge.execute("CREATE TABLE predicate (attribute INTEGER, lo INTEGER, hi INTEGER, weight DOUBLE, id INTEGER)")
    columns = [column.tolist() for column in (attribute, lo, hi, weight, subscription)]
    judge.execute("INSERT INTO predicate SELECT unnest($1), unnest($2), unnest($3), unnest($4), unnest($5)", columns)
    judge.execute("CREATE TABLE event (attribute INTEGER, code INTEGER)")
    events = random.integers(0, 1000, (12, attributes))
    events[random.random(events.shape) < 0.15] = NULL
    return rows, scores, events, judge


def tell(judge: duckdb.DuckDBPyConnection, event: npt.NDArray[Any]) -> None:
    judge.execute("DELETE FROM event")
    known = [(int(a), int(code)) for a, code in enumerate(event) if code != NULL]
    judge.executemany("INSERT INTO event VALUES (?, ?)", known)


HELD = "predicate JOIN event ON event.attribute = predicate.attribute AND code BETWEEN lo AND hi"


def test_duckdb_agrees_on_exact_answers(workload: Any) -> None:
    rows, scores, events, judge = workload
    exact = ExactTopK.build(rows, scores)
    for event in events:
        tell(judge, event)
        answer = judge.execute(
            f"""SELECT id FROM score WHERE (SELECT count(*) FROM predicate WHERE predicate.id = score.id)
                = (SELECT count(*) FROM {HELD} WHERE predicate.id = score.id) ORDER BY score DESC, id LIMIT 50"""
        ).fetchall()
        assert exact.top_k(as_probe(event), 50).tolist() == [subscription for (subscription,) in answer]


@pytest.mark.parametrize("combine", ["sum", "max"])
def test_duckdb_agrees_on_relaxed_answers(workload: Any, combine: Any) -> None:
    rows, _, events, judge = workload
    relaxed = RelaxedTopK.build(rows)
    for event in events:
        tell(judge, event)
        answer = judge.execute(
            f"SELECT id, {combine}(weight) AS total FROM {HELD} GROUP BY id ORDER BY total DESC, id LIMIT 50"
        ).fetchall()
        answers = [relaxed.top_k(as_probe(event), 50, combine)]
        if combine == "sum":
            answers.append(top_k_by_counting(relaxed, as_probe(event), 50))
        for ids, scores in answers:
            assert list(zip(ids.tolist(), scores.tolist(), strict=True)) == answer


@pytest.mark.parametrize("how", ["overlap", "containment"])
def test_events_may_be_ranges(how: Any) -> None:
    rows = as_rows(
        [0, 1, 0, 1], [10, 0, 25, 0], [40, 9, 50, 9], [2.0, 1.0, 4.0, 1.0], [0, 0, 1, 1], attributes=2, count=2
    )
    probe = as_probe([20, 5], until=[30, 5], how=how)
    exact = ExactTopK.build(rows, [1.0, 2.0], RANKED["scored-r-tree"])
    ids, scores = RelaxedTopK.build(rows, RANKED["scored-r-tree"]).top_k(probe, 5)
    if how == "overlap":
        assert exact.top_k(probe, 5).tolist() == [1, 0]
        assert (ids.tolist(), scores.tolist()) == ([1, 0], [5.0, 3.0])
    else:
        assert exact.top_k(probe, 5).tolist() == [0]
        assert (ids.tolist(), scores.tolist()) == ([0, 1], [3.0, 1.0])


def test_bad_rows_and_options_are_named() -> None:
    with pytest.raises(OptionError, match="Subscription 0 has two predicates on attribute 1"):
        as_rows([1, 1], [0, 5], [3, 9], [1.0, 1.0], [0, 0], attributes=2, count=1)
    with pytest.raises(OptionError, match="attribute 2"):
        as_rows([2], [0], [3], [1.0], [0], attributes=2, count=1)
    relaxed = RelaxedTopK.build(as_rows([0], [0], [3], [1.0], [0], attributes=1, count=1))
    with pytest.raises(OptionError, match="'sum', 'max' or a function"):
        relaxed.top_k(as_probe([1]), 1, "mean")  # type: ignore[arg-type]  # the error is the test
    with pytest.raises(OptionError, match="Give 1 numbers"):
        relaxed.top_k(as_probe([1]), 1, "sum", [-1.0])
    with pytest.raises(OptionError, match="Subscription 0 has no attribute 1"):
        relaxed.reweigh(0, 1, 2.0)
    with pytest.raises(OptionError, match="subscription 7"):
        ExactTopK.build(relaxed.rows, [1.0]).rescore(7, 1.0)


@pytest.mark.parametrize("attributes", [1, 30])
def test_the_plan_changes_the_way_not_the_answer(attributes: int) -> None:
    random = np.random.default_rng(4)
    count = 3000
    attribute, subscription = np.tile(np.arange(attributes), count), np.repeat(np.arange(count), attributes)
    lo = random.integers(0, 1000, attribute.size)
    weight = random.random(attribute.size)
    rows = as_rows(attribute, lo, lo + 300, weight, subscription, attributes=attributes, count=count)
    relaxed = RelaxedTopK.build(rows)
    assert prefer_counting(count, attributes, 5, relaxed.typical_held, False) == (attributes == 30)
    for probe in map(as_probe, random.integers(0, 1300, (5, attributes))):
        answers = [top_k_relaxed(relaxed, probe, 5), relaxed.top_k(probe, 5), top_k_by_counting(relaxed, probe, 5)]
        assert len({(tuple(ids.tolist()), tuple(scores.tolist())) for ids, scores in answers}) == 1


@pytest.mark.parametrize("name", RANKED)
@settings(max_examples=30, deadline=None)
@given(case=cases(whole_numbers), k=ks, data=st.data())
def test_new_scores_and_weights_count_at_once(name: str, case: Case, k: int, data: st.DataObject) -> None:
    exact, relaxed = (
        ExactTopK.build(case.rows(), case.scores, RANKED[name]),
        RelaxedTopK.build(case.rows(), RANKED[name]),
    )
    for _ in range(data.draw(st.integers(0, 8)) if case.scores else 0):
        changed = data.draw(st.integers(0, len(case.scores) - 1))
        case.scores[changed] = data.draw(whole_numbers)
        exact.rescore(changed, case.scores[changed])
        for attribute, (lo, hi, _) in list(case.predicates[changed].items()):
            weight = data.draw(st.one_of(whole_numbers, any_weights))
            case.predicates[changed][attribute] = (lo, hi, weight)
            relaxed.reweigh(changed, attribute, weight)
    probe = as_probe(case.event)
    matches = {s: case.scores[s] for s in range(len(case.scores)) if case.holds(s) == len(case.predicates[s])}
    assert exact.top_k(probe, k).tolist() == ranked(matches, k)[0]
    expected = ranked({s: add(case.held(s)) for s in range(len(case.scores)) if case.holds(s)}, k)
    for ids, scores in (relaxed.top_k(probe, k), top_k_by_counting(relaxed, probe, k)):
        assert (ids.tolist(), scores.tolist()) == expected


class CountingTree(SOPTRTree):
    """Counts what its iterators yield."""

    yielded = 0

    def _walk(self, value: int, latest_lo: int, earliest_hi: int) -> Any:
        walk = super()._walk(value, latest_lo, earliest_hi)
        take = walk.take

        def counted(n: int) -> Any:
            ids = take(n)
            type(self).yielded += ids.size
            return ids

        walk.take = counted  # type: ignore[method-assign]  # a spy for this test only
        return walk


@pytest.mark.parametrize("weights", ["distinct", "equal"])
def test_top_k_reads_a_small_part_of_the_lists(weights: str) -> None:
    random = np.random.default_rng(2)
    count = 5000
    attribute = np.repeat([0, 1], count)
    subscription = np.tile(np.arange(count), 2)
    weight = np.repeat(random.random(count), 1) if weights == "distinct" else np.ones(count)
    rows = as_rows(
        attribute,
        np.zeros(2 * count),
        np.full(2 * count, 9),
        np.tile(weight, 2),
        subscription,
        attributes=2,
        count=count,
    )
    CountingTree.yielded = 0
    ids, _ = RelaxedTopK.build(rows, CountingTree).top_k(as_probe([5, 5]), 10)
    expected = np.lexsort((np.arange(count), -weight))[:10]
    assert ids.tolist() == expected.tolist()
    assert CountingTree.yielded <= 100
    CountingTree.yielded = 0
    assert ExactTopK.build(rows, weight, CountingTree).top_k(as_probe([5, 5]), 10).tolist() == expected.tolist()
    assert CountingTree.yielded <= 100
