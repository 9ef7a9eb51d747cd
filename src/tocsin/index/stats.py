"""Statistics of an index: counts, bytes, segments, and the subscriptions that are expensive or can never match."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tocsin.index.snapshot import SegmentState, Snapshot

MOST_NAMED = 100
"""Subscriptions of one sort that are named; all are counted."""


@dataclass(frozen=True)
class Statistics:
    """The state of a matcher's subscriptions."""

    subscriptions: int
    conjunctions: int
    segments: tuple[int, ...]
    """The subscriptions in each segment, the buffer among them."""
    buffered: int
    """Subscriptions in the buffer: not in a file before the next commit."""
    dropped: int
    """Subscriptions that were removed and whose place a merge will reclaim."""
    snapshot: int
    """The number of the last commit, 0 if there was none."""
    bytes: dict[str, int]
    """By part of the index: domains, pairs, words, patterns, …, and ids and texts; indexes of the papers by name."""
    tests: dict[str, int]
    """Distinct tests by family."""
    never: dict[str, str]
    """Subscriptions that can never match, with the reason: at most 100 are named."""
    never_count: int
    unindexed: dict[str, str]
    """Subscriptions that every event verifies, with the reason: at most 100 are named."""
    unindexed_count: int
    merges: int
    """Merges of segments that this matcher has finished since it was made or opened."""
    rekeyed: int
    """How often conjunctions of tests were filed under new keys, since other tests had become rare."""
    expensive: dict[str, float]
    """The subscriptions that took the most time, at most 100, each with its share of the time of an event; measured on
    a sample of the events that this matcher has matched (`measured_events`), so empty before the first 256."""
    measured_events: int


def statistics(snapshot: Snapshot, number: int, buffered: int, merges: int) -> Statistics:
    """Count what is in a snapshot."""
    states = snapshot.states
    sizes: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    for state in states:
        families = [name for name, _, _ in state.segment.families]
        for name, array in state.segment.container().arrays.items():
            sizes[_section(name, families)] += array.nbytes
        sizes.update(state.segment.index.derived_bytes())
        for name, _, family in state.segment.families:
            tests[name] += family.count
    dropped = [int(state.dropped.sum()) for state in states]
    never = list(_live(states, "never"))
    unindexed = list(_live(states, "unindexed"))
    return Statistics(
        subscriptions=sum(len(state.segment) for state in states) - sum(dropped),
        conjunctions=sum(state.segment.conjunction_count for state in states),
        segments=tuple(len(state.segment) for state in states),
        buffered=buffered,
        dropped=sum(dropped),
        snapshot=number,
        bytes=dict(sizes),
        tests=dict(tests),
        never=dict.fromkeys(never[:MOST_NAMED], "its predicates contradict each other"),
        never_count=len(never),
        unindexed=dict.fromkeys(unindexed[:MOST_NAMED], "it demands no constant, word or path"),
        unindexed_count=len(unindexed),
        merges=merges,
        rekeyed=sum(state.segment.index.rekeyed for state in states),
        expensive=snapshot.expensive(MOST_NAMED),
        measured_events=sum(state.work.events for state in states),
    )


def _section(name: str, families: list[str]) -> str:
    head, _, rest = name.partition(".")
    if head == "family":
        return families[int(rest.partition(".")[0])]
    if head == "conjunctions":
        return rest.partition(".")[0] if "." in rest else head
    return {"domain": "domains", "owners": "pairs", "several": "pairs", "test_null_column": "pairs"}.get(head, head)


def _live(states: tuple[SegmentState, ...], sort: str) -> Iterator[str]:
    for state in states:
        numbers = getattr(state.segment, sort)
        dropped = state.dropped[numbers] if state.dropped.size else np.zeros(numbers.size, bool)
        yield from (state.segment.ids[number] for number in numbers[~dropped].tolist())
