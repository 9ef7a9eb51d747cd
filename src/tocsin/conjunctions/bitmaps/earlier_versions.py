"""The dense blocks of files of an earlier format version, as they are now."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.conjunctions.bitmaps.dense import DENSE_BLOCK, LINE_WORDS, DenseBlocks, words_of
from tocsin.invariants import check_starts, demand


def dense_of(arrays: Mapping[str, npt.NDArray[Any]], conjunctions: int) -> DenseBlocks:
    """Return the dense blocks of a file with so many conjunctions in bitmaps."""
    stored = {name: arrays[f"dense.{name}"] for name in DenseBlocks._fields if f"dense.{name}" in arrays}
    if not stored:
        return _none_behind(conjunctions)
    if "lines" not in stored:
        stored |= _regions_and_lines(stored)
    return DenseBlocks(**stored)


def _none_behind(conjunctions: int) -> DenseBlocks:
    """Return no blocks behind so many places: there were none before version 8."""
    start, no_rows, no_words = np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.uint64)
    no_places, none_clear = np.empty(0, np.uint16), np.empty(0, bool)
    return DenseBlocks(
        place_starts=np.array([conjunctions]),
        block_starts=start,
        row_starts=start,
        column=no_rows,
        shift=no_rows,
        bitset_starts=start,
        first_bitset=no_rows,
        line_starts=start,
        lines=no_places,
        word_starts=start,
        words=no_words,
        list_starts=start,
        end_starts=start,
        end_code=no_rows,
        end_place=no_places,
        partial=no_words,
        clear=none_clear,
    )


def _regions_and_lines(stored: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Return what version 8 did not have: each block was a region of its own, and its rows had all lines."""
    places = np.diff(stored["place_starts"])
    demand((places > 0) & (places <= DENSE_BLOCK), "place_starts", "a block has too many or too few places")
    check_starts("row_starts", stored["row_starts"], places.size, stored["column"].size)
    rows = np.diff(stored["row_starts"])
    width = np.array([words_of(size) for size in places.tolist()], np.int64)
    lines = np.repeat(width // LINE_WORDS, rows)
    line_starts = np.concatenate([[0], np.cumsum(lines)])
    first_word = np.repeat(stored["word_starts"][:-1], rows) + stored["first_bitset"] * lines * LINE_WORDS
    return {
        "block_starts": np.arange(rows.size + 1),
        "line_starts": line_starts,
        "lines": (np.arange(line_starts[-1]) - np.repeat(line_starts[:-1], lines)).astype(np.uint16),
        "word_starts": np.append(first_word, stored["word_starts"][-1]),
        "list_starts": stored["bitset_starts"],
    }
