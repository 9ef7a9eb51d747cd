"""Columns of texts: as the bytes that kernels read, and what the families of words and patterns share."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin._compile import kernel
from tocsin.arrays import Bools, Int32s, Int64s, Ragged, Strings, UInt8s
from tocsin.model.events import EventBatch
from tocsin.model.values import Kind
from tocsin.predicates.folding import ASCII, Rewriting, rewrite_texts
from tocsin.predicates.protocol import Arrays, Probed, text_column


class TextBytes(NamedTuple):
    """UTF-8 in one buffer: text r is ``data[offsets[r]:offsets[r + 1]]``, which is empty for a NULL."""

    offsets: Int64s
    data: UInt8s


def as_bytes(column: pa.Array | pa.ChunkedArray, rewriting: Rewriting | None = None) -> TextBytes:
    """Return a string column as bytes without a copy; texts that are not ASCII are rewritten if that is asked for.

    ASCII texts are left as they are: kernels lower letters as they go.

    >>> from tocsin.predicates.folding import LOWER
    >>> as_bytes(pa.array(["Ab", None, "É"]), LOWER).data.tobytes().decode()
    'Abé'
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    column = column.cast(pa.large_string())
    if column.null_count:
        column = pc.fill_null(column, "")
    texts = _read(column)
    if rewriting is None:
        return texts
    wide = has_wide_bytes(texts.offsets, texts.data)
    if not wide.any():
        return texts
    offsets, data, in_python = rewrite_texts(texts.offsets, texts.data, wide, rewriting.table())
    if not in_python.any():
        return TextBytes(offsets, data)
    mask = pa.array(in_python)
    rewritten = pa.array([rewriting.function(text) for text in column.filter(mask).to_pylist()], pa.large_string())
    return _read(pc.replace_with_mask(Strings(offsets, data).arrow(), mask, rewritten))


def _read(column: pa.Array) -> TextBytes:
    if not len(column):
        return TextBytes(np.zeros(1, np.int64), np.empty(0, np.uint8))
    _, offsets, data = column.buffers()
    first = column.offset
    bounds = np.frombuffer(offsets, np.int64)[first : first + len(column) + 1]
    if data is None:
        return TextBytes(bounds, np.empty(0, np.uint8))
    # A slice of a column has the buffer of the whole column, which nobody should read through.
    data = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
    return TextBytes(bounds - bounds[0] if bounds[0] else bounds, data)


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


class DistinctTexts(NamedTuple):
    """The texts of a column, each once, and for each row the place of its text among them; -1 for NULL."""

    texts: pa.Array
    place: Int32s

    @classmethod
    def of(cls, column: pa.Array | pa.ChunkedArray) -> Self:
        """Find them by a hash table: 30 to 90 ns a row for texts of 20 to 300 bytes.

        >>> texts, place = DistinctTexts.of(pa.array(["b", None, "a", "b"]))
        >>> texts.to_pylist(), place.tolist()
        (['b', 'a'], [0, -1, 1, 0])
        """
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if column.null_count == len(column):
            return cls(pa.array([], pa.large_string()), np.full(len(column), -1, np.int32))
        encoded = column.dictionary_encode()
        indices = encoded.indices
        return cls(encoded.dictionary, np.asarray(indices.fill_null(-1) if indices.null_count else indices))


@kernel
def repeat_lists(starts: Int64s, values: Int32s, place: Int32s) -> tuple[Int64s, Int32s]:
    """Return for each row the list at its place, none for place -1: where the lists start, and their values."""
    row_starts = np.zeros(len(place) + 1, np.int64)
    for row in range(len(place)):
        p = place[row]
        row_starts[row + 1] = row_starts[row] + (starts[p + 1] - starts[p] if p >= 0 else 0)
    repeated = np.empty(row_starts[-1], np.int32)
    for row in range(len(place)):
        p = place[row]
        if p >= 0:
            to = row_starts[row]
            for k in range(starts[p], starts[p + 1]):
                repeated[to] = values[k]
                to += 1
    return row_starts, repeated


class TextIndex(ABC):
    """An index of predicates on texts. Its whole state is arrays, which may be read-only and mapped from a file."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._arrays = dict(arrays)

    def arrays(self) -> Arrays:
        """Return the whole state as named arrays, which the constructor takes."""
        return dict(self._arrays)

    @abstractmethod
    def check_arrays(self) -> None:
        """Demand what keeps the kernels within their arrays: once, of an index from a file."""

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(array.nbytes for array in self._arrays.values())

    @property
    @abstractmethod
    def predicate_count(self) -> int:
        """The number of predicates."""

    @abstractmethod
    def probe_texts(self, texts: pa.Array) -> tuple[Int64s, Int32s]:
        """Return where the predicates that hold for each text start, and these, ascending; no text is NULL."""

    def probe_batch(self, column: pa.Array | pa.ChunkedArray) -> tuple[Int64s, Int32s]:
        """Return where the predicates that hold for each row start, and these, ascending; a NULL has none."""
        return self.probe_distinct(DistinctTexts.of(column))

    def probe_distinct(self, distinct: DistinctTexts) -> tuple[Int64s, Int32s]:
        """Do what `probe_batch` does for a column whose distinct texts are known; each of them is judged once."""
        if not len(distinct.texts):
            return np.zeros(len(distinct.place) + 1, np.int64), np.empty(0, np.int32)
        lists = self.probe_texts(distinct.texts)
        if np.array_equal(distinct.place, np.arange(len(distinct.texts))):
            # No text is there twice.
            return lists
        return repeat_lists(*lists, distinct.place)

    @abstractmethod
    def probe_text(self, text: str) -> Int32s:
        """Return the predicates that hold for one text, ascending."""


class TextFamily(ABC):
    """A family on the texts of one attribute, judged by an index."""

    index_type: ClassVar[type[TextIndex]]

    def __init__(self, attribute: str, index: TextIndex) -> None:
        self.attributes = {attribute}
        self.kinds = [(attribute, Kind.STRING)]
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

    def check_arrays(self) -> None:
        """Demand what keeps the kernels within their arrays."""
        self._index.check_arrays()

    def probe(self, batch: EventBatch) -> Probed:
        """Judge all tests on every distinct text in one pass; events without a text cost nothing."""
        if batch.column(self._attribute) is None:
            return Probed(Ragged.side_by_side([], [], len(batch)), np.full(len(batch), -1, np.int32))
        distinct = DistinctTexts.of(text_column(batch, self._attribute))
        return Probed(Ragged(*self._index.probe_distinct(distinct)), np.minimum(distinct.place, 0))
