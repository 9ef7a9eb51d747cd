"""The least and greatest old value of each of many groups, a group being the old events that satisfy some constants."""

from typing import NamedTuple

import numpy as np

from tocsin._compile import kernel
from tocsin.predicates.history.kernels import LANES, Bounds, Flags, Integers, Lanes, OldValues, Positions, key_of


class Groups(NamedTuple):
    """By group and lane: least and greatest payload, the latest event with each, and the latest event at all."""

    least: Integers
    greatest: Integers
    least_at: Integers
    greatest_at: Integers
    latest: Integers


@kernel
def _take_in(group: int, lane: int, payload: int, number: int, old: OldValues, groups: Groups) -> None:
    key = key_of(lane, payload, old)
    if groups.latest[group, lane] < 0 or key < key_of(lane, groups.least[group, lane], old):
        groups.least[group, lane] = payload
        groups.least_at[group, lane] = number
    elif payload == groups.least[group, lane]:
        groups.least_at[group, lane] = max(number, groups.least_at[group, lane])
    if groups.latest[group, lane] < 0 or key > key_of(lane, groups.greatest[group, lane], old):
        groups.greatest[group, lane] = payload
        groups.greatest_at[group, lane] = number
    elif payload == groups.greatest[group, lane]:
        groups.greatest_at[group, lane] = max(number, groups.greatest_at[group, lane])
    groups.latest[group, lane] = max(number, groups.latest[group, lane])


@kernel
def fill_group(group: int, positions: Positions, base: int, old: OldValues, groups: Groups) -> None:
    """Compute one group anew from the positions of its events."""
    groups.latest[group, :] = -1
    for i in range(positions.size):
        at = positions[i]
        _take_in(group, old.lanes[at], old.payloads[at], base + at, old, groups)


@kernel
def extend_groups(
    at: int, base: int, keys: Integers, lanes: Lanes, bounds: Bounds, old: OldValues, groups: Groups
) -> None:
    """Add the event at one position to the groups it satisfies; `keys[t]`, `lanes[t]` are its values of each term."""
    terms, count, _ = bounds.low.shape
    for group in range(count):
        holds = True
        for t in range(terms):
            lane = lanes[t]
            inside = bounds.low[t, group, lane] <= keys[t] <= bounds.high[t, group, lane]
            if inside == bounds.outside[t, group, lane]:
                holds = False
                break
        if holds:
            _take_in(group, old.lanes[at], old.payloads[at], base + at, old, groups)


@kernel
def groups_reaching(groups: Groups, first: int, old: OldValues, bounds: Bounds) -> Flags:
    """For each group whether some event of it, not before `first`, satisfies a condition open to one side or `<>`."""
    holds = np.zeros(groups.latest.shape[0], dtype=np.bool_)
    for lane in range(LANES):
        low = bounds.low[lane]
        high = bounds.high[lane]
        outside = bounds.outside[lane]
        if low > high and not outside:
            continue
        for group in range(holds.size):
            if not holds[group] and groups.latest[group, lane] >= first:
                least = key_of(lane, groups.least[group, lane], old)
                greatest = key_of(lane, groups.greatest[group, lane], old)
                if outside:
                    holds[group] = low > high or least < low or greatest > high
                else:
                    holds[group] = least <= high and greatest >= low
    return holds
