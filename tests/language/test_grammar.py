"""The grammar and sqlglot read one language: whatever the grammar accepts, sqlglot understands in the same way."""

import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strategies import conditions
from text_strategies import CLAUSES, agree, by_sqlglot, logic, soups
from tocsin.errors import SubscriptionError
from tocsin.language.bulk import normalise_texts
from tocsin.language.by_sqlglot import dialect
from tocsin.language.normalise import normalise
from tocsin.language.reserved import RESERVED
from tocsin.model.predicate import Conjunction


@given(soups())
@example('a = 1 "OR" b')
@example("a \"(\" b, 'x')")
@example("event.has_words(a, 'x')")
def test_soups_of_words(text: str) -> None:
    agree(text)


@given(logic())
@example("a < 1 OR b < 2 AND NOT c < 3 AND (d < 4 OR e) IS TRUE")
def test_logic(text: str) -> None:
    agree(text)


@given(conditions())
def test_conditions(text: str) -> None:
    agree(text)


@pytest.mark.parametrize(
    "text",
    [
        *("a", "a =", "a = 1 = 2", "a = 1 IS TRUE", "a = 'x' OR", "a = 'true' AND b = 'it''s'", "a = '10'"),
        *("a BETWEEN", "a BETWEEN 1", "a BETWEEN 1 AND", "a BETWEEN 1 AND 2 = 3", "a BETWEEN 1 AND 2 IS NULL"),
        *(
            "a BETWEEN '1' AND 'x'",
            "a BETWEEN DATE '2026-01-01' AND 2",
            "a BETWEEN 'p' AND 'q' OR a IN",
            "NOT (a IN (1)",
        ),
        *("a \x0b= 1", 'a = 1 "', '"a b" = 1 AND ?', "a = 1 AND\u00a0b = 2", "a . b = 1"),
    ],
)
def test_terms_that_end_early_or_go_on(text: str) -> None:
    agree(text)


def test_the_common_part_is_accepted() -> None:
    clauses = [clause.strip() for clause in CLAUSES[: CLAUSES.index("date > 5")]]
    assert all(agree(clause) for clause in clauses if clause), "none is left to sqlglot"


@pytest.mark.parametrize("depth", [15, 16, 17, 31, 32, 33, 200])
@pytest.mark.parametrize("nested", ["({})", "NOT {}", "NOT ({})", "({} AND b)"])
def test_nesting(depth: int, nested: str) -> None:
    text = "a = 1"
    for _ in range(depth):
        text = nested.format(text)
    agree(text)


def test_every_word_of_sqlglot_is_reserved() -> None:
    tokenizer, parser = dialect().tokenizer_class, dialect().parser_class
    words = {word for keyword in tokenizer.KEYWORDS for word in keyword.split() if word.isidentifier()}
    words |= {word for word in parser.NO_PAREN_FUNCTION_PARSERS if word.isidentifier()}
    words |= {token.name for token in parser.NO_PAREN_FUNCTIONS}
    assert words - RESERVED == set()


def expected(text: str) -> set[frozenset[object]] | None:
    try:
        return sets(normalise(by_sqlglot(text)).leaves)
    except SubscriptionError:
        return None


def sets(conjunctions: tuple[Conjunction, ...]) -> set[frozenset[object]]:
    return {frozenset(conjunction) for conjunction in conjunctions}


@given(st.lists(logic() | conditions() | soups(), min_size=1, max_size=4), st.integers(1, 5))
@example(["a < 1 OR b < 2 AND c < 3", "a < 1; AND b < 2", "(a < 1 AND b < 2)", "a > 1 AND a < 5 AND a <> 2"], 5)
@example(["a BETWEEN 1 AND 2 AND b > 1 AND 5 < c", "a < 1 AND TRUE", "a < 1 AND NULL", "a < 1 AND a = 'x'"], 5)
@example(["a = 12ab", "b > 1"], 5)
def test_many_texts_become_what_sqlglot_makes_of_each(texts: list[str], copies: int) -> None:
    form = normalise_texts(texts * copies)
    found: dict[int, set[frozenset[object]]] = {}
    for owner, conjunction in zip(form.owner.tolist(), form.conjunctions(), strict=True):
        found.setdefault(owner, set()).add(frozenset(conjunction))
    for number, text in enumerate(texts * copies):
        conjunctions = expected(text)
        assert (number in form.errors) == (conjunctions is None), text
        assert found.get(number, set()) == (conjunctions or set()), text
        assert (number in form.never) == (conjunctions == set()), text


def test_sqlglot_is_loaded_only_when_the_grammar_declines() -> None:
    code = (
        "import sys; from tocsin import Matcher; matcher = Matcher()\n"
        "matcher.subscribe('a', \"price < 10 AND (symbol = 'X' OR day > DATE '2026-01-31')\")\n"
        "assert 'sqlglot' not in sys.modules\n"
        "matcher.subscribe('b', 'price < - 1'); assert 'sqlglot' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
