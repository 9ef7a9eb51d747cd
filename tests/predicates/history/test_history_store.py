"""The store: in memory and on disk, reopened, cut off, damaged, and killed."""

import datetime as dt
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import OptionError, StorageError
from tocsin.model.values import compare_values, is_null, kind_of
from tocsin.predicates.history.store import HistoryStore

Event = Mapping[str, object]
ROWS: list[Event] = [
    {"price": 10, "author": "Smith", "at": dt.datetime(2020, 1, 1, 12), "sold": True},
    {"price": 19.99, "author": "Ünal \ud800"},
    {"price": Decimal("19.99"), "author": None, "at": dt.date(2021, 1, 1)},
    {"price": 2**70, "author": "Smith", "sold": False},
    {},
]
ATTRIBUTES = ["price", "author", "at", "sold"]


def same(old: Event, event: Event) -> bool:
    present = {name: value for name, value in event.items() if not is_null(value) and name in ATTRIBUTES}
    return old.keys() == present.keys() and all(compare_values(old[name], present[name]) == 0 for name in present)


@pytest.fixture(params=["memory", "disk"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "history" if request.param == "disk" else None


def test_old_events_come_back(folder: Path | None) -> None:
    store = HistoryStore(folder, ATTRIBUTES)
    for number, event in enumerate(ROWS):
        assert store.append(event) == number
    store.commit()
    assert all(same(store.old_event(number), event) for number, event in enumerate(ROWS))
    with pytest.raises(OptionError, match="event 5 is not in the history"):
        store.old_event(5)


def test_reopening_finds_what_was_committed_and_no_more(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path, ATTRIBUTES)
    for event in ROWS[:3]:
        store.append(event)
    store.commit()
    for event in ROWS[3:]:
        store.append(event)
    again = HistoryStore(tmp_path, ATTRIBUTES)
    assert len(again) == 3
    for event in ROWS[3:]:
        again.append(event)
    again.commit()
    last = HistoryStore(tmp_path)
    last.check()
    assert [same(last.old_event(number), event) for number, event in enumerate(ROWS)] == [True] * len(ROWS)


def test_an_attribute_kept_later_is_null_before(folder: Path | None) -> None:
    store = HistoryStore(folder, ["price"])
    store.append(ROWS[0])
    store.keep(["author"])
    store.append(ROWS[0])
    store.commit()
    assert [store.old_event(0), store.old_event(1)] == [{}, {"author": "Smith"}]
    assert list(store.columns) == ["author"], "the price was released"
    if folder is not None:
        assert HistoryStore(folder).old_event(1) == {"author": "Smith"}
        assert len(list(folder.glob("*.payloads"))) == 1, "the file of the released attribute is gone"


def test_retention_frees_what_has_gone(folder: Path | None) -> None:
    store = HistoryStore(folder, ["price", "author"], retain_events=1000)
    for start in range(0, 20_000, 500):
        numbers = range(start, start + 500)
        store.append_batch(pa.table({"price": numbers, "author": [f"author {number}" for number in numbers]}))
        store.commit()
        store.check()
    assert (len(store), store.next) == (1000, 20_000)
    assert store.old_event(19_000) == {"price": 19_000, "author": "author 19000"}
    assert len(store.encoder.strings) < 10_000, "strings of events that are gone are dropped with them"
    assert store.nbytes < 10_000 * 2 * 10
    if folder is not None:
        again = HistoryStore(folder, retain_events=1000)
        assert (again.first, again.next) == (19_000, 20_000)
        assert again.old_event(19_999) == store.old_event(19_999)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 200)), max_size=12), st.integers(1, 300))
def test_retention_by_count(steps: list[tuple[bool, int]], retain: int) -> None:
    store = HistoryStore(attributes=["v"], retain_events=retain)
    total = 0
    for by_batch, size in steps:
        if by_batch:
            store.append_batch(pa.table({"v": range(total, total + size)}))
            total += size
        else:
            store.append({"v": total})
            total += 1
        store.check()
        assert list(range(store.first, store.next)) == list(range(max(0, total - retain), total))
        if total:
            assert store.old_event(store.first) == {"v": store.first}


ARROW = [
    pa.array([True, None, False]),
    pa.array([1, None, -5], pa.int16()),
    pa.array([2**64 - 1, None, 7], pa.uint64()),
    pa.array([1.5, None, float("nan")], pa.float32()),
    pa.array([-0.0, 1e308, float("-inf")]),
    pa.array(["a", None, "b"]),
    pa.array(["a", None, "a"]).dictionary_encode(),
    pa.array([None, None, None], pa.string()),
    pa.array([Decimal("1.50"), None, Decimal("2.00")]),
    pa.array([dt.date(2020, 1, 1), None, dt.date(1960, 2, 2)]),
    pa.array([dt.datetime(2020, 1, 1, 1, 2, 3, 4), None, dt.datetime(1960, 1, 1, 0, 0, 0, 1)]),
    pa.array([dt.datetime(2020, 1, 1), None, dt.datetime(1960, 1, 1)], pa.timestamp("s", "Europe/Paris")),
    pa.array([dt.datetime(2020, 1, 1), None, dt.datetime(1960, 1, 1)], pa.timestamp("ms")),
    pa.array([[1], None, []]),
]


@pytest.mark.parametrize("column", ARROW, ids=lambda column: str(column.type))
def test_a_batch_is_its_rows(column: pa.Array) -> None:
    one, many = HistoryStore(attributes=["v", "n.v"]), HistoryStore(attributes=["v", "n.v"])
    table = pa.table({"v": column, "n": pa.StructArray.from_arrays([column], ["v"])})
    many.append_batch(table)
    for row in table.to_pylist():
        one.append(row)
    for number, value in enumerate(column.to_pylist()):
        assert one.old_event(number) == many.old_event(number)
        assert (many.old_event(number) == {}) == (value is None or value != value)
        if kind_of(value) is not None:
            assert compare_values(many.old_event(number)["v"], value) == 0


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_column_costs_at_most_16_bytes_an_event(kept: int) -> None:
    store = HistoryStore(attributes=["v", "w"][:kept])
    for _ in range(10):
        store.append_batch(pa.table({"v": np.arange(50_000), "w": np.random.default_rng(0).random(50_000)}))
        for name in store.columns:
            store.tree(name)
    assert store.nbytes <= 16 * len(store) * kept


def files_of(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def filled(folder: Path) -> HistoryStore:
    store = HistoryStore(folder, ["price", "author"])
    for event in ROWS:
        store.append(event)
    store.commit()
    return store


def test_every_damaged_file_is_refused_by_name(tmp_path: Path) -> None:
    filled(tmp_path / "sound")
    names = files_of(tmp_path / "sound")
    assert len(names) == 7, "the commit record, two logs and two files a column"
    for name in names:
        for harm in ("flip", "cut", "remove"):
            shutil.copytree(tmp_path / "sound", tmp_path / "bad")
            file = tmp_path / "bad" / name
            data = bytearray(file.read_bytes())
            if harm == "flip":
                data[min(3, len(data) - 1)] ^= 0x10
                file.write_bytes(bytes(data))
            elif harm == "cut":
                file.write_bytes(bytes(data[:3]))
            else:
                file.unlink()
            with pytest.raises(StorageError, match=name):
                HistoryStore(tmp_path / "bad", ["price", "author"])
            shutil.rmtree(tmp_path / "bad")


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    record = tmp_path / "commit.json"
    record.write_text(record.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(StorageError, match="version 2"):
        HistoryStore(tmp_path)


def test_options_that_make_no_sense() -> None:
    with pytest.raises(OptionError, match="retain_events is 0"):
        HistoryStore(retain_events=0)
    with pytest.raises(OptionError, match="belong together"):
        HistoryStore(retain_age=3)


WRITER = """
import sys
from tocsin.predicates.history.store import HistoryStore
store = HistoryStore(sys.argv[1], ["v", "s"], retain_events=5000)
print("open", len(store), flush=True)
while True:
    for _ in range(37):
        store.append({"v": store.next, "s": f"text {store.next % 100}"})
    store.commit()
    print(store.next, flush=True)
"""


@pytest.mark.parametrize("kills", [4, pytest.param(60, marks=pytest.mark.slow)])
def test_a_killed_writer_loses_nothing_committed(kills: int, tmp_path: Path) -> None:
    committed = 0
    random = np.random.default_rng(4)
    for _ in range(kills):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        assert writer.stdout.readline().startswith("open")
        time.sleep(0.02 + 0.2 * random.random())
        writer.send_signal(signal.SIGKILL)
        lines = writer.stdout.read().splitlines()
        writer.wait()
        writer.stdout.close()
        committed = max(committed, *(int(line) for line in lines if line), 0)
        store = HistoryStore(tmp_path)
        store.check()
        assert store.next >= committed, "what was committed is there"
        assert store.next % 37 == 0, "a commit is there whole or not at all"
        for number in range(store.first, store.next):
            assert store.old_event(number) == {"v": number, "s": f"text {number % 100}"}
        del store
    assert committed > 0
