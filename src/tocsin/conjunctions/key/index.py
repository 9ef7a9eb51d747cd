"""KeyIndex: conjunctions of tests, each filed under its rarest required test (SIFT, section 2.3; GPX-ap and GPX-apf).

`papers/sift/key.py` has the same structure with the paper's other ways to choose a key, with insertion and deletion.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.arrays import Float64s, Int32s, Int64s
from tocsin.conjunctions.key.kernels import (
    FIRST,
    FIRST_PLACE,
    FORBIDDEN,
    WIDTH,
    Lists,
    Places,
    expected_candidates,
    file_under_keys,
    match_keys,
    match_keys_of_event,
    order_terms,
    shapes,
)
from tocsin.conjunctions.pairs.kernels import FOUND
from tocsin.conjunctions.protocol import Extent, Pairs
from tocsin.invariants import check_starts, check_tagged, check_type, check_within, demand


class Filed(NamedTuple):
    """What a choice of keys makes of the conjunctions; replaced as a whole, so that a match sees one choice."""

    frequency: Float64s
    keys: Int32s
    """The key of each conjunction; the number of predicates if it has none."""
    lists: Lists


class KeyIndex:
    """Look only at the conjunctions whose key holds; verify the rest of their terms, rare ones first.

    A conjunction is a slice of *terms*: a predicate p that must hold, or ~p (a negative number) for a predicate that
    must not. A batch is matched in blocks of 63 events: each predicate has a bit for each event, and a conjunction
    holds for the events that the AND of its terms leaves, so that an entry is read once per block. A match costs one
    step per entry of the keys that hold. A conjunction without a required term is looked at for every event.

    Matching is safe from several threads at once, also while `rekey` runs.

    >>> ids = np.array([7, 8], np.int32)
    >>> index = KeyIndex.build(ids, np.array([0, 2, 4]), np.array([0, 1, 0, 2], np.int32), np.array([0.9, 0.1, 0.1]))
    >>> pairs, candidates = index.match(np.array([0, 2, 3]), np.array([0, 1, 0], np.int32))
    >>> pairs.tolist(), candidates
    ([[0, 7]], 1)
    """

    def __init__(self, ids: Int32s, offsets: Int64s, terms: Int32s, filed: Filed) -> None:
        self.ids, self.offsets, self.terms = ids, offsets, terms
        self._filed = filed
        self._zeros = ZeroArrays()

    @classmethod
    def build(cls, ids: Int32s, offsets: Int64s, terms: Int32s, frequency: Float64s) -> "KeyIndex":
        """File conjunctions under their rarest required term; about linear in the number of terms.

        `ids` are their numbers, ascending; `frequency` says how often each predicate holds, on any scale.
        """
        return cls(ids, offsets, terms, _file(ids, offsets, terms, frequency))

    def match(self, held_offsets: Int64s, held: Int32s) -> Pairs:
        """Return the pairs (event, conjunction) that hold, in no order, and how many conjunctions were looked at.

        Event e holds ``held[held_offsets[e]:held_offsets[e + 1]]``.
        """
        lists = self._filed.lists
        if len(held_offsets) == 2:
            occurs = self._zeros.take(len(lists.starts) - 1, np.uint8)
            found, candidates = match_keys_of_event(held, lists, occurs)
            self._zeros.give(occurs)
            pairs = np.zeros((found.size, 2), np.int32)
            pairs[:, FOUND] = found
            return pairs, int(candidates)
        masks = self._zeros.take(len(lists.starts) - 1, np.int64)
        pairs, candidates = match_keys(held_offsets, held, lists, masks)
        self._zeros.give(masks)
        return pairs, candidates

    def cost(self, frequency: Float64s) -> tuple[float, float]:
        """Return how many candidates an event has under these frequencies (0 to 1) now, and with the best keys."""
        return expected_candidates(self.offsets, self.terms, self._filed.keys, frequency)

    def rekey(self, frequency: Float64s) -> None:
        """File the conjunctions again for new frequencies; a match under way ends with the old keys."""
        self._filed = _file(self.ids, self.offsets, self.terms, frequency)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def predicate_count(self) -> int:
        """The number of predicates that terms may name; numbers beyond it may hold and are ignored."""
        return len(self._filed.frequency)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state as named arrays."""
        frequency, keys, lists = self._filed
        state: dict[str, npt.NDArray[Any]] = {"ids": self.ids, "offsets": self.offsets, "terms": self.terms}
        return state | {"frequency": frequency, "keys": keys} | lists._asdict()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "KeyIndex":
        """Return the index of `arrays`, which may be read-only and mapped from a file; constant time."""
        lists = Lists(*(arrays[name] for name in Lists._fields))
        filed = Filed(arrays["frequency"], arrays["keys"], lists)
        return cls(arrays["ids"], arrays["offsets"], arrays["terms"], filed)

    def check_arrays(self, bounds: Extent) -> None:
        """Demand what keeps the kernels within their arrays."""
        frequency, keys, lists = self._filed
        check_slice_arrays(self.ids, self.offsets, self.terms, frequency, bounds.conjunctions)
        check_list_arrays(keys, lists, self.ids.size, frequency.size, bounds.conjunctions)

    def check(self) -> None:
        """Assert what matching relies on."""
        check_slices(self.ids, self.offsets, self.terms, self.predicate_count)
        check_lists(self.ids, self.offsets, self.terms, self._filed.keys, self._filed.lists)


def check_slice_arrays(ids: Int32s, offsets: Int64s, terms: Int32s, frequency: Float64s, conjunctions: int) -> None:
    """Demand numbered slices of terms that name predicates."""
    check_type("ids", ids, np.int32)
    check_type("offsets", offsets, np.int64)
    check_type("terms", terms, np.int32)
    check_type("frequency", frequency, np.float64)
    check_within("ids", ids, 0, conjunctions)
    check_starts("offsets", offsets, ids.size, terms.size)
    check_tagged("terms", terms, frequency.size)


def check_list_arrays(keys: Int32s, lists: Lists, size: int, predicates: int, conjunctions: int) -> None:
    """Demand what keeps the kernels within the lists of keys, which `size` conjunctions are filed in."""
    groups = lists.groups
    check_type("keys", keys, np.int32)
    check_type("starts", lists.starts, np.int32)
    check_type("numbers", lists.numbers, np.int32)
    check_type("places", lists.places, np.uint16 if predicates < 1 << 16 else np.uint32)
    check_type("groups", groups, np.int32, 4)
    demand(keys.size == size, "keys", "not each conjunction has a key")
    check_within("keys", keys, 0, predicates + 1)
    check_within("numbers", lists.numbers, 0, conjunctions)
    demand(len(groups) > 0, "groups", "it has no last row")
    check_starts("starts", lists.starts, predicates + 1, len(groups) - 1)
    check_starts("groups", groups[:, FIRST], len(groups) - 1, lists.numbers.size)
    check_starts("groups", groups[:, FIRST_PLACE], len(groups) - 1, lists.places.size)
    width, forbidden = groups[:-1, WIDTH].astype(np.int64), groups[:-1, FORBIDDEN].astype(np.int64)
    demand((width >= 0) & (forbidden >= 0), "groups", "a group has fewer than no terms")
    demand((width < 3) | (width % 4 == 0), "groups", "the places of a group are not padded")
    entries, places = np.diff(groups[:, FIRST]).astype(np.int64), np.diff(groups[:, FIRST_PLACE])
    demand(entries * (width + forbidden) == places, "groups", "the places of a group do not follow each other")
    check_within("places", lists.places, 0, predicates + 1)


class ZeroArrays:
    """A pool of arrays of zeros: a match takes one and gives it back as zeros. Safe from several threads."""

    def __init__(self) -> None:
        self._free: dict[tuple[type[np.generic], int], list[npt.NDArray[Any]]] = {}

    def take(self, length: int, dtype: type[np.generic]) -> npt.NDArray[Any]:
        """Return an array that nobody else uses."""
        try:
            return self._free[dtype, length].pop()
        except (KeyError, IndexError):
            return np.zeros(length, dtype)

    def give(self, array: npt.NDArray[Any]) -> None:
        """Take an array back."""
        self._free.setdefault((array.dtype.type, len(array)), []).append(array)


def _file(ids: Int32s, offsets: Int64s, terms: Int32s, frequency: Float64s) -> Filed:
    if not len(ids):
        # Without a kernel: subscriptions of ranges alone do not wait until those of this index are compiled.
        no_numbers = np.empty(0, np.int32)
        starts, groups = np.zeros(len(frequency) + 2, np.int32), np.zeros((1, 4), np.int32)
        return Filed(frequency, no_numbers, Lists(starts, groups, no_numbers, _room_for_places(0, len(frequency))))
    offsets, terms = to_fail_first(offsets, terms, frequency)
    keys = first_required(offsets, terms, len(frequency))
    return Filed(frequency, keys, lists_of(ids, offsets, terms, keys, len(frequency)))


def to_fail_first(offsets: Int64s, terms: Int32s, frequency: Float64s) -> tuple[Int64s, Int32s]:
    """Sort each slice so that it fails first: rare required terms, then frequent forbidden ones; drop repeats."""
    by_rank = np.argsort(frequency, kind="stable").astype(np.int32)
    rank = np.empty_like(by_rank)
    rank[by_rank] = np.arange(len(by_rank), dtype=np.int32)
    return order_terms(offsets, terms, by_rank, rank)


def first_required(offsets: Int64s, terms: Int32s, predicates: int) -> Int32s:
    """Return the first term of each ordered slice as its key; `predicates` if nothing is required."""
    keys = np.full(len(offsets) - 1, predicates, np.int32)
    filled = np.flatnonzero(np.diff(offsets))
    first = terms[offsets[filled]]
    keys[filled] = np.where(first >= 0, first, predicates)
    return keys


def lists_of(ids: Int32s, offsets: Int64s, terms: Int32s, keys: Int32s, predicates: int) -> Lists:
    """Make the lists of all keys from slices that are ordered and have no repeats."""
    width, forbidden = shapes(offsets, terms, keys, predicates)
    order = np.lexsort((forbidden, width, keys))
    starts = np.zeros(predicates + 2, np.int32)
    size = int((width + forbidden).sum())
    places = _room_for_places(size, predicates)
    groups = file_under_keys(offsets, terms, keys, (width, forbidden), order, starts, places)
    return Lists(starts, groups, ids[order], places)


def _room_for_places(size: int, predicates: int) -> Places:
    return np.empty(size, np.uint16) if predicates < 1 << 16 else np.empty(size, np.uint32)


def check_slices(ids: Int32s, offsets: Int64s, terms: Int32s, predicates: int) -> None:
    """Assert that numbered slices of terms are well formed."""
    assert len(offsets) == len(ids) + 1, "every conjunction has a slice"
    assert offsets[0] == 0, "the first slice starts at the first term"
    assert offsets[-1] == len(terms), "the last slice ends at the last term"
    assert np.all(np.diff(offsets) >= 0), "slices do not run backwards"
    assert np.all(np.diff(ids) > 0), "numbers ascend, so that one can be found by bisection"
    assert np.where(terms < 0, ~terms, terms).max(initial=-1) < predicates, "every term names a known predicate"


def check_lists(ids: Int32s, offsets: Int64s, terms: Int32s, keys: Int32s, lists: Lists) -> None:
    """Assert that the lists hold each conjunction once, under its key, with all its terms."""
    always = len(lists.starts) - 2
    assert lists.groups[-1].tolist() == [0, 0, len(lists.numbers), len(lists.places)], "the last group ends the lists"
    filed = {}
    for key in range(always + 1):
        for group in range(lists.starts[key], lists.starts[key + 1]):
            width, forbidden, first, place = lists.groups[group].tolist()
            for number in lists.numbers[first : lists.groups[group + 1, 2]].tolist():
                required = {p for p in lists.places[place : place + width].tolist() if p < always}
                place += width + forbidden
                own = required | {~p for p in lists.places[place - forbidden : place].tolist()}
                filed[number] = (key, own | ({key} if key < always else set()))
            assert place == lists.groups[group + 1, 3], "the places of a group follow each other"
    assert sorted(filed) == ids.tolist(), "each conjunction has one entry"
    for c, number in enumerate(ids.tolist()):
        given = terms[offsets[c] : offsets[c + 1]].tolist()
        assert filed[number] == (keys[c], set(given)), "an entry lies under its key and has all terms"
        assert keys[c] < always or all(t < 0 for t in given), "only conjunctions without required terms lack a key"
