"""What is asked of a ranking: how many of the best, which, and by what score. It loads no index."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tocsin.errors import OptionError
from tocsin.forks import cached
from tocsin.ranking.kernels import EXACT, MAX, SUM
from tocsin.ranking.score_function import ScoreFunction, ScoreRule
from tocsin.registry import RankingName, check_name

MOST_AT_ONCE = 1 << 24
"""A batch is split so that the heaps of the best k of its events have at most this many places."""

Interval = Literal["overlaps", "within"]
"""When an interval of an event satisfies a range: if it overlaps it, or lies within it."""
Mode = Literal["exact", "relaxed"]
"""Which subscriptions are ranked: those that match, or those of which some predicate holds."""
ScoreBy = str | Mapping[str, float] | ScoreRule
"""How weights become a score: `sum`, `max`, the coefficients of a weighted sum by attribute, or any function that does
not fall when a weight rises: an expression over the weights of attributes, or a Python function of them."""


@dataclass(frozen=True)
class Question:
    """How many of the best are wanted, of which subscriptions, and by what score.

    >>> Question(20, "relaxd")
    Traceback (most recent call last):
    tocsin.errors.OptionError: mode is 'relaxd'. Use 'exact' or 'relaxed'
    """

    k: int
    mode: Mode = "exact"
    score_by: ScoreBy = "sum"
    interval: Interval = "overlaps"
    index: RankingName = "auto"

    def __post_init__(self) -> None:
        if self.k < 0:
            raise OptionError(f"k is {self.k}", "Ask for 0 or more")
        for name, value, known in (
            ("mode", self.mode, ("exact", "relaxed")),
            ("interval", self.interval, ("overlaps", "within")),
        ):
            if value not in known:
                raise OptionError(f"{name} is {value!r}", f"Use {known[0]!r} or {known[1]!r}")
        check_name("ranked index", self.index, RankingName)
        _ = self.function
        for attribute, coefficient in self.coefficients.items():
            if not coefficient >= 0:
                raise OptionError(f"the coefficient of {attribute!r} is {coefficient}", "Give 0 or more")
        if self.mode == "exact" and self.score_by != "sum":
            self._check_exact()

    def _check_exact(self) -> None:
        """Refuse what does not score matches: they have a score, and no weights."""
        function = self.function
        if function is None or function.weights is None or not function.weights <= {"score"}:
            raise OptionError(
                "score_by has no meaning for mode 'exact' unless it is an expression over score and event.…",
                "Write, for example, 'score * event.ctr', use mode='relaxed', or leave it out",
            )
        if self.index != "auto":
            raise OptionError(f"index is {self.index!r}, and score_by is an expression", "Leave index out")

    @classmethod
    def of_batch(
        cls, k: int | None, mode: Mode, score_by: ScoreBy, interval: Interval, index: RankingName = "auto"
    ) -> "Question | None":
        """Return the question of a batch; None if all matches are wanted."""
        if k is not None:
            return cls(k, mode, score_by, interval, index)
        for name, value, usual in (
            ("mode", mode, "exact"),
            ("score_by", score_by, "sum"),
            ("interval", interval, "overlaps"),
            ("index", index, "auto"),
        ):
            if value != usual:
                raise OptionError(
                    f"{name} is {value!r}, and all matches are wanted", f"Give top_k, or leave {name} out"
                )
        return None

    @property
    def events_at_once(self) -> int:
        """How many events may be asked about together: one, if the score depends on it."""
        if self.function is not None and self.function.names_event:
            return 1
        return max(MOST_AT_ONCE // max(self.k, 1), 1)

    @property
    def kind(self) -> int:
        """The kernels' number for the way weights are combined."""
        return EXACT if self.mode == "exact" else MAX if self.score_by == "max" else SUM

    @property
    def coefficients(self) -> Mapping[str, float]:
        """The factors of attributes that have one."""
        return self.score_by if isinstance(self.score_by, Mapping) else {}

    @cached
    def function(self) -> ScoreFunction | None:
        """The function that scores; None for sums and the maximum. Raises OptionError if it is none."""
        if isinstance(self.score_by, Mapping) or self.score_by in ("sum", "max"):
            return None
        return ScoreFunction.of(self.score_by)
