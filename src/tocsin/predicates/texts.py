"""A column of texts as bytes: what the kernels of words and patterns read."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.predicates.words.kernels import has_wide_bytes


class Texts(NamedTuple):
    """UTF-8 in one buffer: text r is ``data[offsets[r]:offsets[r + 1]]``, which is empty for a NULL."""

    offsets: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]


def as_texts(column: pa.Array | pa.ChunkedArray, rewrite: Callable[[str], str] | None = None) -> Texts:
    """Return a string column as bytes, its text not copied; but with `rewrite`, texts beyond ASCII are replaced.

    ASCII texts are left as they are: kernels lower letters as they go.

    >>> as_texts(pa.array(["Ab", None, "É"]), str.lower).data.tobytes().decode()
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


def _read(column: pa.Array) -> Texts:
    if not len(column):
        return Texts(np.zeros(1, np.int64), np.empty(0, np.uint8))
    _, offsets, data = column.buffers()
    first = column.offset
    bounds = np.frombuffer(offsets, np.int64)[first : first + len(column) + 1]
    return Texts(bounds, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8))
