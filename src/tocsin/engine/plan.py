"""What a matcher chose to do with its subscriptions, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tocsin._kernels.pairs import HELD
from tocsin.engine.parts import Snapshot, View
from tocsin.engine.segment import Segment
from tocsin.matching.auto import AutoMatcher
from tocsin.predicates.history.order import Order
from tocsin.predicates.history.prefilter import Savings

MOST_TABLES = 5
"""Tables of a segment that are shown, the largest first."""
_FAMILIES = {
    "words": "all words and phrases of a text are found in one pass",
    "patterns": "the literal fragments of all patterns are found in one pass; only their patterns are verified",
    "xpath": "distinct paths of a document are matched once and remembered across documents",
    "arrays": "the elements of a list are looked up among the constants",
    "history": "answered from aggregates of the history, or from bitmaps of old events",
    "listed": "few enough to be judged one by one, a column at a time",
}


@dataclass(frozen=True)
class Step:
    """One choice and its reason."""

    what: str
    choice: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """How events are matched, step by step."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return "\n".join(f"{step.what}: {step.choice}\n    {step.reason}" for step in self.steps)


def plan(snapshot: Snapshot, history: Sequence[tuple[Order, Savings] | None]) -> Plan:
    """Describe how the parts of a snapshot are matched; `history` has what was chosen for tests on it, by view."""
    steps: list[Step] = []
    for number, (view, judged) in enumerate(zip(snapshot.views, history, strict=True), 1):
        name = f"segment {number} of {len(snapshot.views)}"
        steps += _phase_2(name, view.segment)
        steps += _families(name, view.segment)
        steps += _expensive(name, view)
        steps += _history(name, judged)
        steps.append(Step(f"{name}, top-k", *view.ranked.plan()))
    return Plan(tuple(steps))


def _phase_2(name: str, segment: Segment) -> Iterator[Step]:
    size = f"{len(segment):,} subscriptions, {segment.conjunction_count:,} distinct conjunctions"
    if not isinstance(segment.matcher, AutoMatcher):
        yield Step(name, f"{size}, in two phases, {segment.matcher.matcher} for conjunctions", "asked for")
        for choice in segment.matcher.choices:
            column = segment.columns[choice.column]
            yield Step(f"{name}, {column.attribute} ({column.kind.value})", f"index {choice.index}", choice.reason)
    else:
        yield Step(name, size, "ranges by access pairs, tests alone under the rarest of them")
        yield from _access_pairs(name, segment, segment.matcher)
        yield from _keys(name, segment.matcher)
    shared = segment.owners.starts.size - 1
    if shared:
        yield Step(
            f"{name}, {shared:,} conjunctions of {segment.owners.members.size:,} subscriptions",
            "evaluated once each",
            "subscriptions ask for the same; the list of them is copied to the matches",
        )


def _access_pairs(name: str, segment: Segment, matcher: AutoMatcher) -> Iterator[Step]:
    """The conjunctions with ranges, and their largest tables."""
    if not matcher.split:
        return
    tables, postings = matcher.pairs.tables, matcher.pairs.postings
    per_conjunction = int(postings.starts[-1]) / matcher.split
    yield Step(
        f"{name}, {matcher.split:,} conjunctions",
        f"by access pairs: {tables.mask.size} tables, {per_conjunction:.1f} postings a conjunction",
        "each conjunction is filed under its two most selective predicates",
    )
    filed = np.diff(postings.starts[np.append(tables.first_bucket, postings.starts.size - 1)])
    for table in np.argsort(-filed, kind="stable")[:MOST_TABLES].tolist():
        a, b = _column(segment, tables.column_a[table]), _column(segment, tables.column_b[table])
        reason = "no predicate of theirs is worth a table" if a == b else "the fewest candidates for the looks it costs"
        buckets = int(tables.mask[table]) + 1
        yield Step(f"{name}, table on {a} and {b}", f"{filed[table]:,} postings in {buckets:,} buckets", reason)


def _keys(name: str, matcher: AutoMatcher) -> Iterator[Step]:
    """The conjunctions of tests alone."""
    count = len(matcher.key)
    if count:
        yield Step(
            f"{name}, {count:,} conjunctions of tests alone",
            "Key, under the rarest test of each",
            "only conjunctions whose key holds are looked at",
        )
        drift = matcher.drift
        if drift.looked_at:
            now, best = matcher.key.cost(drift.shares())
            yield Step(
                f"{name}, keys",
                f"chosen anew {drift.rekeyed:,} times",
                f"{drift.looked_at:,} events looked at: {now:,.0f} candidates an event, {best:,.0f} with the best keys",
            )


def _column(segment: Segment, number: int) -> str:
    if number == HELD:
        return "tests that hold"
    return segment.columns[number].attribute if number < len(segment.columns) else "anything"


def _families(name: str, segment: Segment) -> Iterator[Step]:
    for family_name, attribute, family in segment.families:
        where = f"{family_name} on {attribute}" if attribute else family_name
        yield Step(f"{name}, {where}", f"{family.count:,} distinct tests", _FAMILIES[family_name])


def _expensive(name: str, view: View) -> Iterator[Step]:
    """Subscriptions that every event verifies, and those that no event can match."""
    for sort, choice, reason in (
        (
            "unindexed",
            "verified for every event",
            "they demand no constant, word or path: such conditions match almost every event",
        ),
        ("never", "left out", "their predicates contradict each other"),
    ):
        numbers = getattr(view.segment, sort)
        if view.dropped.size:
            numbers = numbers[~view.dropped[numbers]]
        if numbers.size:
            ids = ", ".join(view.segment.ids[number] for number in numbers[:MOST_TABLES].tolist())
            yield Step(
                f"{name}, {numbers.size:,} subscriptions ({ids}{', …' * (numbers.size > MOST_TABLES)})", choice, reason
            )


def _history(name: str, judged: tuple[Order, Savings] | None) -> Iterator[Step]:
    """The order of constant predicates and tests on the history, and what the pre-filter spares."""
    if judged is None:
        return
    order, savings = judged
    choice = "constants first" if order.constants_first else "history first"
    yield Step(f"{name}, order of phases", choice, order.reason)
    yield Step(
        f"{name}, pre-filter",
        f"{savings.ruled_out:,} of {savings.conjunctions:,} conjunctions ruled out now",
        f"{savings.constraints:,} conditions on old events are kept current",
    )
