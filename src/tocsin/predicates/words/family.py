"""has_words and has_phrase on one attribute, as a segment uses them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from tocsin.model.events import EventBatch
from tocsin.model.predicate import AnyWord, Phrase, Test
from tocsin.predicates.protocol import Arrays, Probed, Slices, presence, text_column
from tocsin.predicates.words.index import Vocabulary


class WordFamily:
    """has_words and has_phrase on one attribute."""

    def __init__(self, attribute: str, vocabulary: Vocabulary) -> None:
        self.attributes = {attribute}
        self.count = vocabulary.predicate_count
        self._attribute = attribute
        self._vocabulary = vocabulary

    @classmethod
    def build(cls, attribute: str, tests: Sequence[Test], namespaces: Mapping[str, str]) -> "WordFamily":  # noqa: ARG003  # for XPath only
        """Build from tests, those on words before those on phrases."""
        words = [test.words for test in tests if isinstance(test, AnyWord)]
        return cls(attribute, Vocabulary.build(words, [test.words for test in tests if isinstance(test, Phrase)]))

    @classmethod
    def from_arrays(cls, attribute: str, arrays: Mapping[str, npt.NDArray[Any]]) -> "WordFamily":
        """The family that `arrays` came from, without copying."""
        return cls(attribute, Vocabulary.from_arrays(arrays))

    def arrays(self) -> Arrays:
        """The state as named arrays."""
        return self._vocabulary.arrays()

    def probe(self, batch: EventBatch) -> Probed:
        """Find the words and phrases of every text in one pass."""
        texts = text_column(batch, self._attribute)
        return Probed(Slices(*self._vocabulary.probe_batch(texts)), presence(texts))
