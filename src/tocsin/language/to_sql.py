"""Turn a condition back into SQL that DuckDB evaluates over a table `event`, and `history` for the earlier events.

DuckDB has no has_words and has_phrase: they become regular expressions that mean the same for texts whose lower case
is their folded case, such as ASCII. xpath_exists stays a function call that DuckDB does not know.
"""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from tocsin.model.condition import (
    And,
    ArrayContains,
    AttributeComparison,
    Between,
    Comparison,
    Condition,
    Exists,
    HasPhrase,
    HasWords,
    HistoryTerm,
    InList,
    IsNull,
    IsTruth,
    Like,
    Not,
    OldComparedToConstant,
    OldComparedToNew,
    Or,
    Quantified,
    Truth,
    XPathExists,
)
from tocsin.model.text import like_pattern, parse_words, pattern_text, tokens
from tocsin.model.values import Constant, microseconds

_EPOCH = dt.datetime(1970, 1, 1)
_WIDEST = dt.timedelta(hours=23, minutes=59)
_NO_WORD = r"[^\p{L}\p{N}\p{M}_]"


def to_sql(condition: Condition, as_written: bool = False) -> str:
    """Return the SQL of a condition; `as_written` keeps has_words and has_phrase as they are. Linear in its size.

    >>> from tocsin.language.parse import parse
    >>> to_sql(parse("NOT (price < 10.5 OR author IN ('O''Brien'))"))
    '(NOT ("price" < 10.5 OR "author" IN (\\'O\\'\\'Brien\\')))'
    """
    pieces: list[str] = []
    waiting: list[Condition | str] = [condition]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            pieces.append(node)
        elif isinstance(node, (And, Or)):
            connector = " AND " if isinstance(node, And) else " OR "
            waiting.append(")")
            for operand in reversed(node.operands):
                waiting += [operand, connector]
            waiting[-1] = "("
        elif isinstance(node, Not):
            waiting += [")", node.operand, "(NOT "]
        elif isinstance(node, IsTruth):
            test = f"IS {'NOT ' if node.negated else ''}{'TRUE' if node.value else 'FALSE'}"
            waiting += [f" {test})", node.operand, "("]
        elif as_written and isinstance(node, (HasWords, HasPhrase)):
            pieces.append(_call("has_words" if isinstance(node, HasWords) else "has_phrase", node.attribute, node.text))
        else:
            pieces.append(_ATOMS[type(node)](node))
    return "".join(pieces)


def name(attribute: str) -> str:
    """An attribute as a quoted name.

    >>> name('user-agent')
    '"user-agent"'
    """
    return '"' + attribute.replace('"', '""') + '"'


def constant(value: Any) -> str:
    """A constant as a literal; times are converted to UTC."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.datetime):
        return timestamp(microseconds(value))
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    return format(value, "f") if isinstance(value, Decimal) else repr(value)


def timestamp(time: int) -> str:
    """A time as a literal, from microseconds since 1970 in UTC; in another zone if its year there has no date.

    >>> timestamp(0)
    "TIMESTAMP '1970-01-01 00:00:00'"
    """
    moment = dt.timedelta(microseconds=time)
    zone, offset = "", dt.timedelta()
    if not dt.datetime.min - _EPOCH <= moment <= dt.datetime.max - _EPOCH:
        zone, offset = ("+23:59", _WIDEST) if time < 0 else ("-23:59", -_WIDEST)
    return f"TIMESTAMP '{_EPOCH + (moment + offset)}{zone}'"


def _call(function: str, attribute: str, argument: Constant | object) -> str:
    return f"{function}({name(attribute)}, {constant(argument)})"


def _like(node: Like) -> str:
    pattern, escape = node.pattern, node.escape
    if node.ignore_case and isinstance(escape, str) and escape.isalpha():
        # DuckDB would take both cases of a letter for the escape.
        pattern, escape = pattern_text(like_pattern(str(pattern), escape, ignore_case=True)), "\\"
    ending = "" if escape is None else f" ESCAPE {constant(escape)}"
    return f"({name(node.attribute)} {'ILIKE' if node.ignore_case else 'LIKE'} {constant(pattern)}{ending})"


def _has_words(node: HasWords) -> str:
    words = parse_words(str(node.text))
    return f"({' AND '.join(_finds(node.attribute, word.text, whole=not word.prefix) for word in words)})"


def _has_phrase(node: HasPhrase) -> str:
    return _finds(node.attribute, f"{_NO_WORD}+".join(tokens(str(node.text))), whole=True)


def _finds(attribute: str, expression: str, whole: bool) -> str:
    end = f"($|{_NO_WORD})" if whole else ""
    return f"regexp_matches(lower({name(attribute)}), '(^|{_NO_WORD}){expression}{end}')"


def _where(terms: tuple[HistoryTerm, ...]) -> str:
    return f" WHERE {' AND '.join(map(_term, terms))}" if terms else ""


def _term(term: HistoryTerm) -> str:
    old = f"h.{name(term.old)}"
    if isinstance(term, OldComparedToNew):
        return f"{old} {term.op.value} event.{name(term.new)}"
    if isinstance(term, OldComparedToConstant):
        return f"{old} {term.op.value} {constant(term.constant)}"
    return f"{old} IS {'NOT ' if term.negated else ''}NULL"


def _quantified(node: Quantified) -> str:
    query = f"SELECT h.{name(node.old)} FROM history h{_where(node.terms)}"
    return f"{name(node.attribute)} {node.op.value} {node.quantifier.value} ({query})"


_ATOMS: dict[type, Callable[[Any], str]] = {
    Truth: lambda node: constant(node.value),
    Comparison: lambda node: f"{name(node.attribute)} {node.op.value} {constant(node.constant)}",
    Between: lambda node: f"{name(node.attribute)} BETWEEN {constant(node.low)} AND {constant(node.high)}",
    InList: lambda node: f"{name(node.attribute)} IN ({', '.join(map(constant, node.constants))})",
    IsNull: lambda node: f"({name(node.attribute)} IS NULL)",
    AttributeComparison: lambda node: f"{name(node.left)} {node.op.value} {name(node.right)}",
    Like: _like,
    ArrayContains: lambda node: _call("array_contains", node.attribute, node.constant),
    HasWords: _has_words,
    HasPhrase: _has_phrase,
    XPathExists: lambda node: _call("xpath_exists", node.attribute, node.path),
    Exists: lambda node: f"EXISTS (SELECT 1 FROM history h{_where(node.terms)})",
    Quantified: _quantified,
}
