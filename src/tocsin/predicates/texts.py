"""Columns of texts: as the bytes that kernels read, and what the families of words and patterns share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin._compile import kernel
from tocsin.arrays import Bools, Int32s, Int64s, Ragged, UInt8s
from tocsin.model.events import EventBatch
from tocsin.predicates.protocol import Arrays, Probed, presence, text_column

ASCII = 128
"""Bytes below this one are characters by themselves; texts with others are not ASCII."""


class TextBytes(NamedTuple):
    """UTF-8 in one buffer: text r is ``data[offsets[r]:offsets[r + 1]]``, which is empty for a NULL."""

    offsets: Int64s
    data: UInt8s


def as_bytes(column: pa.Array | pa.ChunkedArray, rewrite: Callable[[str], str] | None = None) -> TextBytes:
    """Return a string column as bytes without a copy; with `rewrite`, texts that are not ASCII are replaced.

    ASCII texts are left as they are: kernels lower letters as they go.

    >>> as_bytes(pa.array(["Ab", None, "É"]), str.lower).data.tobytes().decode()
    'Abé'
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    column = pc.fill_null(column.cast(pa.large_string()), "")
    texts = _read(column)
    if rewrite is None:
        return texts
    wide = has_wide_bytes(texts.offsets, texts.data)
    if not wide.any():
        return texts
    mask = pa.array(wide)
    rewritten = [rewrite(text) for text in column.filter(mask).to_pylist()]
    return _read(pc.replace_with_mask(column, mask, pa.array(rewritten, pa.large_string())))


def _read(column: pa.Array) -> TextBytes:
    if not len(column):
        return TextBytes(np.zeros(1, np.int64), np.empty(0, np.uint8))
    _, offsets, data = column.buffers()
    first = column.offset
    bounds = np.frombuffer(offsets, np.int64)[first : first + len(column) + 1]
    return TextBytes(bounds, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8))


@kernel
def has_wide_bytes(offsets: Int64s, data: UInt8s) -> Bools:
    """Tell for each text whether it has bytes that are not ASCII."""
    wide = np.zeros(len(offsets) - 1, np.bool_)
    for row in range(len(offsets) - 1):
        # An OR of all bytes is a loop without a branch, which the compiler makes vectors of.
        all_bits = np.uint8(0)
        for i in range(offsets[row], offsets[row + 1]):
            all_bits |= data[i]
        wide[row] = all_bits >= ASCII
    return wide


class TextIndex(ABC):
    """An index of predicates on texts. Its whole state is arrays, which may be read-only and mapped from a file."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._arrays = dict(arrays)

    def arrays(self) -> Arrays:
        """Return the whole state as named arrays, which the constructor takes."""
        return dict(self._arrays)

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(array.nbytes for array in self._arrays.values())

    @property
    @abstractmethod
    def predicate_count(self) -> int:
        """The number of predicates."""

    @abstractmethod
    def probe_batch(self, column: pa.Array | pa.ChunkedArray) -> tuple[Int64s, Int32s]:
        """Return where the predicates that hold for each text start, and these, ascending; a NULL has none."""

    @abstractmethod
    def probe_text(self, text: str) -> Int32s:
        """Return the predicates that hold for one text, ascending."""


class TextFamily(ABC):
    """A family on the texts of one attribute, judged by an index."""

    index_type: ClassVar[type[TextIndex]]

    def __init__(self, attribute: str, index: TextIndex) -> None:
        self.attributes = {attribute}
        self.count = index.predicate_count
        self._attribute = attribute
        self.texts: TextIndex | None = index
        self._index = index

    @classmethod
    def from_arrays(cls, attribute: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return the family that `arrays` came from, without copying them."""
        return cls(attribute, cls.index_type(arrays))

    def arrays(self) -> Arrays:
        """Return the state as named arrays."""
        return self._index.arrays()

    def probe(self, batch: EventBatch) -> Probed:
        """Judge all tests on every text in one pass; events without a text cost nothing."""
        if batch.column(self._attribute) is None:
            return Probed(Ragged.side_by_side([], [], len(batch)), np.full(len(batch), -1, np.int32))
        texts = text_column(batch, self._attribute)
        return Probed(Ragged(*self._index.probe_batch(texts)), presence(texts))
