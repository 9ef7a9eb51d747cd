"""PHASE 1 for tests: one family for each kind of test and attribute says which of its tests hold for each event.

The tests of a segment are numbered family by family, so that the tests that hold for an event, family after family, are
sorted. A family on one attribute has a column of its own among the codes: 0 where the attribute has a value that its
tests can judge, -1 where they all are NULL.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.engine.attributes import compare_columns
from tocsin.model.codec import decode_test, encode_test
from tocsin.model.condition import AttributeComparison
from tocsin.model.events import EventBatch
from tocsin.model.predicate import AnyWord, Phrase, Test
from tocsin.predicates.domain import Strings
from tocsin.predicates.words import Vocabulary
from tocsin.reference import evaluate_test

Arrays = dict[str, npt.NDArray[Any]]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Slices:
    """A list of numbers for each event: those of event i are `values[starts[i]:starts[i + 1]]`, ascending."""

    starts: Int64
    values: Int32

    @classmethod
    def of_table(cls, table: npt.NDArray[np.bool_]) -> "Slices":
        """From a truth table with a row for each event and a column for each number."""
        starts = np.concatenate([[0], np.cumsum(table.sum(axis=1))])
        return cls(starts.astype(np.int64), np.nonzero(table)[1].astype(np.int32))

    @classmethod
    def side_by_side(cls, parts: Sequence["Slices"], first_numbers: Sequence[int], events: int) -> "Slices":
        """The lists of several families, one behind the other, numbered from the first number of each family."""
        if not parts:
            return cls(np.zeros(events + 1, np.int64), np.empty(0, np.int32))
        sizes = np.stack([np.diff(part.starts) for part in parts], axis=1)
        ends = np.cumsum(sizes.ravel()).reshape(sizes.shape)
        values = np.empty(int(ends[-1, -1]) if events else 0, np.int32)
        for number, (part, first) in enumerate(zip(parts, first_numbers, strict=True)):
            shift = np.repeat(ends[:, number] - sizes[:, number] - part.starts[:-1], sizes[:, number])
            values[np.arange(part.values.size) + shift] = part.values + first
        return cls(np.concatenate([[0], ends[:, -1]]).astype(np.int64), values)


@dataclass(frozen=True)
class Probed:
    """Which tests of a family hold for each event, and which are NULL: by the attribute, or test by test."""

    true: Slices
    present: Int32 | None = None
    null: Slices | None = None


class Family(Protocol):
    """The tests of one kind, on one attribute if its kind has one."""

    count: int

    def probe(self, batch: EventBatch) -> Probed:
        """Judge the tests for every event of a batch."""

    def arrays(self) -> Arrays:
        """The state as named arrays."""


class Words:
    """has_words and has_phrase on one attribute."""

    def __init__(self, attribute: str, vocabulary: Vocabulary) -> None:
        self.attribute = attribute
        self.vocabulary = vocabulary
        self.count = vocabulary.predicate_count

    @classmethod
    def build(cls, attribute: str, tests: Sequence[Test]) -> "Words":
        """Build from tests, those on words before those on phrases."""
        words = [test.words for test in tests if isinstance(test, AnyWord)]
        return cls(attribute, Vocabulary.build(words, [test.words for test in tests if isinstance(test, Phrase)]))

    @classmethod
    def from_arrays(cls, attribute: str, arrays: Mapping[str, npt.NDArray[Any]]) -> "Words":
        return cls(attribute, Vocabulary.from_arrays(arrays))

    def probe(self, batch: EventBatch) -> Probed:
        texts = text_column(batch, self.attribute)
        starts, values = self.vocabulary.probe_batch(texts)
        return Probed(Slices(starts, values), np.where(np.asarray(texts.is_valid()), 0, -1).astype(np.int32))

    def arrays(self) -> Arrays:
        return self.vocabulary.arrays()


class Listed:
    """Tests that are few or have no index: judged one by one, from their definitions."""

    def __init__(self, tests: Sequence[Test]) -> None:
        self.tests = tests
        self.count = len(tests)

    @classmethod
    def build(cls, attribute: str, tests: Sequence[Test]) -> "Listed":
        del attribute
        return cls(tests)

    @classmethod
    def from_arrays(cls, attribute: str, arrays: Mapping[str, npt.NDArray[Any]]) -> "Listed":
        texts = Strings(arrays["offsets"], arrays["bytes"])
        return cls.build(attribute, [decode_test(texts[place]) for place in range(len(texts))])

    def probe(self, batch: EventBatch) -> Probed:
        true = np.zeros((len(batch), self.count), bool)
        null = np.zeros_like(true)
        for number, test in enumerate(self.tests):
            self._judge(test, batch, true[:, number], null[:, number])
        return Probed(Slices.of_table(true), null=Slices.of_table(null))

    def _judge(self, test: Test, batch: EventBatch, true: npt.NDArray[np.bool_], null: npt.NDArray[np.bool_]) -> None:
        if isinstance(test, AttributeComparison) and compare_columns(test, batch, true, null):
            return
        for row in range(len(batch)):
            truth = evaluate_test(test, batch.event(row))
            true[row], null[row] = truth is True, truth is None

    def arrays(self) -> Arrays:
        texts = Strings.of([encode_test(test) for test in self.tests])
        return {"offsets": texts.offsets, "bytes": texts.data}


def text_column(batch: EventBatch, attribute: str) -> pa.Array:
    """The texts of an attribute as an Arrow array; what is no string is NULL."""
    column = batch.column(attribute)
    if isinstance(column, list):
        return pa.array([value if isinstance(value, str) else None for value in column], pa.string())
    if column is not None and pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column is None or not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return pa.nulls(len(batch), pa.string())
    return column


FAMILIES: dict[str, Any] = {"words": Words, "listed": Listed}
"""The families by the names under which segments store them."""


def family_of(test: Test) -> tuple[str, str]:
    """The family that a test belongs to, and the attribute that the family is on."""
    if isinstance(test, (AnyWord, Phrase)):
        return ("words", test.attribute) if test.words else ("listed", "")
    return "listed", ""


def order_of(test: Test) -> int:
    """The place of a test's type within its family."""
    return 1 if isinstance(test, Phrase) else 0


def is_selective(test: Test) -> bool:
    """Whether few events make such a test TRUE, so that a conjunction is well filed under it."""
    return not isinstance(test, AttributeComparison)


Builder = Callable[[str, Sequence[Test]], Family]
