"""From (event, conjunction) pairs in no order to the subscriptions of each event."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin._kernels import kernel

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Owners(NamedTuple):
    """The subscriptions of each conjunction: most have one, equal ones are stored once and have many.

    `owner[c]` is the only subscription of conjunction c; or ~g, and its subscriptions are
    `members[starts[g]:starts[g + 1]]`, ascending.
    """

    owner: Int32
    starts: Int64
    members: Int32


@kernel
def _append(target: Int32, place: int, source: Int32) -> int:
    """Copy `source` to `target` from `place` on, as fast as memory allows; return the end."""
    end = place + source.size
    part = target[place:end]
    for number in range(source.size):
        part[number] = source[number]
    return end


@kernel
def _append_kept(target: Int32, place: int, source: Int32, dropped: Bools) -> int:
    for subscription in source:
        if not dropped[subscription]:
            target[place] = subscription
            place += 1
    return place


@kernel
def _sizes(owners: Owners, pairs: Int32, dropped: Bools) -> Int64:
    """How many subscriptions of each group are not dropped; only groups that were found are counted."""
    sizes = np.diff(owners.starts)
    if dropped.size == 0:
        return sizes
    counted = np.zeros(sizes.size, np.bool_)
    for place in range(len(pairs)):
        group = ~owners.owner[pairs[place, 1]]
        if group >= 0 and not counted[group]:
            counted[group] = True
            for member in range(owners.starts[group], owners.starts[group + 1]):
                sizes[group] -= dropped[owners.members[member]]
    return sizes


@kernel
def group_by_event(pairs: Int32, owners: Owners, dropped: Bools, several: Bools, events: int) -> tuple[Int64, Int32]:
    """The subscriptions of each event, each once: those of event i are `values[starts[i]:starts[i + 1]]`.

    Subscriptions that are `dropped` are left out; the array is empty if none is. Only subscriptions with `several`
    conjunctions can be found twice; the array is empty if none has. The list of a conjunction with many subscriptions
    is copied, not gone through.
    """
    owner = owners.owner
    starts = np.zeros(events + 2, np.int64)
    some_dropped = dropped.size > 0
    sizes = _sizes(owners, pairs, dropped)
    for place in range(len(pairs)):
        subscription = owner[pairs[place, 1]]
        if subscription < 0:
            starts[pairs[place, 0] + 2] += sizes[~subscription]
        elif not (some_dropped and dropped[subscription]):
            starts[pairs[place, 0] + 2] += 1
    for event in range(events):
        starts[event + 2] += starts[event + 1]
    values = np.empty(starts[events + 1], np.int32)
    for place in range(len(pairs)):
        subscription = owner[pairs[place, 1]]
        end = starts[pairs[place, 0] + 1]
        if subscription < 0:
            group = ~subscription
            members = owners.members[owners.starts[group] : owners.starts[group + 1]]
            if members.size == sizes[group]:
                end = _append(values, end, members)
            else:
                end = _append_kept(values, end, members, dropped)
        elif not (some_dropped and dropped[subscription]):
            values[end] = subscription
            end += 1
        starts[pairs[place, 0] + 1] = end
    if several.size > 0:
        _drop_repeated(starts, values, several, events)
        values = values[: starts[events]]
    return starts[: events + 1], values


@kernel
def pairs_with_owners(pairs: Int32, owners: Owners) -> Int32:
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
def _drop_repeated(starts: Int64, values: Int32, several: Bools, events: int) -> None:
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
