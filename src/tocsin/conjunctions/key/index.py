"""Key: file each conjunction under one of its predicates (SIFT, section 2.3; GPX-ap and GPX-apf)."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from tocsin.conjunctions.key.kernels import (
    Lists,
    Places,
    expected_candidates,
    file_under_keys,
    match_keys,
    match_keys_in_pairs,
    match_keys_once,
    shapes,
)
from tocsin.conjunctions.key.terms import ConjunctionMatcher, Found, Int32s, Int64s
from tocsin.errors import OptionError

Policy = Literal["rarest", "random", "first", "last"]


class Key(ConjunctionMatcher):
    """Look only at the conjunctions whose key holds; verify the rest of their terms, rare ones first.

    The key is the rarest required term, a random one, or the first or last as the conjunction was written. A batch is
    matched in blocks of 63 events: each predicate has a bit per event, and a conjunction holds for the events that the
    AND of its terms leaves, so that an entry is read once per block. A probe costs one step per entry of the keys
    that hold, and a conjunction without a required term is looked at always.

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
        *,
        ids: Int32s | None = None,
    ) -> Self:
        """Build from a CSR of terms; about linear in their number. `policy` says which required term is the key."""
        if policy not in get_args(Policy):
            raise OptionError(f"there is no policy {policy!r}", f"Choose one of {', '.join(get_args(Policy))}")
        matcher = super().build(offsets, terms, predicate_count, frequency, ids=ids)
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

    def cost(self, frequency: npt.ArrayLike) -> tuple[float, float]:
        """Return how many candidates an event has under these frequencies (0 to 1) now, and with the best keys."""
        index = self._index
        known = np.zeros(len(index["starts"]) - 2)
        given = np.asarray(frequency, np.float64)[: len(known)]
        known[: len(given)] = given
        return expected_candidates(self.offsets, self.terms, index["keys"], known)

    def _derive(self, offsets: Int64s, terms: Int32s) -> dict[str, npt.NDArray[Any]]:
        keys = self._choose_keys(offsets, terms)
        width, forbidden = shapes(offsets, terms, keys, self.predicate_count)
        order = np.lexsort((forbidden, width, keys))
        starts = np.zeros(self.predicate_count + 2, np.int32)
        size = int((width + forbidden).sum())
        places: Places = np.empty(size, np.uint32)
        if self.predicate_count < 1 << 16:
            places = np.empty(size, np.uint16)
        groups = file_under_keys(offsets, terms, keys, (width, forbidden), order, starts, places)
        return {"keys": keys, **Lists(starts, groups, self.ids[order], places)._asdict()}

    @property
    def _lists(self) -> Lists:
        # Taken once: a thread that makes new keys puts another index in its place.
        index = self._index
        return Lists(*(index[name] for name in Lists._fields))

    def _choose_keys(self, offsets: Int64s, terms: Int32s) -> Int32s:
        """Return the key of each conjunction; those without a required term get the list of no predicate."""
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

    def _probe(self, held_offsets: Int64s, held: Int32s) -> Found:
        lists = self._lists
        if len(held_offsets) == 2:
            occurs = self._take_scratch(len(lists.starts) - 1, np.uint8)
            found, candidates = match_keys_once(held, lists, occurs)
            self._give_scratch(occurs)
            return Found(np.array([0, len(found)], np.int64), found, int(candidates))
        masks = self._take_scratch(len(lists.starts) - 1, np.int64)
        offsets, found, candidates = match_keys(held_offsets, held, lists, masks)
        self._give_scratch(masks)
        return Found(offsets, found, candidates)

    def match_in_pairs(self, held_offsets: Int64s, held: Int32s) -> tuple[Int32s, int]:
        """Return the pairs (event, conjunction) that hold, in no order, and how many conjunctions were looked at.

        It is for what was built and not inserted into.
        """
        if len(held_offsets) == 2:
            found = self._probe(held_offsets, held)
            return np.stack([np.zeros_like(found.conjunctions), found.conjunctions], axis=1), found.candidates
        lists = self._lists
        masks = self._take_scratch(len(lists.starts) - 1, np.int64)
        pairs, candidates = match_keys_in_pairs(held_offsets, held, lists, masks)
        self._give_scratch(masks)
        return pairs, candidates

    def _check(self) -> None:
        keys, lists = self._index["keys"], self._lists
        always = len(lists.starts) - 2
        assert lists.groups[-1].tolist() == [0, 0, len(lists.numbers), len(lists.places)], (
            "the last group ends the lists"
        )
        filed = {}
        for key in range(always + 1):
            for group in range(lists.starts[key], lists.starts[key + 1]):
                width, forbidden, first, place = lists.groups[group].tolist()
                for number in lists.numbers[first : lists.groups[group + 1, 2]].tolist():
                    required = lists.places[place : place + width].tolist()
                    place += width + forbidden
                    terms = {p for p in required if p < always} | {
                        ~p for p in lists.places[place - forbidden : place].tolist()
                    }
                    filed[number] = (key, terms | ({key} if key < always else set()))
                assert place == lists.groups[group + 1, 3], "the places of a group follow each other"
        assert sorted(filed) == self.ids.tolist(), "each conjunction has one entry"
        for c, number in enumerate(self.ids.tolist()):
            given = self.terms[self.offsets[c] : self.offsets[c + 1]].tolist()
            assert filed[number] == (keys[c], set(given)), "an entry lies under its key and has all terms"
            assert keys[c] < always or all(t < 0 for t in given), "only conjunctions without required terms lack a key"
