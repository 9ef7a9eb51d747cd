"""Tests that are few: judged one by one from their definitions, a whole batch at a time where columns allow it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.model.codec import decode_test, encode_test
from tocsin.model.condition import ArrayContains, AttributeComparison, XPathExists
from tocsin.model.events import EventBatch
from tocsin.model.predicate import AnyPattern, AnyWord, Phrase, Test
from tocsin.predicates.attributes.compare import compare_columns
from tocsin.predicates.evaluate import evaluate_test
from tocsin.predicates.protocol import Arrays, Bools, Probed, Slices
from tocsin.predicates.ranges.domain import Strings


class ListedFamily:
    """Comparisons of two attributes, and whatever has no family of its own."""

    def __init__(self, tests: Sequence[Test]) -> None:
        self.count = len(tests)
        self.attributes = {name for test in tests for name in _attributes(test)}
        self._tests = tests

    @classmethod
    def build(cls, attribute: str, tests: Sequence[Test], namespaces: Mapping[str, str]) -> "ListedFamily":  # noqa: ARG003  # for others
        """Keep the definitions."""
        return cls(tests)

    @classmethod
    def from_arrays(cls, attribute: str, arrays: Mapping[str, npt.NDArray[Any]]) -> "ListedFamily":  # noqa: ARG003
        """Read the definitions."""
        return cls(decode_tests(arrays))

    def arrays(self) -> Arrays:
        """The definitions as text."""
        return encode_tests(self._tests)

    def probe(self, batch: EventBatch) -> Probed:
        """Judge every test for every event."""
        true = np.zeros((len(batch), self.count), bool)
        null = np.zeros_like(true)
        for number, test in enumerate(self._tests):
            _judge(test, batch, true[:, number], null[:, number])
        return Probed(Slices.of_table(true), null=Slices.of_table(null))


def encode_tests(tests: Sequence[Test]) -> Arrays:
    """Tests as arrays of their JSON texts."""
    texts = Strings.of([encode_test(test) for test in tests])
    return {"offsets": texts.offsets, "bytes": texts.data}


def decode_tests(arrays: Mapping[str, npt.NDArray[Any]]) -> list[Test]:
    """The tests that `encode_tests` wrote."""
    texts = Strings(arrays["offsets"], arrays["bytes"])
    return [decode_test(texts[place]) for place in range(len(texts))]


def _judge(test: Test, batch: EventBatch, true: Bools, null: Bools) -> None:
    if isinstance(test, AttributeComparison):
        compare_columns(test, batch, true, null)
        return
    for row in range(len(batch)):
        truth = evaluate_test(test, batch.event(row))
        true[row], null[row] = truth is True, truth is None


def _attributes(test: Test) -> tuple[str, ...]:
    if isinstance(test, AttributeComparison):
        return test.left, test.right
    if isinstance(test, (ArrayContains, XPathExists, AnyWord, Phrase, AnyPattern)):
        return (test.attribute,)
    return ()
