"""From (event, conjunction) pairs in no order to the subscriptions of each event."""

import itertools
from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Bools, Int32s, Int64s, Ragged, reused_memory


class Owners(NamedTuple):
    """The subscriptions of each conjunction: most have one, equal ones are stored once and have many.

    `owner[c]` is the only subscription of conjunction c; or ~g, and its subscriptions are
    `members[starts[g]:starts[g + 1]]`, ascending.
    """

    owner: Int32s
    starts: Int64s
    members: Int32s

    def with_blocks(self, blocks: Ragged | None) -> "Owners":
        """Return the owners with those of blocks of conjunctions, which are numbered behind all conjunctions."""
        if blocks is None:
            return self
        owner, members, starts = [self.owner], [self.members], [self.starts]
        groups, end = self.starts.size - 1, int(self.starts[-1])
        for first, last in itertools.pairwise(blocks.starts.tolist()):
            of_block = self.owner[blocks.values[first:last]]
            shared = [self.members[self.starts[~one] : self.starts[~one + 1]] for one in of_block[of_block < 0]]
            distinct = np.unique(np.concatenate([of_block[of_block >= 0], *shared]))
            if distinct.size == 1:
                owner.append(distinct)
                continue
            owner.append(np.array([~groups], np.int32))
            groups, end = groups + 1, end + distinct.size
            members.append(distinct)
            starts.append(np.array([end]))
        return Owners(np.concatenate(owner), np.concatenate(starts), np.concatenate(members))


@kernel
def _append_kept(target: Int32s, place: int, source: Int32s, dropped: Bools) -> int:
    """Copy those of `source` that are not dropped to `target` from `place` on; return the end."""
    for subscription in source:
        if not dropped[subscription]:
            target[place] = subscription
            place += 1
    return place


@kernel
def count_by_event(pairs: Int32s, owners: Owners, dropped: Bools, events: int) -> tuple[Int64s, Int64s]:
    """Where the subscriptions of each event will start, with one more entry; and the sizes of the lists of owners.

    Subscriptions that are `dropped` do not count; the array is empty if none is. Of the lists, only those that are met
    are gone through for them.
    """
    owner, members = owners.owner, owners.members
    # By a loop: NumPy's diff takes 2 s to compile.
    sizes = np.empty(owners.starts.size - 1, np.int64)
    for group in range(sizes.size):
        sizes[group] = owners.starts[group + 1] - owners.starts[group]
    starts = np.zeros(events + 1, np.int64)
    some_dropped = dropped.size > 0
    thinned = np.zeros(sizes.size if some_dropped else 0, np.bool_)
    for place in range(len(pairs)):
        event, subscription = pairs[place, 0], owner[pairs[place, 1]]
        if subscription >= 0:
            starts[event + 1] += not (some_dropped and dropped[subscription])
            continue
        group = ~subscription
        if some_dropped and not thinned[group]:
            thinned[group] = True
            for member in range(owners.starts[group], owners.starts[group + 1]):
                sizes[group] -= dropped[members[member]]
        starts[event + 1] += sizes[group]
    for event in range(events):
        starts[event + 1] += starts[event]
    return starts, sizes


@kernel
def fill_by_event(pairs: Int32s, owners: Owners, sizes: Int64s, dropped: Bools, starts: Int64s, values: Int32s) -> None:
    """Write the subscriptions of each event to `values`; the list of a conjunction is copied, not gone through.

    Lists come first: one that has most of an event's subscriptions then needs no sorting.
    """
    owner, starts_of_members, members = owners.owner, owners.starts, owners.members
    some_dropped = dropped.size > 0
    ends = starts.copy()
    for place in range(len(pairs) if sizes.size else 0):
        event, subscription = pairs[place, 0], owner[pairs[place, 1]]
        if subscription >= 0:
            continue
        end, group = ends[event], ~subscription
        first, last = starts_of_members[group], starts_of_members[group + 1]
        if last - first == sizes[group]:
            # Unsigned indexes cannot be negative, so that the compiler makes vectors of this loop.
            source, target = np.uint64(first), np.uint64(end)
            for number in range(np.uint64(last - first)):
                values[target + number] = members[source + number]
            end += last - first
        else:
            end = _append_kept(values, end, members[first:last], dropped)
        ends[event] = end
    for place in range(len(pairs)):
        event, subscription = pairs[place, 0], owner[pairs[place, 1]]
        if subscription >= 0 and not (some_dropped and dropped[subscription]):
            values[ends[event]] = subscription
            ends[event] += 1


@kernel
def _count_pairs(pairs: Int32s, events: int) -> Int64s:
    """Where the conjunctions of each event will start, with one more entry."""
    starts = np.zeros(events + 1, np.int64)
    for place in range(len(pairs)):
        starts[np.uint64(pairs[place, 0]) + np.uint64(1)] += 1
    for event in range(events):
        starts[event + 1] += starts[event]
    return starts


@kernel
def _fill_pairs(pairs: Int32s, starts: Int64s, values: Int32s) -> None:
    """Write the conjunctions of each event to `values`."""
    ends = starts.copy()
    for place in range(len(pairs)):
        event = np.uint64(pairs[place, 0])
        values[np.uint64(ends[event])] = pairs[place, 1]
        ends[event] += 1


def group_conjunctions(pairs: Int32s, events: int) -> tuple[Int64s, Int32s]:
    """What `group_by_event` returns if each conjunction is its own subscription and none is dropped."""
    pairs = np.ascontiguousarray(pairs)
    starts = _count_pairs(pairs, events)
    values = np.empty(len(pairs), np.int32)
    _fill_pairs(pairs, starts, values)
    return starts, values


def group_by_event(pairs: Int32s, owners: Owners, dropped: Bools, several: Bools, events: int) -> tuple[Int64s, Int32s]:
    """The subscriptions of each event, each once: those of event i are `values[starts[i]:starts[i + 1]]`.

    Subscriptions that are `dropped` are left out; the array is empty if none is. Only subscriptions with `several`
    conjunctions can be found twice; the array is empty if none has. NumPy allocates the values: millions of them are
    worth its large pages.
    """
    pairs = np.ascontiguousarray(pairs)
    starts, sizes = count_by_event(pairs, owners, dropped, events)
    values = np.empty(int(starts[-1]), np.int32)
    fill_by_event(pairs, owners, sizes, dropped, starts, values)
    if several.size:
        _drop_repeated(starts, values, several, events)
        values = values[: starts[-1]]
    return starts, values


@kernel
def _size_of_lists(lists: Int32s, owners: Owners) -> int:
    """How many subscriptions some conjunctions have."""
    total = 0
    for conjunction in lists:
        owner = owners.owner[conjunction]
        total += 1 if owner >= 0 else owners.starts[~owner + 1] - owners.starts[~owner]
    return total


@kernel
def _append_lists(
    first: Int64s, before: Int32s, starts: Int64s, lists: Int32s, owners: Owners, dropped: Bools, values: Int32s
) -> Int64s:
    """Write what was found `before` for each event, from `first[event]` on, then the subscriptions of its list.

    Return where those of each event start. Those in `before` are kept: they are not dropped.
    """
    some_dropped, used = dropped.size > 0, 0
    ends = np.zeros(starts.size, np.int64)
    for event in range(starts.size - 1):
        for place in range(np.uint64(first[event]), np.uint64(first[event + 1])):
            values[np.uint64(used)] = before[place]
            used += 1
        for place in range(np.uint64(starts[event]), np.uint64(starts[event + 1])):
            owner = owners.owner[np.uint64(lists[place])]
            if owner < 0:
                for member in range(owners.starts[~owner], owners.starts[~owner + 1]):
                    values[np.uint64(used)] = owners.members[member]
                    used += not (some_dropped and dropped[owners.members[member]])
                continue
            values[np.uint64(used)] = owner
            used += not (some_dropped and dropped[np.uint64(owner)])
        ends[event + 1] = used
    return ends


def owners_of_lists(
    lists: Ragged, pairs: Int32s, owners: Owners, dropped: Bools, several: Bools
) -> tuple[Int64s, Int32s]:
    """What `group_by_event` returns of the pairs and of lists of conjunctions together.

    A million subscriptions with 33,000 matches an event, nearly all in lists: 550 µs an event as pairs, 343 so.
    """
    events = lists.starts.size - 1
    first, before = group_by_event(pairs, owners, dropped, several, events)
    # An event meets each list of owners once at most. Where these are short, nothing is counted.
    in_lists = lists.values.size + events * owners.members.size
    if in_lists > 2 * lists.values.size:
        in_lists = _size_of_lists(lists.values, owners)
    # What is dropped is written before it is overwritten, hence the room for one more.
    values = reused_memory(before.size + in_lists + 1)
    starts = _append_lists(first, before, lists.starts, lists.values, owners, dropped, values)
    if several.size:
        _drop_repeated(starts, values, several, events)
    return starts, values[: starts[-1]]


@kernel
def _drop_from_lists(starts: Int64s, values: Int32s, dropped: Bools) -> None:
    """Move the values that are not dropped together, in place."""
    kept, begin = np.uint64(0), starts[0]
    for event in range(starts.size - 1):
        end = starts[event + 1]
        for place in range(np.uint64(begin), np.uint64(end)):
            value = values[place]
            values[kept] = value
            kept += np.uint64(not dropped[np.uint64(value)])
        begin = end
        starts[event + 1] = kept


def without(dropped: Bools, lists: Ragged) -> tuple[Int64s, Int32s]:
    """The lists without the subscriptions that are dropped; they take the place of those given.

    >>> without(np.array([False, True, False]), Ragged(np.array([0, 2, 3]), np.array([1, 2, 0], np.int32)))
    (array([0, 1, 2]), array([2, 0], dtype=int32))
    """
    _drop_from_lists(lists.starts, lists.values, dropped)
    return lists.starts, lists.values[: lists.starts[-1]]


@kernel
def _fill_events(starts: Int64s, first: int, events: Int64s) -> None:
    """Write the number of the event of each value, if the events are numbered from `first` on."""
    for event in range(starts.size - 1):
        for place in range(np.uint64(starts[event]), np.uint64(starts[event + 1])):
            events[place] = first + event


def events_of(starts: Int64s, first: int) -> Int64s:
    """The number of the event of each value, if the events are numbered from `first` on.

    NumPy allocates them, in large pages: 20,000 matches an event took 73 µs in pages of 4 kB.
    """
    events = np.empty(int(starts[-1]), np.int64)
    _fill_events(starts, first, events)
    return events


@kernel
def pairs_with_owners(pairs: Int32s, owners: Owners) -> Int32s:
    """The (event, subscription) pairs of (event, conjunction) pairs, in no order, some of them several times."""
    total = 0
    for place in range(len(pairs)):
        subscription = owners.owner[pairs[place, 1]]
        total += 1 if subscription >= 0 else owners.starts[~subscription + 1] - owners.starts[~subscription]
    owned = np.empty((total, 2), np.int32)
    end = 0
    for place in range(len(pairs)):
        event, subscription = pairs[place, 0], owners.owner[pairs[place, 1]]
        if subscription >= 0:
            owned[end, 0], owned[end, 1] = event, subscription
            end += 1
            continue
        for member in range(owners.starts[~subscription], owners.starts[~subscription + 1]):
            owned[end, 0], owned[end, 1] = event, owners.members[member]
            end += 1
    return owned


@kernel
def _drop_repeated(starts: Int64s, values: Int32s, several: Bools, events: int) -> None:
    seen_in = np.full(several.size, -1, np.int32)
    kept = 0
    begin = 0
    for event in range(events):
        end = starts[event + 1]
        for place in range(begin, end):
            subscription = values[place]
            if several[subscription]:
                if seen_in[subscription] == event:
                    continue
                seen_in[subscription] = event
            values[kept] = subscription
            kept += 1
        begin = end
        starts[event + 1] = kept


@kernel
def owners_of_one(pairs: Int32s, owners: Owners, dropped: Bools, several: Bools) -> tuple[Int32s, int]:
    """The subscriptions of the only event of some pairs, and how many of them may be there again."""
    total = 0
    for place in range(len(pairs)):
        subscription = owners.owner[pairs[place, 1]]
        total += 1 if subscription >= 0 else owners.starts[~subscription + 1] - owners.starts[~subscription]
    found = np.empty(total, np.int32)
    end, repeatable = 0, 0
    for place in range(len(pairs)):
        group = owners.owner[pairs[place, 1]]
        first, last = (0, 1) if group >= 0 else (owners.starts[~group], owners.starts[~group + 1])
        for member in range(first, last):
            subscription = group if group >= 0 else owners.members[member]
            if dropped.size > 0 and dropped[subscription]:
                continue
            found[end] = subscription
            end += 1
            if several.size > 0 and several[subscription]:
                repeatable += 1
    return found[:end], repeatable


def subscriptions_of_one(pairs: Int32s, owners: Owners, dropped: Bools, several: Bools) -> Int32s:
    """The subscriptions of the only event of some pairs, each once; for the arrays see `group_by_event`.

    That one keeps a number for each list of owners and each subscription, which a batch pays for once. 100,000
    subscriptions: 100 µs for one event, 7 µs here.
    """
    found, repeatable = owners_of_one(np.ascontiguousarray(pairs), owners, dropped, several)
    if repeatable > 1:
        found = np.sort(found)
        is_first = np.ones(found.size, np.bool_)
        np.not_equal(found[1:], found[:-1], out=is_first[1:])
        found = found[is_first]
    return found
