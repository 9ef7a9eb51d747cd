"""Hypothesis strategies for conditions, written as SQL text, and for events, that all property tests share.

The values are few, so that constants and events meet; among them are the corners of each type.
"""

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

Event = dict[str, Any]

INTEGERS = [0, 1, -1, 2, 3, 7, 2**31 - 1, 2**53 - 1, -(2**53) + 1]
FLOATS = [0.0, -0.0, 0.5, 1.0, 2.5, -1.0, 0.1, 3.0000000001, 1e15, float("inf"), float("-inf"), float("nan")]
DECIMALS = [Decimal(text) for text in ("0", "0.5", "1", "2.5", "-1", "19.99", "0.1", "123456789.125")]
STRINGS = ["", "a", "ab", "abc", "b", "B", "A", "a%b", "a_b", "100%", "é", "z", "ß", "it's", "\U0001f600", "new\nline"]
DATES = [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2026, 2, 28), dt.date(2024, 2, 29)]
TIMESTAMPS = [
    dt.datetime(1970, 1, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(2026, 2, 28, 12, 30, 0, 1),
    dt.datetime(2024, 2, 29),
]
TEXTS = ["holiday in milos", "A holiday. New York!", "york new", "", "chocolate cake", "choker", "un_der score9"]
TAGS = [[], ["x"], ["x", "y"], ["y", None], [None]]

# Each kind: the attributes that hold it, its constants as written, and the values that events take.
COLUMNS: dict[str, list[Any]] = {
    "i": INTEGERS,
    "j": INTEGERS[:6],
    "d": FLOATS,
    "e": FLOATS[:8],
    "m": DECIMALS,
    "s": STRINGS,
    "user.name": STRINGS,
    "flag": [True, False],
    "other": [True, False],
    "day": DATES,
    "moment": TIMESTAMPS,
    "body": TEXTS,
    "tags": TAGS,
    "v": [[], [1], [5], [1, 6], [6, None], [None], [5, 5]],
}
ELEMENT_COLUMNS: dict[str, list[Any]] = {
    "i": INTEGERS[:6],
    "d": FLOATS[:8],
    "s": STRINGS,
    "flag": [True, False],
    "day": DATES,
}
"""The fields of the structs in the list `items`."""
ITEMS = st.none() | st.lists(
    st.none() | st.fixed_dictionaries({key: st.sampled_from(v) | st.none() for key, v in ELEMENT_COLUMNS.items()}),
    max_size=3,
)
NUMBERS = ("i", "j", "d", "e", "m")
WORDS = ("s", '"user.name"')
BOOLEANS = ("flag", "other")
TIMES = ("day", "moment")

NUMBER_LITERALS = [
    *map(str, INTEGERS),
    *map(str, DECIMALS),
    "3.0000000001",
    "1e0",
    "25e-1",
    "-0.0",
    "1000000000000000.0",
    "9.5",
]
STRING_LITERALS = ["'" + text.replace("'", "''") + "'" for text in STRINGS]
# Strings that DuckDB casts to the kind of the attribute beside them.
QUOTED_INTEGERS = ["'0'", "'1'", "'-1'", "' 2 '", "'+3'", "'007'", "'2147483647'"]
QUOTED_NUMBERS = [*QUOTED_INTEGERS[:6], "'0.5'", "'.1'", "'2.50'", "'-1.0'", "'1e0'", "'25E-1'"]
QUOTED_BOOLEANS = ["'true'", "'FALSE'", "'t'", "'n'", "'1'", "'0'", "'Yes'"]
QUOTED_TIMES = [
    *("'1970-01-01'", "'2024-2-29'", "'2026-02-28 12:30:00.000001'", "'2026-02-28T12:30:00'", "'1970-01-01 00:00'"),
    *("'1969-12-31T23:59:59.999999Z'", "'2024-02-29T02:00:00+02:00'", "'2024-02-29 00:00:00.000'"),
]
UNTYPED_LITERALS = [*QUOTED_NUMBERS, *QUOTED_BOOLEANS, *QUOTED_TIMES]
TIME_LITERALS = [f"DATE '{day}'" for day in DATES] + [f"TIMESTAMP '{moment}'" for moment in TIMESTAMPS]
PATTERNS = ["'a%'", "'%b'", "'a_b'", "'%'", "''", "'abc'", "'_%'", "'%a%b%'", "'B%'", "'\U0001f600%'", "'a%_'", "'%%'"]
EXPRESSIONS = [
    "'a.*b'",
    "'^a'",
    "'b$'",
    "'(a|b)c?'",
    "'[^a]'",
    r"'\d'",
    "'é|ß'",
    "'^$'",
    "''",
    "'a_b|%'",
    "'w.l'",
    "'B'",
]
PHRASES = ["holiday", "holiday milos", "chok*", "new york", "HOLIDAY choc*", "york new", "score9", "cake*"]

_OPS = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
_NOT = st.sampled_from(["", "NOT "])


def events(missing: bool = True) -> st.SearchStrategy[Event]:
    """Events with values of the right type or NULL, and attributes that are missing altogether."""
    fields = {key: st.sampled_from(values) | st.none() for key, values in COLUMNS.items()} | {"items": ITEMS}
    return st.fixed_dictionaries({}, optional=fields) if missing else st.fixed_dictionaries(fields)


def odd_events() -> st.SearchStrategy[Event]:
    """Events whose values may be of another kind than the attribute's name suggests."""
    anything = st.sampled_from([value for values in COLUMNS.values() for value in values])
    fields: dict[str, Any] = dict.fromkeys(COLUMNS, anything | st.none() | st.just({"nested": 1}))
    element = st.fixed_dictionaries({}, optional=dict.fromkeys(ELEMENT_COLUMNS, anything | st.none()))
    return st.fixed_dictionaries({}, optional=fields | {"items": anything | st.lists(anything | element, max_size=3)})


def _comparisons(attributes: Sequence[str], literals: Sequence[str]) -> st.SearchStrategy[str]:
    attribute, literal = st.sampled_from(attributes), st.sampled_from([*literals, "NULL"])
    listed = st.lists(literal, min_size=1, max_size=4).map(", ".join)
    return st.one_of(
        st.builds("{} {} {}".format, attribute, _OPS, literal),
        st.builds("{} {} {}".format, literal, _OPS, attribute),
        st.builds("{} {}BETWEEN {} AND {}".format, attribute, _NOT, literal, literal),
        st.builds("{} {}IN ({})".format, attribute, _NOT, listed),
        st.builds("{} IS {}NULL".format, attribute, _NOT),
        st.builds("{} {} {}".format, attribute, _OPS, st.sampled_from(attributes)),
        st.builds("{} BETWEEN {} AND {}".format, attribute, st.sampled_from(attributes), literal),
        st.builds("{} IS {}DISTINCT FROM {}".format, attribute, _NOT, literal),
    )


def comparisons() -> st.SearchStrategy[str]:
    """Comparisons of attributes with constants and attributes of their kind: what DuckDB judges word for word."""
    return st.one_of(
        _comparisons(NUMBERS, NUMBER_LITERALS),
        _comparisons(WORDS, STRING_LITERALS),
        _comparisons(BOOLEANS, ["TRUE", "FALSE"]),
        _comparisons(TIMES, TIME_LITERALS),
        _comparisons(("i", "j"), QUOTED_INTEGERS),
        _comparisons(("d", "e", "m"), QUOTED_NUMBERS),
        _comparisons(BOOLEANS, QUOTED_BOOLEANS),
        # Beside a date DuckDB casts to a date, which has no time of day.
        _comparisons(("day",), QUOTED_TIMES[:2]),
        # It ignores the zone of a text beside a timestamp that has none.
        _comparisons(("moment",), [text for text in QUOTED_TIMES if "+" not in text]),
        _comparisons(WORDS, UNTYPED_LITERALS),
        st.sampled_from([*BOOLEANS, "TRUE", "FALSE", "NULL", "1 < 2", "'a' = 'b'", "NULL = 1"]),
    )


def patterns() -> st.SearchStrategy[str]:
    """LIKE, ILIKE and ESCAPE."""
    return st.builds(
        "{} {}{} {}{}".format,
        st.sampled_from(WORDS),
        _NOT,
        st.sampled_from(["LIKE", "ILIKE"]),
        st.sampled_from([*PATTERNS, "'100$%'", "'a$_b'", "'%$%%'"]),
        st.sampled_from(["", " ESCAPE '$'"]),
    )


def regexps() -> st.SearchStrategy[str]:
    """Regular expressions, in all ways to write them."""
    attribute, expression = st.sampled_from(WORDS), st.sampled_from(EXPRESSIONS)
    return st.one_of(
        st.builds("{} {} {}".format, attribute, st.sampled_from(["~", "!~", "~*", "SIMILAR TO", "RLIKE"]), expression),
        st.builds("regexp_matches({}, {})".format, attribute, expression),
        st.builds(
            "regexp_matches({}, {}, '{}')".format, attribute, expression, st.sampled_from(["i", "s", "is", "ic"])
        ),
    )


def letter_escapes() -> st.SearchStrategy[str]:
    """ILIKE with a letter for its escape, which DuckDB reads otherwise."""
    return st.builds(
        "{} ILIKE {} ESCAPE '{}'".format,
        st.sampled_from(WORDS),
        st.sampled_from(["'A%'", "'aA%'", "'%A_Bc'", "'BA'", "'bBB%'", "'AbA%'"]),
        st.sampled_from(["a", "b", "B"]),
    )


def lists_and_texts() -> st.SearchStrategy[str]:
    """array_contains, has_words, has_phrase."""
    return st.one_of(
        st.builds("array_contains(tags, {})".format, st.sampled_from(["'x'", "'y'", "'z'"])),
        st.builds("has_words(body, '{}')".format, st.sampled_from(PHRASES)),
        st.builds("has_phrase(body, '{}')".format, st.sampled_from([p for p in PHRASES if "*" not in p])),
    )


def lists() -> st.SearchStrategy[str]:
    """Conditions on lists of numbers and texts, as DuckDB has them."""
    number, several = st.sampled_from(["1", "5", "7"]), st.sampled_from(["[1, 6]", "[5]", "[]", "[7, NULL]", "[NULL]"])
    return st.one_of(
        st.builds("{} {} {}(v)".format, number, _OPS, st.sampled_from(["ANY", "ALL"])),
        st.builds("list_has_{}(v, {})".format, st.sampled_from(["any", "all"]), several),
        st.builds(
            "list_has_{}(tags, {})".format, st.sampled_from(["any", "all"]), st.sampled_from(["['x', 'z']", "['y']"])
        ),
        st.builds("{}(v) {} {}".format, st.sampled_from(["len", "list_max", "list_min", "list_count"]), _OPS, number),
    )


def globs() -> st.SearchStrategy[str]:
    """GLOB, and LIKE with ANY and ALL."""
    like = "{} {}LIKE {} ({}, {})".format
    quantifier, pattern = st.sampled_from(["ANY", "ALL"]), st.sampled_from(PATTERNS)
    return st.one_of(
        st.builds("{} GLOB {}".format, st.sampled_from(WORDS), st.sampled_from(["'a*'", "'?b*'", "'[ab]*'", "'*'"])),
        st.builds(like, st.sampled_from(WORDS), st.sampled_from(["", "I"]), quantifier, pattern, pattern),
    )


def elements() -> st.SearchStrategy[str]:
    """EXISTS on the elements of a list of structs, and of one of texts; they meet attributes of the event."""
    of_struct = st.one_of(
        _comparisons(("x.i", "x.d", "x.d", "i", "m"), NUMBER_LITERALS),
        _comparisons(("x.s", "s"), STRING_LITERALS),
        _comparisons(("x.flag", "event.flag"), ["TRUE", "FALSE"]),
        _comparisons(("x.day", "day"), TIME_LITERALS),
        st.builds("x.s {}LIKE {}".format, _NOT, st.sampled_from(PATTERNS)),
        st.builds("x.i * {} > x.d".format, st.sampled_from(["2", "j", "x.i"])),
        st.sampled_from(["x IS NULL", "x IS NOT NULL", "x.flag", "NOT flag", "regexp_matches(x.s, 'a.*b')", "TRUE"]),
    )
    of_text = st.one_of(_comparisons(("x", "s"), ["'x'", "'y'", "'xx'"]), st.just("x LIKE 'x%'"))
    exists = "{}EXISTS (SELECT 1 FROM UNNEST({}) AS t(x) WHERE {})".format
    return st.one_of(
        st.builds(exists, _NOT, st.just("items"), logic(of_struct, max_leaves=4)),
        st.builds(exists, _NOT, st.just("tags"), logic(of_text, max_leaves=3)),
        st.sampled_from(
            ["EXISTS (SELECT 1 FROM UNNEST(items))", "EXISTS (SELECT 1 FROM UNNEST(items) x WHERE x.i > 1)"]
        ),
    )


def history_terms() -> st.SearchStrategy[str]:
    """The inside of a WHERE on history."""
    number = st.sampled_from(NUMBERS)
    return st.one_of(
        st.builds("h.{} {} event.{}".format, number, _OPS, number),
        st.builds("event.{} {} h.{}".format, number, _OPS, number),
        st.builds("{} {} {}".format, number, _OPS, st.sampled_from(NUMBER_LITERALS)),
        st.builds("h.s {} event.s".format, _OPS),
        st.builds("h.{} IS {}NULL".format, number, _NOT),
        st.builds("h.{} BETWEEN event.{} AND {}".format, number, number, st.sampled_from([*NUMBER_LITERALS, "NULL"])),
        st.builds("event.{} > {}".format, number, st.sampled_from(NUMBER_LITERALS)),
        st.sampled_from(["h.flag", "NOT h.flag", "event.s LIKE 'a%'", "NOT (h.i < event.i)", "TRUE", "NULL"]),
    )


def history() -> st.SearchStrategy[str]:
    """ANY, ALL, IN and EXISTS on history."""
    where = st.lists(history_terms(), max_size=3).map(lambda terms: f" WHERE {' AND '.join(terms)}" if terms else "")
    number = st.sampled_from(NUMBERS)
    return st.one_of(
        st.builds(
            "{} {} {} (SELECT {} FROM history h{})".format, number, _OPS, st.sampled_from(["ANY", "ALL"]), number, where
        ),
        st.builds("{} {}IN (SELECT h.{} FROM history h{})".format, number, _NOT, number, where),
        st.builds("{}EXISTS (SELECT 1 FROM history h{})".format, _NOT, where),
    )


def logic(atoms: st.SearchStrategy[str], max_leaves: int = 8) -> st.SearchStrategy[str]:
    """AND, OR, NOT and IS [NOT] TRUE over atoms."""

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        several = st.lists(inner, min_size=2, max_size=4)
        return st.one_of(
            several.map(lambda parts: f"({' AND '.join(parts)})"),
            several.map(lambda parts: f"({' OR '.join(parts)})"),
            inner.map("(NOT {})".format),
            st.builds("({} IS {}{})".format, inner, _NOT, st.sampled_from(["TRUE", "FALSE"])),
        )

    return st.recursive(atoms.map("({})".format), extend, max_leaves=max_leaves)


def conditions() -> st.SearchStrategy[str]:
    """Conditions of every family that needs neither history nor XML."""
    return logic(
        st.one_of(comparisons(), comparisons(), patterns(), regexps(), letter_escapes(), lists_and_texts(), elements())
    )


def conditions_on_history() -> st.SearchStrategy[str]:
    """Conditions with history among them."""
    return logic(st.one_of(history(), history(), comparisons()), max_leaves=4)


def odd_conditions() -> st.SearchStrategy[str]:
    """Comparisons of any attribute with a constant of any kind."""
    attributes = [*NUMBERS, *WORDS, *BOOLEANS, *TIMES]
    literals = [*NUMBER_LITERALS[:6], *STRING_LITERALS[:6], "TRUE", "FALSE", *TIME_LITERALS[:3], *UNTYPED_LITERALS]
    return logic(st.one_of(_comparisons(attributes, literals), patterns()))
