"""Summarise, as bytes, what the tests need to know of some events: for a history that is computed in parts.

History is a prefix: parts of the events, in order, are summarised on their own, the summaries are merged from left to
right, and each part starts from the merged summary of all before it. `merge` is associative.

A summary is a set of events. If every test is one comparison, a few events stand for all: for each attribute and lane
one with the least and one with the greatest value, and one for each distinct value where a test asks for equality.
Otherwise, or if events are retained by count, it is the kept columns themselves. Events of a restored history are
numbered from 0. Retention by age starts at `restore`: what is old depends on all parts.
"""

import datetime as dt
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np

from tocsin.arrays import Int64s
from tocsin.errors import OptionError
from tocsin.model.condition import (
    Aggregated,
    HistoryTest,
    OldComparedToConstant,
    OldComparedToNew,
    Op,
    Quantified,
    Quantifier,
)
from tocsin.predicates.history.column_files import exact_text, exact_value
from tocsin.predicates.history.encode import Encoder
from tocsin.predicates.history.join_table import attributes_of
from tocsin.predicates.history.kernels import keys_at
from tocsin.predicates.history.store import HistoryStore


@dataclass(frozen=True)
class _Header:
    """How to read a summary, and how to reduce it further."""

    size: int
    attributes: list[str]
    with_values: list[str]
    """Attributes of which every distinct value is needed."""
    is_whole: bool
    retain_events: int | None
    strings: list[str]
    exacts: list[str]


def summarise(store: HistoryStore, tests: Iterable[HistoryTest]) -> bytes:
    """Return what `tests` need of the events in `store`. Cost: O(n log n) an attribute at most.

    >>> from tocsin.model.condition import Op, Quantified, Quantifier
    >>> tests = [Quantified("price", Op.LT, Quantifier.ANY, "price")]
    >>> store = HistoryStore(attributes=["price"])
    >>> for price in range(100): _ = store.append({"price": price})
    >>> restored = restore(merge(summarise(store, tests), summarise(store, tests)))
    >>> [restored.old_event(number) for number in range(len(restored))]
    [{'price': 0}, {'price': 99}]
    """
    if store.retain_age is not None:
        raise OptionError("a part with retain_age cannot be summarised", "Pass the age to `restore`, not to the parts")
    tests = list(tests)
    simple = [_simple(test) for test in tests]
    attributes = sorted(attributes_of(tests))
    with_values = sorted({attribute for found in simple if found for attribute, op in [found] if op is Op.EQ})
    is_whole = None in simple or store.retain_events is not None
    return _write(store, _Header(0, attributes, with_values, is_whole, store.retain_events, [], []))


def merge(first: bytes, second: bytes) -> bytes:
    """Return the summary of both parts, the events of `first` before those of `second`."""
    header, _ = _read(first)
    store = HistoryStore(attributes=header.attributes, retain_events=header.retain_events)
    for part in (first, second):
        _append(store, part)
    return _write(store, header)


def restore(
    summary: bytes,
    retain_events: int | None = None,
    retain_age: dt.timedelta | int | None = None,
    age_attribute: str | None = None,
) -> HistoryStore:
    """Return a history in memory on which the tests have the truth that they have on all events summarised."""
    header, _ = _read(summary)
    retain_events = header.retain_events if retain_events is None else retain_events
    store = HistoryStore(None, header.attributes, retain_events, retain_age, age_attribute)
    _append(store, summary)
    return store


def _simple(test: HistoryTest) -> tuple[str, Op | None] | None:
    """Return attribute and operator of a test that is one comparison; None if it is more, or an aggregate.

    ALL with `<>` looks for an equal value, as ANY with `=` does.
    """
    if isinstance(test, Aggregated):
        return None
    if isinstance(test, Quantified):
        op = test.op if test.quantifier is Quantifier.ANY else test.op.negated
        return None if test.terms else (test.old, op)
    if len(test.terms) != 1:
        return None if test.terms else ("", None)
    term = test.terms[0]
    return term.old, term.op if isinstance(term, (OldComparedToNew, OldComparedToConstant)) else None


def _representatives(store: HistoryStore, header: _Header) -> Int64s:
    """Return the positions of the first event with each least and greatest value, or with each value at all."""
    start, stop = store.first - store.base, store.next - store.base
    if header.is_whole or start == stop:
        return np.arange(start, stop)
    chosen = {start}
    for name in header.attributes:
        column = store.columns[name]
        lanes = column.lanes[start:stop]
        keys = keys_at(np.arange(start, stop, dtype=np.int32), store.encoder.old(column))
        order = np.lexsort((keys, lanes))
        begins = np.ones(order.size, dtype=np.bool_)
        begins[1:] = (np.diff(keys[order]) != 0) | (np.diff(lanes[order]) != 0)
        firsts = order[begins]
        if name not in header.with_values:
            lane_begins = np.flatnonzero(np.diff(lanes[firsts].astype(np.int64), prepend=-1))
            firsts = firsts[np.union1d(lane_begins, np.append(lane_begins[1:] - 1, firsts.size - 1))]
        chosen |= set((firsts + start).tolist())
    return np.array(sorted(chosen), dtype=np.int64)


def _write(store: HistoryStore, header: _Header) -> bytes:
    positions = _representatives(store, header)
    encoder, arrays = Encoder(), []
    for name in header.attributes:
        column = store.columns[name]
        lanes = column.lanes[positions]
        payloads = encoder.recode(lanes, column.payloads[positions], store.encoder)
        arrays += [lanes.tobytes(), payloads.astype("<i8").tobytes()]
    exacts = [exact_text(value) for value in encoder.exacts.values]
    fields = {**asdict(header), "size": positions.size, "strings": encoder.strings.values, "exacts": exacts}
    text = json.dumps(fields).encode()
    return b"".join([len(text).to_bytes(8, "little"), text, *arrays])


def _read(summary: bytes) -> tuple[_Header, int]:
    """Return the header and where the arrays start."""
    length = int.from_bytes(summary[:8], "little")
    return _Header(**json.loads(summary[8 : 8 + length])), 8 + length


def _append(store: HistoryStore, summary: bytes) -> None:
    """Add the events of a summary to a history."""
    header, at = _read(summary)
    part = Encoder()
    part.strings.intern_all(header.strings)
    part.exacts.intern_all(exact_value(text) for text in header.exacts)
    columns = {}
    for name in header.attributes:
        lanes = np.frombuffer(summary, dtype=np.uint8, count=header.size, offset=at)
        payloads = np.frombuffer(summary, dtype="<i8", count=header.size, offset=at + header.size).astype(np.int64)
        at += 9 * header.size
        columns[name] = lanes, store.encoder.recode(lanes, payloads, part)
    store.append_encoded(columns, header.size)
