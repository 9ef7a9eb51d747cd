"""Lay out the events of a batch once for all segments.

The segments of a set have about the same constants, hence the same quantizers, and tables with the same cells. The
events of a batch are sorted once for each such table, and the postings of every segment are compared with them.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int32s, UInt16s
from tocsin.conjunctions.coded import Events
from tocsin.conjunctions.pairs.kernels import BY_TEST, PairTables
from tocsin.conjunctions.pairs.layout_kernels import (
    NO_LAYOUTS,
    PRIVATE_LAYOUT,
    SKIP_TABLE,
    SPARSE_BUCKETS,
    Layouts,
    empty_layouts,
    lay_out_tables,
    max_block_codes,
)
from tocsin.conjunctions.pairs.match import Matching
from tocsin.conjunctions.protocol import CodesOf
from tocsin.index.segment import Segment
from tocsin.tuning import TUNING

Key = tuple[int, ...]
"""A table without its postings: rows and shifts of a and b, multipliers, mask, whether it needs values."""
_MASK = 6


class SharedLayout:
    """The tables that several segments have in common."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._pairs = [segment.index.pairs for segment in segments if segment.index.pairs is not None]
        rows: dict[Hashable, int] = {}
        self._row_of = [
            np.array([rows.setdefault(key, len(rows)) for key in _row_keys(number, segment)], np.int32)
            for number, segment in enumerate(segments)
        ]
        self._of_table = [np.full(pairs.tables.mask.size, -1, np.int32) for pairs in self._pairs]
        users: dict[Key, list[tuple[int, int]]] = {}
        for number in range(len(segments)):
            for table, key in self._table_keys(number):
                users.setdefault(key, []).append((number, table))
        common = {key: of for key, of in users.items() if len(of) > 1}
        self._keys = list(common)
        self._used: list[list[int]] = []
        """The rows that the rectangles of each common table use."""
        for layout, of in enumerate(common.values()):
            used: set[int] = set()
            for number, table in of:
                self._of_table[number][table] = layout
                tables = self._pairs[number].tables
                columns = tables.used[tables.used_starts[table] : tables.used_starts[table + 1]]
                used.update(self._row_of[number][columns].tolist())
            self._used.append(sorted(used))

    def _table_keys(self, number: int) -> Iterator[tuple[int, Key]]:
        """Return the tables of a segment that are grids, each with its key."""
        tables, row_of = self._pairs[number].tables, self._row_of[number]
        grids = np.flatnonzero(tables.column_a != BY_TEST)
        parts: list[npt.NDArray[Any]] = [row_of[tables.column_a], row_of[tables.column_b], tables.shift_a]
        parts += [tables.shift_b, tables.multiplier_a, tables.multiplier_b, tables.mask, tables.needs_value]
        return zip(grids.tolist(), zip(*(part[grids].tolist() for part in parts), strict=True), strict=True)

    def match(self, encoded: Sequence[Events], codes_of: Sequence[CodesOf]) -> list[tuple[Int32s, int]]:
        """Return what the `PairIndex.match` of each segment returns for the events that it encoded."""
        events = [pairs.with_short_codes(one) for pairs, one in zip(self._pairs, encoded, strict=True)]
        rows, count = 1 + max(int(row_of.max()) for row_of in self._row_of), events[0].short.shape[1]
        short = np.empty((rows, count), np.uint16)
        for one, row_of in zip(events, self._row_of, strict=True):
            short[row_of] = one.short
        matchings = [
            Matching(pairs, one._replace(short=short, row_of=row_of))
            for pairs, one, row_of in zip(self._pairs, events, self._row_of, strict=True)
        ]
        for layouts in self._rounds(short):
            for matching, of_table in zip(matchings, self._of_table, strict=True):
                matching.match_grids(layouts._replace(of_table=layouts.of_table[of_table]))
        return [matching.finish(codes) for matching, codes in zip(matchings, codes_of, strict=True)]

    def _rounds(self, short: UInt16s) -> Iterator[Layouts]:
        """Yield layouts of the common tables, a few at a time.

        `of_table` has the layout of each common table; its last entry is for tables that are not common. First come the
        tables that each segment lays out for itself.
        """
        count = short.shape[1]
        of_table = np.full(len(self._keys) + 1, PRIVATE_LAYOUT, np.int32)
        chosen = [number for number, key in enumerate(self._keys) if key[_MASK] < SPARSE_BUCKETS * count]
        of_table[chosen] = SKIP_TABLE
        yield NO_LAYOUTS._replace(of_table=of_table)
        sizes = [max_block_codes(self._keys[number][_MASK] + 1, len(self._used[number]), count) for number in chosen]
        at_once = max(1, TUNING.shared_layout_codes // max(sizes, default=1))
        for start in range(0, len(chosen), at_once):
            few = chosen[start : start + at_once]
            tables = self._tables(few)
            layouts = empty_layouts(tables, count)
            lay_out_tables(tables, short, layouts)
            of_table = np.full(len(self._keys) + 1, SKIP_TABLE, np.int32)
            of_table[few] = np.arange(len(few))
            yield layouts._replace(of_table=of_table)

    def _tables(self, chosen: Sequence[int]) -> PairTables:
        """Return some of the common tables, with rows of the short codes as their columns."""
        fields = np.array([self._keys[number] for number in chosen], np.int64).reshape(-1, _MASK + 2).T
        row_a, row_b, shift_a, shift_b, multiplier_a, multiplier_b, mask, needs_value = fields
        used = [self._used[number] for number in chosen]
        return PairTables(
            column_a=row_a.astype(np.int32),
            shift_a=shift_a.astype(np.int32),
            column_b=row_b.astype(np.int32),
            shift_b=shift_b.astype(np.int32),
            multiplier_a=multiplier_a.copy(),
            multiplier_b=multiplier_b.copy(),
            mask=mask.copy(),
            first_bucket=np.cumsum(mask + 1) - (mask + 1),
            needs_value=needs_value.astype(bool),
            used_starts=np.cumsum([0, *map(len, used)]).astype(np.int64),
            used=np.array([row for rows in used for row in rows], np.int32),
        )


def _row_keys(number: int, segment: Segment) -> Iterator[Hashable]:
    """Yield what the short codes of each column depend on: equal keys have equal rows. ANYTHING comes last."""
    for column in segment.common_columns:
        yield column.attribute, column.kind, column.quantizer or column.domain.digest
    for place in range(len(segment.families)):
        yield number, place
    yield "ANYTHING"
