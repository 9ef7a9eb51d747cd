"""Families that store the definitions of their tests as text, and build what they need from them."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

import numpy.typing as npt

from tocsin.arrays import Strings
from tocsin.model.codec import decode_test, encode_test
from tocsin.model.events import EventBatch
from tocsin.model.predicate import Test
from tocsin.model.values import Kind
from tocsin.predicates.protocol import Arrays, Probed


class DefinedFamily(ABC):
    """A family whose state is the definitions of its tests."""

    texts = None
    kinds: Collection[tuple[str, Kind]] = ()

    def __init__(self, attribute: str, tests: Sequence[Test]) -> None:
        self.count = len(tests)
        self.attributes = {attribute}
        self._tests = tests

    @classmethod
    def build(cls, attribute: str, tests: Sequence[Test], namespaces: Mapping[str, str]) -> Self:  # noqa: ARG003  # for XPath
        """Keep the definitions."""
        return cls(attribute, tests)

    @classmethod
    def from_arrays(cls, attribute: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Read the definitions."""
        return cls(attribute, decode_tests(arrays))

    def arrays(self) -> Arrays:
        """Return the definitions as text."""
        return encode_tests(self._tests)

    def check_arrays(self) -> None:  # noqa: B027  # no subclass has more to demand
        """Demand nothing: the definitions were read, and no kernel reads their arrays."""

    @abstractmethod
    def probe(self, batch: EventBatch) -> Probed:
        """Judge the tests for every event of a batch."""


def encode_tests(tests: Sequence[Test]) -> Arrays:
    """Return tests as arrays of their JSON texts."""
    texts = Strings.of([encode_test(test) for test in tests])
    return {"offsets": texts.offsets, "bytes": texts.data}


def decode_tests(arrays: Mapping[str, npt.NDArray[Any]]) -> list[Test]:
    """Return the tests that `encode_tests` wrote."""
    texts = Strings(arrays["offsets"], arrays["bytes"])
    return [decode_test(texts[place]) for place in range(len(texts))]
