"""Columns of many texts, and one text by its clauses: the same as alone, as an index expects it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expression_strategies import conditions
from tocsin import Limits, Matcher
from tocsin.errors import SubscriptionError
from tocsin.language import by_clauses, shape_plan
from tocsin.language.bulk import _Work, normalise_texts
from tocsin.language.by_clauses import normalise_clauses
from tocsin.language.normal_form import NormalForm
from tocsin.language.normalise import normalise
from tocsin.language.parse import parse
from tocsin.language.shape import split
from tocsin.language.shape_plan import _plans
from tocsin.model.predicate import Conjunction
from tocsin.model.values import Kind, Number


def by_text(form: NormalForm) -> dict[int, set[frozenset[object]]]:
    found: dict[int, set[frozenset[object]]] = {}
    for owner, conjunction in zip(form.owner.tolist(), form.conjunctions(), strict=True):
        found.setdefault(owner, set()).add(frozenset(conjunction))
    return found


def sets(conjunctions: tuple[Conjunction, ...]) -> set[frozenset[object]]:
    return {frozenset(conjunction) for conjunction in conjunctions}


def one_by_one(text: str) -> set[frozenset[object]] | str:
    """The conjunctions of a text that is normalised alone, or its error."""
    try:
        return sets(normalise(parse(text)).leaves)
    except SubscriptionError as error:
        return str(error)


SHAPES = [
    "a < {0} AND a > {1}",
    "a BETWEEN {1} AND {0} AND b = 'x{0}'",
    "a IN ({0}, {1}, 3)",
    "a = {0}.5 OR b = 'x{1}'",
    "a >= {0} AND a >= {1} AND a <= {0} AND NOT (c > {1})",
    "a <> {0} AND has_words(body, 'w{0} common')",
    "s LIKE 'p{0}%' AND t LIKE '%m{1}%' AND (a > {0} OR flag)",
    "d > DATE '2026-01-0{0}' AND d < TIMESTAMP '2026-01-0{1} 12:00:00'",
    "a < -{0} AND u IS NULL AND (v < {1}) IS NOT TRUE",
    "a = 1e{0} AND array_contains(tags, {1}) AND high > low",
    "NOT (a < {0} AND b < {1})",
    "a < ANY (SELECT b FROM history WHERE c > {0})",
    "a * (1 + tax) BETWEEN {1} AND {0} AND n % 10 < {1} AND b = {0}",
    "a * {0} < {1} AND a * {0} > -5 AND c > {0}",
    "a BETWEEN b + 1 AND c * 2 AND d > {0} AND -n < {1}",
    "coalesce(a, 0) > {0} AND {1} < b - 3 AND a - b < {1}",
    "CASE WHEN q > 50 AND r < 2 THEN a ELSE a * 2 END > {0} AND c < {1}",
    "CASE WHEN q > 50 THEN a ELSE a * 2 END > {0} AND s = 'x{1}'",
    "date_diff('minute', TIMESTAMP '2026-01-01 00:00:00', at) < {0} AND hour(at) = {1}",
    "(a + 1) * 2 > {0} AND (a - 1 > {1} AND b * 3 < {0})",
    "NOT a + 1 > {0} AND b * 2 IS NULL /* AND */ AND c - -1 > {1} -- AND d",
]
TEXTS = [shape.format(i, j) for i in range(1, 5) for j in range(1, 5) for shape in SHAPES]


@pytest.mark.parametrize("often", [1, 4, 1_000])
def test_bulk_equals_one_by_one(often: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.language.shape_plan.MIN_FIXED", often)
    for _ in range(2):  # what is known of a shape the second time is not known the first time
        form = normalise_texts(TEXTS)
        assert not form.errors
        found = by_text(form)
        for number, text in enumerate(TEXTS):
            expected = sets(normalise(parse(text)).leaves)
            assert found.get(number, set()) == expected, text
            assert (number in form.never) == (not expected)


@given(st.lists(conditions(), min_size=1, max_size=3), st.integers(1, 6))
def test_conditions_joined_by_and_equal_one_by_one(drawn: list[tuple[str, str]], copies: int) -> None:
    """Whatever an AND stands in: a clause that is cut wrongly would mean something else."""
    _plans.clear()
    text = " AND ".join(ours for ours, _ in drawn)
    form = normalise_texts([text] * copies)
    found = by_text(form)
    for number in range(copies):
        error = form.errors.get(number)
        assert (str(error) if error else found.get(number, set())) == one_by_one(text), text


def test_columns_are_in_order() -> None:
    form = normalise_texts(TEXTS)
    assert np.all(np.diff(form.owner) >= 0)
    assert np.all(np.diff(form.test_conjunction) >= 0)
    assert len(set(form.tests)) == len(form.tests), "distinct predicates are stored once"
    for column in form.columns.values():
        assert np.all(np.diff(column.conjunction) >= 0)
        assert np.all(np.diff(column.null) >= 0)
        assert len({len(column.conjunction), len(column.low), len(column.high), len(column.has_low)}) == 1


@pytest.mark.parametrize("copies", [1, 10])
def test_representations(copies: int) -> None:
    text = "n > 0.25 AND n < 9 AND s = 'x' AND t = DATE '1970-01-02' AND b AND z IS NOT NULL"
    columns = normalise_texts([text] * copies).columns
    number = columns["n", Kind.NUMBER]
    assert number.low.dtype == np.float64
    assert number.low.tolist() == [0.25] * copies
    assert number.high.tolist() == [9.0] * copies
    assert not number.low_closed.any()
    assert columns["s", Kind.STRING].low.tolist() == ["x"] * copies
    assert columns["t", Kind.TIME].low.dtype == np.int64
    assert columns["t", Kind.TIME].low.tolist() == [86_400_000_000] * copies
    assert columns["b", Kind.BOOLEAN].low.dtype == np.bool_
    assert columns["b", Kind.BOOLEAN].low.tolist() == [True] * copies
    assert not columns["z", Kind.ANY].has_low.any()


@pytest.mark.parametrize(
    "literal", [str(2**53 + 1), str(2**63), "0.10000000000000001", "1" * 30, "123456789012345678.5", "1e300"]
)
@pytest.mark.parametrize("copies", [1, 10])
def test_numbers_that_are_no_small_float_stay_exact(literal: str, copies: int) -> None:
    column = normalise_texts([f"a = {literal}"] * copies + ["a > 0.5"] * copies).columns["a", Kind.NUMBER]
    assert column.low.dtype == object
    assert column.low.tolist() == [next(iter(_low(f"a = {literal}")))] * copies + [Number(0.5)] * copies


def _low(text: str) -> list[Number]:
    ((predicate,),) = normalise(parse(text)).leaves
    return [candidate.low for candidate in predicate.ranges]  # type: ignore[union-attr, misc]


@pytest.mark.parametrize(
    "literal", ["0.1", "0.10000000000000000", "19.99", "0.8444218515250481", "9007199254740992", "5."]
)
def test_decimals_that_print_as_their_float_are_floats(literal: str) -> None:
    column = normalise_texts([f"a = {literal}"] * 10).columns["a", Kind.NUMBER]
    assert column.low.dtype == np.float64
    assert column.low.tolist() == [float(literal)] * 10


def test_one_bad_literal_in_a_large_group() -> None:
    texts = [f"a = {i}" for i in range(20)] + ["a = 5x", *(f"d > DATE '2026-01-{i:02}'" for i in range(28, 34))]
    form = normalise_texts(texts, [f"id{i}" for i in range(len(texts))])
    assert [(number, error.subscription, error.position) for number, error in form.errors.items()] == [
        (20, "id20", 4),
        (25, "id25", 9),
        (26, "id26", 9),
    ]
    assert form.owner.tolist() == [i for i in range(len(texts)) if i not in (20, 25, 26)]


def test_texts_that_can_never_match_are_reported() -> None:
    texts = [
        "a > 2 AND a < 1",
        "a = 1",
        "FALSE",
        *["a > 5 AND a < 3"] * 10,
        "a IN (NULL)",
        "(a < 1 AND a > 2) OR b = 1",
    ]
    form = normalise_texts(texts)
    assert form.never == [0, 2, *range(3, 13), 13]
    assert form.owner.tolist() == [1, 14]


def test_bad_paths_are_errors() -> None:
    def check(path: str) -> None:
        if not path.startswith("/"):
            raise SubscriptionError("no slash", "Begin with /", position=0)

    texts = [f"xpath_exists(doc, '{path}') AND a = {i}" for i, path in enumerate(["/a", "b", "/c", "d", "/e"])]
    form = normalise_texts(texts, check_xpath=check)
    assert list(form.errors) == [1, 3]
    assert "in the path 'b' at 0: no slash" in str(form.errors[1])
    assert form.owner.tolist() == [0, 2, 4]
    with pytest.raises(SubscriptionError, match="in the path 'b'"):
        normalise(parse(texts[1]), check_xpath=check)


def test_batches_join_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = by_text(normalise_texts(TEXTS))
    monkeypatch.setattr("tocsin.language.bulk.BATCH", 7)
    assert by_text(normalise_texts(TEXTS)) == whole


@pytest.mark.parametrize("characters", [1, 200])
def test_long_texts_make_short_batches(characters: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = by_text(normalise_texts(TEXTS))
    monkeypatch.setattr("tocsin.language.bulk.BATCH_CHARACTERS", characters)
    sizes: list[int] = []
    add_batch = _Work.add_batch

    def counted(work: _Work, start: int, texts: Sequence[str]) -> None:
        sizes.append(len(texts))
        add_batch(work, start, texts)

    monkeypatch.setattr(_Work, "add_batch", counted)
    assert by_text(normalise_texts(TEXTS)) == whole
    assert sum(sizes) == len(TEXTS)
    assert max(sizes) <= max(characters // 8, 1)


def test_rows_of_trees_become_arrays_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of conjunctions that are not counted yet stay right, also where floats and exact numbers meet."""
    trees = [f"x = {n} AND NOT (a = 'p{n}' AND b = 1) AND (a IS NULL OR b < {n}e20 OR c = 'q')" for n in range(9)]
    trees += [" AND ".join(f"NOT (a{i} = {n} AND b{i} = 'x')" for i in range(6)) for n in range(9)]
    whole = normalise_texts(trees)
    monkeypatch.setattr("tocsin.language.normal_form.MANY_SINGLES", 2)
    parts = normalise_texts(trees)
    assert parts.conjunctions() == whole.conjunctions()
    assert parts.owner.tolist() == whole.owner.tolist()
    assert [array.tolist() for array in parts.nesting] == [array.tolist() for array in whole.nesting]
    assert whole.nesting.leaf.size


def test_nothing_is_a_normal_form_too() -> None:
    form = normalise_texts([])
    assert len(form.owner) == 0
    assert form.columns == {}
    assert form.tests == []


def test_literals_beside_each_other_are_an_error_of_their_text_alone() -> None:
    """They grew together to one number once, which no text had."""
    form = normalise_texts(["y IN (1,1e999 2)", "y IN (1, 2)"])
    assert (list(form.errors), form.owner.tolist()) == ([0], [1])


CONSTANTS = [
    "1",
    "0",
    "-3",
    "2.5",
    "1e3",
    "9007199254740993",
    "12345678901234567890.5",
    "'x'",
    "'7'",
    "''",
    "'2026-01-05'",
]
CLAUSES = st.builds(
    "{0} {1} {2}".format,
    st.sampled_from(["a", "b", "event.c", "a.b", '"a"', "a + 1", "lower(s)"]),
    st.sampled_from(["<", "<=", "=", "<>", ">=", ">", "BETWEEN 0 AND", "IS NOT DISTINCT FROM"]),
    st.sampled_from(CONSTANTS),
)


@pytest.fixture
def planned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan a clause the first time that it is met."""
    monkeypatch.setattr(by_clauses, "OFTEN", 1)
    monkeypatch.setattr(shape_plan, "MIN_FIXED", 1)


def judge_clauses(text: str) -> bool:
    """Compare with the normal form of the text alone; tell whether there was one by its clauses."""
    # What is known of a clause the second time is not known the first time.
    found = [normalise_clauses(split(text)) for _ in range(8)]
    for planned in found:
        assert planned is None or sets(planned.leaves) == one_by_one(text), text
        assert planned is None or not planned.nesting
    return found[-1] is not None


@pytest.mark.usefixtures("planned_at_once")
def test_one_text_by_its_clauses_equals_it_alone() -> None:
    planned = [text for text in TEXTS if judge_clauses(text)]
    assert len(planned) >= 16
    assert judge_clauses("a BETWEEN 3 AND 7 AND b < -2.5 AND c = 'x' AND c + 1 < 3")


@given(st.lists(CLAUSES, min_size=1, max_size=4))
def test_one_text_of_comparisons_by_its_clauses(clauses: list[str]) -> None:
    judge_clauses(" AND ".join(clauses))


@given(st.lists(conditions(), min_size=1, max_size=3))
def test_one_text_of_conditions_by_its_clauses(drawn: list[tuple[str, str]]) -> None:
    judge_clauses(" AND ".join(ours for ours, _ in drawn))


@pytest.mark.usefixtures("planned_at_once")
@pytest.mark.parametrize(
    ("text", "limits", "complaint"),
    [
        ("a < 1 AND b < 2 AND c < 3", {"predicates": 2}, "3 predicates"),
        ("a BETWEEN 1 AND 2 AND b < 2", {"predicates": 2}, "3 predicates"),
        ("a < 1 AND b < 2 AND c < 3", {"attributes": 2}, "3 distinct attributes"),
        ("a + d < 1 AND b < 2", {"attributes": 1}, "2 distinct attributes"),
        ("a < 1_ AND b < 2", {}, "subscription 's'"),
        ("a < 1e999 AND b < 2", {}, "beyond every float64"),
    ],
)
def test_limits_and_errors_are_those_of_a_text_alone(text: str, limits: dict[str, Any], complaint: str) -> None:
    for _ in range(3):
        with pytest.raises(SubscriptionError, match=complaint):
            Matcher(limits=Limits(**limits)).subscribe("s", text)
