"""Tests that many conjunctions demand together, as one: where ranges rule nothing out, all tests decide first.

A conjunction such as `a <> 7 AND b < c AND c < d` has no range that is worth filing it under, and each of its tests
holds for about every other event. Many conjunctions that demand the same tests are filed under their *combination*,
which is TRUE if all of them are: an event for which one is not looks at none of the conjunctions.

Combinations are numbered behind all other tests. No conjunction demands one; they are only filed under.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Bools, Float64s, Int32s, Int64s, Ragged
from tocsin.conjunctions.coded import TRUE, Conjunctions, range_predicates
from tocsin.conjunctions.estimate import share_of_conjunctions
from tocsin.index.phase1_kernels import true_combinations
from tocsin.invariants import check_fields, check_starts, check_within, demand
from tocsin.tuning import TUNING


@dataclass(frozen=True)
class CombinedTests:
    """The tests of each combination."""

    first: int
    """The number of the first combination among the tests."""
    starts: Int64s
    members: Int32s

    @classmethod
    def none(cls) -> "CombinedTests":
        """Return those of a segment without combinations."""
        return cls(0, np.zeros(1, np.int64), np.empty(0, np.int32))

    def __len__(self) -> int:
        return self.starts.size - 1

    def added_to(self, true: Ragged) -> Ragged:
        """Return the tests that are TRUE for each event, with the combinations of them."""
        if not len(self):
            return true
        found = Ragged(*true_combinations(true.starts, true.values, self.starts, self.members))
        return Ragged.side_by_side([true, found], [0, self.first], true.starts.size - 1)

    def added_to_one(self, true: Int32s) -> Int32s:
        """Return the same for one event, without lists of several."""
        _, found = true_combinations(np.array([0, true.size]), np.ascontiguousarray(true), self.starts, self.members)
        return np.concatenate([true, found + np.int32(self.first)]) if found.size else true

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The state as named arrays, for a segment file."""
        return {"first": np.array([self.first], np.int64), "starts": self.starts, "members": self.members}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "CombinedTests":
        """Return the combinations that `arrays` came from; format version 5 had none."""
        return cls(int(arrays["first"][0]), arrays["starts"], arrays["members"]) if arrays else cls.none()

    def check_arrays(self, tests: int) -> None:
        """Demand what keeps the kernels within their arrays; `tests` are those that can be combined."""
        check_fields(CombinedTests, self)
        demand(self.first == (tests if len(self) else self.first), "first", f"it is not {tests}")
        check_starts("starts", self.starts, self.starts.size - 1, self.members.size)
        check_within("members", self.members, 0, tests)

    def check(self) -> None:
        """Assert what matching relies on."""
        assert self.starts[-1] == self.members.size, "the last combination ends with the last member"
        assert (self.members < self.first).all(), "no combination has a combination in it"


def combine_tests(
    conjunctions: Conjunctions, popularity: list[Float64s], may_be: Bools, usable: Bools, first: int
) -> tuple[CombinedTests, Int32s]:
    """Choose combinations, and for each conjunction the test to file it under; -1 if there is none.

    `may_be` says which conjunctions may be filed under a combination, `usable` which tests it may have. A combination
    of one test is that test.
    """
    filed = np.full(conjunctions.count, -1, np.int32)
    demanded = (conjunctions.test_accepts == TRUE) & usable[conjunctions.test] & may_be[conjunctions.test_conjunction]
    owner, test = conjunctions.test_conjunction[demanded], conjunctions.test[demanded]
    numbers = np.unique(owner)
    if numbers.size < TUNING.min_combined:
        return CombinedTests.none(), filed
    some = conjunctions.select(numbers.astype(np.int32))
    held_by_ranges = share_of_conjunctions(range_predicates(some, popularity))
    wide = np.zeros(conjunctions.count, bool)
    wide[numbers[held_by_ranges >= TUNING.min_combined_share]] = True
    owner, test = owner[wide[owner]], test[wide[owner]]
    if not owner.size:
        return CombinedTests.none(), filed
    order = np.lexsort((test, owner))
    owner, test = owner[order], test[order]
    begins = np.flatnonzero(np.append(True, np.diff(owner) != 0))
    ends = np.append(begins[1:], owner.size)
    groups: dict[tuple[int, ...], list[int]] = {}
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        groups.setdefault(tuple(test[begin:end].tolist()), []).append(int(owner[begin]))
    chosen = sorted(groups, key=lambda tests: -len(groups[tests]))[: TUNING.max_combinations]
    combined: list[tuple[int, ...]] = []
    for tests in chosen:
        if len(groups[tests]) < TUNING.min_combined:
            break
        filed[groups[tests]] = tests[0] if len(tests) == 1 else first + len(combined)
        if len(tests) > 1:
            combined.append(tests)
    starts = np.append(0, np.cumsum([len(tests) for tests in combined])).astype(np.int64)
    members = np.array([test for tests in combined for test in tests], np.int32)
    return CombinedTests(first, starts, members), filed
