"""has_words and has_phrase on one attribute, as a segment uses them."""

from collections.abc import Mapping, Sequence
from typing import Self

from tocsin.model.predicate import AnyWord, Phrase, Test
from tocsin.predicates.texts import TextFamily
from tocsin.predicates.words.index import Vocabulary


class WordFamily(TextFamily):
    """has_words and has_phrase on one attribute."""

    index_type = Vocabulary

    @classmethod
    def build(cls, attribute: str, tests: Sequence[Test], namespaces: Mapping[str, str]) -> Self:  # noqa: ARG003  # for XPath
        """Build from tests, those on words before those on phrases."""
        words = [test.words for test in tests if isinstance(test, AnyWord)]
        return cls(attribute, Vocabulary.build(words, [test.words for test in tests if isinstance(test, Phrase)]))
