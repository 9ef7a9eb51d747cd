"""Store equal conjunctions once, and do without those that another of the same subscription makes superfluous."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._kernels.conjunctions import order_terms
from tocsin._kernels.conjunctions_duplicates import group_slices, keep_uncovered
from tocsin.matching.protocol import Int32s, Int64s

_MOST_COMPARED = 4096


class Groups(NamedTuple):
    """Conjunctions grouped by equality: a million equal ones cost one evaluation and the list of their numbers.

    Group g has the members ``members[member_offsets[g]:member_offsets[g + 1]]``, ascending; `representatives` has the
    first of each group, and `group` the group of each conjunction.
    """

    group: Int32s
    representatives: Int32s
    member_offsets: Int64s
    members: Int32s

    def owners(self, offsets: Int64s, groups: Int32s) -> tuple[Int64s, Int32s]:
        """Return the members of the groups found for each event: from a CSR of groups to a CSR of conjunctions."""
        starts, lengths = self.member_offsets[groups], np.diff(self.member_offsets)[groups]
        before = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        places = np.arange(before[-1]) + np.repeat(starts - before[:-1], lengths)
        return before[offsets], self.members[places]


def distinct(offsets: Int64s, terms: Int32s) -> Groups:
    """Group the conjunctions of a CSR that have the same terms, in whatever order; linear in the number of terms.

    >>> groups = distinct(np.array([0, 2, 4, 5]), np.array([0, 1, 1, 0, 7], np.int32))
    >>> groups.representatives.tolist(), groups.members.tolist(), groups.member_offsets.tolist()
    ([0, 2], [0, 1, 2], [0, 2, 3])
    """
    group, groups = group_slices(*_sorted(offsets, terms))
    members = np.argsort(group, kind="stable").astype(np.int32)
    member_offsets = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=groups))]).astype(np.int64)
    return Groups(group, members[member_offsets[:-1]], member_offsets, members)


def uncovered(subscription_offsets: Int64s, offsets: Int64s, terms: Int32s) -> npt.NDArray[np.bool_]:
    """Tell which conjunctions a subscription needs: ``a OR (a AND b)`` is ``a``, and of equal ones the first stays.

    Subscription s is the OR of the conjunctions ``subscription_offsets[s]`` up to ``[s + 1]``. Conjunctions of one
    subscription are compared in pairs, so those of more than 4,096 are only worth their storage and are all kept.

    >>> uncovered(np.array([0, 2]), np.array([0, 1, 3]), np.array([0, 1, 0], np.int32)).tolist()
    [True, False]
    """
    return keep_uncovered(subscription_offsets, *_sorted(offsets, terms), _MOST_COMPARED)


def _sorted(offsets: Int64s, terms: Int32s) -> tuple[Int64s, Int32s]:
    """Return the terms of each conjunction in ascending order, as `order_terms` sees it, without repeats."""
    highest = int(np.where(terms < 0, ~terms, terms).max(initial=-1))
    identity = np.arange(highest + 1, dtype=np.int32)
    return order_terms(offsets, terms, identity, identity)
