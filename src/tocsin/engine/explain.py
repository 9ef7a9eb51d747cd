"""Why a subscription matched an event, or did not."""

from collections.abc import Sequence
from dataclasses import dataclass

from tocsin.language.describe import describe
from tocsin.language.normalise import normalise
from tocsin.language.parse import parse
from tocsin.model.events import Event
from tocsin.model.predicate import Predicate
from tocsin.model.subscription import Subscription
from tocsin.reference import holds


@dataclass(frozen=True)
class Verdict:
    """One predicate and whether it held."""

    predicate: Predicate
    holds: bool

    def __str__(self) -> str:
        return f"{'holds' if self.holds else 'FAILS'}  {describe(self.predicate)}"


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


def explain(subscription: Subscription, event: Event, limit: int, history: Sequence[Event] = ()) -> Explanation:
    """Judge every predicate of a subscription for an event, by the reference."""
    alternatives = [
        [Verdict(predicate, holds(predicate, event, history)) for predicate in conjunction]
        for conjunction in normalise(parse(subscription.where), limit)
    ]
    matches = any(all(verdict.holds for verdict in verdicts) for verdicts in alternatives)
    return Explanation(subscription, matches, alternatives)
