"""Words, phrases and patterns on one attribute: families of arrays that need no definitions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from tocsin.engine.families.protocol import Arrays, Probed, Slices, presence, text_column
from tocsin.engine.options import Options
from tocsin.model.events import EventBatch
from tocsin.model.predicate import AnyPattern, AnyWord, Phrase, Test
from tocsin.predicates.patterns import Patterns
from tocsin.predicates.words import Vocabulary


class WordFamily:
    """has_words and has_phrase on one attribute."""

    def __init__(self, attribute: str, vocabulary: Vocabulary) -> None:
        self.attributes = {attribute}
        self.count = vocabulary.predicate_count
        self._attribute = attribute
        self._vocabulary = vocabulary

    @classmethod
    def build(cls, attribute: str, tests: Sequence[Test], options: Options) -> "WordFamily":  # noqa: ARG003  # it has no use for options
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


class PatternFamily:
    """LIKE and ILIKE on one attribute."""

    def __init__(self, attribute: str, patterns: Patterns) -> None:
        self.attributes = {attribute}
        self.count = patterns.predicate_count
        self._attribute = attribute
        self._patterns = patterns

    @classmethod
    def build(cls, attribute: str, tests: Sequence[Test], options: Options) -> "PatternFamily":  # noqa: ARG003  # it has no use for options
        """Build from tests on patterns."""
        return cls(attribute, Patterns.build([test.patterns for test in tests if isinstance(test, AnyPattern)]))

    @classmethod
    def from_arrays(cls, attribute: str, arrays: Mapping[str, npt.NDArray[Any]]) -> "PatternFamily":
        """The family that `arrays` came from, without copying."""
        return cls(attribute, Patterns.from_arrays(arrays))

    def arrays(self) -> Arrays:
        """The state as named arrays."""
        return self._patterns.arrays()

    def probe(self, batch: EventBatch) -> Probed:
        """Find the patterns of every text in one pass."""
        texts = text_column(batch, self._attribute)
        found = self._patterns.probe_batch(texts)
        return Probed(Slices(found.offsets, found.predicates), presence(texts))
