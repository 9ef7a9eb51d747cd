"""GLOB means what DuckDB means, and SQLite where both agree; LIKE ANY and ALL are several LIKE."""

import sqlite3

import duckdb
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tocsin import Matcher
from tocsin.errors import SubscriptionError
from tocsin.language.parse import parse
from tocsin.model.condition import Condition
from tocsin.reference import evaluate

_PIECES = [
    *"abc-.*?\n",
    "[ab]",
    "[a-c]",
    "[!a]",
    "[!a-b]",
    "[]a]",
    "[-a]",
    "[a-]",
    "[a-c-b]",
    "[c-a]",
    "[!c-a]",
    "\\*",
    "\\\\",
]
PATTERNS = st.lists(st.sampled_from([*_PIECES, "[!]a]", "[.*]"]), max_size=6).map("".join)
SHARED = st.lists(st.sampled_from([*"aé中*?", "[é]", "[a-é]", "[]é]"]), max_size=6).map("".join)


def judged(pattern: str, text: str) -> bool:
    condition = parse("s GLOB '{}'".format(pattern.replace("'", "''")))
    found = evaluate(condition, {"s": text})
    with Matcher() as matcher:
        matcher.subscribe("x", "s GLOB '{}'".format(pattern.replace("'", "''")))
        assert bool(matcher.match({"s": text}).ids) == found
    assert isinstance(found, bool)
    return found


@settings(max_examples=60, deadline=None)
@given(PATTERNS, st.text(alphabet="abc-.]*\\\n", max_size=6))
@example("a[!b]c*", "axcd")
@example("[]a]?", "]]")
def test_duckdb_judges_ascii(pattern: str, text: str) -> None:
    with duckdb.connect() as connection:
        [(wanted,)] = connection.execute("SELECT ? GLOB ?", [text, pattern]).fetchall()
    assert judged(pattern, text) == wanted


@settings(max_examples=60, deadline=None)
@given(SHARED, st.text(alphabet="aé中x]", max_size=6))
@example("?[a-é]*", "中é")
def test_sqlite_judges_characters(pattern: str, text: str) -> None:
    with sqlite3.connect(":memory:") as connection:
        [(wanted,)] = connection.execute("SELECT ? GLOB ?", [text, pattern]).fetchall()
    assert judged(pattern, text) == bool(wanted)


@given(
    st.lists(st.sampled_from("a%_bB"), max_size=8).map("".join).map(lambda text: text.split("b") or [""]), st.booleans()
)
def test_like_any_and_all_are_several_like(patterns: list[str], negated: bool) -> None:
    listed = ", ".join(f"'{pattern}'" for pattern in patterns)
    word = "NOT ILIKE" if negated else "ILIKE"
    several = [f"s {word} '{pattern}'" for pattern in patterns]
    for quantifier, connector in (("ANY", " OR "), ("ALL", " AND ")):
        for form in (f"s {word} {quantifier} ({listed})", f"s {word} {quantifier} ([{listed}])"):
            assert parse(form) == parse(connector.join(several))


@given(st.text(alphabet="ab[]!^-*?\\'", max_size=8), st.text(alphabet="ab[]^-\\", max_size=4))
def test_what_is_accepted_has_an_answer(pattern: str, text: str) -> None:
    condition = readable(pattern)
    assume(condition is not None)
    assert condition is None or evaluate(condition, {"s": text}) in (True, False)


def readable(pattern: str) -> Condition | None:
    try:
        return parse("s GLOB '{}'".format(pattern.replace("'", "''")))
    except SubscriptionError:
        return None
