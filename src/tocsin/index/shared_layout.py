"""Segments that match a batch together: what they cut alike is laid out once for all of them.

The segments of a set have about the same constants, hence the same rulers, and tables with the same cells. The events
of a batch are sorted once for each such table, and the postings of every segment stream past them.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.conjunctions.pairs.index import Matching
from tocsin.conjunctions.pairs.kernels import HELD, Events, Int32, Short, Tables
from tocsin.conjunctions.pairs.layout import NO_LAYOUTS, NOT_NOW, OWN, SPARSE, Layouts, lay_out_tables, most_codes, room
from tocsin.conjunctions.protocol import CodesOf
from tocsin.index.segment import Segment

ENOUGH = 1024
"""For fewer events than this, each segment does its own."""
CODES_AT_ONCE = 1 << 21
"""Short codes that are laid out at a time: few enough that they are still in a cache for the last segment."""

Key = tuple[int, ...]
"""A table without its postings: rows and shifts of a and b, multipliers, mask, whether it needs values."""
_MASK = 6


class Together:
    """What segments have in common."""

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
        """The tables of a segment that are grids, each with its key."""
        tables, row_of = self._pairs[number].tables, self._row_of[number]
        grids = np.flatnonzero(tables.column_a != HELD)
        parts: list[npt.NDArray[Any]] = [row_of[tables.column_a], row_of[tables.column_b], tables.shift_a]
        parts += [tables.shift_b, tables.multiplier_a, tables.multiplier_b, tables.mask, tables.needs_value]
        return zip(grids.tolist(), zip(*(part[grids].tolist() for part in parts), strict=True), strict=True)

    def match(self, encoded: Sequence[Events], codes_of: Sequence[CodesOf]) -> list[tuple[Int32, int]]:
        """For each segment, what its `PairIndex.match` returns for the events that it encoded."""
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
                matching.look(layouts._replace(of_table=layouts.of_table[of_table]))
        return [matching.finish(codes) for matching, codes in zip(matchings, codes_of, strict=True)]

    def _rounds(self, short: Short) -> Iterator[Layouts]:
        """Layouts of the common tables, a few at a time; `of_table` has the layout of each common table, then OWN.

        First come those that each segment lays out for itself.
        """
        count = short.shape[1]
        of_table = np.full(len(self._keys) + 1, OWN, np.int32)
        chosen = [number for number, key in enumerate(self._keys) if key[_MASK] < SPARSE * count]
        of_table[chosen] = NOT_NOW
        yield NO_LAYOUTS._replace(of_table=of_table)
        sizes = [most_codes(self._keys[number][_MASK] + 1, len(self._used[number]), count) for number in chosen]
        at_once = max(1, CODES_AT_ONCE // max(sizes, default=1))
        for start in range(0, len(chosen), at_once):
            few = chosen[start : start + at_once]
            tables = self._tables(few)
            layouts = room(tables, count)
            lay_out_tables(tables, short, layouts)
            of_table = np.full(len(self._keys) + 1, NOT_NOW, np.int32)
            of_table[few] = np.arange(len(few))
            yield layouts._replace(of_table=of_table)

    def _tables(self, chosen: Sequence[int]) -> Tables:
        """Some of the common tables, their columns being rows."""
        fields = np.array([self._keys[number] for number in chosen], np.int64).reshape(-1, _MASK + 2).T
        row_a, row_b, shift_a, shift_b, multiplier_a, multiplier_b, mask, needs_value = fields
        used = [self._used[number] for number in chosen]
        return Tables(
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
    """What the short codes of each column depend on: equal keys have equal rows. ANYTHING comes last."""
    for column in segment.columns:
        yield column.attribute, column.kind, column.ruler or column.domain.digest
    for place in range(len(segment.families)):
        yield number, place
    yield "ANYTHING"
