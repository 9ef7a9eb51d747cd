"""Find the tests that hold for events from codes, and from other tests."""

import numpy as np

from tocsin._compile import kernel
from tocsin.arrays import Int32s, Int64s


@kernel
def true_tests(
    codes: Int32s, places: Int32s, tests: Int32s, starts: Int64s, low: Int32s, high: Int32s
) -> tuple[Int64s, Int32s]:
    """Return the tests that are TRUE for each event, ascending: where those of each event start, and the tests.

    `codes[i]` are the codes of column `places[i]`, which ascend.
    """
    events = codes.shape[1]
    offsets = np.zeros(events + 1, np.int64)
    found = np.empty(16, np.int32)
    used = 0
    for event in range(events):
        for row in range(places.size):
            code = codes[row, event]
            if code < 0:
                continue
            for test in range(tests[places[row]], tests[places[row] + 1]):
                holds = False
                for entry in range(starts[test], starts[test + 1]):
                    holds |= (low[entry] <= code) & (code <= high[entry])
                if holds:
                    if used == found.size:
                        larger = np.empty(2 * used, np.int32)
                        larger[:used] = found
                        found = larger
                    found[used] = test
                    used += 1
        offsets[event + 1] = used
    return offsets, found[:used]


@kernel
def true_combinations(true_starts: Int64s, true: Int32s, starts: Int64s, members: Int32s) -> tuple[Int64s, Int32s]:
    """Return the combinations of which all members are TRUE, for each event: where those of it start, and they."""
    events, combinations = true_starts.size - 1, starts.size - 1
    offsets = np.zeros(events + 1, np.int64)
    found = np.empty(events * combinations, np.int32)
    used = 0
    for event in range(events):
        first, last = true_starts[event], true_starts[event + 1]
        for combination in range(combinations):
            holds = first < last
            for place in range(starts[combination], starts[combination + 1]):
                if not holds:
                    break
                at = first + np.searchsorted(true[first:last], members[place])
                holds = at < last and true[at] == members[place]
            if holds:
                found[used] = combination
                used += 1
        offsets[event + 1] = used
    return offsets, found[:used]
