"""REIN and HEM find what the definition of their ranges says, and the points of a sweep have what they promise."""

import numpy as np
import pytest

from tocsin.bench import field_rivals
from tocsin.bench.field_rivals import BUCKETS, GROUPS, Ranges, fill_cache, hem, mark, match_events, match_one, rein

DOMAIN, ATTRIBUTES, SUBSCRIPTIONS = 5_000, 4, 150


def ranges_of(seed: int) -> tuple[Ranges, np.ndarray]:
    """Two ranges a subscription, on distinct attributes, and events of which some lack a value."""
    random = np.random.default_rng(seed)
    subscription = np.repeat(np.arange(SUBSCRIPTIONS, dtype=np.int32), 2)
    first = random.integers(0, ATTRIBUTES, SUBSCRIPTIONS)
    attribute = np.stack([first, (first + 1) % ATTRIBUTES], axis=1).ravel().astype(np.int32)
    low, high = np.sort(random.integers(0, DOMAIN, (2, subscription.size)), axis=0).astype(np.int32)
    values = random.integers(0, DOMAIN, (ATTRIBUTES, 40)).astype(np.int32)
    values[random.random(values.shape) < 0.1] = -1
    values[0, 0], values[1, 1] = low[0], high[1]
    return Ranges(subscription, attribute, low, high), values


def expected(ranges: Ranges, event: np.ndarray) -> list[int]:
    value = event[ranges.attribute]
    holds = (ranges.low <= value) & (value <= ranges.high)
    return np.flatnonzero(holds.reshape(-1, 2).all(axis=1)).tolist()


@pytest.mark.parametrize("make", [rein, hem])
@pytest.mark.parametrize("seed", range(3))
def test_rivals_find_what_the_definition_says(make, seed: int) -> None:  # type: ignore[no-untyped-def]  # one of two
    ranges, values = ranges_of(seed)
    ends = make(ranges, SUBSCRIPTIONS, ATTRIBUTES, DOMAIN)
    bits, found = np.empty(-(-SUBSCRIPTIONS // 64), np.uint64), np.empty(SUBSCRIPTIONS, np.int32)
    total = 0
    for event in np.ascontiguousarray(values.T):
        used = match_one(ends, event, bits, found)
        assert found[:used].tolist() == expected(ranges, event)
        total += used
    assert match_events(ends, values) == total


def test_marks_and_cached_bitsets() -> None:
    bits = np.zeros(2, np.uint64)
    mark(bits, np.array([9, 0, 64, 65], np.int32), 1, 3)
    assert bits.tolist() == [1, 1]
    ranges, _ = ranges_of(1)
    ends = rein(ranges, SUBSCRIPTIONS, ATTRIBUTES, DOMAIN)
    cached = np.zeros((ATTRIBUTES, GROUPS + 1, 3), np.uint64)
    fill_cache(ends, cached)
    group = BUCKETS // GROUPS
    for attribute in range(ATTRIBUTES):
        mine = ranges.attribute == attribute
        for number in range(GROUPS + 1):
            low, high = (end.astype(np.int64) * BUCKETS // DOMAIN // group for end in (ranges.low, ranges.high))
            fails = mine & ((low > number) | (high < number) | (number == GROUPS))
            set_bits = np.flatnonzero(np.unpackbits(cached[attribute, number].view(np.uint8), bitorder="little"))
            assert set_bits.tolist() == ranges.subscription[fails].tolist()


def test_without_room_hem_is_rein(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_rivals, "CACHE_BYTES", 0)
    ranges, _ = ranges_of(1)
    assert hem(ranges, SUBSCRIPTIONS, ATTRIBUTES, DOMAIN).cached.size == 0
