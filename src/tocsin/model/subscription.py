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
