"""What a matcher chose to do with its subscriptions, and why."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tocsin.conjunctions.protocol import Step
from tocsin.index.segment import Segment
from tocsin.index.snapshot import SegmentState, Snapshot
from tocsin.predicates.history.order import Order
from tocsin.predicates.history.prefilter import Savings

MOST_NAMED = 5
"""Subscriptions of one sort that are named."""
MOST_ALIKE = 5
"""Steps with one reason that a summary shows."""
_FAMILIES = {
    "words": "all words and phrases of a text are found in one pass",
    "patterns": "the literal fragments of all patterns are found in one pass; only their patterns are verified",
    "xpath": "expressions share their paths; equal ones are matched once",
    "regexps": "the literal fragments of all expressions are found in one pass; RE2 verifies what has them",
    "places": "areas are filed in the cells that they cover; only those of an event's cell are verified",
    "elements": "elements are matched as events are, with the conditions on them as subscriptions",
    "arrays": "the elements of a list are looked up among the constants",
    "history": "answered from aggregates of the history, or from bitmaps of old events",
    "reference": "whole subscriptions, judged one by one as they were written",
    "attributes": "few enough to be judged one by one, a column at a time",
}


@dataclass(frozen=True)
class Plan:
    """How events are matched, step by step. Prints as a summary; `details` has every step."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        lines = []
        for reason, group in itertools.groupby(self.steps, lambda step: step.reason):
            alike = list(group)
            shown = alike if len(alike) <= MOST_ALIKE else alike[: MOST_ALIKE - 1]
            lines += [f"{step.what}: {step.choice}" for step in shown]
            if len(shown) < len(alike):
                lines.append(f"… and {len(alike) - len(shown):,} steps of the same kind")
            lines.append(f"    {reason}")
        return "\n".join(lines)

    def details(self) -> str:
        """Return every step as text, however many are alike: rules on hundreds of attributes have hundreds."""
        return "\n".join(f"{step.what}: {step.choice}\n    {step.reason}" for step in self.steps)


def plan(snapshot: Snapshot, history: Sequence[tuple[Order, Savings] | None]) -> Plan:
    """Describe how the segments of a snapshot are matched; `history` has the choice for the tests of each on it."""
    steps: list[Step] = []
    for number, (state, judged) in enumerate(zip(snapshot.states, history, strict=True), 1):
        name = f"segment {number} of {len(snapshot.states)}"
        steps += _phase_2(name, state.segment)
        steps += _families(name, state.segment)
        steps += _expensive(name, state)
        steps += _history(name, judged)
        steps.append(Step(f"{name}, top-k", *state.ranking.plan()))
    return Plan((*steps, *_measured(snapshot)))


def _phase_2(name: str, segment: Segment) -> Iterator[Step]:
    size = f"{len(segment):,} subscriptions, {segment.conjunction_count:,} distinct conjunctions"
    yield Step(name, size, "equal conjunctions are stored and evaluated once")
    for step in segment.index.describe(lambda number: _column(segment, number)):
        yield Step(f"{name}{step.what}", step.choice, step.reason)
    for step in segment.trees.describe():
        yield Step(f"{name}{step.what}", step.choice, step.reason)
    shared = segment.owners.starts.size - 1
    if shared:
        yield Step(
            f"{name}, {shared:,} conjunctions of {segment.owners.members.size:,} subscriptions",
            "evaluated once each",
            "subscriptions ask for the same; the list of them is copied to the matches",
        )


def _column(segment: Segment, number: int) -> str:
    """The attribute of a column and the kind it is compared with; the last column is the one of no attribute."""
    if number >= len(segment.common_columns):
        return "anything"
    column = segment.columns[number]
    return f"{column.attribute} ({column.kind.value})"


def _families(name: str, segment: Segment) -> Iterator[Step]:
    for family_name, attribute, family in segment.families:
        where = f"{family_name} on {attribute}" if attribute else family_name
        yield Step(f"{name}, {where}", f"{family.count:,} distinct tests", _FAMILIES[family_name])


def _expensive(name: str, state: SegmentState) -> Iterator[Step]:
    """Subscriptions that every event verifies, and those that no event can match."""
    for sort, choice, reason in (
        (
            "unindexed",
            "verified for every event",
            "they demand no constant, word or path, or one of many: such conditions match many events",
        ),
        ("never", "left out", "their predicates contradict each other"),
    ):
        numbers = getattr(state.segment, sort)
        if state.dropped.size:
            numbers = numbers[~state.dropped[numbers]]
        if numbers.size:
            ids = ", ".join(state.segment.ids[number] for number in numbers[:MOST_NAMED].tolist())
            yield Step(
                f"{name}, {numbers.size:,} subscriptions ({ids}{', …' * (numbers.size > MOST_NAMED)})", choice, reason
            )


def _measured(snapshot: Snapshot) -> Iterator[Step]:
    """The subscriptions that took the most time of the events so far."""
    shares = snapshot.expensive(MOST_NAMED)
    if shares:
        events = max(state.work.events for state in snapshot.states)
        yield Step(
            "the most expensive subscriptions",
            ", ".join(f"{id} {100 * share:.1f} %" for id, share in shares.items()),
            f"their shares of the time of an event, measured on {events:,} events",
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
