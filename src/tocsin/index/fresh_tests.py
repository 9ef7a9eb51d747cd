"""New subscriptions with tests, filed so that a single event is compared with few of them by their definition.

A conjunction that cannot hold without a certain word, or without a certain attribute, is filed under it: an event looks
up the words and attributes that it has. Nothing is ever taken out; whoever asks knows which subscriptions are gone.
"""

from typing import NamedTuple

from tocsin.language.normalise import Expression
from tocsin.model.events import Event, EventBatch
from tocsin.model.expression_tree import is_derived
from tocsin.model.predicate import Accepts, AnyPattern, AnyWord, Conjunction, Predicate, Ranges
from tocsin.model.text import word_places

MOST_WORDS = 8
"""A test for one of more words is not filed under each of them."""


class _Filed(NamedTuple):
    """A subscription that is filed."""

    number: int
    words: frozenset[str] | None
    """The conjunction holds if the text has these words; None: it is judged by its definition."""


class FreshTests:
    """Subscriptions by number, under the words and attributes that they need."""

    def __init__(self) -> None:
        self._by_word: dict[str, dict[str, list[_Filed]]] = {}
        """By attribute and word."""
        self._by_attribute: dict[str, list[_Filed]] = {}

    def file(self, number: int, expression: Expression) -> bool:
        """File a subscription; return False if it may hold for any event, or may take long to judge."""
        if expression.nesting:
            return False
        lists = [self._lists_of(conjunction) for conjunction in expression.leaves]
        if not all(lists):
            return False
        for conjunction, several in zip(expression.leaves, lists, strict=True):
            filed = _Filed(number, _only_words(conjunction))
            for each in several:
                each.append(filed)
        return True

    def _lists_of(self, conjunction: Conjunction) -> list[list[_Filed]]:
        """The lists to file a conjunction in: of words that it needs, or else of an attribute, with few in them."""
        if not all(map(_is_quickly_judged, conjunction)):
            return []
        choices = [self._lists_of_words(test) for test in map(_needed_words, conjunction) if test is not None]
        if not choices:
            attributes = filter(None, map(_needed_attribute, conjunction))
            choices = [[self._by_attribute.setdefault(attribute, [])] for attribute in attributes]
        return min(choices, key=lambda lists: sum(map(len, lists)), default=[])

    def _lists_of_words(self, test: AnyWord) -> list[list[_Filed]]:
        by_word = self._by_word.setdefault(test.attribute, {})
        return [by_word.setdefault(word.text, []) for word in test.words]

    def search(self, event: Event, batch: EventBatch) -> tuple[set[int], set[int]]:
        """Return the subscriptions that hold for an event, and those that may, of those that are filed."""
        holding: set[int] = set()
        possible: set[int] = set()
        for name, value in event.items():
            if value is None:
                continue
            if name in self._by_attribute:
                possible.update(filed.number for filed in self._by_attribute[name])
            by_word = self._by_word.get(name)
            if by_word is None:
                continue
            text = value if type(value) is str and value.isascii() else (batch.values(name) or [None])[0]
            if not isinstance(text, str):
                continue
            present = word_places(text).distinct
            for word in by_word.keys() & present:
                for filed in by_word[word]:
                    if filed.words is None:
                        possible.add(filed.number)
                    elif filed.words <= present:
                        holding.add(filed.number)
        return holding, possible


def _is_quickly_judged(predicate: Predicate) -> bool:
    return isinstance(predicate, Ranges) or isinstance(predicate.test, (AnyWord, AnyPattern))


def _is_direct(attribute: str) -> bool:
    """Whether an event has an attribute exactly if it has its name."""
    return "." not in attribute and not is_derived(attribute)


def _needed_words(predicate: Predicate) -> AnyWord | None:
    """The test, if a predicate needs one of some whole words."""
    if isinstance(predicate, Ranges) or predicate.accepts != Accepts.TRUE or not isinstance(predicate.test, AnyWord):
        return None
    test = predicate.test
    is_filed = len(test.words) <= MOST_WORDS and not any(word.prefix for word in test.words)
    return test if is_filed and _is_direct(test.attribute) else None


def _only_words(conjunction: Conjunction) -> frozenset[str] | None:
    """The words of one text that a conjunction consists of; None if there is more to it."""
    tests = list(map(_needed_words, conjunction))
    if (
        any(test is None or len(test.words) > 1 for test in tests)
        or len({test.attribute for test in tests if test}) > 1
    ):
        return None
    return frozenset(test.words[0].text for test in tests if test)


def _needed_attribute(predicate: Predicate) -> str | None:
    """The attribute without which a predicate does not hold; None if there is none."""
    if isinstance(predicate, Ranges):
        attribute, is_needed = predicate.attribute, not predicate.or_null
    else:
        assert isinstance(predicate.test, (AnyWord, AnyPattern))
        attribute, is_needed = predicate.test.attribute, Accepts.NULL not in predicate.accepts
    return attribute if is_needed and _is_direct(attribute) else None
