"""Phase 1 on a PB+tree: predicates that are unions of ranges, found by the parity of their hits.

The ends of m disjoint ranges are at most 2m one-sided predicates with one id. A value inside a range is hit by the
lower ends of this range and of those below it, and by the upper ends of this range and of those above it: m + 1 hits,
less one for each infinite end, which is not stored. A value outside all ranges gets one hit less. So whether the number
of hits is even or odd tells inside from outside, and one bit of the stored id says which of the two means inside. No
table in memory is needed, however many predicates there are. A point is `=`, "all but one value" is `!=`: one hit
decides.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int64s
from tocsin.errors import OptionError
from tocsin.model.predicate import Range
from tocsin.model.values import Number
from tocsin.papers.pbtree.keys import Key
from tocsin.papers.pbtree.tree import PBPlusTree

ANY_HIT, EVEN_HITS, ODD_HITS = 0, 1, 2
KIND_BITS = 2


class Answers(NamedTuple):
    """The predicates that hold for each value of a batch: of value ``i``, ``ids[offsets[i]:offsets[i + 1]]``."""

    offsets: Int64s
    ids: Int64s


class _Plain(NamedTuple):
    """A range whose ends are keys of the tree."""

    low: Key
    low_closed: bool
    high: Key
    high_closed: bool


class PBTreePhase1:
    """Which predicates of one attribute hold for a value, with the predicates on disk.

    A predicate is a union of sorted disjoint ranges with an id. Each of its ends is found in O(log_B n) pages, but a
    value's hits include ranges of which only one side holds: for two-sided ranges L is about n, whatever holds.

    >>> import tempfile
    >>> with PBPlusTree.create(tempfile.mkdtemp() + "/price.pbt", "float") as tree:
    ...     index = PBTreePhase1(tree)
    ...     index.insert(7, [Range(10.0, True, 30.0, False)])
    ...     index.insert(8, [Range(None, False, 5.0, True), Range(20.0, False, 25.0, False)])
    ...     print(index.probe(10.0), index.probe(22.0), index.probe(30.0), index.probe(5.0))
    [7] [7 8] [] [8]
    """

    def __init__(self, tree: PBPlusTree) -> None:
        self.tree = tree

    def insert(self, predicate: int, ranges: Sequence[Range]) -> None:
        """Add a predicate. Costs one insertion into the tree per finite end."""
        for op, key, sid in _stored(predicate, ranges):
            self.tree.insert(op, key, sid)

    def delete(self, predicate: int, ranges: Sequence[Range]) -> bool:
        """Remove a predicate, given the ranges that it was inserted with; False if the tree did not have all of it."""
        removed = [self.tree.delete(op, key, sid) for op, key, sid in _stored(predicate, ranges)]
        return all(removed)

    def insert_many(self, predicates: Iterable[tuple[int, Sequence[Range]]]) -> None:
        """Add many predicates; into an empty tree, by one bottom-up build."""
        rows = [row for predicate, ranges in predicates for row in _stored(predicate, ranges)]
        if rows:
            self.tree.insert_many(*zip(*rows, strict=True))

    def probe(self, value: object) -> Int64s:
        """The ids of the predicates that hold for `value`, ascending, each once. One search of the tree."""
        return predicates_that_hold(self.tree.search(value))

    def probe_batch(self, values: Sequence[object] | npt.NDArray[np.generic]) -> Answers:
        """The predicates that hold for each of `values`; equal values are searched once."""
        answers = {value: self.probe(value) for value in set(values)}
        found = [answers[value] for value in values]
        offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in found], dtype=np.int64)])
        return Answers(offsets, np.concatenate([np.empty(0, np.int64), *found]))


def predicates_that_hold(hits: Int64s) -> Int64s:
    """The predicates among the stored ids that a search found, by the number of times each was found."""
    stored, times = np.unique(hits, return_counts=True)
    kinds = stored & ((1 << KIND_BITS) - 1)
    holds = (kinds == ANY_HIT) | (times % 2 == (kinds == ODD_HITS))
    return np.unique(stored[holds] >> KIND_BITS)


def _stored(predicate: int, ranges: Sequence[Range]) -> list[tuple[str, Key, int]]:
    """The one-sided predicates that a union of ranges is stored as."""
    single = predicate << KIND_BITS | ANY_HIT
    plain = [_Plain(_plain(each.low), each.low_closed, _plain(each.high), each.high_closed) for each in ranges]
    if len(plain) == 2 and _excludes_one(*plain):
        return [("!=", plain[0].high, single)]
    wide: list[_Plain] = []
    stored: list[tuple[str, Key, int]] = []
    for each in plain:
        if each.low is None and each.high is None:
            raise OptionError(f"predicate {predicate} holds for every value", "Keep it outside the tree")
        if each.low is None or each.high is None or each.low < each.high:
            wide.append(each)
        elif each.low == each.high and each.low_closed and each.high_closed:
            stored.append(("=", each.low, single))
    for each, following in pairwise(wide):
        if not _is_before(each, following):
            raise OptionError(f"the ranges of predicate {predicate} overlap or are not sorted", "Sort and join them")
    infinite = sum((each.low is None) + (each.high is None) for each in wide)
    shared = predicate << KIND_BITS | (ODD_HITS if (len(wide) + 1 - infinite) % 2 else EVEN_HITS)
    for each in wide:
        if each.low is not None:
            stored.append((">=" if each.low_closed else ">", each.low, shared))
        if each.high is not None:
            stored.append(("<=" if each.high_closed else "<", each.high, shared))
    return stored


def _excludes_one(below: _Plain, above: _Plain) -> bool:
    everything_else = below.low is None and above.high is None and below.high is not None and below.high == above.low
    return bool(everything_else) and not below.high_closed and not above.low_closed


def _is_before(left: _Plain, right: _Plain) -> bool:
    if left.high is None or right.low is None:
        return False
    apart = left.high == right.low and not (left.high_closed and right.low_closed)
    return bool(left.high < right.low or apart)


def _plain(constant: object) -> Key:
    """A constant as the tree takes it: a number as an integer if it is one, as a float if a float means it."""
    if isinstance(constant, Number):
        return constant.nearest if isinstance(constant.exact, Decimal) and constant.is_float else constant.exact
    return constant
