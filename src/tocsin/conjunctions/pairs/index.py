"""Key by access pairs: the batch matcher over code ranges and tests.

Each conjunction is filed under its two most selective predicates, in the cells of grids over two columns
(`conjunctions/pairs/access.py` chooses them). A posting carries three ranges of its conjunction, so that most
conjunctions are verified without a look elsewhere. A batch is sorted by cell and each cell's postings stream once past
its events.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin._compile import LANES
from tocsin.conjunctions.coded import Conjunctions, Predicates, range_predicates
from tocsin.conjunctions.pairs.access import Access, Side, choose, shifts
from tocsin.conjunctions.pairs.bucket import FIELDS
from tocsin.conjunctions.pairs.grid import match_grids, side_by_side
from tocsin.conjunctions.pairs.held import match_held
from tocsin.conjunctions.pairs.kernels import HELD, Events, Found, Postings, Tables, file_rectangles, grown
from tocsin.conjunctions.pairs.layout import NO_LAYOUTS, Layouts, short_codes
from tocsin.conjunctions.pairs.shorten import shorten
from tocsin.conjunctions.protocol import CodesOf, Step
from tocsin.predicates.ranges.quantize import LAST, OUTSIDE, ShortCodes

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

_ANY_TRUTH = 7
_HASH_A, _HASH_B = 0x9E3779B1, 0x85EBCA6B
_ROOM = 128
"""Matches an event that there is room for before the room must grow."""
MOST_TABLES = 5
"""Tables that a description shows, the largest first."""


@dataclass(frozen=True)
class PairIndex:
    """Conjunctions filed by access pairs. Immutable; built once, probed by batch."""

    tables: Tables
    postings: Postings

    @classmethod
    def build(
        cls,
        conjunctions: Conjunctions,
        popularity: list[npt.NDArray[np.float64]],
        test: Int32 | None = None,
        short: Mapping[int, ShortCodes] | None = None,
    ) -> "PairIndex":
        """File conjunctions; `test[i]` is the test to file conjunction i under, or -1. O(postings).

        `short` has the columns whose short codes come with the events; those of others are made of their codes.
        """
        filed_under = np.full(conjunctions.count, -1, np.int32) if test is None else test
        shortened, shift = shorten(conjunctions, short or {})
        predicates = range_predicates(conjunctions, popularity).with_widths_of(shortened)
        access = choose(shortened, predicates, filed_under)
        anything = conjunctions.last_code.size
        rectangles = _rectangles(conjunctions, predicates, access)
        cells = _rectangles(shortened, predicates, access)
        third = _third(predicates, access)
        thirds = [
            _third_ranges(predicates, of.low, of.high, third, anything)[rectangles[:, 0]]
            for of in (conjunctions, shortened)
        ]
        full, cut = (np.concatenate(parts, axis=1) for parts in zip((rectangles, cells), thirds, strict=True))
        # Without a third range, any code of any column will do.
        cut[cut[:, 5] == anything, 5:] = 0, -1, LAST - 1
        tables, of_table = _tables(shortened, access, cut)
        buckets = int(tables.first_bucket[-1] + tables.mask[-1] + 1) if tables.mask.size else 0
        starts = np.zeros(buckets + 1, np.int64)
        posted = file_rectangles(tables, of_table, cells[:, 1:], starts)
        rest_starts, rest, ranges = _rest(conjunctions, predicates, access, third)
        has_rest = np.diff(rest_starts)[rectangles[:, 0]] > 0
        in_grid = tables.column_a[of_table] != HELD
        held = int(np.searchsorted(in_grid[posted], True))
        rows = full[posted[:held]]
        rows[has_rest[posted[:held]], 5] = ~rows[has_rest[posted[:held]], 5]
        number = np.cumsum(in_grid, dtype=np.int32) - 1
        rectangle = np.where(has_rest, ~number, number)[posted[held:]].astype(np.int32)
        conjunction_of = rectangles[in_grid, 0]
        if np.array_equal(conjunction_of, np.arange(conjunctions.count)):
            conjunction_of = conjunction_of[:0]
        fields = _fields(cut, posted[held:], np.maximum(starts - held, 0))
        return cls(
            tables,
            Postings(starts, rows, fields, shift, rectangle, full[in_grid], conjunction_of, rest_starts, rest, ranges),
        )

    def match(self, events: Events, codes_of: CodesOf | None = None) -> tuple[Int32, int]:
        """The (event, conjunction) rows that match, in no order, and the number of candidates verified.

        If `needs_codes` is not the case, the events may come with no codes but short ones; then `codes_of` gives the
        codes of a few events.
        """
        matching = Matching(self, events)
        matching.look(NO_LAYOUTS)
        return matching.finish(codes_of)

    @property
    def needs_codes(self) -> bool:
        """Whether some conjunction has a test or more predicates than its postings carry."""
        return self.postings.rest.size > 0 or self.postings.rows.size > 0

    @cached_property
    def fills_vectors(self) -> bool:
        """Whether a bucket of the grids has half of a vector of postings or more, in the mean."""
        buckets = (self.tables.mask[self.tables.column_a != HELD] + 1).sum()
        return bool(2 * self.postings.rectangle.size >= LANES * buckets > 0)

    def verified(self, doubts: Int32, codes_of: CodesOf) -> Int32:
        """The doubts that match, as pairs."""
        (event, number), (column_a, column_b) = doubts[::2].T, doubts[1::2].T
        _, low_a, high_a, low_b, high_b, column_c, low_c, high_c = self.postings.rectangles[number].T
        distinct, place = np.unique(event, return_inverse=True)
        codes = codes_of(distinct)
        a, b, c = codes[column_a, place], codes[column_b, place], codes[column_c, place]
        holds = (low_a <= a) & (a <= high_a) & (low_b <= b) & (b <= high_b) & (low_c <= c) & (c <= high_c)
        conjunction_of = self.postings.conjunction_of
        conjunction = conjunction_of[number[holds]] if conjunction_of.size else number[holds]
        return np.stack([event[holds], conjunction], axis=1)

    def with_short_codes(self, events: Events) -> Events:
        """The events with the short codes of all columns."""
        if events.short.size:
            return events
        short = short_codes(events.codes, self.postings.short_shift)
        return events._replace(short=short, row_of=np.arange(len(short), dtype=np.int32))

    def assuming(self, first: int, end: int) -> "PairIndex":
        """The same matcher as if the tests `first` to `end` had whatever truth value is accepted."""
        rest = self.postings.rest.copy()
        assumed = (rest[:, 0] < 0) & (rest[:, 1] >= first) & (rest[:, 1] < end)
        rest[assumed, 0] = -1 - _ANY_TRUTH
        return PairIndex(self.tables, self.postings._replace(rest=rest))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as named arrays, for a segment file."""
        tables = {f"tables.{name}": array for name, array in self.tables._asdict().items()}
        return tables | {f"postings.{name}": array for name, array in self.postings._asdict().items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "PairIndex":
        """The matcher that `arrays` came from, without copying."""
        tables = Tables(*(arrays[f"tables.{name}"] for name in Tables._fields))
        return cls(tables, Postings(*(arrays[f"postings.{name}"] for name in Postings._fields)))

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays().values())

    def describe(self, count: int, column_name: Callable[[int], str]) -> Iterator[Step]:
        """Say how `count` conjunctions are filed, and show the largest tables."""
        tables, postings = self.tables, self.postings
        yield Step(
            f", {count:,} conjunctions",
            f"by access pairs: {tables.mask.size} tables, "
            f"{int(postings.starts[-1]) / count:.1f} postings a conjunction",
            "each conjunction is filed under its two most selective predicates",
        )
        filed = np.diff(postings.starts[np.append(tables.first_bucket, postings.starts.size - 1)])
        for table in np.argsort(-filed, kind="stable")[:MOST_TABLES].tolist():
            a, b = (
                "tests that hold" if c == HELD else column_name(c)
                for c in (tables.column_a[table], tables.column_b[table])
            )
            reason = (
                "no predicate of theirs is worth a table" if a == b else "the fewest candidates for the looks it costs"
            )
            buckets = int(tables.mask[table]) + 1
            yield Step(f", table on {a} and {b}", f"{filed[table]:,} postings in {buckets:,} buckets", reason)

    def check(self) -> None:
        """Assert what the kernels rely on."""
        postings, starts = self.postings, self.postings.starts
        assert starts[0] == 0, "the first bucket starts at the first posting"
        assert starts[-1] == len(postings.rows) + postings.rectangle.size, "the last bucket ends at the last posting"
        assert postings.short.size == FIELDS * postings.rectangle.size + LANES, (
            "a posting of a grid has all its short fields"
        )
        assert (np.diff((self.tables.column_a != HELD).astype(int)) >= 0).all(), "tables of tests come first"
        assert (np.diff(starts) >= 0).all(), "buckets follow each other"
        assert (self.tables.mask & (self.tables.mask + 1) == 0).all(), "a table has a power of two of buckets"
        assert (self.postings.rest_starts[1:] >= self.postings.rest_starts[:-1]).all(), "rest lists follow each other"
        assert self.postings.rest_starts[-1] == len(self.postings.rest), "the last rest list ends at the end"


class Matching:
    """One batch on its way through a matcher: grids may be looked into a few at a time."""

    def __init__(self, matcher: PairIndex, events: Events) -> None:
        self._matcher = matcher
        self.events = matcher.with_short_codes(events)
        if matcher.fills_vectors:
            self.events = self.events._replace(rows=side_by_side(self.events.short, self.events.row_of))
        # Only what is used of the room costs memory, and NumPy asks for large pages.
        self._found = Found(np.empty((_ROOM * (self.events.short.shape[1] + 32), 2), np.int32), 0)
        self._candidates = 0
        if matcher.postings.rows.size:
            self._found, self._candidates = match_held(matcher.tables, matcher.postings, self.events, self._found)
        self._doubts: list[Int32] = []

    def look(self, layouts: Layouts) -> None:
        """Look into the grids, but for those that `layouts` leaves for another time."""
        matcher = self._matcher
        self._found, candidates, doubts = match_grids(
            matcher.tables, matcher.postings, self.events, layouts, self._found
        )
        self._candidates += candidates
        self._doubts.append(doubts)

    def finish(self, codes_of: CodesOf | None) -> tuple[Int32, int]:
        """What `PairIndex.match` returns."""
        pairs, used = self._found
        doubts = np.concatenate(self._doubts)
        if len(doubts):
            assert codes_of is not None, "events without codes come with a way to get them"
            verified = self._matcher.verified(doubts, codes_of)
            pairs = pairs if used + len(verified) <= len(pairs) else grown(pairs, used + len(verified))
            pairs[used : used + len(verified)] = verified
            used += len(verified)
        return pairs[:used], self._candidates


def _ranges_of(predicates: Predicates, side: Side) -> tuple[Int64, Int64]:
    """For each conjunction, its number of ranges on this side and the first of them (-1: no predicate)."""
    predicate = side.predicate
    if predicates.column.size == 0:
        return np.ones(predicate.size, np.int64), np.full(predicate.size, -1, np.int64)
    there = predicate >= 0
    count = np.where(there, (predicates.end - predicates.first)[predicate], 1).astype(np.int64)
    return count, np.where(there, predicates.first[predicate], -1).astype(np.int64)


def _rectangles(conjunctions: Conjunctions, predicates: Predicates, access: Access) -> Int32:
    """Rows (conjunction, low a, high a, low b, high b): every range of side a with every range of side b."""
    count_a, first_a = _ranges_of(predicates, access.a)
    count_b, first_b = _ranges_of(predicates, access.b)
    owner = np.repeat(np.arange(conjunctions.count), count_a * count_b)
    begin = np.cumsum(count_a * count_b) - count_a * count_b
    place = np.arange(owner.size) - begin[owner]
    rows = np.zeros((owner.size, 5), np.int32)
    rows[:, 0] = owner
    for offset, first, step in ((1, first_a, place // count_b[owner]), (3, first_b, place % count_b[owner])):
        there = first[owner] >= 0
        row = np.where(there, first[owner] + step, 0)
        if conjunctions.low.size:
            rows[:, offset] = np.where(there, conjunctions.low[row], 0)
            rows[:, offset + 1] = np.where(there, conjunctions.high[row], 0)
    held = access.a.column[owner] == HELD
    rows[:, 1] = np.where(held, access.test[owner], rows[:, 1])
    rows[:, 2] = np.where(held, access.test[owner], rows[:, 2])
    return rows


def _tables(conjunctions: Conjunctions, access: Access, rectangles: Int32) -> tuple[Tables, Int32]:
    """One table for each combination of columns and levels in use, and the table of each rectangle, in short codes."""
    owner = rectangles[:, 0]
    a, b = access.a, access.b
    key = np.stack([a.column, a.level, b.column, b.level], axis=1)[owner].astype(np.int64)
    packed = ((key[:, 0] + 1) << 40) | (key[:, 1] << 32) | (key[:, 2] << 8) | key[:, 3]
    _, one, of_table, size = np.unique(packed, return_index=True, return_inverse=True, return_counts=True)
    column_a, level_a, column_b, level_b = key[one].T
    shift = shifts(conjunctions.last_code)
    shift_a = np.where(column_a == HELD, 0, shift[column_a, level_a])
    shift_b = shift[column_b, level_b]
    tests = int(access.test.max(initial=-1)) + 1
    last_code = np.append(conjunctions.last_code, 0)
    cells_a = ((np.where(column_a == HELD, tests, last_code[column_a]) + 1) >> shift_a) + 1
    cells_b = ((last_code[column_b] + 1) >> shift_b) + 1
    dense = cells_a * cells_b <= np.maximum(4 * size, 1024)
    buckets = np.exp2(np.ceil(np.log2(np.where(dense, cells_a * cells_b, size)))).astype(np.int64)
    accepts_null = np.zeros(one.size, bool)
    null = ((rectangles[:, 1] < 0) & (a.column[owner] != HELD)) | (rectangles[:, 3] < 0)
    accepts_null[of_table[null]] = True
    tables = Tables(
        column_a=column_a.astype(np.int32),
        shift_a=shift_a.astype(np.int32),
        column_b=column_b.astype(np.int32),
        shift_b=shift_b.astype(np.int32),
        multiplier_a=np.where(dense, cells_b, _HASH_A),
        multiplier_b=np.where(dense, 1, _HASH_B),
        mask=buckets - 1,
        first_bucket=np.cumsum(buckets) - buckets,
        needs_value=~accepts_null,
        **_used(column_a, column_b, rectangles[:, 5], of_table),
    )
    return tables, of_table.astype(np.int32)


def _used(column_a: Int32, column_b: Int32, column_c: Int32, of_table: Int32) -> dict[str, npt.NDArray[Any]]:
    """The columns that each table uses."""
    number = np.arange(column_a.size)
    table = np.concatenate([number[column_a != HELD], number, of_table])
    column = np.concatenate([column_a[column_a != HELD], column_b, column_c])
    distinct = np.unique((table.astype(np.int64) << 32) | column)
    starts = np.searchsorted(distinct >> 32, np.arange(column_a.size + 1)).astype(np.int64)
    return {"used_starts": starts, "used": (distinct & 0xFFFFFFFF).astype(np.int32)}


def _third(predicates: Predicates, access: Access) -> Int32:
    """For each conjunction, its most selective predicate of one range that is no access; or -1."""
    third = np.full(access.test.size, -1, np.int32)
    number = np.arange(predicates.conjunction.size, dtype=np.int32)
    owner = predicates.conjunction
    free = (predicates.end - predicates.first == 1) & (access.a.predicate[owner] != number)
    free &= (access.b.predicate[owner] != number) & (predicates.column < OUTSIDE)
    # Predicates are sorted by selectivity within their conjunction: written backwards, the first one stays.
    third[owner[free][::-1]] = number[free][::-1]
    return third


def _third_ranges(predicates: Predicates, low: Int32, high: Int32, third: Int32, anything: int) -> Int32:
    ranges = np.zeros((third.size, 3), np.int32)
    ranges[:, 0] = anything
    there = third >= 0
    row = predicates.first[third[there]]
    ranges[there] = np.stack([predicates.column[third[there]], low[row], high[row]], axis=1)
    return ranges


def _fields(rectangles: Int32, posted: Int32, starts: Int64) -> npt.NDArray[np.uint16]:
    """The short fields of the postings of grids. `starts` says where the postings of each bucket start."""
    sizes = np.diff(starts)
    first, size = np.repeat(starts[:-1], sizes), np.repeat(sizes, sizes)
    place = (FIELDS - 1) * first + np.arange(posted.size)
    # The last postings are read together with what stands behind them.
    fields = np.zeros(FIELDS * posted.size + LANES, np.uint16)
    for field, of_row in ((0, 1), (1, 2), (2, 3), (3, 4), (5, 6), (6, 7)):
        fields[place + field * size] = rectangles[posted, of_row] + 1
    fields[place + 4 * size] = rectangles[posted, 5]
    return fields


def _rest(
    conjunctions: Conjunctions, predicates: Predicates, access: Access, third: Int32
) -> tuple[Int64, Int32, Int32]:
    """The predicates and tests that postings do not carry: starts by conjunction, entries, ranges."""
    number = np.arange(predicates.conjunction.size)
    owner = predicates.conjunction
    carried = (access.a.predicate[owner] == number) | (access.b.predicate[owner] == number) | (third[owner] == number)
    left = np.flatnonzero(~carried)
    sizes = (predicates.end - predicates.first)[left].astype(np.int64)
    ends = np.cumsum(sizes)
    rows = np.repeat(predicates.first[left] - (ends - sizes), sizes) + np.arange(int(sizes.sum()))
    ranges = np.stack([conjunctions.low[rows], conjunctions.high[rows]], axis=1).astype(np.int32)
    of_ranges = np.stack([predicates.column[left], ends - sizes, ends], axis=1)

    tested = ~((access.test[conjunctions.test_conjunction] == conjunctions.test) & (conjunctions.test_accepts == 1))
    test = conjunctions.test[tested]
    null_column = conjunctions.test_null_column[test] if test.size else test
    of_tests = np.stack([-1 - conjunctions.test_accepts[tested], test, null_column], axis=1)

    rest_owner = np.concatenate([owner[left], conjunctions.test_conjunction[tested]])
    order = np.argsort(rest_owner, kind="stable")
    rest = np.concatenate([of_ranges, of_tests])[order].astype(np.int32)
    starts = np.searchsorted(rest_owner[order], np.arange(conjunctions.count + 1)).astype(np.int64)
    return starts, rest, ranges
