"""Words and LIKE by their definitions: against Unicode's own tables, naive matching and DuckDB."""

import re
import sqlite3
import sys
import unicodedata
from contextlib import closing

import duckdb
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tocsin.errors import SubscriptionError
from tocsin.model import text as module
from tocsin.model.analyzer import demanded_words
from tocsin.model.predicate import Pattern, Wildcard, Word
from tocsin.model.text import (
    check_words,
    fold,
    has_phrase,
    like,
    like_pattern,
    like_runs,
    lower,
    missing_words,
    pattern_text,
    run_places,
    tokens,
    word_spans,
)

CODE_POINTS = [code for code in range(1, sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
SCRIPTS = st.text(alphabet="aBcsSß_-*. 9éÉe\u0301İiıΣσςक\u093fนข\u0e37Жж中\u200d👍%\n", max_size=12)


def is_word_character(code: int) -> bool:
    """The definition: alphanumeric, the underscore, or a combining mark."""
    return chr(code).isalnum() or chr(code) == "_" or unicodedata.category(chr(code))[0] == "M"


def test_every_combining_mark_lies_in_the_ranges_that_are_looked_at() -> None:
    outside = [
        c
        for c in CODE_POINTS
        if unicodedata.category(chr(c))[0] == "M" and not any(c in r for r in module._MARK_RANGES)
    ]
    assert outside == []


def test_the_spans_of_word_characters_hold_exactly_these() -> None:
    within = {code for start, stop in word_spans() for code in range(start, stop)}
    assert within == {code for code in range(sys.maxunicode + 1) if is_word_character(code)}


def test_folding_each_code_point_twice_is_folding_it_once() -> None:
    assert [c for c in CODE_POINTS if fold(fold(chr(c))) != fold(chr(c))] == []


@given(SCRIPTS)
def test_tokens_are_the_runs_of_word_characters_of_the_folded_text(text: str) -> None:
    blanked = "".join(c if is_word_character(ord(c)) else "\n" for c in fold(text))
    assert tokens(text) == [word for word in blanked.split("\n") if word]


@given(SCRIPTS)
def test_canonical_variants_have_the_same_words(text: str) -> None:
    assert tokens(unicodedata.normalize("NFD", text)) == tokens(unicodedata.normalize("NFC", text)) == tokens(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" ., \n", []),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("cafe\u0301 CAFÉ", ["café", "café"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("İstanbul", ["i̇stanbul"]),
        ("don't snake_case 3.14", ["don", "t", "snake_case", "3", "14"]),
        ("日本語 ΟΔΟΣ Ωδός", ["日本語", "οδοσ", "ωδόσ"]),
    ],
)
def test_tokens_of_known_texts(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("*", ()),
        ("chok*", (Word("chok", True),)),
        ("a b* c a", (Word("a"), Word("b", True), Word("c"))),
        ("new-york*", (Word("new"), Word("york", True))),
        ("a * b", (Word("a"), Word("b"))),
        ("Ab**Cd*", (Word("ab", True), Word("cd", True))),
        ("Ka* ka", (Word("ka", True), Word("ka"))),
    ],
)
def test_demanded_words_of_known_texts(text: str, expected: tuple[Word, ...]) -> None:
    assert demanded_words("body", text).words == expected


def test_missing_words_and_phrases() -> None:
    text = "He moved to New York, New Jersey"
    assert missing_words(text, demanded_words("body", "york mov* new").words) == []
    assert missing_words(text, demanded_words("body", "yor newark* he").words) == [Word("yor"), Word("newark", True)]
    assert has_phrase(text, ["new", "york", "new", "jersey"])
    assert has_phrase(text, [])
    assert not has_phrase(text, ["york", "jersey"])
    assert not has_phrase("", ["york"])


def naive_like(text: str, pattern: str) -> bool:
    """LIKE without an escape, from the SQL standard: by recursion on the pattern."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(naive_like(text[i:], pattern[1:]) for i in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and naive_like(text[1:], pattern[1:])


@given(st.text(alphabet="ab\n", max_size=8), st.text(alphabet="ab%_", max_size=7))
def test_like_equals_the_naive_definition(text: str, pattern: str) -> None:
    assert like(pattern)(text) == naive_like(text, pattern)
    assert (run_places(like_pattern(pattern), text) is not None) == naive_like(text, pattern)


@pytest.fixture(scope="module")
def judge() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


PATTERNS = st.text(alphabet="aAbxX%_éÉİiΣσς\u0301.\n", max_size=7)


@settings(max_examples=150)
@given(PATTERNS, PATTERNS, st.sampled_from(["", "x", "X", "%", "_", "$"]), st.booleans())
@example("ΑΣ", "ασ", "", True)
@example("İ", "i", "", True)
@example("Ab%", "aB$%", "$", True)
def test_like_equals_duckdb(
    judge: duckdb.DuckDBPyConnection, text: str, pattern: str, escape: str, ignore_case: bool
) -> None:
    # DuckDB lowers the pattern of ILIKE before it looks for the escape: of letters, SQLite is the judge.
    assume(not (ignore_case and escape.isalpha()))
    operator = "ILIKE" if ignore_case else "LIKE"
    try:
        test = like(pattern, escape, ignore_case)
    except SubscriptionError:
        # DuckDB refuses such a pattern only when a text gets as far as its end.
        return
    expected = judge.execute(f"SELECT ? {operator} ? ESCAPE ?", [text, pattern, escape]).fetchone()
    assert expected == (test(text),)


LATIN = st.text(alphabet="aAbxX%_.", max_size=7)


@settings(max_examples=300)
@given(LATIN, LATIN, st.sampled_from(["a", "A", "x", "X"]))
@example("A", "A", "a")
@example("a%", "aX%", "X")
@example("axb", "ax%", "X")
@example("AXB", "aXxb", "X")
def test_the_escape_of_ilike_is_the_character_as_written(text: str, pattern: str, escape: str) -> None:
    """SQLite's LIKE is an ILIKE for ASCII; PostgreSQL looks for the escape before it folds, as well."""
    try:
        test = like(pattern, escape, ignore_case=True)
    except SubscriptionError:
        assert re.search(f"(?<!{escape})({escape}{escape})*{escape}$", pattern), "the pattern ends with its escape"
        return
    with closing(sqlite3.connect(":memory:")) as judge:
        expected = judge.execute("SELECT ? LIKE ? ESCAPE ?", [text, pattern, escape]).fetchone()
    assert expected == (test(text),)
    # Once more by the index, which knows the pattern by its parts alone.
    written = pattern_text(like_pattern(pattern, escape, ignore_case=True))
    assert like(written, "\\", ignore_case=True)(text) == test(text)


def test_lower_equals_duckdb_on_every_code_point(judge: duckdb.DuckDBPyConnection) -> None:
    rows = judge.execute("SELECT chr(i::INT), lower(chr(i::INT)) FROM unnest(?) t(i)", [CODE_POINTS]).fetchall()
    assert [character for character, expected in rows if lower(character) != expected] == []


def test_many_percent_signs_do_not_explode() -> None:
    assert not like("%a" * 40 + "%b")("a" * 2000)
    assert like("%a" * 40)("a" * 2000)
    assert not like("%a_" * 40_000 + "%b")("ab" * 39_999 + "ac")
    assert like("%A_" * 40_000, ignore_case=True)("ab" * 40_000)


def test_an_escape_at_the_end_or_of_two_characters_is_refused() -> None:
    with pytest.raises(SubscriptionError, match=r"ends with its escape character\. Write '\$\$'"):
        like("abc$", "$")
    with pytest.raises(SubscriptionError, match="Give one character"):
        like("abc", "$$")


def test_runs_keep_escaped_wildcards_as_literals() -> None:
    assert like_runs("%a$_b_%%", "$") == [[], ["a", "_", "b", None], [], []]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ()),
        ("abc", ("abc",)),
        ("%%", (Wildcard(0, True),)),
        ("_%_a", (Wildcard(2, True), "a")),
        ("a$%b%", ("a%b", Wildcard(0, True))),
    ],
)
def test_parts_of_patterns(text: str, parts: tuple[str | Wildcard, ...]) -> None:
    assert like_pattern(text, "$") == Pattern(parts)


def test_ignored_case_is_lowered() -> None:
    assert like_pattern("ÀXX%", "X", ignore_case=True) == Pattern(("àx", Wildcard(0, True)), True)
    assert like_pattern("Àx%", "X", ignore_case=True) == Pattern(("àx", Wildcard(0, True)), True)
    assert like_pattern("ÀX%", "X", ignore_case=True) == Pattern(("à%",), True)


def test_a_pattern_as_text_escapes_what_is_no_wildcard() -> None:
    assert pattern_text(Pattern((Wildcard(2, True), "100%_\\x", Wildcard(1, False)))) == "__%100\\%\\_\\\\x_"


@pytest.mark.parametrize("text", ["bike -broken", "+bike", "*day", "ho*day", "* day", "x~1", 'a "b c"', "h?t", "a -b"])
def test_what_looks_like_an_operator_is_refused(text: str) -> None:
    for function, prefixes in (("has_words", True), ("has_phrase", False)):
        with pytest.raises(SubscriptionError, match="has no operator"):
            check_words(text, function, prefixes)


@pytest.mark.parametrize("text", ["wi-fi", "a - b", "what? yes!", "5 + 5", "o'clock", "~/bin", "C++", "-"])
def test_signs_that_are_no_operators_separate_words(text: str) -> None:
    check_words(text, "has_words", prefixes=True)
    check_words(text, "has_phrase")


def test_a_star_ends_a_word_and_no_phrase() -> None:
    check_words("holi* chok*, x", "has_words", prefixes=True)
    with pytest.raises(SubscriptionError, match="whole words"):
        check_words("new yor*", "has_phrase")
