"""Sorted runs and their bitmaps on histories long enough to have them."""

import numpy as np
import pyarrow as pa
import pytest

from tocsin.model.condition import Op
from tocsin.predicates.history.search import every, some
from tocsin.predicates.history.store import HistoryStore
from tocsin.predicates.history.tree import FENCED, STEPS, Fences


@pytest.mark.parametrize("retain", [None, 50_000])
@pytest.mark.parametrize("tie", [0, 1], ids=["apart", "touching"])
def test_two_ranges_that_no_event_satisfies_but_one(retain: int | None, tie: int) -> None:
    """`b` falls as `a` rises: events below in `a` are above in `b`, so that neither condition is rare."""
    random = np.random.default_rng(3)
    size = FENCED * 2 + 777
    a = random.permutation(size)
    store = HistoryStore(attributes=["a", "b"], retain_events=retain)
    for start in range(0, size, 20_000):
        stop = min(size, start + 20_000)
        store.append_batch(pa.table({"a": a[start:stop], "b": -a[start:stop]}))
        store.tree("a")
    seen = a[store.first - store.base :] if retain is None else a[-retain:]
    for middle in random.choice(seen, 20).tolist():
        conditions = [
            ("a", store.encoder.condition(Op.LE, middle)),
            ("b", store.encoder.condition(Op.LT, -middle + tie)),
        ]
        number = some(store, conditions)
        if tie:
            assert number is not None
            assert store.old_event(number) == {"a": middle, "b": -middle}
        else:
            assert number is None
        assert every(store, conditions).size == tie
    for name in ("a", "b"):
        store.tree(name).check()
    assert store.nbytes <= 16 * (store.next - store.base) * 2, "with runs, bitmaps, and room to grow"


def test_a_bitmap_holds_its_slice_and_at_most_a_step_more() -> None:
    random = np.random.default_rng(5)
    order = (random.permutation(640) + 64).astype(np.int32)
    fences = Fences(order, 64)
    fences.check(order)
    for first, stop in [(0, 640), (0, 0), (5, 6), (100, 333), (639, 640)]:
        bits = np.unpackbits(fences.between(first, stop).view(np.uint8), bitorder="little")
        marked = set((np.flatnonzero(bits) + 64).tolist())
        assert set(order[first:stop].tolist()) <= marked
        assert len(marked) <= stop - first + 2 * (640 // STEPS + 1)
