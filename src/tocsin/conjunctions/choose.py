"""The automatic choice: conjunctions of tests alone go under their rarest test (Key), all others by access pairs.

Words, patterns and paths have no grid to be filed in. Key reads a few bytes for each of their conjunctions, 63 events
at a time, where a posting of access pairs is made for ranges.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Bools, Int32s
from tocsin.conjunctions.coded import NOT_TRUE, TRUE, Conjunctions, Events
from tocsin.conjunctions.key.drift import Drift
from tocsin.conjunctions.key.index import KeyIndex
from tocsin.conjunctions.pairs.match import PairIndex
from tocsin.conjunctions.protocol import CodesOf, Filing, Pairs, Step
from tocsin.forks import cached

_NO_PAIRS = np.empty((0, 2), np.int32)


@dataclass(frozen=True)
class CombinedIndex:
    """Conjunctions 0 to `split` - 1 by access pairs, those from `split` on under one of their tests."""

    split: int
    pairs: PairIndex
    key: KeyIndex

    @cached
    def drift(self) -> Drift:
        """What was learned from the events seen; it files `key` again when its keys have become expensive."""
        return Drift(self.key)

    @classmethod
    def build(cls, filing: Filing) -> "CombinedIndex":
        """File conjunctions: those before the split by access pairs, the others under their rarest test."""
        conjunctions, split = filing.conjunctions, filing.split
        filed = conjunctions.test_conjunction < split
        with_ranges = replace(
            conjunctions,
            count=split,
            test_conjunction=conjunctions.test_conjunction[filed],
            test=conjunctions.test[filed],
            test_accepts=conjunctions.test_accepts[filed],
        )
        owner, tests = conjunctions.test_conjunction[~filed], conjunctions.test[~filed]
        terms = np.where(conjunctions.test_accepts[~filed] == TRUE, tests, ~tests)
        numbers = np.arange(split, conjunctions.count, dtype=np.int32)
        offsets = np.searchsorted(owner, np.append(numbers, conjunctions.count))
        key = KeyIndex.build(numbers, offsets, terms, filing.frequency)
        return cls(split, PairIndex.build(with_ranges, filing.popularity, filing.test[:split], filing.short), key)

    def match(self, events: Events, codes_of: CodesOf | None = None, by_pairs: Pairs | None = None) -> Pairs:
        """Find the conjunctions of each event, by both ways; for the arguments see `ConjunctionIndex.match`."""
        if by_pairs is None and self.split:
            by_pairs = self.pairs.match(events, codes_of)
        if not len(self.key):
            return by_pairs or (_NO_PAIRS, 0)
        self.drift.observe(events.true_starts, events.true)
        by_key, looked_at = self.key.match(events.true_starts, events.true)
        if not self.split or by_pairs is None:
            return by_key, looked_at
        pairs, candidates = by_pairs
        return np.concatenate([pairs, by_key]), candidates + looked_at

    @property
    def needs_codes(self) -> bool:
        """Whether some conjunction has a test or more predicates than its postings carry."""
        return self.pairs.needs_codes

    @property
    def rekeyed(self) -> int:
        """How often conjunctions of tests got new keys."""
        return self.drift.rekeyed

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as named arrays, for a segment file."""
        pairs = {f"pairs.{name}": array for name, array in self.pairs.arrays().items()}
        key = {f"key.{name}": array for name, array in self.key.arrays().items()}
        return {"pairs.split": np.array([self.split], np.int64)} | pairs | key

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, npt.NDArray[Any]],
        algorithms: tuple[str, str] = ("auto", "auto"),  # noqa: ARG003  # these are the only ones
    ) -> "CombinedIndex":
        """The index that `arrays` came from, without copying."""
        pairs, key = (
            {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            for prefix in ("pairs.", "key.")
        )
        return cls(int(pairs["split"][0]), PairIndex.from_arrays(pairs), KeyIndex.from_arrays(key))

    def check(self) -> None:
        """Assert what matching relies on."""
        self.pairs.check()
        self.key.check()
        assert self.key.ids.min(initial=self.split) == self.split, "the two have no conjunction in common"

    def describe(self, column_name: Callable[[int], str]) -> Iterator[Step]:
        """Say how conjunctions are filed by both ways."""
        yield Step("", "ranges by access pairs, tests alone under the rarest of them", "chosen by what they consist of")
        if self.split:
            yield from self.pairs.describe(self.split, column_name)
        if len(self.key):
            yield Step(
                f", {len(self.key):,} conjunctions of tests alone",
                "Key, under the rarest test of each",
                "only conjunctions whose key holds are looked at",
            )
            yield from self.drift.describe()


def of_tests_alone(conjunctions: Conjunctions, filed_under: Int32s, excluded: Bools) -> Bools:
    """Tell which conjunctions Key can have: tests only, one of them to be filed under, none of the `excluded`.

    Key knows what is TRUE; which tests must be FALSE, not NULL, only access pairs can tell.
    """
    alone = filed_under >= 0
    alone[conjunctions.conjunction] = False
    simple = (conjunctions.test_accepts == TRUE) | (conjunctions.test_accepts == NOT_TRUE)
    alone[conjunctions.test_conjunction[excluded[conjunctions.test] | ~simple]] = False
    return alone
