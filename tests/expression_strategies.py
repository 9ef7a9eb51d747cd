"""Hypothesis strategies for expressions, as pairs: the text for Tocsin, and the same for DuckDB.

They differ in what Tocsin does otherwise on purpose: NaN is NULL, so that DuckDB gets `nn(…)` around what may be one;
and an expression without a value is NULL, so that DuckDB gets `TRY(…)` around it.
"""

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tocsin.errors import SubscriptionError
from tocsin.language.parse import parse

Pair = tuple[str, str]
Event = dict[str, Any]

MACROS = "CREATE OR REPLACE MACRO nn(x) AS CASE WHEN isnan(x::DOUBLE) THEN NULL ELSE x END"

COLUMNS: dict[str, list[Any]] = {
    "i": [0, 1, -1, 2, 3, 7, 100, 2**31 - 1],
    "j": [0, 1, -1, 2, 3],
    "d": [0.0, -0.0, 0.5, 1.0, 2.5, -1.0, 0.1, 1e15, float("inf"), float("-inf"), float("nan")],
    "e": [0.0, -0.0, 0.5, 1.0, 2.5, -1.5, 3.0],
    "m": [Decimal(text) for text in ("0.000", "0.500", "1.000", "2.500", "-1.000", "19.990", "0.100", "-0.125")],
    "s": [
        "",
        "a",
        "ab",
        "A,b,c",
        " ab ",
        "é",
        "ß",
        "Éa",
        "\U0001f600a",
        "a\u00a0",
        "12",
        " 12.5 ",
        "2026-01-31",
        "true",
    ],
    "user.name": ["", "a", "AB", "abab", "ﬁ", "İ", "Σ"],
    "flag": [True, False],
    "other": [True, False],
    "day": [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2026, 1, 31), dt.date(2024, 2, 29)],
    "moment": [
        dt.datetime(1970, 1, 1),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
        dt.datetime(2026, 2, 28, 12, 30, 0, 1),
        dt.datetime(2024, 2, 29),
    ],
}


def events(missing: bool = True) -> st.SearchStrategy[Event]:
    """Events with values of the right type, NULL, and attributes that are missing altogether."""
    fields = {key: st.sampled_from(values) | st.none() for key, values in COLUMNS.items()}
    return st.fixed_dictionaries({}, optional=fields) if missing else st.fixed_dictionaries(fields)


def odd_events() -> st.SearchStrategy[Event]:
    """Events whose values may be of any kind, and beyond 64 bits."""
    values = [value for some in COLUMNS.values() for value in some]
    anything = st.sampled_from([*values, 2**63 - 1, -(2**63), 10**37, -(10**40), 1e308, ["x"], Decimal("1e-20")])
    return st.fixed_dictionaries({}, optional=dict.fromkeys(COLUMNS, anything | st.none()))


Draw = Callable[[st.SearchStrategy[Any]], Any]

# A pattern has letters for what is drawn into it: N a number, S a small one, T a text, D a date, M a time, B a truth.
# A pattern of two is one for Tocsin and one for DuckDB.
_NUMBER_LEAVES = ("i", "j", "d", "e", "m", "2", "0.5", "-3", "25e-1", "0")
_NUMBERS_OF_OTHERS = (
    "length(T)",
    "TRY_CAST(T AS INTEGER)",
    "TRY_CAST(T AS DOUBLE)",
    "CAST(flag AS INT)",
    *(
        f"EXTRACT({part} FROM M)"
        for part in ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "dow", "doy", "isodow")
    ),
    "year(M)",
    "dayofweek(M)",
    "date_diff('month', M, M)",
    ("date_diff('hour', M, M)", "date_diff('hour', M::TIMESTAMP, M::TIMESTAMP)"),
    *(
        (f"date_sub('{unit}', M, M)", f"date_sub('{unit}', M::TIMESTAMP, M::TIMESTAMP)")
        for unit in ("day", "hour", "week")
    ),
    "(D - D)",
)
_NUMBERS = (
    *((f"(N {sign} N)", f"nn(N {sign} N)") for sign in ("+", "-", "/")),
    ("(N % nullif(S, 0))", "nn(N % nullif(S, 0))"),
    ("(N * S)", "nn(N * S)"),
    ("(N // nullif(S, 0))", "nn(N // nullif(S, 0))"),
    ("(- N)", "(-(N))"),
    *(f"{name}(N)" for name in ("abs", "sign", "floor", "ceil", "round")),
    "round(N, 1)",
    ("mod(N, nullif(S, 0))", "nn(mod(N, nullif(S, 0)))"),
    "CAST(N AS DOUBLE)",
    "TRY_CAST(N AS BIGINT)",
    "CAST(S AS DECIMAL(12,2))",
)
_TEXT_LEAVES = ("s", '"user.name"', "'a'", "''", "'É'", "CAST(i AS VARCHAR)", "CAST(d AS VARCHAR)", "flag::VARCHAR")
_MORE_TEXT_LEAVES = ("CAST(e AS VARCHAR)", "CAST(m AS VARCHAR)", "CAST(day AS VARCHAR)", "moment::VARCHAR")
_TEXTS = (
    *(f"{name}(T)" for name in ("lower", "upper", "trim", "ltrim", "rtrim")),
    "trim(T, 'ab')",
    "(T || T)",
    "concat(T, T, i)",
    "replace(T, 'a', 'bc')",
    "replace(T, T, '-')",
    *(f"substring(T, {start}, {size})" for start in range(-4, 5) for size in (-3, 0, 1, 4)),
    *(f"substring(T, {start})" for start in range(-4, 5)),
    *(f"split_part(T, ',', {place})" for place in range(-4, 5)),
)
_DATES = ("day", "DATE '2026-02-28'", "CAST(moment AS DATE)", "(day + 1)", "(CAST(moment AS DATE) - j)")
_TIME_LEAVES = (*_DATES, "moment", "moment", "TIMESTAMP '2026-01-31 12:00:00'", "TRY_CAST(s AS DATE)")
_TIMES = (
    *(f"date_trunc('{unit}', M)" for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")),
    "(M + INTERVAL 1 MONTH)",
    "(M - INTERVAL '13 months')",
    "(M - INTERVAL 36 HOURS)",
    "(M + INTERVAL '2 days 3 hours')",
    "CAST(M AS TIMESTAMP)",
    "coalesce(M, M)",
    "CASE WHEN B THEN M ELSE M END",
)
_TRUTHS = (
    *("flag", "other", "i > 1", "d < e", "s = 'a'", "i IS NULL", "m BETWEEN 0 AND j", "s LIKE '%a'"),
    *("i IN (1, j)", "(flag AND i > 0)", "(other OR NOT flag)", "flag IS TRUE", "i IS DISTINCT FROM j"),
    *("starts_with(s, 'a')", "contains(s, 'b')", "TRY_CAST(s AS BOOLEAN)", "'b' <> s", "NOT (s ILIKE 'A%')"),
)


def _common(letter: str) -> tuple[str, ...]:
    patterns = ("coalesce(X, X)", "nullif(X, X)", "greatest(X, X)", "least(X, X, X)")
    cases = ("CASE WHEN B THEN X ELSE X END", "CASE WHEN B THEN X END")
    return tuple(pattern.replace("X", letter) for pattern in (*patterns, *cases))


_GROWN: dict[str, tuple[Any, ...]] = {
    "N": (*_NUMBERS, *_common("N")),
    "T": (*_TEXTS[:10], *_TEXTS, *_common("T")),
    "M": _TIMES,
}
_LEAVES: dict[str, tuple[Any, ...]] = {
    "N": (*_NUMBER_LEAVES, *_NUMBER_LEAVES, *_NUMBERS_OF_OTHERS),
    "S": ("j", "e", "2", "0.5", "-1", "0"),
    "T": (*_TEXT_LEAVES, *_MORE_TEXT_LEAVES),
    "D": _DATES,
    "M": _TIME_LEAVES,
    "B": _TRUTHS,
}
_SLOT = re.compile(r"\b[NSTDMB]\b(?!')")


@st.composite
def expressions(draw: Draw, letters: str = "NTM", depth: int = 2) -> Pair:
    """Expressions of the kinds that the letters mean."""
    return _drawn(draw, draw(st.sampled_from(letters)), depth)


def _drawn(draw: Draw, letter: str, depth: int) -> Pair:
    grows = depth > 0 and letter in _GROWN and draw(st.booleans())
    pattern = draw(st.sampled_from((_GROWN if grows else _LEAVES)[letter]))
    return _filled(draw, pattern, depth - 1)


def _filled(draw: Draw, pattern: Any, depth: int) -> Pair:
    ours, judged = pattern if isinstance(pattern, tuple) else (pattern, pattern)
    parts = [_drawn(draw, letter, depth) for letter in _SLOT.findall(ours)]
    return _put(_SLOT, ours, [part[0] for part in parts]), _put(_SLOT, judged, [part[1] for part in parts])


def _put(slot: re.Pattern[str], pattern: str, parts: list[str]) -> str:
    """Put one part after the other into the slots of a pattern."""
    waiting = iter(parts)
    return slot.sub(lambda _: next(waiting), pattern)


_COMPARISONS = (
    *(f"X {op} L" for op in ("=", "<>", "<", "<=", ">", ">=")),
    *(f"X {op} X" for op in ("=", "<", ">=")),
    "X BETWEEN L AND X",
    "X IN (L, X, NULL)",
    "X NOT IN (L, L)",
    "X IS NULL",
    "X IS NOT NULL",
    "X IS DISTINCT FROM X",
    "(X < L) IS NULL",
)
_TEXT_TESTS = ("X LIKE '%a'", "ends_with(X, 'b')", "starts_with(X, X)", "contains(X, 'a') IS NOT TRUE")
_LITERALS = {
    "N": ("0", "1", "-1", "2.5", "0.1", "3", "100", "1e15"),
    "T": ("''", "'a'", "'ab'", "'É'", "'AB'", "'12'"),
    "M": ("DATE '2026-01-31'", "TIMESTAMP '2024-02-29 00:00:00'", "DATE '1970-01-01'"),
}


@st.composite
def comparisons(draw: Draw) -> Pair:
    """Comparisons of expressions with constants and with each other."""
    letter = draw(st.sampled_from("NNTMB"))
    if letter == "B":
        return _drawn(draw, "B", 0)
    text = draw(st.sampled_from(_COMPARISONS + (_TEXT_TESTS if letter == "T" else ())))
    literals = [draw(st.sampled_from(_LITERALS[letter])) for _ in re.findall(r"\bL\b", text)]
    text = _put(re.compile(r"\bL\b"), text, literals)
    pairs = [_drawn(draw, letter, 2) for _ in re.findall(r"\bX\b", text)]
    ours = _put(re.compile(r"\bX\b"), text, [pair[0] for pair in pairs])
    judged = _put(re.compile(r"\bX\b"), text, [f"TRY({pair[1]})" for pair in pairs])
    return ours, judged


@st.composite
def conditions(draw: Draw) -> Pair:
    """Conditions over expressions."""
    some = comparisons().filter(has_value)
    form = draw(st.sampled_from(("{}", "{}", "(NOT ({}))", "(({}) OR ({}))")))
    pairs = [draw(some) for _ in range(form.count("{}"))]
    return form.format(*(pair[0] for pair in pairs)), form.format(*(pair[1] for pair in pairs))


def has_value(pair: Pair) -> bool:
    """Whether the constants have a value: `1 % 0` is refused."""
    try:
        parse(pair[0])
    except SubscriptionError as error:
        return not re.search("the constant|needs an attribute", str(error))
    return True
