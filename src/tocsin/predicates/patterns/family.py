"""LIKE and ILIKE on one attribute, as a segment uses them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from tocsin.model.events import EventBatch
from tocsin.model.predicate import AnyPattern, Test
from tocsin.predicates.patterns.index import Patterns
from tocsin.predicates.protocol import Arrays, Probed, Slices, presence, text_column


class PatternFamily:
    """LIKE and ILIKE on one attribute."""

    def __init__(self, attribute: str, patterns: Patterns) -> None:
        self.attributes = {attribute}
        self.count = patterns.predicate_count
        self._attribute = attribute
        self._patterns = patterns

    @classmethod
    def build(cls, attribute: str, tests: Sequence[Test], namespaces: Mapping[str, str]) -> "PatternFamily":  # noqa: ARG003  # for XPath only
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
