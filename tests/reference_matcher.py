"""A matcher that evaluates every subscription on every event: the judge of `Matcher` in tests."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tocsin.errors import UnknownSubscriptionError
from tocsin.language.parse import parse
from tocsin.predicates.evaluate import Event
from tocsin.reference import evaluate

if TYPE_CHECKING:
    from tocsin.model.condition import Condition


class ReferenceMatcher:
    """Match by evaluating every subscription on every event.

    >>> matcher = ReferenceMatcher()
    >>> matcher.subscribe("smith", "author = 'Smith' AND price BETWEEN 10 AND 30", score=2.0)
    >>> matcher.match({"author": "Smith", "price": 12})
    [('smith', 2.0)]
    """

    def __init__(self) -> None:
        self._conditions: dict[str, Condition] = {}
        self._scores: dict[str, float] = {}
        self._history: list[Event] = []

    def subscribe(self, id: str, where: str, score: float = 1.0) -> None:  # the public name of the argument
        """Add a subscription, or replace the one of that id."""
        self._conditions[id] = parse(where)
        self._scores[id] = score

    def unsubscribe(self, id: str) -> None:
        """Remove a subscription."""
        self._require(id)
        del self._conditions[id], self._scores[id]

    def rescore(self, id: str, score: float) -> None:
        """Give a subscription another score."""
        self._require(id)
        self._scores[id] = score

    def _require(self, id: str) -> None:
        if id not in self._conditions:
            raise UnknownSubscriptionError(
                f"there is no subscription {id!r}", f"There are {len(self)}; list them by iteration"
            )

    def match(self, event: Event) -> list[tuple[str, float]]:
        """Return id and score of each subscription that holds, in the order of subscribing."""
        return [
            (id, self._scores[id])
            for id, condition in self._conditions.items()
            if evaluate(condition, event, self._history) is True
        ]

    def publish(self, event: Event) -> list[tuple[str, float]]:
        """Match an event, then remember it as history."""
        matches = self.match(event)
        self._history.append(event)
        return matches

    def __len__(self) -> int:
        return len(self._conditions)

    def __iter__(self) -> Iterator[str]:
        return iter(self._conditions)

    def __contains__(self, id: object) -> bool:
        return id in self._conditions
