"""Pairs in no order become the subscriptions of each event."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tocsin.conjunctions.owners import Owners, events_of, group_by_event, group_conjunctions

NONE = np.empty(0, np.bool_)
EVENTS, CONJUNCTIONS = 5, 7
PAIRS = st.lists(st.tuples(st.integers(0, EVENTS - 1), st.integers(0, CONJUNCTIONS - 1)), unique=True)


@given(PAIRS)
def test_a_conjunction_that_is_its_own_subscription_needs_no_owners(pairs: list[tuple[int, int]]) -> None:
    array = np.array(pairs, np.int32).reshape(-1, 2)
    starts, values = group_conjunctions(array, EVENTS)
    for event in range(EVENTS):
        found = values[starts[event] : starts[event + 1]].tolist()
        assert found == [conjunction for of, conjunction in pairs if of == event]
        assert [place for place, of in enumerate(events_of(starts, 10)) if of == event + 10] == list(
            range(starts[event], starts[event + 1])
        )
    owners = Owners(np.arange(CONJUNCTIONS, dtype=np.int32), np.zeros(1, np.int64), np.empty(0, np.int32))
    by_owners = group_by_event(array, owners, NONE, NONE, EVENTS)
    assert np.array_equal(by_owners[0], starts)
    assert np.array_equal(by_owners[1], values)
