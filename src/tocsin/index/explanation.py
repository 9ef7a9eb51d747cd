"""Why a subscription matched an event, or did not."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from tocsin.errors import EventError
from tocsin.index.history import History
from tocsin.index.options import Options
from tocsin.language.normal_form import Nesting, NormalForm
from tocsin.language.to_sql import describe
from tocsin.model.casts import Time, to_text
from tocsin.model.condition import AttributeComparison, Exists, Quantified, UnnestExists, XPathExists
from tocsin.model.events import Event
from tocsin.model.expression_tree import is_derived
from tocsin.model.lookup import lookup
from tocsin.model.predicate import Accepts, Predicate, Ranges, Tested
from tocsin.model.sql_text import constant
from tocsin.model.subscription import Subscription
from tocsin.model.untyped import is_untyped, source_of
from tocsin.model.values import Kind, Moment, is_null, kind_of
from tocsin.predicates.evaluate import holding_element, holds
from tocsin.predicates.xpath import parse_xpath
from tocsin.predicates.xpath.oracle import failing_step

LONGEST_VALUE = 60
"""Characters of a value that are shown; texts may be documents."""
MOST_SHOWN = 20
"""Predicates up to which all are shown, and of a summary: a screen of them."""
LONGEST_CONDITION = 500
"""Characters of a condition that a summary shows."""


@dataclass(frozen=True)
class Verdict:
    """One predicate and whether it held, with the event's value, the step at which a path fails or the old event."""

    predicate: Predicate
    holds: bool
    detail: str = ""

    def __str__(self) -> str:
        detail = f"  ({self.detail})" if self.detail else ""
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

    def _head(self, where: str) -> list[str]:
        lines = [f"{self.subscription.id}: {'matches' if self.matches else 'does not match'}: {where}"]
        if self.predicates is not None:
            lines.append(f"  decided by {len(self.alternatives[0]):,} of its {self.predicates:,} predicates")
        return lines


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_CONDITION else f"{text[: LONGEST_CONDITION - 1]}…"


def explain(
    subscription: Subscription, form: NormalForm, event: Event, options: Options, history: History
) -> Explanation:
    """Judge every predicate of a subscription, given its normal form, for an event."""
    alternatives = [
        [_judge(predicate, event, options, history) for predicate in conjunction] for conjunction in form.conjunctions()
    ]
    if form.nesting.leaf.size:
        predicates = sum(map(len, alternatives))
        matches, decisive = _decide(alternatives, form.nesting)
        return Explanation(subscription, matches, [decisive], predicates)
    matches = any(all(verdict.holds for verdict in verdicts) for verdicts in alternatives)
    return Explanation(subscription, matches, alternatives)


def _decide(leaves: Sequence[Sequence[Verdict]], nesting: Nesting) -> tuple[bool, list[Verdict]]:
    """Return the truth of a tree and the verdicts that decide it, all of which hold or all of which fail."""
    open_nodes: list[list[tuple[bool, list[Verdict]]]] = []
    for verdicts, opens, closes in zip(leaves, nesting.opens.tolist(), nesting.closes.tolist(), strict=True):
        open_nodes += [[] for _ in range(opens)]
        open_nodes[-1].append(_decided([(verdict.holds, [verdict]) for verdict in verdicts], is_and=True))
        for _ in range(closes):
            decided = _decided(open_nodes.pop(), is_and=len(open_nodes) % 2 == 1)
            if not open_nodes:
                return decided
            open_nodes[-1].append(decided)
    raise AssertionError("the last leaf closes the tree")


def _decided(children: Sequence[tuple[bool, list[Verdict]]], is_and: bool) -> tuple[bool, list[Verdict]]:
    """Return the truth of an AND or OR and what decides it: the child with the shortest reason, or all of them."""
    deciding = [reason for holds, reason in children if holds != is_and]
    if deciding:
        return not is_and, min(deciding, key=len)
    return is_and, [verdict for _, reason in children for verdict in reason]


def _judge(predicate: Predicate, event: Event, options: Options, history: History) -> Verdict:
    if isinstance(predicate, Tested) and isinstance(predicate.test, (Exists, Quantified)):
        return _judge_history(predicate, predicate.test, event, history)
    detail = _values(predicate, event)
    if isinstance(predicate, Tested) and isinstance(predicate.test, UnnestExists):
        place = holding_element(predicate.test, event)
        detail += "" if place is None else f", its element {place + 1} is one"
    if holds(predicate, event, (), options.namespaces):
        return Verdict(predicate, True, detail)
    if isinstance(predicate, Tested) and isinstance(predicate.test, XPathExists):
        document = lookup(event, predicate.test.attribute)
        if isinstance(document, (str, bytes)) and predicate.accepts is Accepts.TRUE:
            detail = _failing_step(str(predicate.test.path), document, options)
    return Verdict(predicate, False, detail)


def _values(predicate: Predicate, event: Event) -> str:
    """Say what the event has for the attributes of a predicate: a value, one of another type, or none at all."""
    wanted = predicate.kind if isinstance(predicate, Ranges) else None
    said = []
    for attribute in _attributes(predicate):
        if is_untyped(attribute):
            attribute, wanted = source_of(attribute), None
        value = lookup(event, attribute)
        if is_derived(attribute):
            said.append(f"it is {_computed(value)}")
        elif is_null(value):
            said.append(f"{attribute} is missing")
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
    return [] if isinstance(predicate.test, (Exists, Quantified)) else [predicate.test.attribute]


def _shown(value: object) -> str:
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


def _judge_history(predicate: Tested, test: Exists | Quantified, event: Event, history: History) -> Verdict:
    if not history.keeps(test):
        return Verdict(predicate, False, "not judged: another alternative holds whenever this one does")
    truth = history.holds(test, event)
    value = Accepts.TRUE if truth else Accepts.NULL if truth is None else Accepts.FALSE
    if truth is None and isinstance(test, Quantified):
        old = history.not_comparable(test, event)
        why = f"NULL: {test.old} of the old event {old} does not compare with {lookup(event, test.attribute)!r}"
        return Verdict(predicate, value in predicate.accepts, why)
    old = history.witness(test, event)
    return Verdict(predicate, value in predicate.accepts, "" if old is None else f"see the old event {old}")
