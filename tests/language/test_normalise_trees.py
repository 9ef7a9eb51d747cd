"""How much work large trees of AND, OR and NOT are, and that shortcuts change nothing."""

from decimal import Decimal

import numpy as np
import pytest

from tocsin.bench.boolean import make_trees
from tocsin.errors import SubscriptionError
from tocsin.language import normalise as module
from tocsin.language.normalise import normalise
from tocsin.language.parse import parse
from tocsin.model.predicate import Ranges
from tocsin.model.values import Number


def test_a_product_that_is_too_large_is_not_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise AssertionError("two conjunctions were multiplied")

    monkeypatch.setattr(module, "_meet", refuse)
    ors = (f"({' OR '.join(f'a{factor}_{one} = {one}' for one in range(4))})" for factor in range(6))
    assert len(normalise(parse(" AND ".join(ors))).leaves) == 24


def test_counting_a_product_changes_no_normal_form(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(7)
    texts = make_trees(random, random.integers(4, 60, 200).tolist())
    found = [normalise(parse(text)) for text in texts]
    assert sum(bool(one.nesting) for one in found) > 50
    monkeypatch.setattr(module, "_is_large", lambda *_: False)
    assert [normalise(parse(text)) for text in texts] == found


def test_what_stays_a_tree_is_not_multiplied_inside() -> None:
    tree = " AND ".join(f"(a{n} = 1 OR b{n} = 1)" for n in range(8))
    for text in (f"{tree} AND (c = 1 OR d = 1 AND (e = 1 OR f = 1))", f"(d = 1 AND (e = 1 OR f = 1)) OR ({tree})"):
        assert len(normalise(parse(text)).leaves) == 16 + 3 + text.startswith("(a")
        assert all(len(leaf) == 1 for leaf in normalise(parse(text)).leaves)


def test_random_trees_are_no_larger_than_their_texts() -> None:
    random = np.random.default_rng(8)
    sizes = random.integers(60, 200, 100).tolist()
    found = [normalise(parse(text)) for text in make_trees(random, sizes)]
    trees = [(one, size) for one, size in zip(found, sizes, strict=True) if one.nesting]
    assert sum(len(leaf) for one, _ in trees for leaf in one.leaves) <= sum(size for _, size in trees)


def test_comparisons_with_a_word_are_one_object() -> None:
    (one,), (other,) = (normalise(parse(text)).leaves for text in ("s = 'red' AND n < 1", "s = 'red' AND n < 2"))
    assert isinstance(one[0], Ranges)
    assert one[0] is other[0]


@pytest.mark.parametrize(
    ("text", "predicates"),
    [("a BETWEEN 1 AND 2", 2), ("NOT (a = 1 AND TRUE)", 1), ("(a IS NULL) IS TRUE OR b < c", 2), ("a IN (1, 2)", 1)],
)
def test_predicates_are_counted(text: str, predicates: int) -> None:
    normalise(parse(text), limit=predicates)
    with pytest.raises(SubscriptionError, match=f"has {predicates} predicates"):
        normalise(parse(text), limit=predicates - 1)


def test_attributes_are_counted_also_inside_lists() -> None:
    text = "b < c AND EXISTS (SELECT 1 FROM UNNEST(a) x WHERE x.d > 1 AND x.e BETWEEN 1 AND 2)"
    with pytest.raises(SubscriptionError, match="has 4 distinct attributes"):
        normalise(parse(text), most_attributes=2)


@pytest.mark.parametrize(
    "literal",
    ["0.1", "0.123456", "-19.99", "1234567890.1234", "0.1234567890123456789", "9007199254740993.5", "1e-7", "1E+400"],
)
def test_short_decimals_are_floats_as_all_others_are(literal: str) -> None:
    exact = Decimal(literal)
    nearest = float(exact)
    by_the_book = nearest == exact if exact == exact.to_integral_value() else Decimal(repr(nearest)) == exact
    assert Number(exact).is_float == by_the_book
