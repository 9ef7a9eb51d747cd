"""Predicates in normal form as a person reads them."""

import datetime as dt
import re

from tocsin.language.to_sql import constant, to_sql
from tocsin.language.to_sql import name as quoted
from tocsin.model.predicate import (
    Accepts,
    AnyPattern,
    AnyWord,
    Pattern,
    Phrase,
    Predicate,
    Range,
    Ranges,
    Test,
    Word,
)
from tocsin.model.text import pattern_text
from tocsin.model.values import Kind, Number, Scalar

_EPOCH = dt.datetime(1970, 1, 1)
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_ACCEPTS = {
    Accepts.TRUE: "{}",
    Accepts.FALSE: "NOT {}",
    Accepts.NULL: "({}) IS NULL",
    Accepts.TRUE | Accepts.NULL: "({}) IS NOT FALSE",
    Accepts.FALSE | Accepts.NULL: "({}) IS NOT TRUE",
    Accepts.TRUE | Accepts.FALSE: "({}) IS NOT NULL",
}


def describe(predicate: Predicate) -> str:
    """A predicate as SQL.

    >>> describe(Ranges("price", Kind.NUMBER, (Range(Number(10), True, Number(30), False),)))
    'price >= 10 AND price < 30'
    """
    if not isinstance(predicate, Ranges):
        return _ACCEPTS[predicate.accepts].format(_describe_test(predicate.test))
    attribute = _name(predicate.attribute)
    alternatives = [_describe_range(attribute, candidate, predicate.kind) for candidate in predicate.ranges]
    if len(alternatives) > 3 and all(candidate.low == candidate.high for candidate in predicate.ranges):
        values = ", ".join(_constant(candidate.low, predicate.kind) for candidate in predicate.ranges)
        alternatives = [f"{attribute} IN ({values})"]
    if predicate.or_null:
        alternatives.append(f"{attribute} IS NULL")
    return " OR ".join(alternatives)


def _describe_range(attribute: str, candidate: Range, kind: Kind) -> str:
    if candidate.low is None and candidate.high is None:
        return f"{attribute} IS NOT NULL"
    if candidate.low == candidate.high:
        return f"{attribute} = {_constant(candidate.low, kind)}"
    ends = []
    if candidate.low is not None:
        ends.append(f"{attribute} {'>=' if candidate.low_closed else '>'} {_constant(candidate.low, kind)}")
    if candidate.high is not None:
        ends.append(f"{attribute} {'<=' if candidate.high_closed else '<'} {_constant(candidate.high, kind)}")
    return " AND ".join(ends)


def _constant(value: Scalar | None, kind: Kind) -> str:
    if isinstance(value, Number):
        return constant(value.exact)
    if kind is Kind.TIME and isinstance(value, int):
        return constant(_EPOCH + dt.timedelta(microseconds=value))
    return constant(value)


def _describe_test(test: Test) -> str:
    if isinstance(test, AnyWord):
        return " OR ".join(f"has_words({_name(test.attribute)}, {constant(_word(word))})" for word in test.words)
    if isinstance(test, Phrase):
        return f"has_phrase({_name(test.attribute)}, {constant(' '.join(test.words))})"
    if isinstance(test, AnyPattern):
        return " OR ".join(_like(_name(test.attribute), pattern) for pattern in test.patterns)
    return to_sql(test, as_written=True)


def _name(attribute: str) -> str:
    return attribute if _PLAIN_NAME.fullmatch(attribute) else quoted(attribute)


def _word(word: Word) -> str:
    return f"{word.text}*" if word.prefix else word.text


def _like(attribute: str, pattern: Pattern) -> str:
    text = pattern_text(pattern)
    escape = " ESCAPE '\\'" if "\\" in text else ""
    return f"{attribute} {'ILIKE' if pattern.ignore_case else 'LIKE'} {constant(text)}{escape}"
