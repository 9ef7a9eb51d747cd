"""Why a subscription matched an event, or did not."""

from collections.abc import Sequence
from dataclasses import dataclass

from tocsin.errors import EventError
from tocsin.index.history import History
from tocsin.index.options import Options
from tocsin.language.normal_form import NormalForm
from tocsin.language.to_sql import describe
from tocsin.model.casts import Time, to_text
from tocsin.model.condition import Exists, Quantified, XPathExists
from tocsin.model.events import Event
from tocsin.model.expression_tree import is_derived
from tocsin.model.lookup import lookup
from tocsin.model.predicate import Accepts, Predicate, Ranges, Tested
from tocsin.model.sql_text import constant
from tocsin.model.subscription import Subscription
from tocsin.model.values import Moment
from tocsin.predicates.evaluate import holds
from tocsin.predicates.xpath import parse_xpath
from tocsin.predicates.xpath.oracle import failing_step


@dataclass(frozen=True)
class Verdict:
    """One predicate and whether it held, with the step at which a path fails or the old event that decides."""

    predicate: Predicate
    holds: bool
    detail: str = ""

    def __str__(self) -> str:
        detail = f"  ({self.detail})" if self.detail else ""
        return f"{'holds' if self.holds else 'FAILS'}  {describe(self.predicate)}{detail}"


@dataclass(frozen=True)
class Explanation:
    """Every alternative of a subscription with its predicates; it matches if some alternative has no failure."""

    subscription: Subscription
    matches: bool
    alternatives: Sequence[Sequence[Verdict]]

    def __str__(self) -> str:
        lines = [
            f"{self.subscription.id}: {'matches' if self.matches else 'does not match'}: {self.subscription.where}"
        ]
        for number, verdicts in enumerate(self.alternatives, 1):
            if len(self.alternatives) > 1:
                lines.append(f"  alternative {number} of {len(self.alternatives)}")
            lines += [f"    {verdict}" for verdict in verdicts] or ["    holds  always"]
        if not self.alternatives:
            lines.append("    can never match: its predicates contradict each other")
        return "\n".join(lines)


def explain(
    subscription: Subscription, form: NormalForm, event: Event, options: Options, history: History
) -> Explanation:
    """Judge every predicate of a subscription, given its normal form, for an event."""
    alternatives = [
        [_judge(predicate, event, options, history) for predicate in conjunction] for conjunction in form.conjunctions()
    ]
    matches = any(all(verdict.holds for verdict in verdicts) for verdicts in alternatives)
    return Explanation(subscription, matches, alternatives)


def _judge(predicate: Predicate, event: Event, options: Options, history: History) -> Verdict:
    if isinstance(predicate, Tested) and isinstance(predicate.test, (Exists, Quantified)):
        return _judge_history(predicate, predicate.test, event, history)
    detail = _derived_value(predicate, event)
    if holds(predicate, event, (), options.namespaces):
        return Verdict(predicate, True, detail)
    if isinstance(predicate, Tested) and isinstance(predicate.test, XPathExists):
        document = lookup(event, predicate.test.attribute)
        if isinstance(document, (str, bytes)) and predicate.accepts is Accepts.TRUE:
            detail = _failing_step(str(predicate.test.path), document, options)
    return Verdict(predicate, False, detail)


def _derived_value(predicate: Predicate, event: Event) -> str:
    """Return what the expression of a predicate is for the event, if the predicate is on one."""
    if not isinstance(predicate, Ranges) or not is_derived(predicate.attribute):
        return ""
    value = lookup(event, predicate.attribute)
    if isinstance(value, Moment):
        return f"it is {to_text(Time(value.microseconds, value.nanoseconds))}"
    return f"it is {constant(value)}"


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
    old = history.witness(test, event)
    return Verdict(predicate, value in predicate.accepts, "" if old is None else f"see the old event {old}")
