"""The index of regular expressions equals RE2, expression by expression, and DuckDB; strands leave no match out."""

import re
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tocsin import Matcher
from tocsin.errors import SubscriptionError
from tocsin.language.parse import parse
from tocsin.model.regexp import as_patterns, check_expression, finder
from tocsin.model.text import like, pattern_text
from tocsin.predicates.regexps.index import Regexps
from tocsin.reference import evaluate

ALPHABET = "abAkKsSſK\n.é中1 "
TEXT = st.text(alphabet=ALPHABET, max_size=12)
_ATOMS = [
    *"abAkKsSſé1",
    *(".", "[ab]", "[^a]", "[a-k]", "[[:digit:]]", r"\d", r"\w", r"\s", r"\b", r"\.", "^", "$", r"\A", r"\z", ""),
    *(r"\x61", r"\x{e9}", r"\141", r"\Qa.b\E", r"\pL", r"\P{Lu}", "(?i)", "(?s)", "(?m)", "(?-i)", "ab", "abs", "中"),
]


def expressions() -> st.SearchStrategy[str]:
    """Expressions that RE2 can read."""

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        several = st.lists(inner, min_size=1, max_size=4)
        return st.one_of(
            several.map("".join),
            several.map("|".join),
            inner.map("({})".format),
            inner.map("(?:{})".format),
            inner.map("(?i:{})".format),
            inner.map("(?P<n>{})".format),
            st.builds(
                "(?:{}){}".format, inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,2}", "{0,1}", "{2,}"])
            ),
        )

    return st.recursive(st.sampled_from(_ATOMS), extend, max_leaves=8).filter(_is_readable)


def _is_readable(expression: str) -> bool:
    try:
        check_expression(expression)
    except SubscriptionError:
        return False
    return True


def matching() -> st.SearchStrategy[tuple[str, str]]:
    """An expression that Python reads in the same way, and a text that it matches."""
    plain = [
        "a",
        "b",
        "ab",
        "[ab]",
        "[a-k]",
        "k",
        "s",
        "(?:a|b)",
        "(?:ab|s)",
        ".",
        "b+",
        "a*",
        "(?:ks)?",
        "[^a]",
        "a{2,3}",
    ]
    made = st.lists(st.sampled_from(plain), min_size=1, max_size=6).map("".join)
    flagged = st.tuples(made, st.booleans()).map(lambda pair: f"(?i){pair[0]}" if pair[1] else pair[0])
    return flagged.flatmap(lambda text: st.tuples(st.just(text), st.from_regex(re.compile(text))))


def answers(index: Regexps, column: pa.Array) -> list[list[int]]:
    offsets, found = index.probe_batch(column)
    return [part.tolist() for part in np.split(found, offsets[1:-1])] if len(column) else []


@settings(max_examples=60, deadline=None)
@given(st.lists(expressions(), max_size=5), st.lists(st.none() | TEXT, max_size=4))
@example(["(?i)s", "ſ", "(?i)k", "S"], ["ſ", "K", "s", None])
@example(["a|", "^$", r"\d+", "(?s)a.b"], ["", "a\nb", "1"])
def test_equals_the_definition(made: list[str], texts: list[str | None]) -> None:
    index = Regexps.build(made)
    index.check()
    wanted = [[n for n, each in enumerate(made) if text is not None and finder(each)(text)] for text in texts]
    assert answers(index, pa.array(texts, pa.string())) == wanted
    assert answers(Regexps(index.arrays()), pa.array(texts, pa.large_string())) == wanted
    assert [index.probe_text(text).tolist() if text is not None else [] for text in texts] == wanted


@settings(max_examples=300, deadline=None)
@given(expressions(), st.lists(TEXT, min_size=1, max_size=8))
@example("(?i)ks", ["K\u017f"])
@example("a^b", ["ab"])
@example("a$b|c", ["c"])
@example(r"\12", ["\n"])
@example("[aA][^k]", ["A\u212a", "ak"])
@example("(?i)[^[:^upper:]]b", ["ab", "1b"])
@example(r"\bab|cd\B|\Bef\b", ["ab", " ab", "xab", "cd", "cdx", "cd.", "ef", "xef", "xefx"])
@example(r"ab.{0,70}cd", ["ab" + "x" * 70 + "cd", "ab" + "x" * 71 + "cd"])
@example(r"(?:a\pL|b)cd", ["a1cd", "abcd"])
@example(r"a.*\B.*b", ["a\u00e9b"])
def test_strands_leave_no_match_out(expression: str, texts: list[str]) -> None:
    check_strands(expression, texts)


@settings(max_examples=150, deadline=None)
@given(matching())
def test_strands_match_what_the_expression_does(made: tuple[str, str]) -> None:
    check_strands(made[0], [made[1]])


def check_strands(expression: str, texts: list[str]) -> None:
    matches = [finder(expression)(text) for text in texts]
    assert answers(Regexps.build([expression]), pa.array(texts)) == [[0] * found for found in matches]
    patterns = as_patterns(expression)
    if patterns is not None:
        assert [any(like(pattern_text(each), "\\")(text) for each in patterns) for text in texts] == matches


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["regexp_matches(s, {})", "regexp_matches(s, {}, 'i')", "regexp_matches(s, {}, 'si c')", "s ~ {}"])
    | st.sampled_from(["s !~ {}", "s ~* {}", "s !~* {}", "s SIMILAR TO {}", "s NOT SIMILAR TO {}"])
    | st.sampled_from(["regexp_full_match(s, {})", "regexp_full_match(s, {}, 'i')", "regexp_matches(s, {}, 'n')"]),
    expressions(),
    st.lists(TEXT, min_size=1, max_size=4),
)
def test_duckdb_reads_the_text_in_the_same_way(form: str, expression: str, texts: list[str]) -> None:
    text = form.format("'" + expression.replace("'", "''") + "'")
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE event (s VARCHAR)")
        connection.executemany("INSERT INTO event VALUES (?)", [[each] for each in texts])
        judged = [bool(row[0]) for row in connection.execute(f"SELECT {text} FROM event").fetchall()]
    condition = parse(text)
    assert [evaluate(condition, {"s": each}) for each in texts] == judged
    with Matcher() as matcher:
        matcher.subscribe("x", text)
        assert [bool(matcher.match({"s": each}).ids) for each in texts] == judged


def test_synonyms_of_other_systems() -> None:
    assert parse("s RLIKE 'a.c'") == parse("s REGEXP 'a.c'") == parse("regexp_like(s, 'a.c')") == parse("s ~ 'a.c'")


def test_only_expressions_whose_literals_occur_are_judged() -> None:
    index = Regexps.build([rf"common{n:05}\d*suffix" for n in range(1_000)])
    found = index.search(pa.array(["a common0007712suffix here", "common and suffix"]))
    assert found.expressions.tolist() == [77]
    assert (found.compared, found.judged) == (1, 0), "the strand of one is compared, and says it exactly"


def test_what_a_pattern_can_say_is_a_pattern() -> None:
    with Matcher() as matcher:
        matcher.subscribe("begin", "s ~ '^GET /'")
        matcher.subscribe("words", "s ~ 'error|warning'")
        matcher.subscribe("real", r"s ~ 'GET /\d'")
        found = {id: str(matcher.explain({"s": "GET /1 error"}, id)) for id in ("begin", "words", "real")}
    assert "s >= 'GET /'" in found["begin"]
    assert "LIKE '%error%'" in found["words"]
    assert r"regexp_matches" in found["real"]


def test_changes_and_files(tmp_path: Path) -> None:
    lines = [{"s": text} for text in ("GET /a1.php", "get /b2.php", "POST", None, 5)]

    def found(matcher: Matcher) -> list[list[str]]:
        one_by_one = [sorted(matcher.match(line).ids) for line in lines]
        for line, ids in zip(lines, one_by_one, strict=True):
            assert all(matcher.explain(line, id).matches == (id in ids) for id in ("a", "b", "c") if id in matcher)
        return one_by_one

    with Matcher() as matcher:
        matcher.subscribe("a", r"s ~ 'GET /\w\d'")
        matcher.subscribe("b", r"NOT regexp_matches(s, 'get /\w\d', 'i')")
        assert found(matcher) == [["a"], [], ["b"], [], []]
        matcher.compact()
        matcher.subscribe("c", r"s ~ '/\w\d\.php$'")
        matcher.unsubscribe("b")
        assert found(matcher) == [["a", "c"], ["c"], [], [], []]
        matcher.save(tmp_path / "index")
    with Matcher.open(tmp_path / "index", mode="read") as reader:
        assert found(reader) == [["a", "c"], ["c"], [], [], []]


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("a = 1 AND s ~ 'it''s [z-a]'", "invalid character class range: z-a", 22),
        ("regexp_matches(s, 'x(?=a)')", "no lookaround", 20),
        (r"s SIMILAR TO '(a)\1'", "no lookaround and no backreferences", 17),
        ("regexp_matches(s, 'a', 'g')", "'g' is not a flag", 23),
        ("regexp_matches(s, t)", "must be a string", 18),
        ("s SIMILAR TO 'a' ESCAPE 'b'", "only LIKE has ESCAPE", 0),
    ],
)
def test_errors_have_a_position(text: str, message: str, position: int) -> None:
    with pytest.raises(SubscriptionError, match=message) as caught:
        parse(text)
    assert caught.value.position == position


def test_a_bad_expression_does_not_sink_the_others() -> None:
    with Matcher() as matcher:
        wheres = [*(rf"s ~ 'x{n}\d'" for n in range(8)), "s ~ '('"]
        [rejected] = matcher.subscribe_many(pa.table({"id": [str(n) for n in range(9)], "where": wheres}))
        assert rejected.subscription == "8"
        assert rejected.position == 5
        assert matcher.match({"s": "x31"}).ids == ["3"]
