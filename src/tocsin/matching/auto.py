"""The automatic choice: conjunctions of tests alone go under their rarest test (Key), all others by access pairs.

Words, patterns and paths have no grid to be filed in. Key reads a few bytes for each of their conjunctions, 63 events
at a time, where a posting of access pairs is made for ranges.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin._kernels.pairs import Events
from tocsin.forks import cached
from tocsin.matching.conjunctions import Conjunctions
from tocsin.matching.frequency import Drift
from tocsin.matching.key import Key
from tocsin.matching.pairs import CodesOf, PairMatcher
from tocsin.predicates.ruler import ShortCodes

Int32 = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

_TRUE, _NOT_TRUE = 1, 6
_NO_PAIRS = np.empty((0, 2), np.int32)


@dataclass(frozen=True)
class AutoMatcher:
    """Conjunctions 0 to `split` - 1 by access pairs, those from `split` on under one of their tests."""

    split: int
    pairs: PairMatcher
    key: Key

    @cached
    def drift(self) -> Drift:
        """What was learned from the events seen; it gives Key new keys when it must."""
        return Drift(self.key)

    @classmethod
    def build(
        cls,
        conjunctions: Conjunctions,
        split: int,
        popularity: list[Floats],
        test: Int32,
        frequency: Floats,
        short: Mapping[int, ShortCodes] | None = None,
    ) -> "AutoMatcher":
        """File conjunctions; those from `split` on have tests only, each TRUE or not TRUE, and one of them selective.

        `test[i]` is the test to file conjunction i under by access pairs, or -1; `frequency` says how often each test
        is TRUE, on any scale; `short` has the columns whose short codes come with the events.
        """
        filed = conjunctions.test_conjunction < split
        by_pairs = replace(
            conjunctions,
            count=split,
            test_conjunction=conjunctions.test_conjunction[filed],
            test=conjunctions.test[filed],
            test_accepts=conjunctions.test_accepts[filed],
        )
        owner, tests = conjunctions.test_conjunction[~filed], conjunctions.test[~filed]
        terms = np.where(conjunctions.test_accepts[~filed] == _TRUE, tests, ~tests)
        numbers = np.arange(split, conjunctions.count, dtype=np.int32)
        offsets = np.searchsorted(owner, np.append(numbers, conjunctions.count))
        key = Key.build(offsets, terms, frequency.size, frequency, ids=numbers)
        return cls(split, PairMatcher.build(by_pairs, popularity, test[:split], short), key)

    def match(
        self, events: Events, codes_of: CodesOf | None = None, by_pairs: tuple[Int32, int] | None = None
    ) -> tuple[Int32, int]:
        """The (event, conjunction) rows that match, in no order, and the number of candidates verified.

        For `codes_of` see `PairMatcher.match`; `by_pairs` is what it returns, if it is known.
        """
        if by_pairs is None and self.split:
            by_pairs = self.pairs.match(events, codes_of)
        if not len(self.key):
            return by_pairs or (_NO_PAIRS, 0)
        self.drift.observe(events.true_starts, events.true)
        by_key, looked_at = self.key.match_in_pairs(events.true_starts, events.true)
        if not self.split or by_pairs is None:
            return by_key, looked_at
        pairs, candidates = by_pairs
        return np.concatenate([pairs, by_key]), candidates + looked_at

    def assuming(self, first: int, end: int) -> PairMatcher:
        """Match by access pairs as if the tests `first` to `end` had whatever truth value is accepted."""
        return self.pairs.assuming(first, end)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as named arrays, for a segment file."""
        pairs = {f"pairs.{name}": array for name, array in self.pairs.arrays().items()}
        key = {f"key.{name}": array for name, array in self.key.arrays().items()}
        return {"pairs.split": np.array([self.split], np.int64)} | pairs | key

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "AutoMatcher":
        """The matcher that `arrays` came from, without copying."""
        pairs, key = (
            {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            for prefix in ("pairs.", "key.")
        )
        return cls(int(pairs["split"][0]), PairMatcher.from_arrays(pairs), Key.from_arrays(key))

    def check(self) -> None:
        """Assert what matching relies on."""
        self.pairs.check()
        self.key.check()
        assert self.key.ids.min(initial=self.split) == self.split, "the two have no conjunction in common"


def of_tests_alone(
    conjunctions: Conjunctions, filed_under: Int32, excluded: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Tell which conjunctions Key can have: tests only, one of them to be filed under, none of the `excluded`.

    Key knows what is TRUE; which tests must be FALSE, not NULL, only access pairs can tell.
    """
    alone = filed_under >= 0
    alone[conjunctions.conjunction] = False
    simple = (conjunctions.test_accepts == _TRUE) | (conjunctions.test_accepts == _NOT_TRUE)
    alone[conjunctions.test_conjunction[excluded[conjunctions.test] | ~simple]] = False
    return alone
