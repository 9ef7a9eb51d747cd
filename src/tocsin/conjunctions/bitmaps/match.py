"""Match a batch of events with conjunctions that are filed in bitmaps (`build.py`)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin._compile import AddressTable
from tocsin.arrays import Float64s, Int32s, Int64s, Ragged, UInt8s
from tocsin.conjunctions.bitmaps.build import NO_BOUND, Cells, file_conjunctions
from tocsin.conjunctions.bitmaps.dense import (
    DENSE_BLOCK,
    LINE_WORDS,
    REGION_BLOCKS,
    DenseBlocks,
    match_dense,
    match_dense_of_one,
    words_of,
)
from tocsin.conjunctions.bitmaps.earlier_versions import dense_of
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
_MOST_ROOM = 1 << 24
"""Conjunctions for which there is room in a part at most; then there is another part."""
_COLUMNS_SHOWN = 5
"""Columns that a description names, those of most blocks first."""


def _some(events: Events, first: int, end: int) -> Events:
    """Return some of the events, in full codes."""
    starts = {name: getattr(events, name)[first : end + 1] for name in ("true_starts", "null_starts")}
    return events._replace(codes=np.ascontiguousarray(events.codes[:, first:end]), **starts)


@dataclass(frozen=True)
class BitmapIndex:
    """Conjunctions filed in bitmaps. Immutable; built once, probed by batch."""

    cells: Cells
    bitmaps: Bitmaps
    """Those that few events are expected to match."""
    dense: DenseBlocks
    """Those behind them, that many events are expected to match."""
    demands: Demands

    @classmethod
    def build(cls, conjunctions: Conjunctions, popularity: list[Float64s]) -> "BitmapIndex":
        """File conjunctions. O(predicates * cells)."""
        return cls(*file_conjunctions(conjunctions, popularity))

    def __len__(self) -> int:
        return self.demands.conjunction.size

    @cached
    def rare(self) -> int:
        """How many conjunctions few events are expected to match."""
        return int(self.dense.place_starts[0])

    @cached
    def _cells(self) -> tuple[Int32s, Int32s, Int32s]:
        """The cells as `cells_of_codes` takes them."""
        return self.cells.columns, self.cells.bounds, self.cells.counts

    @cached
    def _has_ranges_alone(self) -> bool:
        """Whether no conjunction has a test: a single event has a kernel for that."""
        return not self.demands.tests.size

    @cached
    def _addresses(self) -> AddressTable:
        """The arrays that this kernel reads."""
        return addresses_of(self.bitmaps, self.demands, self._cells)

    @cached
    def _is_in_order(self) -> bool:
        """Whether each conjunction stands at the place of its number."""
        return np.array_equal(self.demands.conjunction, np.arange(len(self)))

    def match(self, events: Events) -> tuple[Int32s, int]:
        """Return the pairs (event, conjunction) that match, in any order, and the number of candidates verified."""
        if events.codes.shape[1] == 1:
            return self._match_one(events)
        lists, candidates = self.match_lists(events)
        return pairs_of(lists), candidates

    def _match_one(self, events: Events) -> tuple[Int32s, int]:
        """Do the same for one event: what makes lists of several costs more than most matches of one."""
        if not self.rare:
            return match_dense_of_one(self.dense, self.demands, events, *self._cells)
        if self._has_ranges_alone:
            table = self._addresses.rows
            pairs, candidates = match_ranges_of_one(
                self.bitmaps.words, self.demands.predicates, table, events.codes, self.rare
            )
        else:
            room = ROOM + TUNING.matches_per_event
            pairs, candidates = match_bitmaps_of_one(self.bitmaps, self.demands, events, *self._cells, self.rare, room)
        if self.rare == len(self):
            return pairs, candidates
        others, more = match_dense_of_one(self.dense, self.demands, events, *self._cells)
        return np.concatenate([pairs, others]), candidates + more

    def match_lists(self, events: Events) -> tuple[Ragged, int]:
        """Return the conjunctions of each event, in any order, and the number of candidates verified."""
        count = events.codes.shape[1]
        at_once = max(TUNING.sweep_events, TUNING.most_bytes_of_bits // (8 * self.dense.partial.size + 1))
        if count <= at_once:
            return self._lists(events)
        parts = [self._lists(_some(events, first, first + at_once)) for first in range(0, count, at_once)]
        sizes = np.concatenate([np.diff(lists.starts) for lists, _ in parts])
        starts = np.concatenate([[0], np.cumsum(sizes)])
        return Ragged(starts, np.concatenate([lists.values for lists, _ in parts])), sum(each for _, each in parts)

    def _lists(self, events: Events) -> tuple[Ragged, int]:
        """Do the same for so many events that there is memory for a bit for each dense conjunction."""
        count = events.codes.shape[1]
        cells = cells_of_codes(events.codes, *self._cells)
        by_event = np.ascontiguousarray(events.codes.T)
        parts, candidates = self._match_rare(events, by_event, cells)
        bits = np.empty((count, self.dense.partial.size), np.uint64)
        by_code = _NO_ORDER
        if count >= TUNING.sweep_events and bits.size:
            by_code = np.argsort(events.codes[self.cells.columns], axis=1).astype(np.int32)
        candidates += match_dense(self.dense, self.demands, events, by_event, self.cells.columns, cells, by_code, bits)
        conjunction = self.demands.conjunction[self.rare :]
        return lists_of(parts, bits, conjunction, self._is_in_order and not self.rare, count), candidates

    def _match_rare(self, events: Events, by_event: Int32s, cells: UInt8s) -> tuple[list[FoundRuns], int]:
        """Find those conjunctions of each event that few are expected to match, in runs."""
        count, blocks = events.codes.shape[1], self.bitmaps.row_starts.size - 1
        progress, parts, candidates = BEGIN, [], 0
        room = ROOM + TUNING.matches_per_event * count
        while progress.block < blocks:
            progress, found, verified = match_bitmaps(
                self.bitmaps, self.demands, events, by_event, cells, self.rare, progress, FoundRuns.with_room(room)
            )
            parts.append(found)
            candidates += verified
            done = (progress.block * GROUPS + progress.group + 1) * GROUP
            room = max(room, min(ROOM + 2 * found.used * self.rare // done, _MOST_ROOM))
        return parts, candidates

    def renumbered(self, numbers: Int32s) -> "BitmapIndex":
        """Return the index with conjunction i as number `numbers[i]`."""
        return replace(self, demands=self.demands._replace(conjunction=numbers[self.demands.conjunction]))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as named arrays, for a segment file."""
        tuples: dict[str, Any] = {"bitmaps": self.bitmaps, "dense": self.dense, "demands": self.demands}
        parts = {"cells": vars(self.cells)} | {part: arrays._asdict() for part, arrays in tuples.items()}
        return {f"{part}.{name}": array for part, arrays in parts.items() for name, array in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "BitmapIndex":
        """Return the index that `arrays` came from, without copying."""
        cells = Cells(*(arrays[f"cells.{name}"] for name in Cells.__dataclass_fields__))
        demands = Demands(*(arrays[f"demands.{name}"] for name in Demands._fields))
        dense = dense_of(arrays, demands.conjunction.size)
        unknown = {"bitmaps.clear": np.zeros(arrays["bitmaps.dead"].size, bool)}
        bitmaps = Bitmaps(*((unknown | dict(arrays))[f"bitmaps.{name}"] for name in Bitmaps._fields))
        return cls(cells, bitmaps, dense, demands)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays().values())

    def describe(self, column_name: Callable[[int], str]) -> Iterator[Step]:
        """Say how conjunctions are filed, and show the columns that most blocks have a row for."""
        bitmaps, dense = self.bitmaps, self.dense
        for arrays, count, what in ((bitmaps, self.rare, ""), (dense, len(self) - self.rare, " that often match")):
            if count == 0:
                continue
            parts, part = arrays.row_starts.size - 1, "region" if what else "block"
            blocks = dense.place_starts.size - 1 if what else parts
            size = sum(array.nbytes for array in arrays) / count
            yield Step(
                f", {count:,} conjunctions{what}",
                f"in bitmaps: {blocks:,} blocks, {arrays.column.size / parts:.1f} columns a {part}, "
                f"{size:.0f} bytes a conjunction",
                "no two predicates of theirs are selective: an event ORs the bitsets of those that fail"
                + (" and marks the ends of their ranges" if what else " in its cells"),
            )
        named = np.bincount(np.concatenate([bitmaps.column, dense.column]), minlength=self.cells.columns.size)
        shown = np.argsort(-named, kind="stable")[:_COLUMNS_SHOWN].tolist()
        columns = ", ".join(column_name(int(self.cells.columns[number])) for number in shown)
        pruning = (bitmaps.pruning_ends - bitmaps.row_starts[:-1]).sum() / max(bitmaps.row_starts.size - 1, 1)
        yield Step(
            f", bitmaps on {columns}{', …' * (named.size > _COLUMNS_SHOWN)}",
            f"{pruning:.1f} columns a block rule out whole groups" if self.rare else "no column rules out whole groups",
            "conjunctions are sorted so that those of a group accept about the same, but for those that often match",
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
            blocks = -(-self.rare // BLOCK)
            self._check_rows(bitmaps, blocks)
            demand(bitmaps.pruning_ends.size == blocks, "pruning_ends", f"it has not {blocks} entries")
            demand(bitmaps.dead.size == bitmaps.clear.size, "dead", "not each bitset has one")
            inside = (bitmaps.row_starts[:-1] <= bitmaps.pruning_ends) & (
                bitmaps.pruning_ends <= bitmaps.row_starts[1:]
            )
            demand(inside, "pruning_ends", "rows that kill groups are not those of their block")
            words = BITSET_WORDS * np.diff(bitmaps.bitset_starts)
            demand(bitmaps.words.size == words.sum(), "words", "not each bitset has its words")
        with under("dense."):
            self._check_dense()
        with under("demands."):
            check_fields(Demands, demands, {"predicates": 3, "ranges": 2, "tests": 3})
            check_within("conjunction", demands.conjunction, 0, bounds.conjunctions)
            check_starts("starts", demands.starts, len(self), len(demands.predicates))
            check_starts("test_starts", demands.test_starts, len(self), len(demands.tests))
            check_tagged("predicates", demands.predicates[:, DEMAND_COLUMN], bounds.columns)
            unions = demands.predicates[demands.predicates[:, DEMAND_COLUMN] < 0]
            check_ranges("predicates", unions[:, DEMAND_FIRST], unions[:, DEMAND_END], len(demands.ranges))
            check_within("tests", demands.tests[:, TEST_NULL_COLUMN], -1, bounds.columns)

    def _check_rows(self, arrays: Bitmaps | DenseBlocks, blocks: int) -> Int64s:
        """Demand rows that are those of their block or region; return how many bitsets each has."""
        rows, bitsets, counts = arrays.column.size, arrays.clear.size, self.cells.counts
        check_starts("row_starts", arrays.row_starts, blocks, rows)
        check_starts("bitset_starts", arrays.bitset_starts, blocks, bitsets)
        for name in ("shift", "first_bitset"):
            demand(getattr(arrays, name).size == rows, name, f"it has not {rows} entries")
        check_within("column", arrays.column, 0, counts.size)
        check_within("shift", arrays.shift, 0, MAX_CELLS.bit_length())
        sizes: Int64s = (counts[arrays.column] >> arrays.shift).astype(np.int64) + 1
        of_block = np.repeat(np.diff(arrays.bitset_starts), np.diff(arrays.row_starts))
        check_within("first_bitset", arrays.first_bitset, 0, 2**31)
        demand(arrays.first_bitset + sizes <= of_block, "first_bitset", "bitsets are not those of their block")
        return sizes

    def _check_dense(self) -> None:
        dense = self.dense
        check_fields(DenseBlocks, dense)
        demand(dense.place_starts.size > 0, "place_starts", "it has no entry")
        places = np.diff(dense.place_starts)
        demand(dense.place_starts[-1] == len(self), "place_starts", "the last place is not that of a conjunction")
        demand((places > 0) & (places <= DENSE_BLOCK), "place_starts", "a block has too many or too few places")
        demand(places[:-1] == DENSE_BLOCK, "place_starts", "a block is not full, and not the last")
        regions = dense.block_starts.size - 1
        check_starts("block_starts", dense.block_starts, regions, places.size)
        blocks = np.diff(dense.block_starts)
        demand((blocks > 0) & (blocks <= REGION_BLOCKS), "block_starts", "a region has too many or too few blocks")
        sizes = self._check_rows(dense, regions)
        of_row = np.repeat(np.arange(regions), np.diff(dense.row_starts))
        check_starts("line_starts", dense.line_starts, of_row.size, dense.lines.size)
        lines = np.diff(dense.line_starts)
        begins = np.isin(np.arange(1, dense.lines.size), dense.line_starts)
        demand(begins | (dense.lines[1:] > dense.lines[:-1]), "lines", "those of a row do not ascend")
        ends = dense.place_starts[dense.block_starts].tolist()
        most = np.array([words_of(end - first) // LINE_WORDS for first, end in pairwise(ends)], np.int64)
        demand(dense.lines < np.repeat(most[of_row], lines), "lines", "a region has not so many")
        check_starts("word_starts", dense.word_starts, of_row.size, dense.words.size)
        demand(np.diff(dense.word_starts) == LINE_WORDS * lines * sizes, "word_starts", "not each bitset has its words")
        demand(dense.partial.size == sum(map(words_of, places.tolist())), "partial", "not each place has a bit")
        demand(dense.list_starts.size == regions + 1, "list_starts", f"it has not {regions + 1} entries")
        demand(dense.list_starts[0] == 0, "list_starts", "the first list does not start at 0")
        lists = blocks * np.diff(dense.bitset_starts)
        demand(np.diff(dense.list_starts) == lists, "list_starts", "not each bitset has a list for each block")
        check_starts("end_starts", dense.end_starts, 2 * int(lists.sum()), dense.end_code.size)
        demand(dense.end_place.size == dense.end_code.size, "end_place", "not each end has a place")
        check_within("end_place", dense.end_place, 0, DENSE_BLOCK)
        if regions:
            starts = dense.end_starts[2 * dense.list_starts[-2] :: 2]
            is_last = np.repeat(np.arange(starts.size - 1) % blocks[-1] == blocks[-1] - 1, np.diff(starts))
            check_within("end_place", dense.end_place[starts[0] :][is_last], 0, int(places[-1]))

    def check(self) -> None:
        """Assert what the kernels rely on."""
        bitmaps, dense, demands = self.bitmaps, self.dense, self.demands
        assert (np.diff(self.cells.bounds, axis=1) >= 0).all(), "cells follow each other"
        assert (self.cells.bounds[:, 0] == 0).all(), "the first cell begins with the first code"
        blocks = -(-self.rare // BLOCK)
        assert bitmaps.row_starts.size == blocks + 1, "there is a block for each 4,096 rare conjunctions"
        assert (bitmaps.row_starts[:-1] <= bitmaps.pruning_ends).all(), "rows that kill groups come first"
        assert (bitmaps.pruning_ends <= bitmaps.row_starts[1:]).all(), "and are rows of their block"
        for arrays in (bitmaps, dense):
            sizes = (self.cells.counts[arrays.column] >> arrays.shift) + 1
            block = np.repeat(np.arange(arrays.row_starts.size - 1), np.diff(arrays.row_starts))
            ends = arrays.bitset_starts[block] + arrays.first_bitset + sizes
            assert (ends <= arrays.bitset_starts[block + 1]).all(), "the bitsets of a row are those of its block"
        assert bitmaps.words.size == BITSET_WORDS * bitmaps.bitset_starts[-1] == BITSET_WORDS * bitmaps.dead.size, (
            "every bitset has its words, and its dead groups"
        )
        assert dense.place_starts[-1] == len(self), "every place is rare or dense"
        assert dense.words.size == dense.word_starts[-1], "every dense bitset has its words"
        for first, end in pairwise(dense.line_starts.tolist()):
            assert (np.diff(dense.lines[first:end].astype(np.int64)) > 0).all(), "the lines of a row ascend"
        assert dense.end_starts.size == 2 * dense.list_starts[-1] + 1, "every bitset has its lists of ends"
        for first, end in pairwise(dense.end_starts.tolist()):
            assert (np.diff(dense.end_code[first:end]) >= 0).all(), "the ends of a cell ascend"
        assert np.unique(demands.conjunction).size == len(self), "every place has its own conjunction"
        assert demands.starts[-1] == len(demands.predicates), "the last predicate is that of the last place"
        assert demands.test_starts[-1] == len(demands.tests), "the last test is that of the last place"
