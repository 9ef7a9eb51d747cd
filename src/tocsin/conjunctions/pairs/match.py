"""Match a batch of events with conjunctions that are filed by access pairs.

`build.py` files them, in tables. The events of a batch are sorted by the cell of a table that they lie in, and the
postings of each cell are compared with its events once.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin._compile import VECTOR_WIDTH
from tocsin.arrays import Float64s, Int32s, Int64s
from tocsin.conjunctions.coded import ANY_TRUTH, Conjunctions, Events
from tocsin.conjunctions.pairs.bucket_kernels import DOUBT_COLUMN_A, DOUBT_COLUMN_B, DOUBT_EVENT, DOUBT_TAGGED
from tocsin.conjunctions.pairs.build import Prepared, file_conjunctions, prepare
from tocsin.conjunctions.pairs.by_test_kernels import block_marks, match_by_test, match_event_with_tests
from tocsin.conjunctions.pairs.grid_kernels import GRIDS, match_event, match_grids, transpose_short_codes
from tocsin.conjunctions.pairs.kernels import (
    BY_TEST,
    COLUMN_C,
    CONJUNCTION,
    HIGH_A,
    HIGH_B,
    HIGH_C,
    LOW_A,
    LOW_B,
    LOW_C,
    QUANTIZED,
    REST_ACCEPTS,
    REST_COLUMN,
    REST_END_RANGE,
    REST_FIRST_RANGE,
    REST_NULL_COLUMN,
    REST_TEST,
    SHORT_COLUMN_C,
    SHORT_FIELDS,
    FoundPairs,
    PairTables,
    Postings,
    grown,
)
from tocsin.conjunctions.pairs.layout_kernels import NO_LAYOUTS, Layouts
from tocsin.conjunctions.protocol import CodesOf, Extent, Step
from tocsin.forks import cached
from tocsin.invariants import check_fields, check_ranges, check_starts, check_tagged, check_within, demand, under
from tocsin.predicates.ranges.kernels import short_codes_by_rank
from tocsin.predicates.ranges.quantize import ShortCodes
from tocsin.tuning import TUNING

_NO_PAIRS = np.empty((0, 2), np.int32)
_TABLES_SHOWN = 5
"""Tables that a description shows, the largest first."""


@dataclass(frozen=True)
class PairIndex:
    """Conjunctions filed by access pairs. Immutable; built once, probed by batch."""

    tables: PairTables
    postings: Postings

    @classmethod
    def build(
        cls,
        conjunctions: Conjunctions,
        popularity: list[Float64s],
        test: Int32s | None = None,
        short: Mapping[int, ShortCodes] | None = None,
    ) -> "PairIndex":
        """File conjunctions; `test[i]` is the test to file conjunction i under, or -1. O(postings).

        `short` has the columns whose short codes come with the events; those of others are made of their codes.
        """
        filed_under = np.full(conjunctions.count, -1, np.int32) if test is None else test
        return cls.of(prepare(conjunctions, popularity, filed_under, short or {}))

    @classmethod
    def of(cls, prepared: Prepared) -> "PairIndex":
        """File conjunctions where it was chosen. O(postings)."""
        return cls(*file_conjunctions(prepared))

    def match(self, events: Events, codes_of: CodesOf | None = None) -> tuple[Int32s, int]:
        """Return the pairs (event, conjunction) that match, in any order, and the number of candidates verified.

        Unless `needs_codes`, the events may come with short codes only; then `codes_of` gives the codes of a few
        events.
        """
        if len(events.true_starts) == 2:
            return self._match_event(self.with_short_codes(events), codes_of)
        matching = Matching(self, events)
        matching.match_grids(NO_LAYOUTS)
        return matching.finish(codes_of)

    def _match_event(self, events: Events, codes_of: CodesOf | None) -> tuple[Int32s, int]:
        """Match a batch of one event."""
        if not len(self._grids[0]) and not events.true.size:
            # All are filed under tests, and none of these is TRUE.
            return _NO_PAIRS, 0
        if self.postings.rows.size and events.true.size:
            return match_event_with_tests(*self._grids, self.tables, self.postings, events, *block_marks())
        pairs, candidates, doubts = match_event(*self._grids, self.postings, events)
        if len(doubts):
            assert codes_of is not None, "events without codes come with a way to get them"
            pairs = np.concatenate([pairs, self.decide(doubts, codes_of)])
        return pairs, candidates

    @cached
    def _grids(self) -> tuple[Int64s, Int64s]:
        """The grids by the column in which an event must have a value to look into them, for `match_event`."""
        tables, columns = self.tables, self.postings.short_shift.size
        grids = np.flatnonzero(tables.column_a != BY_TEST)
        column = np.where(tables.needs_value[grids], tables.column_a[grids], columns)
        grids = grids[np.argsort(column, kind="stable")]
        starts = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=columns + 1))])
        return np.stack([getattr(tables, name)[grids] for name in GRIDS], axis=1, dtype=np.int64), starts

    @property
    def needs_codes(self) -> bool:
        """Whether some conjunction has a test or more predicates than its postings carry."""
        return self.postings.rest.size > 0 or self.postings.rows.size > 0

    @cached
    def fills_vectors(self) -> bool:
        """Whether a bucket of the grids has half a vector of postings or more, in the mean."""
        buckets = (self.tables.mask[self.tables.column_a != BY_TEST] + 1).sum()
        return bool(2 * self.postings.rectangle.size >= VECTOR_WIDTH * buckets > 0)

    def decide(self, doubts: Int32s, codes_of: CodesOf) -> Int32s:
        """Return the doubts that match, as pairs. Only an index without rest lists has doubts: none is tagged."""
        event, number = doubts[:, DOUBT_EVENT], doubts[:, DOUBT_TAGGED]
        rectangles = self.postings.rectangles[number]
        distinct, place = np.unique(event, return_inverse=True)
        codes = codes_of(distinct)
        holds = np.ones(event.size, bool)
        for column, low, high in (
            (doubts[:, DOUBT_COLUMN_A], LOW_A, HIGH_A),
            (doubts[:, DOUBT_COLUMN_B], LOW_B, HIGH_B),
            (rectangles[:, COLUMN_C], LOW_C, HIGH_C),
        ):
            code = codes[column, place]
            holds &= (rectangles[:, low] <= code) & (code <= rectangles[:, high])
        conjunction_of = self.postings.conjunction_of
        conjunction = conjunction_of[number[holds]] if conjunction_of.size else number[holds]
        return np.stack([event[holds], conjunction], axis=1)

    def with_short_codes(self, events: Events) -> Events:
        """Return the events with the short codes of all columns."""
        if events.short.size:
            return events
        short = short_codes_by_rank(events.codes, self.postings.short_shift)
        return events._replace(short=short, row_of=np.arange(len(short), dtype=np.int32))

    def assuming(self, first: int, end: int) -> "PairIndex":
        """Return the index as if the tests `first` to `end` had whatever truth value is accepted."""
        rest = self.postings.rest.copy()
        assumed = (rest[:, REST_ACCEPTS] < 0) & (rest[:, REST_TEST] >= first) & (rest[:, REST_TEST] < end)
        rest[assumed, REST_ACCEPTS] = ~ANY_TRUTH
        return PairIndex(self.tables, self.postings._replace(rest=rest))

    def renumbered(self, numbers: Int32s, count: int) -> "PairIndex":
        """Return the index with conjunction i as number `numbers[i]`, ascending, of `count`."""
        if numbers.size == count:
            return self
        postings = self.postings
        rows, rectangles = postings.rows.copy(), postings.rectangles.copy()
        for table in (rows, rectangles):
            table[:, CONJUNCTION] = numbers[table[:, CONJUNCTION]]
        rest_starts = postings.rest_starts[np.searchsorted(numbers, np.arange(count + 1))]
        renumbered = postings._replace(
            rows=rows, rectangles=rectangles, conjunction_of=rectangles[:, CONJUNCTION].copy(), rest_starts=rest_starts
        )
        return PairIndex(self.tables, renumbered)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as named arrays, for a segment file."""
        tables = {f"tables.{name}": array for name, array in self.tables._asdict().items()}
        return tables | {f"postings.{name}": array for name, array in self.postings._asdict().items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "PairIndex":
        """Return the index that `arrays` came from, without copying."""
        tables = PairTables(*(arrays[f"tables.{name}"] for name in PairTables._fields))
        return cls(tables, Postings(*(arrays[f"postings.{name}"] for name in Postings._fields)))

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays().values())

    def describe(self, count: int, column_name: Callable[[int], str]) -> Iterator[Step]:
        """Say how `count` conjunctions are filed, and show the largest tables."""
        tables, postings = self.tables, self.postings
        each = int(postings.starts[-1]) / count
        yield Step(
            f", {count:,} conjunctions",
            f"by access pairs: {tables.mask.size} tables, {each:.1f} postings a conjunction",
            "each conjunction is filed under its two most selective predicates",
        )
        filed = np.diff(postings.starts[np.append(tables.first_bucket, postings.starts.size - 1)])
        for table in np.argsort(-filed, kind="stable")[:_TABLES_SHOWN].tolist():
            a, b = (
                "tests that are TRUE" if c == BY_TEST else column_name(c)
                for c in (tables.column_a[table], tables.column_b[table])
            )
            reason = (
                "no predicate of theirs is worth a table" if a == b else "the fewest candidates for the looks it costs"
            )
            buckets = int(tables.mask[table]) + 1
            yield Step(f", table on {a} and {b}", f"{filed[table]:,} postings in {buckets:,} buckets", reason)

    def check_arrays(self, bounds: Extent) -> None:
        """Demand what keeps the kernels within their arrays."""
        tables, postings = self.tables, self.postings
        with under("tables."):
            self._check_tables(bounds.columns)
        with under("postings."):
            check_fields(Postings, postings, {"rows": HIGH_C + 1, "rectangles": HIGH_C + 1, "rest": 3, "ranges": 2})
            by_test, rest = len(postings.rows), postings.rest
            buckets = int((tables.mask + 1).sum())
            check_starts("starts", postings.starts, buckets, by_test + postings.rectangle.size)
            first_grid = int((tables.mask[tables.column_a == BY_TEST] + 1).sum())
            demand(postings.starts[first_grid] == by_test, "rows", "they are not the postings of the tables by test")
            size = SHORT_FIELDS * postings.rectangle.size + VECTOR_WIDTH
            demand(postings.short.size == size, "short", "a posting lacks some of its fields")
            demand(postings.short_shift.size == bounds.columns, "short_shift", "it has not one entry for each column")
            check_within("short_shift", postings.short_shift, QUANTIZED, 32)
            conjunctions = postings.rest_starts.size - 1
            demand(0 <= conjunctions <= bounds.conjunctions, "rest_starts", "it has more lists than conjunctions")
            check_starts("rest_starts", postings.rest_starts, conjunctions, len(rest))
            for name, table in (("rows", postings.rows), ("rectangles", postings.rectangles)):
                check_within(name, table[:, CONJUNCTION], 0, conjunctions)
            check_tagged("rows", postings.rows[:, COLUMN_C], bounds.columns)
            check_within("rectangles", postings.rectangles[:, COLUMN_C], 0, bounds.columns)
            check_tagged("rectangle", postings.rectangle, len(postings.rectangles))
            if postings.conjunction_of.size:
                same = postings.conjunction_of.size == len(postings.rectangles)
                demand(same, "conjunction_of", "not each rectangle has a conjunction")
                check_within("conjunction_of", postings.conjunction_of, 0, conjunctions)
            else:
                demand(len(postings.rectangles) <= conjunctions, "rectangles", "a rectangle has no conjunction")
            if not rest.size:
                demand(postings.rows[:, COLUMN_C] >= 0, "rows", "one has a rest list, and there is none")
                demand(postings.rectangle >= 0, "rectangle", "one has a rest list, and there is none")
            is_test = rest[:, REST_COLUMN] < 0
            check_within("rest", rest[~is_test, REST_COLUMN], 0, bounds.columns)
            ranges = rest[~is_test]
            check_ranges("rest", ranges[:, REST_FIRST_RANGE], ranges[:, REST_END_RANGE], len(postings.ranges))
            check_within("rest", rest[is_test, REST_NULL_COLUMN], -1, bounds.columns)
            self._check_used()

    def _check_tables(self, columns: int) -> None:
        tables = self.tables
        check_fields(PairTables, tables)
        for name in PairTables._fields:
            if name not in ("used", "used_starts"):
                demand(getattr(tables, name).size == tables.mask.size, name, "it has not one entry for each table")
        check_within("column_a", tables.column_a, BY_TEST, columns)
        check_within("column_b", tables.column_b, 0, columns)
        check_within("shift_a", tables.shift_a, 0, 32)
        check_within("shift_b", tables.shift_b, 0, 32)
        demand((tables.mask >= 0) & (tables.mask & (tables.mask + 1) == 0), "mask", "buckets are not a power of two")
        check_within("mask", tables.mask, 0, 2**31)
        follow = np.array_equal(tables.first_bucket, np.cumsum(tables.mask + 1) - tables.mask - 1)
        demand(follow, "first_bucket", "the buckets of tables do not follow each other")
        demand(np.diff((tables.column_a != BY_TEST).view(np.int8)) >= 0, "column_a", "tables by test do not come first")
        check_starts("used_starts", tables.used_starts, tables.mask.size, tables.used.size)
        check_within("used", tables.used, 0, columns)

    def _check_used(self) -> None:
        """Demand that each grid names the columns of its postings: their codes are laid out, and no others."""
        tables, postings = self.tables, self.postings
        starts = np.maximum(postings.starts - len(postings.rows), 0)
        sizes = np.diff(starts)
        place = np.arange(postings.rectangle.size) - np.repeat(starts[:-1], sizes)
        third = postings.short[
            np.repeat(SHORT_FIELDS * starts[:-1] + SHORT_COLUMN_C * sizes, sizes) + place
        ]  # see Postings
        ends = starts[np.append(tables.first_bucket, starts.size - 1)]
        named = np.zeros(max(int(third.max(initial=0)), int(tables.used.max(initial=0))) + 1, bool)
        for table in np.flatnonzero(tables.column_a != BY_TEST).tolist():
            used = tables.used[tables.used_starts[table] : tables.used_starts[table + 1]]
            named[used] = True
            own = named[[tables.column_a[table], tables.column_b[table]]].all()
            demand(own and named[third[ends[table] : ends[table + 1]]].all(), "short", "its table lacks a column")
            named[used] = False

    def check(self) -> None:
        """Assert what the kernels rely on."""
        postings, starts = self.postings, self.postings.starts
        assert starts[0] == 0, "the first bucket starts at the first posting"
        assert starts[-1] == len(postings.rows) + postings.rectangle.size, "the last bucket ends at the last posting"
        fields = SHORT_FIELDS * postings.rectangle.size
        assert postings.short.size == fields + VECTOR_WIDTH, "a posting of a grid has all its short fields"
        assert (np.diff((self.tables.column_a != BY_TEST).astype(int)) >= 0).all(), "tables of tests come first"
        assert (np.diff(starts) >= 0).all(), "buckets follow each other"
        assert (self.tables.mask & (self.tables.mask + 1) == 0).all(), "a table has a power of two of buckets"
        assert (self.postings.rest_starts[1:] >= self.postings.rest_starts[:-1]).all(), "rest lists follow each other"
        assert self.postings.rest_starts[-1] == len(self.postings.rest), "the last rest list ends at the end"


class Matching:
    """One batch on its way through an index: the grids may be matched a few at a time."""

    def __init__(self, index: PairIndex, events: Events) -> None:
        self._index = index
        self.events = index.with_short_codes(events)
        if index.fills_vectors:
            short_by_event = transpose_short_codes(self.events.short, self.events.row_of)
            self.events = self.events._replace(short_by_event=short_by_event)
        # NumPy asks for large pages, and only what is used of the room costs memory.
        room = TUNING.matches_per_event * (self.events.short.shape[1] + 32)
        self._found = FoundPairs(np.empty((room, 2), np.int32), 0)
        self._candidates = 0
        if index.postings.rows.size:
            self._found, self._candidates = match_by_test(
                index.tables, index.postings, self.events, self._found, *block_marks()
            )
        self._doubts: list[Int32s] = []

    def match_grids(self, layouts: Layouts) -> None:
        """Match the grids that `layouts` does not skip."""
        index = self._index
        self._found, candidates, doubts = match_grids(index.tables, index.postings, self.events, layouts, self._found)
        self._candidates += candidates
        self._doubts.append(doubts)

    def finish(self, codes_of: CodesOf | None) -> tuple[Int32s, int]:
        """Return what `PairIndex.match` returns."""
        pairs, used = self._found
        doubts = np.concatenate(self._doubts)
        if len(doubts):
            assert codes_of is not None, "events without codes come with a way to get them"
            decided = self._index.decide(doubts, codes_of)
            pairs = pairs if used + len(decided) <= len(pairs) else grown(pairs, used + len(decided))
            pairs[used : used + len(decided)] = decided
            used += len(decided)
        return pairs[:used], self._candidates
