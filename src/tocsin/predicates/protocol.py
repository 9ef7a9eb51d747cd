"""What a segment asks of a family of tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.model.events import EventBatch
from tocsin.model.predicate import Test
from tocsin.model.readable import decoded

Arrays = dict[str, npt.NDArray[Any]]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Slices:
    """A list of numbers for each event: those of event i are `values[starts[i]:starts[i + 1]]`, ascending."""

    starts: Int64
    values: Int32

    @classmethod
    def of_table(cls, table: Bools) -> "Slices":
        """Return the lists of a truth table with a row for each event and a column for each number."""
        starts = np.concatenate([[0], np.cumsum(table.sum(axis=1))])
        return cls(starts.astype(np.int64), np.nonzero(table)[1].astype(np.int32))

    @classmethod
    def side_by_side(cls, parts: Sequence["Slices"], first_numbers: Sequence[int], events: int) -> "Slices":
        """Join the lists of several families event by event, numbered from the first number of each family."""
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
    """Which tests of a family hold for each event, and which are NULL.

    A family on one attribute has `present`: its tests are NULL together. Another one has `null`, test by test.
    """

    true: Slices
    present: Int32 | None = None
    """0 where the attribute has a value that the tests can judge, -1 where they are all NULL."""
    null: Slices | None = None
    errors: dict[str, int] = field(default_factory=dict)
    """Values that could not be read, by message."""


class Family(Protocol):
    """The tests of one kind, on one attribute if its kind has one."""

    count: int

    @classmethod
    def build(cls, attribute: str, tests: Sequence[Test], namespaces: Mapping[str, str]) -> Self:
        """Build from distinct tests of this family, which are numbered from 0 in this order."""

    @classmethod
    def from_arrays(cls, attribute: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return the family that `arrays` came from, without copying them."""

    def arrays(self) -> Arrays:
        """Return the state as named arrays, for a segment file."""

    def probe(self, batch: EventBatch) -> Probed:
        """Judge the tests for every event of a batch."""

    @property
    def attributes(self) -> set[str]:
        """The attributes that the tests name."""


def text_column(batch: EventBatch, attribute: str) -> pa.Array:
    """Return the texts of an attribute as an Arrow array; what is not a string is NULL."""
    column = batch.column(attribute)
    if isinstance(column, list):
        return pa.array([value if isinstance(value, str) else None for value in column], pa.large_string())
    if column is not None:
        column = decoded(column)
    if column is None or not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return pa.nulls(len(batch), pa.string())
    return column


def presence(texts: pa.Array) -> Int32:
    """Return 0 where there is a text, -1 where there is none."""
    return np.where(np.asarray(texts.is_valid()), 0, -1).astype(np.int32)
