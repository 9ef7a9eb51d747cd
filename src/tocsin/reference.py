"""Match by the executable specification: evaluate each condition on each event, in three-valued logic.

It is slow, and every index is tested against it. It evaluates conditions as users write them, without rewriting.
"""

from collections.abc import Callable, Mapping
from typing import Any

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
    InList,
    IsNull,
    IsTruth,
    Like,
    Not,
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
from tocsin.model.elements import elements_of
from tocsin.model.lookup import lookup
from tocsin.model.predicate import WordWindow
from tocsin.model.text import has_phrase, like, missing_words, word_places
from tocsin.model.values import is_null
from tocsin.predicates.evaluate import (
    NO_NAMESPACES,
    Event,
    History,
    all_of,
    any_of,
    compare,
    evaluate_test,
    judge_text,
)


def evaluate(
    condition: Condition, event: Event, history: History = (), namespaces: Mapping[str, str] = NO_NAMESPACES
) -> bool | None:
    """Return TRUE, FALSE or NULL (None). Linear in the condition, and in the history if it is named.

    `namespaces` has the prefixes that XPath expressions use.

    >>> from tocsin.language.parse import parse
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
        elif isinstance(node, XPathExists):
            done.append(evaluate_test(node, event, history, namespaces))
        else:
            done.append(_ATOMS[type(node)](node, event, history))
    return done.pop()


def _in_list(node: InList, event: Event, _: History) -> bool | None:
    return any_of([None if c is None else compare(event, node.attribute, Op.EQ, c) for c in node.constants])


def _has_words(node: HasWords, event: Event, _: History) -> bool | None:
    demanded = demanded_words(node.attribute, str(node.text), node.exact_case)
    words = demanded.words
    if node.near is None and node.min_words is None and not node.exact_case:
        return all_of(
            [
                judge_text(event, demanded.attribute(word), lambda text, word=word: not missing_words(text, [word]))  # type: ignore[misc]  # bound at once
                for word in words
            ]
        )
    attribute = demanded.one_attribute()
    window = WordWindow(attribute, words, node.min_words or len(words), node.near, False, node.exact_case)
    return judge_text(event, attribute, lambda text: word_places(text).have(window))


def _has_phrase(node: HasPhrase, event: Event, _: History) -> bool | None:
    demanded = demanded_phrase(node.attribute, str(node.text), node.exact_case)
    words, attribute = demanded.words, demanded.whole
    if not node.slop and not node.exact_case:
        return judge_text(event, attribute, lambda text: has_phrase(text, [word.text for word in words]))
    window = WordWindow(attribute, words, len(words), len(words) - 1 + node.slop, True, node.exact_case)
    return judge_text(event, attribute, lambda text: word_places(text).have(window))


def _like_pattern(node: Like, event: Event, _: History) -> bool | None:
    escape = None if node.escape is None else str(node.escape)
    return judge_text(event, node.attribute, like(str(node.pattern), escape, node.ignore_case))


def _unnest_exists(node: UnnestExists, event: Event, _: History) -> bool | None:
    return any(evaluate(node.condition, element) is True for element in elements_of(event, node.attribute))


_TESTS = (
    RegexpMatches,
    ArrayContains,
    WithinDistance,
    WithinPolygon,
    AttributeComparison,
    Exists,
    Quantified,
    Aggregated,
)
_Evaluator = Callable[[Any, Event, History], bool | None]
_ATOMS: dict[type, _Evaluator] = {
    Truth: lambda node, _event, _history: node.value,
    Comparison: lambda node, event, _: compare(event, node.attribute, node.op, node.constant),
    Between: lambda node, event, _: all_of(
        [compare(event, node.attribute, Op.GE, node.low), compare(event, node.attribute, Op.LE, node.high)]
    ),
    InList: _in_list,
    IsNull: lambda node, event, _: is_null(lookup(event, node.attribute)),
    Like: _like_pattern,
    HasWords: _has_words,
    HasPhrase: _has_phrase,
    UnnestExists: _unnest_exists,
    **dict.fromkeys(_TESTS, evaluate_test),
}
