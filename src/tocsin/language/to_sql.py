"""Turn conditions and predicates back into SQL: `to_sql` for DuckDB, `describe` for a person and for our own parser.

DuckDB evaluates the SQL of a condition over a table `event`, and `history` for the earlier events. It does not have
has_words and has_phrase: they become regular expressions that mean the same for texts whose lower case is their folded
case, such as ASCII. xpath_exists, and words with options, stay function calls that DuckDB does
not know.
"""

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from tocsin.language.ranges import compared_untyped, complement, intersection, spans, union
from tocsin.language.reserved import RESERVED
from tocsin.model.analyzer import demanded_phrase, demanded_words
from tocsin.model.condition import (
    Aggregated,
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
    Op,
    Or,
    Quantified,
    RegexpMatches,
    Truth,
    UnnestExists,
    WithinDistance,
    WithinPolygon,
    XPathExists,
)
from tocsin.model.expression_tree import MARK, Call, expression_of, is_derived
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
    WordWindow,
)
from tocsin.model.regexp import canonical
from tocsin.model.sql_text import ELEMENT_NAME, constant, expression_sql, name, timestamp
from tocsin.model.text import like_pattern, pattern_text
from tocsin.model.untyped import SPANS, is_untyped, typed_scalar
from tocsin.model.values import Constant, Kind, Number, Scalar

_NO_WORD = r"[^\p{L}\p{N}\p{M}_]"
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_ACCEPTS = {
    Accepts.TRUE: "{}",
    Accepts.FALSE: "NOT {}",
    Accepts.NULL: "{0} IS NOT TRUE AND {0} IS NOT FALSE",
    Accepts.TRUE | Accepts.NULL: "{} IS NOT FALSE",
    Accepts.FALSE | Accepts.NULL: "{} IS NOT TRUE",
    Accepts.TRUE | Accepts.FALSE: "{0} IS TRUE OR {0} IS FALSE",
}
# Conditions that are TRUE for every value of the kind and NULL for all others, as comparisons are.
_EVERY_VALUE = {
    Kind.NUMBER: "{0} <= 0 OR {0} > 0",
    Kind.STRING: "{} LIKE '%'",
    Kind.BOOLEAN: "{} IN (TRUE, FALSE)",
    Kind.TIME: "{0} <= DATE '1970-01-01' OR {0} > DATE '1970-01-01'",
    Kind.ANY: "{} IS NOT NULL",
}
_UNTYPED_VALUES = union(each for kind in SPANS for each in spans(kind))
"""Where the values of untyped attributes lie."""


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
        elif isinstance(node, (HasWords, HasPhrase)) and (as_written or _options(node)):
            function = "has_words" if isinstance(node, HasWords) else "has_phrase"
            pieces.append(f"{function}({name(node.attribute)}, {constant(node.text)}{_options(node)})")
        elif isinstance(node, UnnestExists):
            pieces.append(_unnest_exists(node, as_written))
        else:
            pieces.append(_ATOMS[type(node)](node))
    return "".join(pieces)


def _call(function: str, attribute: str, argument: Constant | object) -> str:
    return f"{function}({name(attribute)}, {constant(argument)})"


def _options(node: HasWords | HasPhrase) -> str:
    """Return the options of a test on words as they are written."""
    numbers = {"near": node.near, "min_words": node.min_words} if isinstance(node, HasWords) else {"slop": node.slop}
    given = {key: value for key, value in numbers.items() if value} | ({"exact_case": True} if node.exact_case else {})
    return "".join(f", {key} => {constant(value)}" for key, value in given.items())


def _like(node: Like) -> str:
    pattern, escape = node.pattern, node.escape
    if node.ignore_case and isinstance(escape, str) and escape.isalpha():
        # DuckDB takes both cases of a letter for the escape.
        pattern, escape = pattern_text(like_pattern(str(pattern), escape, ignore_case=True)), "\\"
    ending = "" if escape is None else f" ESCAPE {constant(escape)}"
    return f"({name(node.attribute)} {'ILIKE' if node.ignore_case else 'LIKE'} {constant(pattern)}{ending})"


def _regexp(node: RegexpMatches) -> str:
    return _call("regexp_matches", node.attribute, canonical(str(node.expression), node.flags, node.whole))


def _within(function: str, attribute: str, *arguments: object) -> str:
    point = expression_of(attribute)
    assert isinstance(point, Call), "a point is derived"
    return f"{function}({', '.join([*map(expression_sql, point.operands), *map(constant, arguments)])})"


def _has_words(node: HasWords) -> str:
    words = demanded_words(node.attribute, str(node.text)).words
    return f"({' AND '.join(_finds(node.attribute, word.text, whole=not word.prefix) for word in words)})"


def _has_phrase(node: HasPhrase) -> str:
    words = demanded_phrase(node.attribute, str(node.text)).words
    return _finds(node.attribute, f"{_NO_WORD}+".join(word.text for word in words), whole=True)


def _finds(attribute: str, expression: str, whole: bool) -> str:
    end = f"($|{_NO_WORD})" if whole else ""
    return f"regexp_matches(lower({name(attribute)}), '(^|{_NO_WORD}){expression}{end}')"


def _where(terms: tuple[HistoryTerm, ...]) -> str:
    return f" WHERE {' AND '.join(map(_term, terms))}" if terms else ""


def _term(term: HistoryTerm) -> str:
    old = f"h.{name(term.old)}"
    if isinstance(term, OldComparedToNew):
        new = expression_sql(expression_of(term.new), lambda attribute: f"event.{name(attribute)}")
        return f"{old} {term.op.value} {new}"
    if isinstance(term, OldComparedToConstant):
        return f"{old} {term.op.value} {constant(term.constant)}"
    return f"{old} IS {'NOT ' if term.negated else ''}NULL"


def _unnest_exists(node: UnnestExists, as_written: bool) -> str:
    where = to_sql(node.condition, as_written)
    return f"EXISTS (SELECT 1 FROM UNNEST({name(node.attribute)}) AS t({ELEMENT_NAME}) WHERE {where})"


def _quantified(node: Quantified) -> str:
    query = f"SELECT h.{name(node.old)} FROM history h{_where(node.terms)}"
    return f"{name(node.attribute)} {node.op.value} {node.quantifier.value} ({query})"


def _aggregated(node: Aggregated) -> str:
    selected = "*" if node.old is None else f"h.{name(node.old)}"
    alternatives = [" AND ".join(map(_term, terms)) or "TRUE" for terms in node.alternatives]
    where = "" if node.alternatives == ((),) else f" WHERE {' OR '.join(map('({})'.format, alternatives)) or 'FALSE'}"
    value = constant(node.constant) if node.attribute is None else name(node.attribute)
    return f"{value} {node.op.value} (SELECT {node.aggregate.value}({selected}) FROM history h{where})"


_ATOMS: dict[type, Callable[[Any], str]] = {
    Truth: lambda node: constant(node.value),
    Comparison: lambda node: f"{name(node.attribute)} {node.op.value} {constant(node.constant)}",
    Between: lambda node: f"{name(node.attribute)} BETWEEN {constant(node.low)} AND {constant(node.high)}",
    InList: lambda node: f"{name(node.attribute)} IN ({', '.join(map(constant, node.constants))})",
    IsNull: lambda node: f"({name(node.attribute)} IS NULL)",
    AttributeComparison: lambda node: f"{name(node.left)} {node.op.value} {name(node.right)}",
    Like: _like,
    RegexpMatches: _regexp,
    WithinDistance: lambda node: _within(
        "within_distance", node.attribute, node.latitude, node.longitude, f"{Decimal(repr(node.metres)):f} m"
    ),
    WithinPolygon: lambda node: _within("within_polygon", node.attribute, node.polygon),
    ArrayContains: lambda node: _call("array_contains", node.attribute, node.constant),
    HasWords: _has_words,
    HasPhrase: _has_phrase,
    XPathExists: lambda node: _call("xpath_exists", node.attribute, node.path),
    Exists: lambda node: f"EXISTS (SELECT 1 FROM history h{_where(node.terms)})",
    Quantified: _quantified,
    Aggregated: _aggregated,
}


def describe(predicate: Predicate) -> str:
    """Return a predicate as SQL that is TRUE for the events for which the predicate holds.

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
    if is_untyped(predicate.attribute):
        if predicate.or_null:
            # A value of one kind makes the comparisons with other kinds NULL: say what must not hold.
            outside = intersection(complement(predicate.ranges), _UNTYPED_VALUES)
            return f"({_describe_untyped(attribute, outside)}) IS NOT TRUE"
        return _describe_untyped(attribute, predicate.ranges)
    if not predicate.ranges:
        # The value is not of the kind: for such values, and for missing ones, the condition on the kind is NULL.
        every = _EVERY_VALUE[kind].format(attribute)
        return f"{attribute} IS NULL" if kind is Kind.ANY else f"({every}) IS NOT TRUE"
    alternatives = [_describe_range(attribute, candidate, kind) for candidate in predicate.ranges]
    if len(alternatives) > 3 and all(candidate.low == candidate.high for candidate in predicate.ranges):
        values = ", ".join(_scalar(candidate.low, kind) for candidate in predicate.ranges)
        alternatives = [f"{attribute} IN ({values})"]
    elif (value := _left_out(predicate.ranges)) is not None:
        alternatives = [f"{attribute} <> {_scalar(value, kind)}"]
    text = " OR ".join(alternatives)
    return f"({text}) IS NOT FALSE" if predicate.or_null else text


def _left_out(ranges: Sequence[Range]) -> Scalar | None:
    """Return the one value that ranges leave out; None if it is another set of values."""
    if len(ranges) != 2 or ranges[0].low is not None or ranges[1].high is not None:
        return None
    below, above = ranges[0].high, ranges[1].low
    # Ranges that touch are one range: neither end is closed.
    return below if below == above else None


def _describe_untyped(attribute: str, ranges: Sequence[Range]) -> str:
    """Describe ranges of an untyped attribute: by strings alone if they mean all of it, else kind by kind."""
    strings = union(
        Range(_string(each.low), each.low_closed, _string(each.high), each.high_closed)
        for each in intersection(ranges, spans(Kind.STRING))
    )
    if strings and union(part for each in strings for part in _meant(each)) == ranges:
        return " OR ".join(_describe_range(attribute, each, Kind.STRING) for each in strings)
    alternatives = [f"{attribute} LIKE '%' AND {_describe_range(attribute, each, Kind.STRING)}" for each in strings]
    for kind in (Kind.NUMBER, Kind.BOOLEAN, Kind.TIME):
        [span] = spans(kind)
        for each in intersection(ranges, (span,)):
            low = None if each.low == span.low else typed_scalar(str(each.low))
            high = None if each.high == span.high else typed_scalar(str(each.high))
            typed = Range(low, each.low_closed and low is not None, high, each.high_closed)
            alternatives.append(_describe_range(attribute, typed, kind))
    return " OR ".join(alternatives) or "FALSE"


def _string(text: Scalar | None) -> Scalar | None:
    return text if text is None else typed_scalar(str(text))


def _meant(strings: Range) -> tuple[Range, ...]:
    """Return the values of an untyped attribute that a range of strings means as it is printed."""
    if strings.low == strings.high:
        return compared_untyped(Op.EQ, str(strings.low))
    found: tuple[Range, ...] = spans(Kind.STRING) if strings.low is None and strings.high is None else (EVERYTHING,)
    if strings.low is not None:
        found = intersection(found, compared_untyped(Op.GE if strings.low_closed else Op.GT, str(strings.low)))
    if strings.high is not None:
        found = intersection(found, compared_untyped(Op.LE if strings.high_closed else Op.LT, str(strings.high)))
    return found


def _describe_range(attribute: str, candidate: Range, kind: Kind) -> str:
    if candidate == EVERYTHING:
        return _EVERY_VALUE[kind].format(attribute)
    if candidate.low == candidate.high:
        return f"{attribute} = {_scalar(candidate.low, kind)}"
    ends = []
    if candidate.low is not None:
        ends.append(f"{attribute} {'>=' if candidate.low_closed else '>'} {_scalar(candidate.low, kind)}")
    if candidate.high is not None:
        ends.append(f"{attribute} {'<=' if candidate.high_closed else '<'} {_scalar(candidate.high, kind)}")
    return " AND ".join(ends)


def _scalar(value: Scalar | None, kind: Kind) -> str:
    if isinstance(value, Number):
        return constant(value.exact)
    if kind is Kind.TIME and isinstance(value, int):
        return timestamp(value)
    return constant(value)


def _describe_test(test: Test) -> list[str]:
    """Return a test as alternatives, of which one must hold."""
    if isinstance(test, AnyWord):
        return [f"has_words({_name(test.attribute)}, {constant(_word(word))})" for word in test.words]
    if isinstance(test, Phrase):
        return [f"has_phrase({_name(test.attribute)}, {constant(' '.join(test.words))})"]
    if isinstance(test, WordWindow):
        return [to_sql(_window_condition(test), as_written=True)]
    if isinstance(test, AnyPattern):
        return [_like_pattern(_name(test.attribute), pattern) for pattern in test.patterns]
    return [to_sql(test, as_written=True)]


def _window_condition(test: WordWindow) -> HasWords | HasPhrase:
    text = " ".join(map(_word, test.words))
    if test.ordered:
        return HasPhrase(test.attribute, text, (test.reach or 0) - len(test.words) + 1, test.exact_case)
    least = test.least if test.least < len(test.words) else None
    return HasWords(test.attribute, text, test.reach, least, test.exact_case)


def _name(attribute: str) -> str:
    """Return the name, in quotes only if the parser needs them; the expression of a derived attribute."""
    if attribute[:1] == MARK:
        return expression_sql(expression_of(attribute), _name) if is_derived(attribute) else name(attribute)
    parts = attribute.upper().split(".")
    plain = (
        _PLAIN_NAME.fullmatch(attribute)
        and parts[0] not in ("EVENT", ELEMENT_NAME.upper())
        and RESERVED.isdisjoint(parts)
    )
    return attribute if plain else name(attribute)


def _word(word: Word) -> str:
    return f"{word.text}*" if word.prefix else word.text


def _like_pattern(attribute: str, pattern: Pattern) -> str:
    text = pattern_text(pattern)
    escape = " ESCAPE '\\'" if "\\" in text else ""
    return f"{attribute} {'ILIKE' if pattern.ignore_case else 'LIKE'} {constant(text)}{escape}"
