"""What a job that matches files is asked to do, and what it did; on this machine or on Spark."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tocsin.model.result import Evidence
from tocsin.model.subscription import SubscriptionWarning

if TYPE_CHECKING:
    from tocsin.ranking.question import Question

COLUMNS = ("event", "subscription", "score")
EXPLANATION = "explanation"


@dataclass(frozen=True)
class MatchJob:
    """What to do with each event."""

    id: str | None = None
    """The column that names events. None: `id`, or the number of the event from 0 on if there is no such column."""
    keep: Sequence[str] = ()
    """The columns of the events that go with each match."""
    tags: Mapping[str, str] = field(default_factory=dict)
    question: "Question | None" = None
    """If only the best are wanted."""
    explain: bool = False
    """Whether each match comes with its explanation."""
    order: str | None = None
    """The column that orders events, for subscriptions that look back."""
    now: dt.datetime | None = None
    """The time that `now()` means; None: the clock's, for each batch."""

    @property
    def columns(self) -> list[str]:
        """The columns of the matches."""
        return [*COLUMNS, *self.keep, *([EXPLANATION] if self.explain else [])]

    @property
    def event_columns(self) -> dict[str, Sequence[str | None]]:
        """The columns that the events must have, by the option that asks for them."""
        return {"--id": [self.id], "--keep": self.keep, "--order": [self.order]}


@dataclass
class MatchJobResult:
    """The counts of a job."""

    events: int
    matches: int
    seconds: float
    evidence: Evidence
    bad_events: int = 0
    bad_lines: list[tuple[int | None, str]] = field(default_factory=list)
    """Some of the malformed lines: line number, if known, and text."""
    warnings: list[SubscriptionWarning] = field(default_factory=list)
    """Of attributes that no event has; on Spark the log says so, before the job starts."""
