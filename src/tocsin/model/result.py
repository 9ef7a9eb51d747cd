"""Define what a match returns, with the evidence of how it was found."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass
class Evidence:
    """How a result was found: the work done, the time of each phase, and what could not be read."""

    events: int = 0
    candidates: int = 0
    """Conjunctions that were verified."""
    evaluations: int = 0
    """Predicates that an index of the papers (`Matcher(index=...)`) compared with a value; 0 for the default, which
    compares codes of many events at once. Matches of other threads at the same time are counted with these."""
    matches: int = 0
    encode_s: float = 0.0
    """Phase 1: values to codes, and tests."""
    match_s: float = 0.0
    """Phase 2: conjunctions."""
    history_s: float = 0.0
    """Tests on the history, and remembering."""
    rank_s: float = 0.0
    """Finding the best."""
    audited: int = 0
    """Pairs of an event and a subscription that `Matcher(audit=…)` has judged again since the answer before."""
    disagreements: int = 0
    """Those of them on which it disagreed with what was answered."""
    mismatches: dict[str, int] = field(default_factory=dict)
    """Values by attribute whose type no subscription compares that attribute with; they count as NULL."""
    errors: dict[str, int] = field(default_factory=dict)
    """Values that could not be read, such as malformed XML or text that is not Unicode, by attribute and reason; they
    count as NULL."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Matches by tenant that are not in the answer: more of an event than the limit `matches` allows."""

    def unused_values(self) -> list[tuple[str, str]]:
        """Return the values that count as NULL, by why they do; empty if there are none."""
        reasons = (("values of another type", self.mismatches), ("unreadable values", self.errors))
        return [
            (reason, ", ".join(f"{attribute} ({count:,})" for attribute, count in sorted(counts.items())))
            for reason, counts in reasons
            if counts
        ]

    def add_segment(self, other: "Evidence") -> None:
        """Add the work of another segment on the same events: it met the same values."""
        self._add(other, max)

    def add_events(self, other: "Evidence") -> None:
        """Add the work on other events."""
        self.events += other.events
        self._add(other, int.__add__)

    def _add(self, other: "Evidence", join: Callable[[int, int], int]) -> None:
        self.candidates += other.candidates
        self.evaluations += other.evaluations
        self.matches += other.matches
        self.encode_s += other.encode_s
        self.match_s += other.match_s
        self.history_s += other.history_s
        self.rank_s += other.rank_s
        self.audited += other.audited
        self.disagreements += other.disagreements
        counted = (self.mismatches, other.mismatches), (self.errors, other.errors), (self.left_out, other.left_out)
        for mine, theirs in counted:
            for name, count in theirs.items():
                mine[name] = join(mine.get(name, 0), count)


@dataclass(frozen=True)
class Matches:
    """The subscriptions that an event satisfies; iterates as (id, score)."""

    ids: Sequence[str]
    scores: Sequence[float]
    evidence: Evidence
    highlights: Mapping[str, Mapping[str, Sequence[tuple[int, int]]]] = field(default_factory=dict)
    """With `highlight`, by id and attribute, where in the text what was found stands: (start, end) in characters."""

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return iter(zip(self.ids, self.scores, strict=True))

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, subscription: object) -> bool:
        return subscription in self.ids
