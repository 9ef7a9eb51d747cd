"""The store: in memory and on disk, reopened, cut off, damaged, and killed."""

import datetime as dt
import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import OptionError, StorageError
from tocsin.model.values import compare_values, is_null, kind_of
from tocsin.predicates.history.column_files import COMMIT
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


def test_a_commit_without_new_events_leaves_the_record_alone(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path, ATTRIBUTES)
    store.append(ROWS[0])
    store.commit()
    written = (tmp_path / COMMIT).stat()
    store.commit()
    assert (tmp_path / COMMIT).stat() == written
    store.append(ROWS[1])
    store.commit()
    assert (tmp_path / COMMIT).stat().st_ino != written.st_ino
    assert len(HistoryStore(tmp_path)) == 2


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
    record.write_text(record.read_text().replace('"version": 3', '"version": 4'))
    with pytest.raises(StorageError, match="version 4"):
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


FILL = """
import sys
from tocsin.errors import StorageError
from tocsin.predicates.history.store import HistoryStore
store = HistoryStore(sys.argv[1], ["v", "s"])
try:
    while True:
        for _ in range(1000):
            store.append({"v": store.next, "s": f"text {store.next % 7}"})
        store.commit()
        print(store.next, flush=True)
except StorageError as error:
    print(error, flush=True)
sys.stdin.readline()
while store.next % 1000:
    store.append({"v": store.next, "s": f"text {store.next % 7}"})
store.commit()
print(store.next, flush=True)
"""


@pytest.fixture(params=["small disk", "small files"])
def full(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, dict[str, object]]]:
    """A folder that is full soon, and how to start a process that finds it so."""
    if request.param == "small files":
        yield tmp_path, {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 10_000_000))}
        return
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", tmp_path], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.decode().strip()}")
    (tmp_path / "filler").write_bytes(bytes(100_000))
    yield tmp_path, {}
    subprocess.run(["umount", "-l", tmp_path], check=True)


def test_a_full_disk_is_an_error_that_loses_nothing_and_passes(full: tuple[Path, dict[str, object]]) -> None:
    folder, how = full
    with subprocess.Popen(
        [sys.executable, "-c", FILL, str(folder / "history")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **how,  # type: ignore[call-overload]  # what the fixture says
    ) as writer:
        committed = 0
        for line in writer.stdout:
            if not line.strip().isdigit():
                break
            committed = int(line)
        assert "cannot write" in line, f"the process ended with {writer.wait()}"
        assert "Free some space" in line
        assert committed > 0
        reader = HistoryStore(folder / "history", is_reader=True)
        assert reader.next == committed
        assert reader.old_event(committed - 1) == {"v": committed - 1, "s": f"text {(committed - 1) % 7}"}
        if "preexec_fn" in how:
            resource.prlimit(writer.pid, resource.RLIMIT_FSIZE, (10_000_000, 10_000_000))
        else:
            (folder / "filler").unlink()
        print(file=writer.stdin, flush=True)
        after = int(writer.stdout.readline())
    assert after >= committed
    store = HistoryStore(folder / "history")
    store.check()
    assert [store.old_event(number) for number in range(after)] == [
        {"v": number, "s": f"text {number % 7}"} for number in range(after)
    ]


@pytest.mark.parametrize("supported", [True, False])
def test_every_byte_of_a_mapped_file_is_on_the_disk(
    tmp_path: Path, supported: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    if not supported:
        monkeypatch.setattr(os, "posix_fallocate", refuse)
    store = HistoryStore(tmp_path, ["v"])
    store.append_batch(pa.table({"v": range(300_000)}))
    for file in tmp_path.glob("column-*"):
        assert file.stat().st_size >= 300_000
        assert file.stat().st_blocks * 512 >= file.stat().st_size, "no holes"
    store.commit()
    assert HistoryStore(tmp_path).old_event(299_999) == {"v": 299_999}


class Failing:
    """A function of the system that finds the disk full when it is called for the n-th time."""

    def __init__(self, sound: Callable[..., object], at: int) -> None:
        self.sound, self.left = sound, at

    def __call__(self, *arguments: object) -> object:
        self.left -= 1
        if self.left == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.sound(*arguments)


def outcome(act: Callable[[], object]) -> str:
    """What a StorageError says; nothing if there is none."""
    try:
        act()
    except StorageError as error:
        return error.message
    return ""


def test_an_append_that_finds_the_disk_full_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = HistoryStore(tmp_path, ["v", "w"])
    store.append({"v": 1, "w": 1})
    table = pa.table({"v": range(10_000), "w": range(10_000)})
    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", Failing(os.posix_fallocate, at=3))
        with pytest.raises(StorageError, match=r"column-2\.payloads: No space left on device"):
            store.append_batch(table)
    assert len(store) == 1
    store.append_batch(table)
    store.commit()
    again = HistoryStore(tmp_path)
    assert (len(again), again.old_event(0), again.old_event(10_000)) == (
        10_001,
        {"v": 1, "w": 1},
        {"v": 9999, "w": 9999},
    )


@pytest.mark.parametrize("name", ["fsync", "posix_fallocate", "replace"])
def test_a_commit_that_fails_anywhere_is_made_by_the_next(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a history that is rewritten, because most of it has gone."""
    step = 0
    while True:
        folder = tmp_path / str(step)
        store = HistoryStore(folder, ["v", "s"], retain_events=100)
        for number in range(3):
            store.append({"v": number, "s": "old"})
        store.commit()
        for number in range(3, 6000):
            store.append({"v": number, "s": f"text {number}"})
        with monkeypatch.context() as full:
            full.setattr(os, name, Failing(getattr(os, name), at=step + 1))
            said = outcome(store.commit)
        if not said:
            break
        assert "No space left on device" in said
        before = HistoryStore(folder, is_reader=True)
        assert before.next in (3, 6000), "the last commit, or this one if only its record was not synced"
        store.commit()
        store.check()
        again = HistoryStore(folder, retain_events=100)
        assert [again.old_event(number) for number in range(5900, 6000)] == [
            {"v": number, "s": f"text {number}"} for number in range(5900, 6000)
        ]
        step += 1
    assert step > 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(
            ("columns", {"price": [stem, 0, 0]})
            for stem in ("../column-1", "/etc/column-1", "a/column-1", "", "..", "commit.json", 7)
        ),
        ("generation", "../1"),
        ("generation", "/tmp/1"),
        ("base", 9),
        ("next", "1"),
        ("strings", [0]),
        ("columns", ["price"]),
        ("surprise", 1),
    ],
)
def test_a_record_leads_nowhere_else(tmp_path: Path, field: str, value: object) -> None:
    filled(tmp_path / "history")
    record = json.loads((tmp_path / "history" / COMMIT).read_text())
    body = json.dumps(json.loads(record["body"]) | {field: value})
    record |= {"body": body, "checksum": zlib.crc32(body.encode())}
    (tmp_path / "history" / COMMIT).write_text(json.dumps(record))
    before = sorted(tmp_path.rglob("*"))
    for is_reader in (True, False):
        with pytest.raises(StorageError, match=r"history file .*commit\.json (is damaged|names .* not a column)"):
            HistoryStore(tmp_path / "history", is_reader=is_reader)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["commit.json.new", "column-3.payloads", "column-3.lanes", "strings-0.log"])
def test_nothing_is_written_through_a_link(tmp_path: Path, name: str) -> None:
    filled(tmp_path / "history")
    store = HistoryStore(tmp_path / "history")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "history" / name).unlink(missing_ok=True)
    (tmp_path / "history" / name).symlink_to(victim)

    def write() -> None:
        store.keep(["price", "author", "at"])
        store.append({"author": "Jones"})
        store.commit()

    assert (name in outcome(write)) == (name != "commit.json.new"), "that one is made anew"
    assert victim.read_text() == "precious"


def test_a_reader_leaves_the_folder_as_it_is_and_appends_in_memory(tmp_path: Path) -> None:
    filled(tmp_path)
    before = {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in tmp_path.iterdir()}
    reader, other = (HistoryStore(tmp_path, ["at"], is_reader=True) for _ in range(2))
    for _ in range(200):
        reader.append({"price": 7, "author": "Jones", "at": dt.date(2020, 1, 1)})
    reader.keep(["price", "author"])
    reader.commit()
    reader.check()
    assert reader.old_event(204) == {"price": 7, "author": "Jones"}
    assert (len(reader), len(other)) == (205, 5)
    assert {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in tmp_path.iterdir()} == before
    assert same(other.old_event(0), {"price": 10, "author": "Smith"})


def test_a_folder_that_is_not_there_yet_is_empty_for_a_reader_and_not_made(tmp_path: Path) -> None:
    assert len(HistoryStore(tmp_path, is_reader=True)) == 0
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StorageError, match=r"cannot open the history in .*nowhere"):
        HistoryStore(tmp_path / "nowhere", is_reader=True)


def test_a_history_stays_where_it_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = HistoryStore("history", ["v"])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    store.append_batch(pa.table({"v": range(1000)}))
    store.commit()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert len(HistoryStore(tmp_path / "history")) == 1000
