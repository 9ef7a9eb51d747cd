"""Key: file each conjunction under one of its predicates (SIFT, section 2.3), by any of four policies.

The lists, the order of terms and the loops are those of the product's `KeyIndex`, which knows the policy "rarest" only.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Int32s, Int64s
from tocsin.conjunctions.key.index import check_list_arrays, check_lists, first_required, lists_of
from tocsin.conjunctions.key.kernels import Lists, match_keys_of_event
from tocsin.errors import OptionError
from tocsin.papers.sift.kernels import match_keys_by_event
from tocsin.papers.sift.protocol import ConjunctionMatcher, Found

Policy = Literal["rarest", "random", "first", "last"]


class Key(ConjunctionMatcher):
    """Look only at the conjunctions whose key holds; verify the rest of their terms, rare ones first.

    The key is the rarest required term, a random one, or the first or last as the conjunction was written. See
    `KeyIndex` for how a batch is matched and what it costs.

    >>> matcher = Key.build([0, 2, 4], [0, 1, 0, 2], predicate_count=3, frequency=[0.9, 0.1, 0.1])
    >>> matcher.match_batch(np.array([0, 2]), np.array([0, 1], np.int32))
    Found(offsets=array([0, 1]), conjunctions=array([0], dtype=int32), candidates=1)
    """

    derived: ClassVar[tuple[str, ...]] = ("keys", *Lists._fields)
    policy: Policy = "rarest"

    @classmethod
    def build(
        cls,
        offsets: npt.ArrayLike,
        terms: npt.ArrayLike,
        predicate_count: int,
        frequency: npt.ArrayLike | None = None,
        policy: Policy = "rarest",
    ) -> Self:
        """Build from a CSR of terms; about linear in their number. `policy` says which required term is the key."""
        if policy not in get_args(Policy):
            raise OptionError(f"there is no policy {policy!r}", f"Choose one of {', '.join(get_args(Policy))}")
        matcher = super().build(offsets, terms, predicate_count, frequency)
        if policy != "rarest":
            matcher.policy = policy
            matcher._rebuild()
        return matcher

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], policy: Policy = "rarest") -> Self:
        """Return the matcher of `arrays`, which may be read-only and mapped from a file; constant time."""
        matcher = super().from_arrays(arrays)
        matcher.policy = policy
        return matcher

    @property
    def unkeyed(self) -> int:
        """The number of conjunctions that are looked at for every event, since nothing must hold for them."""
        return int(np.count_nonzero(self._index["keys"] >= len(self._index["starts"]) - 2))

    def _derive(self, offsets: Int64s, terms: Int32s) -> dict[str, npt.NDArray[Any]]:
        keys = self._choose_keys(offsets, terms)
        return {"keys": keys, **lists_of(self.ids, offsets, terms, keys, self.predicate_count)._asdict()}

    def _choose_keys(self, offsets: Int64s, terms: Int32s) -> Int32s:
        """Return the key of each conjunction: ALWAYS, the number of predicates, if it has no required term."""
        if self.policy == "rarest":
            return first_required(offsets, terms, self.predicate_count)
        if self.policy in ("first", "last"):
            offsets, terms = self.offsets, self.terms
        required_before = np.concatenate([[0], np.cumsum(terms >= 0)])
        required = terms[terms >= 0]
        first, stop = required_before[offsets[:-1]], required_before[offsets[1:]]
        if self.policy == "last":
            chosen = stop - 1
        elif self.policy == "random":
            chosen = first + np.random.default_rng(0).integers(0, np.maximum(stop - first, 1))
        else:
            chosen = first
        keys = np.full(len(self.ids), self.predicate_count, np.int32)
        has_key = stop > first
        keys[has_key] = required[chosen[has_key]]
        return keys

    @property
    def _lists(self) -> Lists:
        return Lists(*(self._index[name] for name in Lists._fields))

    def _probe(self, held_offsets: Int64s, held: Int32s) -> Found:
        lists = self._lists
        if len(held_offsets) == 2:
            occurs = self._zeros.take(len(lists.starts) - 1, np.uint8)
            found, candidates = match_keys_of_event(held, lists, occurs)
            self._zeros.give(occurs)
            return Found(np.array([0, len(found)], np.int64), found, int(candidates))
        masks = self._zeros.take(len(lists.starts) - 1, np.int64)
        offsets, found, candidates = match_keys_by_event(held_offsets, held, lists, masks)
        self._zeros.give(masks)
        return Found(offsets, found, candidates)

    def _check_arrays(self, conjunctions: int) -> None:
        lists = Lists(*(self._index[name] for name in Lists._fields))
        check_list_arrays(self._index["keys"], lists, self.ids.size, self.predicate_count, conjunctions)

    def _check(self) -> None:
        check_lists(self.ids, self.offsets, self.terms, self._index["keys"], self._lists)
