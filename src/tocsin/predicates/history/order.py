"""Choose which phase comes first: the constant predicates of the new event, or the tests on the history."""

from dataclasses import dataclass
from math import log2


@dataclass(frozen=True)
class OrderStatistics:
    """What the paper's cost comparison (section 4.3.1) is made of."""

    subscriptions: int
    """N."""
    old_events: int
    """D."""
    history_tests: int
    """j: distinct tests on the history."""
    constant_attributes: int
    """k: attributes of the event that constant predicates look at."""
    tests_after_constants: float
    """j': tests that are still needed once the constant predicates have been applied."""
    attributes_after_history: float
    """k': attributes still needed once the tests on the history have been applied."""


@dataclass(frozen=True)
class Order:
    """The order of the two phases, the estimated evaluations of both ways, and why."""

    constants_first: bool
    constants_first_cost: float
    history_first_cost: float
    reason: str


def choose_order(statistics: OrderStatistics) -> Order:
    """Choose the order with fewer evaluations: `k log N + j' log D` against `j log D + k' log N`.

    Equal costs go to constants first: that phase needs no history.

    >>> choose_order(OrderStatistics(1_000_000, 1_000, 5000, 3, 40, 3)).reason
    'constants first: 3 log N + 40 log D = 458 evaluations, history first 5000 log D + 3 log N = 49,889'
    """
    s = statistics
    by_subscription, by_event = log2(max(2, s.subscriptions)), log2(max(2, s.old_events))
    constants = s.constant_attributes * by_subscription + s.tests_after_constants * by_event
    history = s.history_tests * by_event + s.attributes_after_history * by_subscription
    names = {
        True: f"constants first: {s.constant_attributes} log N + {s.tests_after_constants:g} log D = {constants:,.0f}",
        False: f"history first: {s.history_tests} log D + {s.attributes_after_history:g} log N = {history:,.0f}",
    }
    first = constants <= history
    other = names[not first].replace("first:", "first")
    return Order(first, constants, history, f"{names[first]} evaluations, {other}")
