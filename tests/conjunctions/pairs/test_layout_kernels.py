"""The kernels that lay out the events of a batch, against NumPy and the formulas of their docstrings."""

import numpy as np
import pytest

from pair_cases import random_case
from tocsin._compile import VECTOR_WIDTH
from tocsin.conjunctions.pairs import layout_kernels
from tocsin.conjunctions.pairs.layout_kernels import (
    block_count,
    empty_layouts,
    lay_out,
    lay_out_tables,
    max_block_codes,
    write_entries,
)


@pytest.mark.parametrize("needs_value", [False, True])
@pytest.mark.parametrize("table", [0, 1])
def test_write_entries(table: int, needs_value: bool) -> None:
    """An event of short codes a and b is in cell (a >> shift_a, b >> shift_b)."""
    case = random_case(3, rectangles=1, events=60, shift=1)
    tables = case.tables._replace(needs_value=np.array([needs_value] * 2))
    short, row_of = case.events.short[::-1].copy(), case.events.row_of[::-1].copy()
    event_of, bucket_of = np.empty(60, np.int32), np.empty(60, np.int32)
    count = write_entries(tables, table, short, row_of, event_of, bucket_of)
    a, b = (short[row_of[column[table]]].astype(np.int64) for column in (tables.column_a, tables.column_b))
    looks = (a > 0) & (b > 0) if needs_value else np.ones(60, bool)
    cells = (a >> tables.shift_a[table]) * tables.multiplier_a[table]
    cells += (b >> tables.shift_b[table]) * tables.multiplier_b[table]
    assert event_of[:count].tolist() == np.flatnonzero(looks).tolist()
    assert bucket_of[:count].tolist() == (cells & tables.mask[table])[looks].tolist()
    assert (count < 60) == needs_value


@pytest.mark.parametrize("buckets", [1, 4, 200])
def test_lay_out(buckets: int) -> None:
    """Place i of a bucket is code i % VECTOR_WIDTH of its block i // VECTOR_WIDTH."""
    random = np.random.default_rng(buckets)
    short = random.integers(0, 1000, (5, 150)).astype(np.uint16)
    rows = np.array([4, 0, 2], np.int32)
    event_of, bucket_of = random.permutation(150).astype(np.int32), random.integers(0, buckets, 150).astype(np.int32)
    entries, of_entry = 130, bucket_of.copy()
    ends, order = np.zeros(buckets, np.int32), np.empty(150, np.int32)
    blocks = np.zeros(max_block_codes(buckets, rows.size, 150), np.uint16)
    lay_out(event_of, bucket_of, entries, short, rows, ends, order, blocks)
    expected = event_of[np.argsort(of_entry[:entries], kind="stable")]
    assert order[:entries].tolist() == expected.tolist()
    assert ends.tolist() == np.cumsum(np.bincount(of_entry[:entries], minlength=buckets)).tolist()
    block = begin = 0
    for end in ends.tolist():
        for place in range(begin, end):
            number, inside = block + (place - begin) // VECTOR_WIDTH, (place - begin) % VECTOR_WIDTH
            for row in range(rows.size):
                at = (number * rows.size + row) * VECTOR_WIDTH + inside
                assert blocks[at] == short[rows[row], order[place]]
        block += block_count(end - begin)
        begin = end
    assert block * rows.size * VECTOR_WIDTH <= blocks.size, "there was room"


def test_block_count_and_bound() -> None:
    random = np.random.default_rng(0)
    for events in range(3 * VECTOR_WIDTH):
        assert block_count(events) == int(np.ceil(events / VECTOR_WIDTH))
    for _ in range(200):
        sizes = random.integers(0, random.integers(1, 100), random.integers(1, 20))
        blocks = sum(block_count(int(size)) for size in sizes)
        assert blocks * 3 * VECTOR_WIDTH <= max_block_codes(sizes.size, 3, int(sizes.sum()))


def test_fill_row() -> None:
    blocks, source = np.zeros(20, np.uint16), np.array([7, 8, 9], np.uint16)
    order, places = np.array([2, 0], np.int32), np.array([3, 5], np.int32)
    layout_kernels._fill_row(source, order, places, blocks, 10)
    assert np.flatnonzero(blocks).tolist() == [13, 15]
    assert blocks[[13, 15]].tolist() == [9, 7]


def test_lay_out_tables() -> None:
    """Each table gets what `lay_out` alone makes of it."""
    case = random_case(4, rectangles=1, events=90, buckets=4)
    tables, short = case.tables, case.events.short
    layouts = empty_layouts(tables, 90)
    lay_out_tables(tables, short, layouts)
    for table in range(2):
        event_of, bucket_of = np.empty(90, np.int32), np.empty(90, np.int32)
        entries = write_entries(tables, table, short, case.events.row_of, event_of, bucket_of)
        used = tables.used[tables.used_starts[table] : tables.used_starts[table + 1]]
        ends, order, blocks = np.zeros(4, np.int32), np.empty(90, np.int32), layouts.blocks[table].copy()
        lay_out(event_of, bucket_of, entries, short, used, ends, order, blocks)
        assert layouts.ends[layouts.first_end[table] :][:4].tolist() == ends.tolist()
        assert layouts.order[table].tolist() == order.tolist()
        assert np.array_equal(layouts.blocks[table], blocks)
