"""Match a batch of events with conjunctions that are filed in bitmaps (`build.py`)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin._compile import AddressTable
from tocsin.arrays import Float64s, Int32s, Ragged, UInt64s
from tocsin.conjunctions.bitmaps.build import NO_BOUND, Cells, file_conjunctions
from tocsin.conjunctions.bitmaps.kernels import (
    BEGIN,
    BITSET_WORDS,
    BLOCK,
    DEMAND_COLUMN,
    DEMAND_END,
    DEMAND_FIRST,
    GROUP,
    GROUPS,
    MAX_CELLS,
    ROOM,
    TEST_NULL_COLUMN,
    Bitmaps,
    Demands,
    cells_of_codes,
    match_bitmaps,
    match_bitmaps_of_one,
)
from tocsin.conjunctions.bitmaps.one_event import addresses_of, match_ranges_of_one
from tocsin.conjunctions.coded import Conjunctions, Events
from tocsin.conjunctions.protocol import Extent, Step
from tocsin.conjunctions.runs import FoundRuns, lists_of, pairs_of
from tocsin.forks import cached
from tocsin.invariants import check_fields, check_ranges, check_starts, check_tagged, check_within, demand, under
from tocsin.tuning import TUNING

_NO_ORDER = np.empty((0, 0), np.int32)
_NO_BITS = np.empty((0, 0), np.uint64)
_MOST_ROOM = 1 << 24
"""Conjunctions for which there is room in a part at most; then there is another part."""
_COLUMNS_SHOWN = 5
"""Columns that a description names, those of most blocks first."""


def _without_ends(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Return arrays that say of no block that it has ends: those of a file of an earlier version."""
    blocks, bitsets = arrays["bitmaps.row_starts"].size - 1, arrays["bitmaps.dead"].size
    return {
        "bitmaps.has_ends": np.zeros(blocks, bool),
        "bitmaps.end_starts": np.zeros(2 * bitsets + 1, np.int64),
        "bitmaps.end_code": np.empty(0, np.int32),
        "bitmaps.end_place": np.empty(0, np.uint16),
        "bitmaps.clear": np.zeros(bitsets, bool),
    }


@dataclass(frozen=True)
class BitmapIndex:
    """Conjunctions filed in bitmaps. Immutable; built once, probed by batch."""

    cells: Cells
    bitmaps: Bitmaps
    demands: Demands

    @classmethod
    def build(cls, conjunctions: Conjunctions, popularity: list[Float64s]) -> "BitmapIndex":
        """File conjunctions. O(predicates * cells)."""
        return cls(*file_conjunctions(conjunctions, popularity))

    def __len__(self) -> int:
        return self.demands.conjunction.size

    @cached
    def _cells(self) -> tuple[Int32s, Int32s, Int32s]:
        """The cells as `cells_of_codes` takes them."""
        return self.cells.columns, self.cells.bounds, self.cells.counts

    @cached
    def _has_ends(self) -> bool:
        """Whether some block has the ends of its ranges."""
        return bool(self.bitmaps.has_ends.any())

    @cached
    def _has_ranges_alone(self) -> bool:
        """Whether no conjunction has a test and no block has ends: a single event has a kernel for that."""
        return not self._has_ends and not self.demands.tests.size

    @cached
    def _addresses(self) -> AddressTable:
        """The arrays that this kernel reads."""
        return addresses_of(self.bitmaps, self.demands, self._cells)

    @cached
    def _expects_many(self) -> bool:
        """Whether events are expected to match many conjunctions: `build.py` leaves these in order."""
        return self._has_ends and self._is_in_order

    @cached
    def _is_in_order(self) -> bool:
        """Whether each conjunction stands at the place of its number."""
        return np.array_equal(self.demands.conjunction, np.arange(len(self)))

    def match(self, events: Events) -> tuple[Int32s, int]:
        """Return the pairs (event, conjunction) that match, in any order, and the number of candidates verified."""
        if events.codes.shape[1] == 1:
            if self._has_ranges_alone:
                table = self._addresses.rows
                return match_ranges_of_one(self.bitmaps.words, self.demands.predicates, table, events.codes)
            # What makes lists of several costs more than most matches of one event.
            room = ROOM + TUNING.matches_per_event
            return match_bitmaps_of_one(self.bitmaps, self.demands, events, *self._cells, room, self._expects_many)
        parts, bits, candidates = self._found(events)
        return pairs_of(self._lists(parts, bits, events)), candidates

    def match_lists(self, events: Events) -> tuple[Ragged, int]:
        """Return the conjunctions of each event, in any order, and the number of candidates verified."""
        parts, bits, candidates = self._found(events)
        return self._lists(parts, bits, events), candidates

    def _lists(self, parts: list[FoundRuns], bits: UInt64s, events: Events) -> Ragged:
        return lists_of(parts, bits, self.demands.conjunction, self._is_in_order, events.codes.shape[1])

    def _found(self, events: Events) -> tuple[list[FoundRuns], UInt64s, int]:
        """Find the conjunctions of each event, in runs and in bits.

        The first ones are found in runs, unless many are expected. Where they turn out to be dense, a bit for each
        place is less to write.
        """
        count, places, blocks = events.codes.shape[1], len(self), self.bitmaps.row_starts.size - 1
        size = 8 * blocks * BITSET_WORDS * count
        cells = cells_of_codes(events.codes, *self._cells)
        by_event = np.ascontiguousarray(events.codes.T)
        by_code = _NO_ORDER
        if count >= TUNING.sweep_events and self._has_ends:
            by_code = np.argsort(events.codes[self.cells.columns], axis=1).astype(np.int32)
        progress, parts, bits, candidates = BEGIN, [], _NO_BITS, 0
        if self._expects_many and size < TUNING.most_bytes_of_bits:
            bits = np.zeros((count, blocks * BITSET_WORDS), np.uint64)
        room = ROOM + TUNING.matches_per_event * count
        while True:
            progress, found, verified = match_bitmaps(
                self.bitmaps,
                self.demands,
                events,
                by_event,
                self.cells.columns,
                cells,
                by_code,
                progress,
                FoundRuns.with_room(room),
                bits,
            )
            parts.append(found)
            candidates += verified
            if progress.block == blocks:
                return parts, bits, candidates
            done = (progress.block * GROUPS + progress.group + 1) * GROUP
            if found.used * TUNING.places_a_match > done * count and size < TUNING.most_bytes_of_bits:
                bits, room = np.zeros((count, blocks * BITSET_WORDS), np.uint64), ROOM
            else:
                room = max(room, min(ROOM + 2 * found.used * places // done, _MOST_ROOM))

    def renumbered(self, numbers: Int32s) -> "BitmapIndex":
        """Return the index with conjunction i as number `numbers[i]`."""
        return replace(self, demands=self.demands._replace(conjunction=numbers[self.demands.conjunction]))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as named arrays, for a segment file."""
        parts = ("cells", vars(self.cells)), ("bitmaps", self.bitmaps._asdict()), ("demands", self.demands._asdict())
        return {f"{part}.{name}": array for part, arrays in parts for name, array in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "BitmapIndex":
        """Return the index that `arrays` came from, without copying."""
        cells = Cells(*(arrays[f"cells.{name}"] for name in Cells.__dataclass_fields__))
        arrays = _without_ends(arrays) | dict(arrays)
        bitmaps = Bitmaps(*(arrays[f"bitmaps.{name}"] for name in Bitmaps._fields))
        return cls(cells, bitmaps, Demands(*(arrays[f"demands.{name}"] for name in Demands._fields)))

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays().values())

    def describe(self, column_name: Callable[[int], str]) -> Iterator[Step]:
        """Say how conjunctions are filed, and show the columns that most blocks have a row for."""
        bitmaps = self.bitmaps
        blocks = bitmaps.row_starts.size - 1
        yield Step(
            f", {len(self):,} conjunctions",
            f"in bitmaps: {blocks:,} blocks, {bitmaps.column.size / blocks:.1f} columns a block, "
            f"{self.nbytes / len(self):.0f} bytes a conjunction",
            "no two predicates of theirs are selective: an event ORs the bitsets of those that fail in its cells",
        )
        named = np.bincount(bitmaps.column, minlength=self.cells.columns.size)
        shown = np.argsort(-named, kind="stable")[:_COLUMNS_SHOWN].tolist()
        columns = ", ".join(column_name(int(self.cells.columns[number])) for number in shown)
        pruning = (bitmaps.pruning_ends - bitmaps.row_starts[:-1]).sum() / blocks
        yield Step(
            f", bitmaps on {columns}{', …' * (named.size > _COLUMNS_SHOWN)}",
            f"{pruning:.1f} columns a block rule out whole groups",
            "conjunctions are sorted so that those of a group accept about the same",
        )

    def check_arrays(self, bounds: Extent) -> None:
        """Demand what keeps the kernels within their arrays."""
        cells, bitmaps, demands = self.cells, self.bitmaps, self.demands
        with under("cells."):
            check_fields(Cells, cells, {"bounds": MAX_CELLS})
            check_within("columns", cells.columns, 0, bounds.columns)
            for name in ("bounds", "counts"):
                demand(len(getattr(cells, name)) == cells.columns.size, name, "it has not one row for each column")
            demand((cells.counts > 0) & (cells.counts & (cells.counts - 1) == 0), "counts", "it has no power of two")
            check_within("counts", cells.counts, 1, MAX_CELLS + 1)
            beyond = np.arange(MAX_CELLS) >= cells.counts[:, None]
            demand(cells.bounds[beyond] == NO_BOUND, "bounds", "a column has more cells than it should")
        with under("bitmaps."):
            check_fields(Bitmaps, bitmaps)
            blocks, rows = -(-len(self) // BLOCK), bitmaps.column.size
            check_starts("row_starts", bitmaps.row_starts, blocks, rows)
            check_starts("bitset_starts", bitmaps.bitset_starts, blocks, bitmaps.dead.size)
            for name, size in (
                ("pruning_ends", blocks),
                ("has_ends", blocks),
                ("shift", rows),
                ("first_bitset", rows),
                ("clear", bitmaps.dead.size),
            ):
                demand(getattr(bitmaps, name).size == size, name, f"it has not {size} entries")
            check_within("column", bitmaps.column, 0, cells.columns.size)
            check_within("shift", bitmaps.shift, 0, MAX_CELLS.bit_length())
            inside = (bitmaps.row_starts[:-1] <= bitmaps.pruning_ends) & (
                bitmaps.pruning_ends <= bitmaps.row_starts[1:]
            )
            demand(inside, "pruning_ends", "rows that kill groups are not those of their block")
            sizes = (cells.counts[bitmaps.column] >> bitmaps.shift).astype(np.int64) + 1
            of_block = np.repeat(np.diff(bitmaps.bitset_starts), np.diff(bitmaps.row_starts))
            check_within("first_bitset", bitmaps.first_bitset, 0, 2**31)
            demand(bitmaps.first_bitset + sizes <= of_block, "first_bitset", "bitsets are not those of their block")
            words = BITSET_WORDS * np.diff(bitmaps.bitset_starts)
            demand(bitmaps.words.size == words.sum(), "words", "not each bitset has its words")
            check_starts("end_starts", bitmaps.end_starts, 2 * bitmaps.dead.size, bitmaps.end_code.size)
            demand(bitmaps.end_place.size == bitmaps.end_code.size, "end_place", "not each end has a place")
            check_within("end_place", bitmaps.end_place, 0, BLOCK)
            demand(bitmaps.partial.size == blocks * BITSET_WORDS, "partial", "not each place has a bit")
        with under("demands."):
            check_fields(Demands, demands, {"predicates": 3, "ranges": 2, "tests": 3})
            check_within("conjunction", demands.conjunction, 0, bounds.conjunctions)
            check_starts("starts", demands.starts, len(self), len(demands.predicates))
            check_starts("test_starts", demands.test_starts, len(self), len(demands.tests))
            check_tagged("predicates", demands.predicates[:, DEMAND_COLUMN], bounds.columns)
            unions = demands.predicates[demands.predicates[:, DEMAND_COLUMN] < 0]
            check_ranges("predicates", unions[:, DEMAND_FIRST], unions[:, DEMAND_END], len(demands.ranges))
            check_within("tests", demands.tests[:, TEST_NULL_COLUMN], -1, bounds.columns)

    def check(self) -> None:
        """Assert what the kernels rely on."""
        bitmaps, demands = self.bitmaps, self.demands
        assert (np.diff(self.cells.bounds, axis=1) >= 0).all(), "cells follow each other"
        assert (self.cells.bounds[:, 0] == 0).all(), "the first cell begins with the first code"
        blocks = -(-len(self) // BLOCK)
        assert bitmaps.row_starts.size == blocks + 1, "there is a block for each 4,096 conjunctions"
        assert (bitmaps.row_starts[:-1] <= bitmaps.pruning_ends).all(), "rows that kill groups come first"
        assert (bitmaps.pruning_ends <= bitmaps.row_starts[1:]).all(), "and are rows of their block"
        sizes = (self.cells.counts[bitmaps.column] >> bitmaps.shift) + 1
        block = np.repeat(np.arange(blocks), np.diff(bitmaps.row_starts))
        ends = bitmaps.bitset_starts[block] + bitmaps.first_bitset + sizes
        assert (ends <= bitmaps.bitset_starts[block + 1]).all(), "the bitsets of a row are those of its block"
        assert bitmaps.words.size == BITSET_WORDS * bitmaps.bitset_starts[-1] == BITSET_WORDS * bitmaps.dead.size, (
            "every bitset has its words, and its dead groups"
        )
        assert bitmaps.partial.size == blocks * BITSET_WORDS, "every place has a bit"
        assert np.unique(demands.conjunction).size == len(self), "every place has its own conjunction"
        assert demands.starts[-1] == len(demands.predicates), "the last predicate is that of the last place"
        assert demands.test_starts[-1] == len(demands.tests), "the last test is that of the last place"
