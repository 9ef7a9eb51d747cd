"""Loops of matching attribute by attribute: the conjunctions that clusters leave, and their predicates one by one.

`codes[column, event]` is -1 for NULL, which costs no evaluation.
"""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Int32s, Int64s, UInt16s
from tocsin.papers.tatbul.cluster_kernels import Clusters, find_leaf, grown


class Ranges(NamedTuple):
    """The ranges of each conjunction, sorted by column: those of ``c`` are rows ``starts[c]`` to ``starts[c + 1]``."""

    starts: Int64s
    column: Int32s
    low: Int32s
    high: Int32s


@kernel
def evaluate_lazily(ranges: Ranges, conjunction: int, codes: Int32s, event: int) -> tuple[bool, int]:
    """Evaluate the predicates of a conjunction up to the first that fails: whether all hold, and ranges evaluated."""
    at, end = ranges.starts[conjunction], ranges.starts[conjunction + 1]
    evaluations = 0
    while at < end:
        column = ranges.column[at]
        code = codes[column, event]
        holds = False
        while at < end and ranges.column[at] == column:
            holds = holds or (ranges.low[at] <= code and code <= ranges.high[at])
            evaluations += 1 if code >= 0 else 0
            at += 1
        if not holds:
            return False, evaluations
    return True, evaluations


@kernel
def match_lazily(ranges: Ranges, codes: Int32s) -> tuple[Int32s, Int32s, int]:
    """Evaluate every conjunction on every event, lazily: the events and conjunctions that hold, and evaluations."""
    events, conjunctions = np.empty(64, np.int32), np.empty(64, np.int32)
    found, evaluations = 0, 0
    for event in range(codes.shape[1]):
        for conjunction in range(len(ranges.starts) - 1):
            holds, more = evaluate_lazily(ranges, conjunction, codes, event)
            evaluations += more
            if holds:
                events, conjunctions = grown(events, found + 1), grown(conjunctions, found + 1)
                events[found], conjunctions[found] = event, conjunction
                found += 1
    return events[:found].copy(), conjunctions[:found].copy(), evaluations


@kernel
def count_clusters(tree: Clusters, conjunction: Int32s, codes: Int32s, counts: UInt16s) -> int:
    """Add one to ``counts[event, c]`` for each conjunction of the cluster that an event falls into.

    Entry ``i`` of the tree is a range of ``conjunction[i]``; those of one conjunction stand side by side and count
    once. Returns the number of keys compared.
    """
    evaluations = 0
    for event in range(len(codes)):
        if codes[event] < 0:
            continue
        leaf, compared = find_leaf(tree, codes[event])
        evaluations += compared
        last = -1
        for place in range(tree.offsets[leaf], tree.offsets[leaf + 1]):
            member = conjunction[tree.ids[place]]
            if member != last:
                counts[event, member] += 1
            last = member
    return evaluations


@kernel
def verify_counted(ranges: Ranges, codes: Int32s, counts: UInt16s, wanted: UInt16s) -> tuple[Int32s, Int32s, int, int]:
    """Evaluate the conjunctions that every attribute left, ``counts[event, c] == wanted[c]``.

    Returns the events and conjunctions that hold, how many were evaluated, and the evaluations.
    """
    events, conjunctions = np.empty(64, np.int32), np.empty(64, np.int32)
    found, candidates, evaluations = 0, 0, 0
    for event in range(len(counts)):
        for conjunction in range(len(wanted)):
            if counts[event, conjunction] != wanted[conjunction]:
                continue
            candidates += 1
            holds, more = evaluate_lazily(ranges, conjunction, codes, event)
            evaluations += more
            if holds:
                events, conjunctions = grown(events, found + 1), grown(conjunctions, found + 1)
                events[found], conjunctions[found] = event, conjunction
                found += 1
    return events[:found].copy(), conjunctions[:found].copy(), candidates, evaluations
