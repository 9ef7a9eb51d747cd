"""What a match made goes when it is done, without the garbage collector: nothing on its path is a cycle."""

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from matchers import matcher_of
from tocsin import Matcher
from tocsin.index.segment import Segment
from tocsin.index.snapshot import SegmentState, Snapshot
from tocsin.model.events import EventBatch

FAMILIES = {
    "ranges": {"r": "n > 1 AND n < 1000000", "s": "t = 'text 1'"},
    "words": {"w": "has_words(t, 'text')", "p": "has_phrase(t, 'text 2')"},
    "patterns": {"l": "t LIKE '%ext%'", "i": "t ILIKE 'TEXT%'"},
    "lists": {"a": "array_contains(l, 3)"},
    "pairs": {"c": "n < m", "d": "t = u"},
    "xpath": {"x": "xpath_exists(x, '/a/b')"},
    "history": {
        "h": "n > ALL (SELECT n FROM history)",
        "e": "n > 3 AND EXISTS (SELECT 1 FROM history h WHERE h.t = t)",
    },
}
WAYS: dict[str, Callable[[Matcher, Any], pa.Table]] = {
    "match_batch": lambda matcher, events: matcher.match_batch(events),
    "publish_batch": lambda matcher, events: matcher.publish_batch(events),
    "top_k": lambda matcher, events: matcher.match_batch(events, top_k=2),
    "relaxed": lambda matcher, events: matcher.match_batch(events, top_k=2, mode="relaxed"),
}
ROWS = 50


class Event(dict[str, Any]):
    """A mapping that can be watched."""


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def rows() -> list[Event]:
    texts = [f"text {n}" for n in range(ROWS)]
    return [Event(n=n, m=n + 1.5, t=t, u=t, l=[n, 3], x="<a><b/></a>" if n % 2 else "<a>") for n, t in enumerate(texts)]


def cyclic_garbage() -> list[object]:
    """What only the collector can free, with all that hangs on it."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return list(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def kept(garbage: list[object]) -> list[object]:
    return [
        thing
        for thing in garbage
        # By type: the compiler leaves weak proxies of dead objects, which isinstance would ask.
        if issubclass(type(thing), (EventBatch, Event, pa.Table, pa.Array, np.ndarray, BaseException))
    ]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_goes_with_its_match(family: str, way: str) -> None:
    matcher = matcher_of(**FAMILIES[family])
    table = pa.Table.from_pylist(rows())
    WAYS[way](matcher, table)
    WAYS[way](matcher, rows())
    cyclic_garbage()
    table = pa.Table.from_pylist(rows())
    events = rows()
    of_table, of_event = weakref.ref(table), weakref.ref(events[0])
    WAYS[way](matcher, table)
    WAYS[way](matcher, events)
    del table, events
    assert of_table() is None
    assert of_event() is None
    assert kept(cyclic_garbage()) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_an_event_goes_with_its_match(family: str) -> None:
    matcher = matcher_of(**FAMILIES[family])
    for event in rows()[:2]:
        _ask_everything(matcher, event)
    cyclic_garbage()
    for number in range(2):
        event = rows()[number]
        watched = weakref.ref(event)
        _ask_everything(matcher, event)
        del event
        assert watched() is None
    assert kept(cyclic_garbage()) == []


def _ask_everything(matcher: Matcher, event: Event) -> None:
    matcher.match(event)
    matcher.publish(event)
    matcher.top_k(event, 2)
    matcher.top_k(event, 2, mode="relaxed")
    for id in matcher:
        matcher.explain(event, id)


def test_batches_in_a_row_take_the_memory_of_one() -> None:
    """Tables of 8 MB each; what Arrow holds after ten of them is what it held before."""
    matcher = matcher_of(**FAMILIES["ranges"], **FAMILIES["words"], **FAMILIES["pairs"])

    def ask() -> None:
        numbers = np.arange(100_000)
        table = pa.table({"n": numbers, "m": numbers + 1.5, "t": [f"some other {n}" for n in range(100_000)]})
        matcher.match_batch(table)

    ask()
    before = pa.total_allocated_bytes()
    for _ in range(10):
        ask()
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_the_worker_of_spark_keeps_no_batch() -> None:
    from tocsin.spark._worker.batches import match_slices

    matcher = matcher_of(**{id: where for wheres in FAMILIES.values() for id, where in wheres.items()})
    batch = pa.RecordBatch.from_pylist(rows())
    list(match_slices(matcher.match_batch, [batch]))
    cyclic_garbage()
    batch = pa.RecordBatch.from_pylist(rows())
    watched = weakref.ref(batch)
    list(match_slices(matcher.match_batch, [batch]))
    del batch
    assert watched() is None
    assert kept(cyclic_garbage()) == []


def test_layers_keep_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once top-k is answered from layers, events go through parts of a batch."""
    monkeypatch.setattr("tocsin.ranking.exact.REPAID", 0)
    matcher = Matcher()
    for number in range(20_000):
        matcher.subscribe(f"s{number}", "n > 1", score=float(number))
    events = rows()
    for _ in range(3):
        matcher.match_batch(events, top_k=2)
    assert any(state.ranking.layers for state in matcher._subscriptions.current().states), "the test is about layers"
    cyclic_garbage()
    watched = weakref.ref(events[0])
    matcher.match_batch(events, top_k=2)
    del events
    assert watched() is None
    assert kept(cyclic_garbage()) == []


def test_a_superseded_snapshot_goes_with_its_last_reader() -> None:
    matcher = matcher_of(**FAMILIES["ranges"], **FAMILIES["xpath"], **FAMILIES["history"])
    for event in rows()[:2]:
        _ask_everything(matcher, event)
        matcher.match(event, tags={"no": "such"})
        matcher.plan()
    cyclic_garbage()
    snapshot = weakref.ref(matcher._subscriptions.current())
    matcher.subscribe("new", "n > 5")
    matcher.rescore("r", 3.0)
    matcher.unsubscribe("s")
    matcher.compact()
    for event in rows()[:2]:
        _ask_everything(matcher, event)
    assert snapshot() is None
    assert [thing for thing in cyclic_garbage() if isinstance(thing, (Snapshot, SegmentState, Segment))] == []
