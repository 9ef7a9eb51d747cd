"""Predicates in normal form as a person reads them, and as the parser reads them back."""

import re

from tocsin.language.parse import dialect
from tocsin.language.to_sql import constant, timestamp, to_sql
from tocsin.language.to_sql import name as quoted
from tocsin.model.predicate import (
    EVERYTHING,
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

_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_READ_OTHERWISE = {"connect_by_root", "event", "if", "lambda"}
"""No keywords, but with a meaning of their own at the beginning of a name."""
_ACCEPTS = {
    Accepts.TRUE: "{}",
    Accepts.FALSE: "NOT {}",
    Accepts.NULL: "{0} IS NOT TRUE AND {0} IS NOT FALSE",
    Accepts.TRUE | Accepts.NULL: "{} IS NOT FALSE",
    Accepts.FALSE | Accepts.NULL: "{} IS NOT TRUE",
    Accepts.TRUE | Accepts.FALSE: "{0} IS TRUE OR {0} IS FALSE",
}
# NULL for a value of another kind, as every comparison is.
_EVERY_VALUE = {
    Kind.NUMBER: "{0} <= 0 OR {0} > 0",
    Kind.STRING: "{} LIKE '%'",
    Kind.BOOLEAN: "{} IN (TRUE, FALSE)",
    Kind.TIME: "{0} <= DATE '1970-01-01' OR {0} > DATE '1970-01-01'",
    Kind.ANY: "{} IS NOT NULL",
}


def describe(predicate: Predicate) -> str:
    """A predicate as SQL: TRUE for the events for which the predicate holds.

    >>> describe(Ranges("price", Kind.NUMBER, (Range(Number(10), True, Number(30), False),)))
    'price >= 10 AND price < 30'
    """
    if isinstance(predicate, Ranges):
        return _describe_ranges(predicate)
    alternatives = _describe_test(predicate.test)
    text = " OR ".join(alternatives)
    bare = predicate.accepts == Accepts.TRUE or (predicate.accepts == Accepts.FALSE and len(alternatives) == 1)
    return _ACCEPTS[predicate.accepts].format(text if bare else f"({text})")


def _describe_ranges(predicate: Ranges) -> str:
    attribute, kind = _name(predicate.attribute), predicate.kind
    if not predicate.ranges:
        # No value of the kind; a value of another kind is NULL, as one that is missing.
        every = _EVERY_VALUE[kind].format(attribute)
        return f"{attribute} IS NULL" if kind is Kind.ANY else f"({every}) IS NOT TRUE"
    alternatives = [_describe_range(attribute, candidate, kind) for candidate in predicate.ranges]
    if len(alternatives) > 3 and all(candidate.low == candidate.high for candidate in predicate.ranges):
        values = ", ".join(_constant(candidate.low, kind) for candidate in predicate.ranges)
        alternatives = [f"{attribute} IN ({values})"]
    text = " OR ".join(alternatives)
    return f"({text}) IS NOT FALSE" if predicate.or_null else text


def _describe_range(attribute: str, candidate: Range, kind: Kind) -> str:
    if candidate == EVERYTHING:
        return _EVERY_VALUE[kind].format(attribute)
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
        return timestamp(value)
    return constant(value)


def _describe_test(test: Test) -> list[str]:
    """What a test says, in alternatives."""
    if isinstance(test, AnyWord):
        return [f"has_words({_name(test.attribute)}, {constant(_word(word))})" for word in test.words]
    if isinstance(test, Phrase):
        return [f"has_phrase({_name(test.attribute)}, {constant(' '.join(test.words))})"]
    if isinstance(test, AnyPattern):
        return [_like(_name(test.attribute), pattern) for pattern in test.patterns]
    return [to_sql(test, as_written=True)]


def _name(attribute: str) -> str:
    """The name without quotes if it is read so."""
    if not _PLAIN_NAME.fullmatch(attribute) or attribute.partition(".")[0].lower() in _READ_OTHERWISE:
        return quoted(attribute)
    parts = dialect().tokenize(attribute)[::2]
    return attribute if all(part.token_type.name == "VAR" for part in parts) else quoted(attribute)


def _word(word: Word) -> str:
    return f"{word.text}*" if word.prefix else word.text


def _like(attribute: str, pattern: Pattern) -> str:
    text = pattern_text(pattern)
    escape = " ESCAPE '\\'" if "\\" in text else ""
    return f"{attribute} {'ILIKE' if pattern.ignore_case else 'LIKE'} {constant(text)}{escape}"
