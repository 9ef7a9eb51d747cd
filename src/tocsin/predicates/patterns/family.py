"""LIKE and ILIKE on one attribute, as a segment uses them."""

from collections.abc import Mapping, Sequence
from typing import Self

from tocsin.model.predicate import AnyPattern, Test
from tocsin.predicates.patterns.index import Patterns
from tocsin.predicates.texts import TextFamily


class PatternFamily(TextFamily):
    """LIKE and ILIKE on one attribute."""

    index_type = Patterns

    @classmethod
    def build(cls, attribute: str, tests: Sequence[Test], namespaces: Mapping[str, str]) -> Self:  # noqa: ARG003  # for XPath
        """Build from tests on patterns."""
        return cls(attribute, Patterns.build([test.patterns for test in tests if isinstance(test, AnyPattern)]))
