"""The automatic choice between four ways, for each conjunction: Key, blocks, access pairs and bitmaps.

Conjunctions of tests alone go under their rarest test (Key): words, patterns and paths have no grid to be filed in, and
Key reads a few bytes for each of their conjunctions, 63 events at a time. Those that most events satisfy, if there are
many, go into blocks that are found as one (`common/`). The others go where they are estimated to cost an event less
(`estimate.py`): by access pairs if two of their predicates are selective, else in bitmaps.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Bools, Float64s, Int32s, Ragged
from tocsin.conjunctions.bitmaps.match import BitmapIndex
from tocsin.conjunctions.coded import NOT_TRUE, TRUE, Conjunctions, Events
from tocsin.conjunctions.common.index import CommonIndex, choose_common
from tocsin.conjunctions.estimate import cost_by_pairs, cost_in_bitmaps, cost_of_looks
from tocsin.conjunctions.key.drift import Drift
from tocsin.conjunctions.key.index import KeyIndex
from tocsin.conjunctions.pairs.build import Prepared, prepare
from tocsin.conjunctions.pairs.kernels import CONJUNCTION
from tocsin.conjunctions.pairs.match import PairIndex
from tocsin.conjunctions.protocol import CodesOf, Extent, Filing, Pairs, Step
from tocsin.forks import cached
from tocsin.invariants import check_type, demand, under
from tocsin.tuning import TUNING

_NO_PAIRS = np.empty((0, 2), np.int32)
_PAIRS, _BITMAPS = range(2)
_UNKNOWN = np.full((2, 2), np.nan)
"""The estimates of a segment file of an earlier version."""


@dataclass(frozen=True)
class CombinedIndex:
    """Conjunctions 0 to `split` - 1 by access pairs, in bitmaps or in blocks, the others under one of their tests."""

    split: int
    pairs: PairIndex
    key: KeyIndex
    bitmaps: BitmapIndex | None
    """None if no conjunction is in bitmaps."""
    estimates: Float64s
    """Nanoseconds an event: `estimates[i, j]` for the conjunctions of way i, if they were filed by way j."""
    common: CommonIndex | None = None
    """None if no conjunction is in a block."""

    @cached
    def drift(self) -> Drift:
        """What was learned from the events seen; it files `key` again when its keys have become expensive."""
        return Drift(self.key)

    @classmethod
    def build(cls, filing: Filing) -> "CombinedIndex":
        """File conjunctions: those before the split by the way that costs less, the others under their rarest test."""
        return cls._of(filing, _cheaper, choose_common(filing))

    @classmethod
    def by_one_way(cls, filing: Filing, in_bitmaps: bool) -> "CombinedIndex":
        """File the conjunctions before the split by access pairs only, or in bitmaps as far as possible."""
        return cls._of(filing, lambda _, __, can_be: can_be & in_bitmaps, np.zeros(filing.split, bool))

    @classmethod
    def _of(
        cls, filing: Filing, choose: Callable[[Float64s, Float64s, Bools], Bools], common: Bools
    ) -> "CombinedIndex":
        conjunctions, split = filing.conjunctions, filing.split
        all_before = np.arange(split, dtype=np.int32)
        prepared = _prepare(filing, all_before)
        costs, looks = np.stack([cost_by_pairs(prepared), cost_in_bitmaps(prepared)]), cost_of_looks(prepared.access)
        in_bitmaps = choose(costs, looks, _can_be_in_bitmaps(filing) & ~common)
        costs[_PAIRS] += looks
        by_pairs = np.flatnonzero(~in_bitmaps & ~common).astype(np.int32)
        bitmaps = blocks = None
        if by_pairs.size < split:
            prepared = _prepare(filing, by_pairs)
        if common.any():
            numbers = np.flatnonzero(common).astype(np.int32)
            blocks = CommonIndex.build(conjunctions.select(numbers), numbers, conjunctions.count)
        if in_bitmaps.any():
            numbers = np.flatnonzero(in_bitmaps).astype(np.int32)
            bitmaps = BitmapIndex.build(conjunctions.select(numbers), filing.popularity).renumbered(numbers)
        return cls(
            split,
            PairIndex.of(prepared).renumbered(by_pairs, split),
            _key(filing),
            bitmaps,
            np.stack([costs[:, by_pairs].sum(axis=1), costs[:, in_bitmaps].sum(axis=1)]),
            blocks,
        )

    @cached
    def _by_pairs(self) -> int:
        """How many conjunctions are filed by access pairs."""
        return self.split - len(self.bitmaps or ()) - len(self.common or ())

    @cached
    def _has_bitmaps_alone(self) -> bool:
        """Whether all conjunctions are in bitmaps."""
        return self.bitmaps is not None and len(self.bitmaps) == self.split and not len(self.key)

    def match(self, events: Events, codes_of: CodesOf | None = None, by_pairs: Pairs | None = None) -> Pairs:
        """Find the conjunctions of each event, by all ways; for the arguments see `ConjunctionIndex.match`."""
        if self.bitmaps is None:
            return self._match_others(events, codes_of, by_pairs)
        pairs, candidates = self.bitmaps.match(events)
        if self._has_bitmaps_alone:
            return pairs, candidates
        others, more = self._match_others(events, codes_of, by_pairs)
        return np.concatenate([others, pairs]) if len(others) else pairs, candidates + more

    def match_lists(
        self, events: Events, codes_of: CodesOf | None = None, by_pairs: Pairs | None = None
    ) -> tuple[Ragged, Pairs] | None:
        """Find those in bitmaps as lists, if there are any, and the others as pairs."""
        if self.bitmaps is None:
            return None
        lists, candidates = self.bitmaps.match_lists(events)
        if self._has_bitmaps_alone:
            return lists, (_NO_PAIRS, candidates)
        others, more = self._match_others(events, codes_of, by_pairs)
        return lists, (others, candidates + more)

    def _match_others(self, events: Events, codes_of: CodesOf | None, by_pairs: Pairs | None) -> Pairs:
        """Find the conjunctions that are not in bitmaps."""
        parts: list[Pairs] = []
        if self.common is not None:
            # First, since the subscriptions of blocks are in order: the lists of events then begin with them.
            parts.append(self.common.match(events))
        if self._by_pairs:
            parts.append(by_pairs if by_pairs is not None else self.pairs.match(events, codes_of))
        # Where nothing is TRUE, no key holds: a single event without rare attributes spares the calls.
        if len(self.key) and events.true.size:
            self.drift.observe(events.true_starts, events.true)
            parts.append(self.key.match(events.true_starts, events.true))
        found = [pairs for pairs, _ in parts if len(pairs)]
        pairs = found[0] if len(found) == 1 else np.concatenate([_NO_PAIRS, *found])
        return pairs, sum(candidates for _, candidates in parts)

    @cached
    def expects_many(self) -> bool:
        """Whether many conjunctions are in dense blocks: writing them as pairs takes longer than to make lists."""
        return self.bitmaps is not None and len(self.bitmaps) - self.bitmaps.rare >= TUNING.many_dense

    @property
    def needs_codes(self) -> bool:
        """Whether some conjunction has a test, more predicates than its postings carry, or is in bitmaps or blocks."""
        return self.pairs.needs_codes or self.bitmaps is not None or self.common is not None

    stays_on_disk: ClassVar[bool] = False

    @property
    def found_as_one(self) -> Ragged | None:
        """The conjunctions of each block."""
        return self.common.members if self.common is not None else None

    @property
    def rekeyed(self) -> int:
        """How often conjunctions of tests got new keys."""
        return self.drift.rekeyed

    @property
    def evaluations(self) -> int:
        """Nothing: postings are compared with many events at once, and `match` counts candidates."""
        return 0

    def derived_bytes(self) -> dict[str, int]:
        """Nothing: all that matching needs is in `arrays`."""
        return {}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as named arrays, for a segment file."""
        arrays = {"pairs.split": np.array([self.split], np.int64), "estimates": self.estimates}
        arrays |= {f"pairs.{name}": array for name, array in self.pairs.arrays().items()}
        arrays |= {f"key.{name}": array for name, array in self.key.arrays().items()}
        if self.bitmaps is not None:
            arrays |= {f"bitmaps.{name}": array for name, array in self.bitmaps.arrays().items()}
        if self.common is not None:
            arrays |= {f"common.{name}": array for name, array in self.common.arrays().items()}
        return arrays

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, npt.NDArray[Any]],
        algorithms: tuple[str, str] = ("auto", "auto"),  # noqa: ARG003  # these are the only ones
    ) -> "CombinedIndex":
        """The index that `arrays` came from, without copying."""
        pairs, key, bitmaps, common = (
            {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            for prefix in ("pairs.", "key.", "bitmaps.", "common.")
        )
        return cls(
            int(pairs["split"][0]),
            PairIndex.from_arrays(pairs),
            KeyIndex.from_arrays(key),
            BitmapIndex.from_arrays(bitmaps) if bitmaps else None,
            arrays.get("estimates", _UNKNOWN),
            CommonIndex.from_arrays(common) if common else None,
        )

    def check_arrays(self, bounds: Extent) -> None:
        """Demand what keeps the kernels of all ways within their arrays."""
        check_type("estimates", self.estimates, np.float64, 2)
        demand(0 <= self.split <= bounds.conjunctions, "pairs.split", "it is behind the last conjunction")
        demand(self._by_pairs >= 0, "pairs.split", "bitmaps and blocks have conjunctions behind it")
        with under("pairs."):
            self.pairs.check_arrays(bounds)
        with under("key."):
            self.key.check_arrays(bounds)
        if self.bitmaps is not None:
            with under("bitmaps."):
                self.bitmaps.check_arrays(bounds)
        if self.common is not None:
            with under("common."):
                self.common.check_arrays(bounds)

    def check(self) -> None:
        """Assert what matching relies on."""
        self.pairs.check()
        self.key.check()
        assert self.key.ids.min(initial=self.split) == self.split, "Key has the conjunctions from the split on"
        rows, rectangles = self.pairs.postings.rows, self.pairs.postings.rectangles
        filed = [np.unique(np.concatenate([rectangles[:, CONJUNCTION], rows[:, CONJUNCTION]]))]
        if self.bitmaps is not None:
            self.bitmaps.check()
            filed.append(self.bitmaps.demands.conjunction)
        if self.common is not None:
            self.common.check()
            filed.append(self.common.blocks.conjunction)
        if len(filed) > 1:
            together = np.sort(np.concatenate(filed))
            assert np.array_equal(together, np.arange(self.split)), "every conjunction is filed, by one way"

    def describe(self, column_name: Callable[[int], str]) -> Iterator[Step]:
        """Say how conjunctions are filed by each way, and what that is estimated to cost."""
        yield Step(
            "",
            "each conjunction by access pairs, in bitmaps, in a block, or under the rarest of its tests",
            "tests alone under the rarest; others where they are estimated to cost an event less",
        )
        if self.common is not None:
            yield from self.common.describe()
        if self._by_pairs:
            yield from self.pairs.describe(self._by_pairs, column_name)
            yield Step(", access pairs", *self._reason(_PAIRS))
        if self.bitmaps is not None:
            yield from self.bitmaps.describe(column_name)
            yield Step(", bitmaps", *self._reason(_BITMAPS))
        if len(self.key):
            yield Step(
                f", {len(self.key):,} conjunctions of tests alone",
                "Key, under the rarest test of each",
                "only conjunctions whose key holds are looked at",
            )
            yield from self.drift.describe()

    def _reason(self, way: int) -> tuple[str, str]:
        by_pairs, in_bitmaps = self.estimates[way] / 1000
        return (
            f"estimated {by_pairs:,.1f} µs an event by access pairs, {in_bitmaps:,.1f} µs in bitmaps",
            "estimated from the selectivities of predicates, for large batches",
        )


def _prepare(filing: Filing, numbers: Int32s) -> Prepared:
    """Choose the access pairs of some conjunctions, as if there were no others."""
    selected = filing.conjunctions.select(numbers)
    return prepare(selected, filing.popularity, filing.test[numbers], filing.short)


def _key(filing: Filing) -> KeyIndex:
    """File the conjunctions from the split on under their rarest test."""
    conjunctions, split = filing.conjunctions, filing.split
    rows = slice(int(np.searchsorted(conjunctions.test_conjunction, split)), None)
    owner, tests = conjunctions.test_conjunction[rows], conjunctions.test[rows]
    terms = np.where(conjunctions.test_accepts[rows] == TRUE, tests, ~tests)
    numbers = np.arange(split, conjunctions.count, dtype=np.int32)
    offsets = np.searchsorted(owner, np.append(numbers, conjunctions.count))
    return KeyIndex.build(numbers, offsets, terms, filing.frequency)


def _can_be_in_bitmaps(filing: Filing) -> Bools:
    """Tell which conjunctions before the split have a range, are filed under no test and have none on the history."""
    conjunctions, split = filing.conjunctions, filing.split
    can_be = np.zeros(split, bool)
    can_be[conjunctions.conjunction] = True
    can_be &= filing.test[:split] < 0
    if filing.on_history.any():
        on_history = conjunctions.test_conjunction[filing.on_history[conjunctions.test]]
        can_be[on_history[on_history < split]] = False
    return can_be


def _cheaper(costs: Float64s, looks: Float64s, can_be: Bools) -> Bools:
    """Tell which conjunctions go into bitmaps, given what each costs by either way, and by looks into its table.

    Looks are spared only if a table has no conjunction left. So they count if all go into bitmaps, which must then be
    worth it: a single event takes longer there. A few conjunctions are not worth a second index.
    """
    by_pairs, in_bitmaps = costs[_PAIRS, can_be].sum() + looks[can_be].sum(), costs[_BITMAPS, can_be].sum()
    together = by_pairs > TUNING.bitmaps_pay * in_bitmaps and by_pairs - in_bitmaps > TUNING.least_saving_ns
    chosen = can_be if together else can_be & (costs[_BITMAPS] < costs[_PAIRS])
    if np.count_nonzero(chosen) < TUNING.min_in_bitmaps:
        return np.zeros_like(chosen)
    few_left = np.count_nonzero(can_be & ~chosen) * TUNING.left_by_pairs < np.count_nonzero(chosen)
    return can_be if few_left else chosen


def of_tests_alone(conjunctions: Conjunctions, filed_under: Int32s, excluded: Bools) -> Bools:
    """Tell which conjunctions Key can have: tests only, one of them to be filed under, none of the `excluded`.

    Key knows what is TRUE; which tests must be FALSE, not NULL, only access pairs can tell.
    """
    alone = filed_under >= 0
    alone[conjunctions.conjunction] = False
    simple = (conjunctions.test_accepts == TRUE) | (conjunctions.test_accepts == NOT_TRUE)
    alone[conjunctions.test_conjunction[excluded[conjunctions.test] | ~simple]] = False
    return alone
