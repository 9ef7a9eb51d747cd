"""From (event, conjunction) pairs in no order to the subscriptions of each event."""

import numpy as np
import numpy.typing as npt

from tocsin._kernels import kernel

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@kernel
def group_by_event(pairs: Int32, owner: Int32, dropped: Bools, several: Bools, events: int) -> tuple[Int64, Int32]:
    """The subscriptions of each event, each once: those of event i are `values[starts[i]:starts[i + 1]]`.

    `owner` is the subscription of each conjunction. Subscriptions that are `dropped` are left out; the array is empty
    if none is. Only subscriptions with `several` conjunctions can be found twice; the array is empty if none has.
    """
    starts = np.zeros(events + 2, np.int64)
    some_dropped = dropped.size > 0
    for place in range(len(pairs)):
        if not (some_dropped and dropped[owner[pairs[place, 1]]]):
            starts[pairs[place, 0] + 2] += 1
    for event in range(events):
        starts[event + 2] += starts[event + 1]
    values = np.empty(starts[events + 1], np.int32)
    for place in range(len(pairs)):
        subscription = owner[pairs[place, 1]]
        if some_dropped and dropped[subscription]:
            continue
        event = pairs[place, 0]
        values[starts[event + 1]] = subscription
        starts[event + 1] += 1
    if several.size > 0:
        _drop_repeated(starts, values, several, events)
        values = values[: starts[events]]
    return starts[: events + 1], values


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
