"""Texts of the language and near it, and whether the grammar and sqlglot read them in the same way."""

from hypothesis import strategies as st

from tocsin.language.by_sqlglot import template_by_sqlglot
from tocsin.language.constants import read
from tocsin.language.grammar import read_condition
from tocsin.language.shape import Shape, split
from tocsin.model.condition import Condition

_WORDS = """
    a b1 _c é
    größe Ünï ﬁ ſet ıs event event.a EVENT.b "event".a a.b.c "a b" "a ""q"" b" a."B c".d "AND" "OR" "" "(" "--"
    date time name open type TRUE false NULL null DATE TIMESTAMP TIMESTAMPTZ AND OR NOT and Or not BETWEEN between IN in
    LIKE ILIKE like ESCAPE IS is ISNULL DISTINCT FROM XOR has_words HAS_PHRASE xpath_exists array_contains list_contains
    lower event.has_words "has_words" CASE x.y. * lambda if any
    = == <> != < <= > >= ( ) , ; : :: - + ~ ! [ ] { } $ ? @ # | & ^ % / \\ `
    0 1 -1 5. .5 -.5 2.5 1e3 1E-3 1e999 1_000 12ab 0x1F 9007199254740993 123456789012345678901234567890
    0.1000000000000000055511151231257827 'x' 'it''s' '' 'é' '%a_' '$' '2026-01-31' '2026-01-31 12:00:00+02:00'
    '1AND2' 'a -- b' '\U0001f600'
    """
WORDS = _WORDS.split()
WORDS += ["'2026-01-31 12:00:00'", "'x AND y'", "'a OR (b'", '"x AND y"']
SPACES = ["", " ", "  ", "\t", "\n", "\r\n", "/* a AND 'b' */", "-- it's\n", "\u00a0", "\u2003", "\x0b", "\x1f"]
CLAUSES = """
    a < 1|b1 >= -2.5|a BETWEEN 1 AND 2|c NOT BETWEEN .5 AND 1e3|d IN (1, 2)|d NOT IN ('x', NULL)|e LIKE 'x%'|(f)
    e NOT ILIKE '%x' ESCAPE '$'|f|NOT f|TRUE|NULL|g IS NULL|g IS NOT NULL|(a < 1) IS TRUE|f IS NOT FALSE|5 < a|a <> b1
    h = DATE '2026-01-31'|h > TIMESTAMP '2026-01-31 12:00:00'|has_words(i, 'x y')|array_contains(j, 5)|NOT (a < 1)
    NOT NOT a = 1|(a < 1 AND b1 < 2)|(a < 1 OR b1 < 2)|date > 5|a = NULL|a < +1|k = '2026-01-31'::DATE
    l IS DISTINCT FROM 1|    has_phrase(i, 'x')|1 < 2|a BETWEEN b1 AND 2|a == 1|"x AND y" = 1|event.a = 1
    a < 1 IS TRUE|a = 12ab|a <|a = 1e999
    """.replace("\n", "|").split("|")


def by_grammar(text: str) -> Condition | None:
    pieces = split(text)
    return read_condition(pieces, lambda number, reading: read(pieces[2 * number + 1], reading))


def by_sqlglot(text: str) -> Condition:
    shape = Shape(split(text))
    return template_by_sqlglot(shape).bind(shape)


def agree(text: str) -> bool:
    """Compare both ways to read a text; return whether the grammar accepts it."""
    found = by_grammar(text)
    if found is not None:
        assert found == by_sqlglot(text), text
    return found is not None


@st.composite
def soups(draw: st.DrawFn) -> str:
    """Words of the language and others in any order, with odd blanks and comments between."""
    words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12))
    spaces = draw(st.lists(st.sampled_from(SPACES) | st.just(" "), min_size=len(words), max_size=len(words)))
    return "".join(word + space for word, space in zip(words, spaces, strict=True))


def logic() -> st.SearchStrategy[str]:
    """Clauses under AND, OR, NOT and parentheses, with odd blanks between."""
    clause = st.sampled_from([clause.strip() for clause in CLAUSES if clause.strip()])
    space = st.sampled_from([" ", "\n", "  ", " /* x */ ", "\t"])
    return st.recursive(
        clause,
        lambda inner: st.one_of(
            st.builds("{}{}AND{}{}".format, inner, space, space, inner),
            st.builds("{}{}or{}{}".format, inner, space, space, inner),
            st.builds("({})".format, inner),
            st.builds("NOT {}".format, inner),
            st.builds("({}) IS NOT TRUE".format, inner),
        ),
        max_leaves=6,
    )
