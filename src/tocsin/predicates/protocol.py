"""What a segment asks of a family of tests."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy.typing as npt
import pyarrow as pa

from tocsin.arrays import Int32s, Ragged
from tocsin.model.events import EventBatch
from tocsin.model.predicate import Test
from tocsin.model.readable import decoded
from tocsin.model.values import Kind

if TYPE_CHECKING:
    from tocsin.predicates.texts import TextIndex

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Probed:
    """Which tests of a family hold for each event, and which are NULL.

    A family on one attribute has `present`: its tests are NULL together. Another one has `null`, test by test.
    """

    true: Ragged
    present: Int32s | None = None
    """0 where the attribute has a value that the tests can judge, -1 where they are all NULL."""
    null: Ragged | None = None
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

    def check_arrays(self) -> None:
        """Demand what keeps the kernels within their arrays: once, of a family from a file."""

    def probe(self, batch: EventBatch) -> Probed:
        """Judge the tests for every event of a batch."""

    @property
    def texts(self) -> "TextIndex | None":
        """The index that judges the tests, if they are on nothing but the text of one attribute."""

    @property
    def attributes(self) -> set[str]:
        """The attributes that the tests name."""

    @property
    def kinds(self) -> Collection[tuple[str, Kind]]:
        """The attributes whose kind the tests tell, with that kind."""


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
