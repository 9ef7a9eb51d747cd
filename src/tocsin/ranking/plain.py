"""Subscriptions that are one conjunction of ranges, read back from where a segment has them filed.

To derive predicates from texts takes as long as building a segment does. Most subscriptions of a large set are plain:
the postings of their only conjunction carry all of its ranges, as codes of the segment's own columns.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from tocsin.conjunctions.coded import Conjunctions
from tocsin.conjunctions.pairs.match import PairIndex
from tocsin.index.segment import Segment

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_ALTERNATIVES = r"\b(or|not|is|false|null|unknown)\b|\bin\b.*'"
"""What a text must have to become several conjunctions. A segment drops those that another one covers, and relaxed
questions count them; so only texts without it are sure to have one conjunction."""


class Plain(NamedTuple):
    """Plain subscriptions, rising, and their conjunctions: number i is that of `members[i]`."""

    members: Int32
    conjunctions: Conjunctions


def plain_subscriptions(segment: Segment) -> Plain:
    """Read back what is plain in a segment; nothing, if it does not match by access pairs. O(postings)."""
    matcher = segment.index.pairs
    count = 0 if matcher is None else matcher.postings.rest_starts.size - 1
    if matcher is None or not count:
        nothing = np.empty(0, np.int32)
        return Plain(nothing, _of_ranges(segment, 0, nothing, nothing, nothing, nothing))
    subscription, conjunction = _owned(segment)
    several = np.bincount(subscription, minlength=len(segment)) > 1
    unsure = pc.match_substring_regex(segment.texts.arrow(), _ALTERNATIVES, ignore_case=True)
    unsure = np.asarray(unsure.to_numpy(zero_copy_only=False), bool) | several
    # Conjunctions from the split on have tests only.
    tested = np.append(_tested(matcher, count), True)[np.minimum(conjunction, count)]
    plain = ~tested & ~unsure[subscription]
    subscription, conjunction = subscription[plain], conjunction[plain]
    order = np.argsort(subscription)
    conjunction = conjunction[order]
    owner, *ranges = _sorted_ranges(*_filed_ranges(matcher, count), len(segment.columns))
    # The rows of each conjunction, once for every subscription that has it.
    starts = np.searchsorted(owner, np.arange(count + 1))
    sizes = np.diff(starts)[conjunction]
    ends = np.cumsum(sizes)
    rows = np.repeat(starts[conjunction] - (ends - sizes), sizes) + np.arange(int(sizes.sum()))
    number = np.repeat(np.arange(conjunction.size, dtype=np.int32), sizes)
    column, low, high = (part[rows] for part in ranges)
    return Plain(subscription[order], _of_ranges(segment, conjunction.size, number, column, low, high))


def _of_ranges(segment: Segment, count: int, owner: Int32, column: Int32, low: Int32, high: Int32) -> Conjunctions:
    """Conjunctions without tests."""
    last_code = np.array([column.domain.last for column in segment.columns], np.int32)
    nothing = np.empty(0, np.int32)
    return Conjunctions(count, last_code, owner, column, low, high, nothing, nothing, nothing, nothing)


def _owned(segment: Segment) -> tuple[Int32, Int32]:
    """All pairs of a subscription and a conjunction that it has."""
    owner, starts, members = segment.owners
    alone = np.flatnonzero(owner >= 0).astype(np.int32)
    shared = np.flatnonzero(owner < 0).astype(np.int32)
    return np.concatenate([owner[alone], members]), np.concatenate([alone, np.repeat(shared, np.diff(starts))])


def _tested(matcher: PairIndex, count: int) -> Bools:
    """Whether each conjunction has a test."""
    postings = matcher.postings
    tested = np.zeros(count, bool)
    tested[postings.rows[:, 0]] = True
    rest_owner = np.repeat(np.arange(count), np.diff(postings.rest_starts))
    tested[rest_owner[postings.rest[:, 0] < 0]] = True
    return tested


def _filed_ranges(matcher: PairIndex, count: int) -> tuple[Int32, Int32, Int32, Int32]:
    """Conjunction, column, low and high of every range of rectangles in grids and of rest lists; some come again."""
    tables, postings = matcher.tables, matcher.postings
    rectangles = postings.rectangles
    bucket = np.repeat(np.arange(postings.starts.size - 1), np.diff(postings.starts))[len(postings.rows) :]
    table = np.empty(len(rectangles), np.int64)
    number = np.where(postings.rectangle < 0, ~postings.rectangle, postings.rectangle)
    table[number] = np.searchsorted(tables.first_bucket, bucket, side="right") - 1
    ranged = postings.rest[:, 0] >= 0
    column, first, end = postings.rest[ranged].T
    sizes = (end - first).astype(np.int64)
    ends = np.cumsum(sizes)
    rows = np.repeat(first - (ends - sizes), sizes) + np.arange(int(sizes.sum()))
    rest_owner = np.repeat(np.arange(count, dtype=np.int32), np.diff(postings.rest_starts))[ranged]
    owner = rectangles[:, 0]
    return (
        np.concatenate([owner, owner, owner, np.repeat(rest_owner, sizes)]),
        np.concatenate([tables.column_a[table], tables.column_b[table], rectangles[:, 5], np.repeat(column, sizes)]),
        np.concatenate([rectangles[:, 1], rectangles[:, 3], rectangles[:, 6], postings.ranges[rows, 0]]),
        np.concatenate([rectangles[:, 2], rectangles[:, 4], rectangles[:, 7], postings.ranges[rows, 1]]),
    )


def _sorted_ranges(
    owner: Int32, column: Int32, low: Int32, high: Int32, columns: int
) -> tuple[Int32, Int32, Int32, Int32]:
    """The ranges sorted by conjunction, column and low, each once, without those on no column."""
    real = np.flatnonzero(column < columns)
    order = real[np.lexsort((low[real], column[real], owner[real]))]
    owner, column, low, high = owner[order], column[order], low[order], high[order]
    new = np.ones(owner.size, bool)
    new[1:] = (owner[1:] != owner[:-1]) | (column[1:] != column[:-1]) | (low[1:] != low[:-1])
    return owner[new], column[new], low[new], high[new]
