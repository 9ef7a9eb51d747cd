"""Why a subscription matched an event, or did not."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tocsin.errors import EventError
from tocsin.index.history import History
from tocsin.index.options import Options
from tocsin.language.normal_form import Nesting, NormalForm
from tocsin.language.to_sql import describe
from tocsin.model.analyzer import analyzed_source
from tocsin.model.casts import Time, to_text
from tocsin.model.condition import (
    Aggregate,
    Aggregated,
    AttributeComparison,
    HistoryTest,
    Quantified,
    UnnestExists,
    XPathExists,
)
from tocsin.model.events import Event
from tocsin.model.expression_tree import is_derived
from tocsin.model.highlight import Span
from tocsin.model.lookup import lookup
from tocsin.model.predicate import Accepts, Predicate, Ranges, Tested
from tocsin.model.sql_text import constant
from tocsin.model.subscription import Subscription
from tocsin.model.untyped import is_untyped, source_of
from tocsin.model.values import Kind, Moment, is_null, kind_of
from tocsin.predicates.evaluate import highlighted, holding_element, holds
from tocsin.predicates.xpath import parse_xpath
from tocsin.predicates.xpath.oracle import failing_step

LONGEST_VALUE = 60
"""Characters of a value that are shown; texts may be documents."""
MOST_SHOWN = 20
"""Predicates up to which all are shown, and of a summary: a screen of them."""
MOST_PLACES = 5
"""Places in a text that are shown."""
LONGEST_CONDITION = 500
"""Characters of a condition that a summary shows."""


@dataclass(frozen=True)
class Verdict:
    """One predicate and whether it held, with the event's value, the step at which a path fails or the old event."""

    predicate: Predicate
    holds: bool
    detail: str = ""
    highlights: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    """Where in the texts of the event it found what it looks for: (start, end) in characters, by attribute."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as what JSON has."""
        return {"text": describe(self.predicate), "holds": self.holds, "detail": self.detail}

    def __str__(self) -> str:
        places = [f"{start}:{end}" for there in self.highlights.values() for start, end in there]
        at = f"at {', '.join(places[:MOST_PLACES])}{', …' if len(places) > MOST_PLACES else ''}" if places else ""
        detail = f"  ({', '.join(filter(None, (self.detail, at)))})" if self.detail or at else ""
        return f"{'holds' if self.holds else 'FAILS'}  {describe(self.predicate)}{detail}"


@dataclass(frozen=True)
class Explanation:
    """Every alternative of a subscription with its predicates; it matches if some alternative has no failure.

    Prints all of them, or a summary if they are many: the alternative that holds, or the one that comes nearest to it.
    `details` has all in any case.

    A subscription that is kept as a tree has too many alternatives. It has one here, of the predicates that decide: if
    it matches, all of them hold, and that is enough; if not, all of them fail, and that is enough.
    """

    subscription: Subscription
    matches: bool
    alternatives: Sequence[Sequence[Verdict]]
    predicates: int | None = None
    """How many predicates a tree has; None if the subscription is not kept as a tree."""
    highlights: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    """If it matches, where in the texts of the event it found what it looks for, as in a verdict."""

    def __str__(self) -> str:
        if sum(map(len, self.alternatives)) <= MOST_SHOWN:
            return self.details()
        failures = [sum(not verdict.holds for verdict in verdicts) for verdicts in self.alternatives]
        chosen = failures.index(min(failures))
        verdicts = [verdict for verdict in self.alternatives[chosen] if verdict.holds == self.matches]
        lines = self._head(_cut(self.subscription.where))
        if len(self.alternatives) > 1:
            which = "which holds" if self.matches else "which comes nearest"
            lines.append(f"  alternative {chosen + 1:,} of {len(self.alternatives):,}, {which}")
        lines += [f"    {verdict}" for verdict in verdicts[:MOST_SHOWN]]
        if len(verdicts) > MOST_SHOWN:
            lines.append(f"    … and {len(verdicts) - MOST_SHOWN:,} more that {'hold' if self.matches else 'fail'}")
        return "\n".join(lines)

    def details(self) -> str:
        """Return every alternative with all its predicates as text."""
        lines = self._head(self.subscription.where)
        for number, verdicts in enumerate(self.alternatives, 1):
            if len(self.alternatives) > 1:
                lines.append(f"  alternative {number} of {len(self.alternatives)}")
            lines += [f"    {verdict}" for verdict in verdicts] or ["    holds  always"]
        if not self.alternatives:
            lines.append("    can never match: its predicates contradict each other")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as what JSON has: each predicate as `text`, with `holds` and `detail`."""
        return {
            "subscription": self.subscription.id,
            "where": self.subscription.where,
            "matches": self.matches,
            "alternatives": [[verdict.as_dict() for verdict in verdicts] for verdicts in self.alternatives],
        }

    def _head(self, where: str) -> list[str]:
        lines = [f"{self.subscription.id}: {'matches' if self.matches else 'does not match'}: {where}"]
        if self.predicates is not None:
            lines.append(f"  decided by {len(self.alternatives[0]):,} of its {self.predicates:,} predicates")
        return lines


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_CONDITION else f"{text[: LONGEST_CONDITION - 1]}…"


def explain(
    subscription: Subscription,
    form: NormalForm,
    event: Event,
    options: Options,
    history: History,
    given: Event | None = None,
) -> Explanation:
    """Judge every predicate of a subscription, given its normal form, for an event.

    `given` is the event as it came, if its texts were read as times and numbers.
    """
    given = event if given is None else given
    alternatives = [
        [_judge(predicate, event, options, history, given) for predicate in conjunction]
        for conjunction in form.conjunctions()
    ]
    if form.nesting.leaf.size:
        predicates = sum(map(len, alternatives))
        matches, decisive = _decide(alternatives, form.nesting, _decided)
        _, held = _decide(alternatives, form.nesting, _all_that_hold)
        return Explanation(subscription, matches, [decisive], predicates, _joined(held if matches else ()))
    holding = [verdicts for verdicts in alternatives if all(verdict.holds for verdict in verdicts)]
    held = [verdict for verdicts in holding for verdict in verdicts]
    return Explanation(subscription, bool(holding), alternatives, highlights=_joined(held))


def _joined(verdicts: Iterable[Verdict]) -> dict[str, list[Span]]:
    """Return the highlights of several predicates, each once, in order."""
    joint: dict[str, set[Span]] = {}
    for verdict in verdicts:
        for attribute, there in verdict.highlights.items():
            joint.setdefault(attribute, set()).update(there)
    return {attribute: sorted(there) for attribute, there in joint.items()}


def _decide(leaves: Sequence[Sequence[Verdict]], nesting: Nesting, join: "_Join") -> "_Truth":
    """Return the truth of a tree and what `join` keeps of its verdicts."""
    open_nodes: list[list[_Truth]] = []
    for verdicts, opens, closes in zip(leaves, nesting.opens.tolist(), nesting.closes.tolist(), strict=True):
        open_nodes += [[] for _ in range(opens)]
        open_nodes[-1].append(join([(verdict.holds, [verdict]) for verdict in verdicts], True))
        for _ in range(closes):
            decided = join(open_nodes.pop(), len(open_nodes) % 2 == 1)
            if not open_nodes:
                return decided
            open_nodes[-1].append(decided)
    raise AssertionError("the last leaf closes the tree")


_Truth = tuple[bool, list[Verdict]]
"""That of a part of a tree, with verdicts."""
_Join = Callable[[Sequence[_Truth], bool], _Truth]
"""Returns the truth of an AND (True) or OR of parts."""


def _all_that_hold(children: Sequence[_Truth], is_and: bool) -> _Truth:
    """Return the truth of an AND or OR and the verdicts of all parts that hold."""
    truths = [holds for holds, _ in children]
    return (all if is_and else any)(truths), [verdict for holds, held in children if holds for verdict in held]


def _decided(children: Sequence[_Truth], is_and: bool) -> _Truth:
    """Return the truth of an AND or OR and what decides it: the child with the shortest reason, or all of them."""
    deciding = [reason for holds, reason in children if holds != is_and]
    if deciding:
        return not is_and, min(deciding, key=len)
    return is_and, [verdict for _, reason in children for verdict in reason]


def _judge(predicate: Predicate, event: Event, options: Options, history: History, given: Event) -> Verdict:
    if isinstance(predicate, Tested) and isinstance(predicate.test, HistoryTest):
        return _judge_history(predicate, predicate.test, event, history)
    detail = _values(predicate, event, given)
    if isinstance(predicate, Tested) and isinstance(predicate.test, UnnestExists):
        place = holding_element(predicate.test, event)
        detail += "" if place is None else f", its element {place + 1} is one"
    if holds(predicate, event, (), options.namespaces):
        found = {}
        if isinstance(predicate, Tested) and Accepts.TRUE in predicate.accepts:
            found = highlighted(predicate.test, event)
        return Verdict(predicate, True, detail, found)
    if isinstance(predicate, Tested) and isinstance(predicate.test, XPathExists):
        document = lookup(event, predicate.test.attribute)
        if isinstance(document, (str, bytes)) and predicate.accepts is Accepts.TRUE:
            detail = _failing_step(str(predicate.test.path), document, options)
    return Verdict(predicate, False, detail)


def _values(predicate: Predicate, event: Event, given: Event) -> str:
    """Say what the event has for the attributes of a predicate: a value, one of another type, or none at all."""
    wanted = predicate.kind if isinstance(predicate, Ranges) else None
    said = []
    for attribute in _attributes(predicate):
        attribute = analyzed_source(attribute)
        if is_untyped(attribute):
            attribute, wanted = source_of(attribute), None
        value = lookup(event, attribute)
        if is_derived(attribute):
            said.append(f"it is {_computed(value)}")
        elif is_null(value):
            came = lookup(given, attribute)
            counts = f"{_shown(came)}, not of the kind it is compared with: it counts as NULL"
            said.append(f"{attribute} is {'missing' if is_null(came) else counts}")
        elif wanted not in (None, Kind.ANY, kind_of(value)):
            said.append(f"{attribute} is {_shown(value)}, a value of another type")
        else:
            said.append(f"{attribute} is {_shown(value)}")
    return ", ".join(said)


def _attributes(predicate: Predicate) -> Sequence[str]:
    if isinstance(predicate, Ranges):
        return [predicate.attribute]
    if isinstance(predicate.test, AttributeComparison):
        return [predicate.test.left, predicate.test.right]
    return [] if isinstance(predicate.test, HistoryTest) else [predicate.test.attribute]


def _shown(value: object) -> str:
    if isinstance(value, (str, bytes, list)):
        # Thousands of predicates may be on one long text.
        value = value[: LONGEST_VALUE + 1]
    text = str(value) if isinstance(value, dt.date) else repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _computed(value: object) -> str:
    """Write the value of an expression as SQL does."""
    if isinstance(value, Moment):
        return to_text(Time(value.microseconds, value.nanoseconds))
    return constant(value)


def _failing_step(path: str, document: str | bytes, options: Options) -> str:
    try:
        return f"fails at {failing_step(parse_xpath(path, options.namespaces), document)}"
    except EventError as error:
        return error.message


def _judge_history(predicate: Tested, test: HistoryTest, event: Event, history: History) -> Verdict:
    if not history.keeps(test):
        return Verdict(predicate, False, "not judged: another alternative holds whenever this one does")
    truth = history.holds(test, event)
    value = Accepts.TRUE if truth else Accepts.NULL if truth is None else Accepts.FALSE
    if isinstance(test, Aggregated):
        return Verdict(predicate, value in predicate.accepts, _said_of_total(test, event, history))
    if truth is None and isinstance(test, Quantified):
        old = history.not_comparable(test, event)
        why = f"NULL: {test.old} of the old event {old} does not compare with {lookup(event, test.attribute)!r}"
        return Verdict(predicate, value in predicate.accepts, why)
    old = history.witness(test, event)
    return Verdict(predicate, value in predicate.accepts, "" if old is None else f"see the old event {old}")


def _said_of_total(test: Aggregated, event: Event, history: History) -> str:
    total = history.total(test, event)
    found = total.value(test.aggregate)
    of = f" of {total.numbers:,} old values" if test.aggregate is not Aggregate.COUNT else ""
    said = f"{test.aggregate.value}{of} is {'NULL' if found is None else _decimal(found)}"
    if test.attribute is None:
        return said
    name, new = "it" if is_derived(test.attribute) else test.attribute, lookup(event, test.attribute)
    return f"{said}, {name} is {'missing' if is_null(new) else _shown(new)}"


def _decimal(number: int | float | Fraction) -> str:
    return f"{float(number):.12g}" if isinstance(number, Fraction) else f"{number}"
