"""The executable specification: evaluate each condition on each event, by the book, in three-valued logic.

It is slow, and every index is tested against it. `evaluate` works on a condition as the user wrote it; `holds` works on
one predicate of its normal form.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from tocsin.errors import EventError, UnknownSubscriptionError
from tocsin.language.parse import parse
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
    Op,
    Or,
    Quantified,
    Quantifier,
    Truth,
    XPathExists,
)
from tocsin.model.lookup import lookup
from tocsin.model.predicate import Accepts, AnyPattern, AnyWord, Pattern, Phrase, Predicate, Range, Ranges, Test
from tocsin.model.text import has_phrase, like, missing_words, parse_words, pattern_text, tokens
from tocsin.model.values import (
    Constant,
    Kind,
    Number,
    compare_to_constant,
    compare_values,
    is_null,
    kind_of,
    moment,
)

Event = Mapping[str, object]
History = Sequence[Event]


def evaluate(condition: Condition, event: Event, history: History = ()) -> bool | None:
    """Return TRUE, FALSE or NULL (None). Linear in the condition, and in the history if it is named.

    >>> evaluate(parse("price < 10 OR author = 'Smith'"), {"price": 12}) is None
    True
    """
    waiting: list[tuple[Condition, bool]] = [(condition, False)]
    done: list[bool | None] = []
    while waiting:
        node, ready = waiting.pop()
        if isinstance(node, (And, Or)):
            if not ready:
                waiting.append((node, True))
                waiting.extend((operand, False) for operand in node.operands)
                continue
            start = len(done) - len(node.operands)
            values = done[start:]
            done[start:] = [all_of(values) if isinstance(node, And) else any_of(values)]
        elif isinstance(node, (Not, IsTruth)):
            if not ready:
                waiting += [(node, True), (node.operand, False)]
                continue
            value = done.pop()
            if isinstance(node, IsTruth):
                done.append((value is node.value) != node.negated)
            else:
                done.append(None if value is None else not value)
        else:
            done.append(_ATOMS[type(node)](node, event, history))
    return done.pop()


def all_of(values: Sequence[bool | None]) -> bool | None:
    """The AND of truth values."""
    return False if False in values else None if None in values else True


def any_of(values: Sequence[bool | None]) -> bool | None:
    """The OR of truth values."""
    return True if True in values else None if None in values else False


def _judge(op: Op, sign: int | None) -> bool | None:
    return None if sign is None else op.holds(sign)


def _compare(event: Event, attribute: str, op: Op, constant: Any) -> bool | None:
    return _judge(op, compare_to_constant(lookup(event, attribute), constant))


def _in_list(node: InList, event: Event, _: History) -> bool | None:
    value = lookup(event, node.attribute)
    signs = [None if c is None else compare_to_constant(value, c) for c in node.constants]  # type: ignore[arg-type]  # slots are bound
    return any_of([_judge(Op.EQ, sign) for sign in signs])


def _text(event: Event, attribute: str, judge: Callable[[str], bool]) -> bool | None:
    value = lookup(event, attribute)
    return judge(value) if isinstance(value, str) else None


def _has_words(node: HasWords, event: Event, _: History) -> bool | None:
    return _text(event, node.attribute, lambda text: not missing_words(text, parse_words(str(node.text))))


def _has_phrase(node: HasPhrase, event: Event, _: History) -> bool | None:
    return _text(event, node.attribute, lambda text: has_phrase(text, tokens(str(node.text))))


@lru_cache(maxsize=10_000)
def _like(pattern: str, escape: str | None, ignore_case: bool) -> Callable[[str], bool]:
    return like(pattern, escape, ignore_case)


def _like_pattern(node: Like, event: Event, _: History) -> bool | None:
    escape = None if node.escape is None else str(node.escape)
    return _text(event, node.attribute, _like(str(node.pattern), escape, node.ignore_case))


def _array_contains(node: ArrayContains, event: Event, _: History) -> bool | None:
    value = lookup(event, node.attribute)
    constant: Any = node.constant
    if not isinstance(value, (list, tuple)):
        return None
    return any(compare_to_constant(item, constant) == 0 for item in value)


def _compare_attributes(node: AttributeComparison, event: Event, _: History) -> bool | None:
    return _judge(node.op, compare_values(lookup(event, node.left), lookup(event, node.right)))


def _xpath_exists(node: XPathExists, event: Event, _: History) -> bool | None:
    # Only who asks for XML pays for lxml.
    from tocsin.predicates.xpath.oracle import evaluate as selects
    from tocsin.predicates.xpath.parse import parse_xpath

    value = lookup(event, node.attribute)
    if not isinstance(value, (str, bytes)):
        return None
    try:
        return selects(parse_xpath(str(node.path)), value)
    except EventError:
        return None


def _selected(terms: Sequence[HistoryTerm], event: Event, history: History) -> list[Event]:
    """The earlier events that make every term TRUE."""

    def holds_for(old: Event, term: HistoryTerm) -> bool | None:
        if isinstance(term, OldComparedToNew):
            return _judge(term.op, compare_values(lookup(old, term.old), lookup(event, term.new)))
        if isinstance(term, OldComparedToConstant):
            return _compare(old, term.old, term.op, term.constant)
        return is_null(lookup(old, term.old)) != term.negated

    return [old for old in history if all(holds_for(old, term) is True for term in terms)]


def _exists(node: Exists, event: Event, history: History) -> bool | None:
    return bool(_selected(node.terms, event, history))


def _quantified(node: Quantified, event: Event, history: History) -> bool | None:
    value = lookup(event, node.attribute)
    selected = _selected(node.terms, event, history)
    values = [_judge(node.op, compare_values(value, lookup(old, node.old))) for old in selected]
    return any_of(values) if node.quantifier is Quantifier.ANY else all_of(values)


_Evaluator = Callable[[Any, Event, History], bool | None]
_ATOMS: dict[type, _Evaluator] = {
    Truth: lambda node, _event, _history: node.value,
    Comparison: lambda node, event, _: _compare(event, node.attribute, node.op, node.constant),
    Between: lambda node, event, _: all_of(
        [_compare(event, node.attribute, Op.GE, node.low), _compare(event, node.attribute, Op.LE, node.high)]
    ),
    InList: _in_list,
    IsNull: lambda node, event, _: is_null(lookup(event, node.attribute)),
    AttributeComparison: _compare_attributes,
    Like: _like_pattern,
    ArrayContains: _array_contains,
    HasWords: _has_words,
    HasPhrase: _has_phrase,
    XPathExists: _xpath_exists,
    Exists: _exists,
    Quantified: _quantified,
}


def _any_word(test: AnyWord, event: Event, _: History) -> bool | None:
    return _text(event, test.attribute, lambda text: len(missing_words(text, test.words)) < len(test.words))


def _any_pattern(test: AnyPattern, event: Event, _: History) -> bool | None:
    return _text(event, test.attribute, lambda text: any(_matcher(pattern)(text) for pattern in test.patterns))


@lru_cache(maxsize=10_000)
def _matcher(pattern: Pattern) -> Callable[[str], bool]:
    return like(pattern_text(pattern), "\\", pattern.ignore_case)


_TESTS: dict[type, _Evaluator] = {
    AnyWord: _any_word,
    AnyPattern: _any_pattern,
    Phrase: lambda test, event, _: _text(event, test.attribute, lambda text: has_phrase(text, list(test.words))),
    ArrayContains: _array_contains,
    AttributeComparison: _compare_attributes,
    XPathExists: _xpath_exists,
    Exists: _exists,
    Quantified: _quantified,
}


def evaluate_test(test: Test, event: Event, history: History = ()) -> bool | None:
    """Return TRUE, FALSE or NULL (None) for one test of a normal form."""
    return _TESTS[type(test)](test, event, history)


def holds(predicate: Predicate, event: Event, history: History = ()) -> bool:
    """Tell whether one predicate of a normal form holds for an event."""
    if isinstance(predicate, Ranges):
        return _in_ranges(predicate, lookup(event, predicate.attribute))
    value = evaluate_test(predicate.test, event, history)
    return (Accepts.NULL if value is None else Accepts.TRUE if value else Accepts.FALSE) in predicate.accepts


def _in_ranges(predicate: Ranges, value: object) -> bool:
    if predicate.kind is Kind.ANY:
        return predicate.or_null if is_null(value) else bool(predicate.ranges)
    if kind_of(value) is not predicate.kind:
        return predicate.or_null
    return any(_in_range(value, candidate) for candidate in predicate.ranges)


def _in_range(value: Any, candidate: Range) -> bool:
    above = candidate.low is None or _distance(value, candidate.low) >= (0 if candidate.low_closed else 1)
    return above and (
        candidate.high is None or _distance(value, candidate.high) <= (0 if candidate.high_closed else -1)
    )


def _distance(value: Any, end: Any) -> int:
    """The sign of value minus end, for an end of the value's kind."""
    if isinstance(end, Number):
        sign = compare_to_constant(value, end.exact)
    elif kind_of(value) is Kind.TIME:
        when = moment(value)
        sign = (when > (end, 0)) - (when < (end, 0))
    else:
        constant: Constant = end
        sign = compare_to_constant(value, constant)
    assert sign is not None, "the kinds were compared before"
    return sign


class ReferenceMatcher:
    """Match by evaluating every subscription on every event.

    >>> matcher = ReferenceMatcher()
    >>> matcher.subscribe("smith", "author = 'Smith' AND price BETWEEN 10 AND 30", score=2.0)
    >>> matcher.match({"author": "Smith", "price": 12})
    [('smith', 2.0)]
    """

    def __init__(self) -> None:
        self._conditions: dict[str, Condition] = {}
        self._scores: dict[str, float] = {}
        self._history: list[Event] = []

    def subscribe(self, id: str, where: str, score: float = 1.0) -> None:  # the public name of the argument
        """Add a subscription, or replace the one of that id."""
        self._conditions[id] = parse(where)
        self._scores[id] = score

    def unsubscribe(self, id: str) -> None:
        """Remove a subscription."""
        self._require(id)
        del self._conditions[id], self._scores[id]

    def rescore(self, id: str, score: float) -> None:
        """Give a subscription another score."""
        self._require(id)
        self._scores[id] = score

    def _require(self, id: str) -> None:
        if id not in self._conditions:
            raise UnknownSubscriptionError(
                f"there is no subscription {id!r}", f"There are {len(self)}; list them by iteration"
            )

    def match(self, event: Event) -> list[tuple[str, float]]:
        """Return id and score of each subscription that holds, in the order of subscribing."""
        return [
            (id, self._scores[id])
            for id, condition in self._conditions.items()
            if evaluate(condition, event, self._history) is True
        ]

    def publish(self, event: Event) -> list[tuple[str, float]]:
        """Match an event, then remember it as history."""
        matches = self.match(event)
        self._history.append(event)
        return matches

    def __len__(self) -> int:
        return len(self._conditions)

    def __iter__(self) -> Iterator[str]:
        return iter(self._conditions)

    def __contains__(self, id: object) -> bool:
        return id in self._conditions
