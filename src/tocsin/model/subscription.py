"""What a user subscribes with."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Subscription:
    """A standing condition with a name: `where` is SQL, `score` ranks it, `tags` are labels to restrict matches by."""

    id: str
    where: str
    score: float = 1.0
    weights: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SubscriptionWarning:
    """Something in a subscription that is allowed and probably not meant; the subscription is taken."""

    code: str
    """`unknown`, `quoted`, `absent`, `kind` or `never`; in the server also `always`."""
    message: str
    hint: str = ""
    subscription: str | None = None
    position: int | None = None
    """In the text of the subscription."""

    def __str__(self) -> str:
        place = "" if self.subscription is None else f"subscription {self.subscription!r}"
        if self.position is not None:
            place += f"{', ' if place else ''}position {self.position}"
        text = f"{self.message}. {self.hint}" if self.hint else self.message
        return f"{place}: {text}" if place else text
