"""has_words and has_phrase with options on one attribute, as a segment uses them."""

from collections.abc import Mapping, Sequence
from typing import Self

from tocsin.model.predicate import Test, WordWindow
from tocsin.predicates.texts import TextFamily
from tocsin.predicates.windows.index import Windows


class WindowFamily(TextFamily):
    """Word windows on one attribute."""

    index_type = Windows

    @classmethod
    def build(cls, attribute: str, tests: Sequence[Test], namespaces: Mapping[str, str]) -> Self:  # noqa: ARG003  # for XPath
        """Build from windows."""
        return cls(attribute, Windows.build([test for test in tests if isinstance(test, WordWindow)]))
