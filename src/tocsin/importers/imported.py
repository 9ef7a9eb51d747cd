"""What becomes of the rules of another system."""

from dataclasses import dataclass, field

from tocsin.errors import SubscriptionError, TocsinError
from tocsin.model.subscription import Subscription


class UntranslatableError(TocsinError):
    """A rule, or a part of one, has no exact equivalent."""

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(f"{part}: {reason}", "Write it by hand")


@dataclass
class Imported:
    """Rules as subscriptions, and those that have no exact equivalent, with the reason."""

    subscriptions: list[Subscription] = field(default_factory=list)
    rejected: list[SubscriptionError] = field(default_factory=list)
