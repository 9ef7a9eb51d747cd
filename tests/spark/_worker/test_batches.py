"""The worker without Spark: batches in, batches out, bounded."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tocsin.conjunctions.choose import CombinedIndex
from tocsin.errors import OptionError, StorageError
from tocsin.index import commit
from tocsin.matcher import Matcher
from tocsin.model.result import Evidence
from tocsin.spark._worker.batches import IdDecoder, MatchOptions, match_batches, open_index, united

WHERES = {"cheap": "price < 10", "dear": "price >= 10", "nested": "maker.name = 'Ada'", "all": "price IS NOT NULL"}


def save(folder: Path, wheres: dict[str, str]) -> str:
    Matcher.from_table(pa.table({"id": list(wheres), "where": list(wheres.values())})).save(folder)
    return str(folder)


@pytest.fixture
def index(tmp_path: Path) -> str:
    return save(tmp_path / "index", WHERES)


def events(prices: list[float | None], ids: pa.DataType | None = None) -> pa.RecordBatch:
    numbers = pa.array(range(len(prices)), ids or pa.int64())
    makers = pa.array(["Ada" if price == 5 else None for price in prices], pa.string())
    return pa.RecordBatch.from_arrays([numbers, pa.array(prices, pa.float64()), makers], ["0", "1", "2"])


NAMES = ("n", "price", "maker.name")


def pairs(batches: Iterator[pa.RecordBatch]) -> set[tuple[int, str]]:
    return {(row["event"], row["subscription"]) for batch in batches for row in batch.to_pylist()}


def test_matches_of_all_batches_come_out_with_the_promised_types(index: str) -> None:
    batches = [events([5, 10, None]), events([12])]
    found = list(match_batches(batches, index, "1", NAMES))
    assert pairs(iter(found)) == {(0, "cheap"), (0, "nested"), (0, "all"), (1, "dear"), (1, "all"), (0, "dear")}
    for batch in found:
        assert batch.schema == pa.schema(
            [
                ("event", pa.int64()),
                pa.field("subscription", pa.string(), nullable=False),
                pa.field("score", pa.float64(), nullable=False),
            ]
        )


def test_columns_that_are_kept_go_with_each_match(index: str) -> None:
    found = [row for batch in match_batches([events([5, 12])], index, "1", NAMES, keep=3) for row in batch.to_pylist()]
    kept = {(row["event"], row["subscription"], row["price"], row["maker.name"]) for row in found}
    assert kept == {(0, name, 5.0, "Ada") for name in ("cheap", "nested", "all")} | {
        (1, name, 12.0, None) for name in ("dear", "all")
    }


@pytest.mark.parametrize("type_", [pa.int32(), pa.int8(), pa.decimal128(10, 0), pa.float64()])
def test_the_event_column_keeps_the_type_of_the_ids(index: str, type_: pa.DataType) -> None:
    (batch,) = match_batches([events([5], type_)], index, "1", NAMES)
    assert batch.schema.field("event").type == type_


@pytest.mark.parametrize("worth", [0, 1, 16])
def test_ids_are_decoded_whichever_way_is_worth_it(monkeypatch: pytest.MonkeyPatch, worth: int) -> None:
    monkeypatch.setattr(IdDecoder, "WORTH", worth)
    decoder = IdDecoder()
    for ids in (["a", "", "Ångström", "x" * 40], ["b", "c"], ["only"]):
        dictionary = pa.array(["before", *ids], pa.large_string()).slice(1)
        numbers = [len(ids) - 1, *range(len(ids)), 0]
        column = pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), dictionary)
        for part, expected in ((column, numbers), (column.slice(1, 1), numbers[1:2])):
            found = decoder.decode(part)
            assert found.type == pa.string()
            assert found.to_pylist() == [ids[number] for number in expected]


def test_text_that_is_not_utf_8_passes_through(index: str) -> None:
    """The name of an event and a column to keep, neither of which a subscription names: nothing here decodes them."""
    names = pa.array([b"caf\xe9", b"\xff", b"caf\xc3\xa9"], pa.binary())
    prices = pa.array([5.0, 12.0, 5.0])
    batch = pa.RecordBatch.from_arrays([names.view(pa.string()), names.view(pa.string()), prices], ["0", "1", "2"])
    found = pa.Table.from_batches(match_batches([batch] * 3, index, "1", ("n", "shop", "price"), keep=2))
    assert found["event"].type == found["shop"].type == pa.string()
    counts = Counter(found["event"].combine_chunks().view(pa.binary()).to_pylist())
    assert counts == dict.fromkeys(names.to_pylist(), 6)
    assert Counter(found["shop"].combine_chunks().view(pa.binary()).to_pylist()) == counts


def test_no_events_give_no_matches(index: str) -> None:
    assert list(match_batches([], index, "1", NAMES)) == []
    assert list(match_batches([events([])], index, "1", NAMES)) == []


def test_output_batches_are_bounded_and_the_answer_does_not_depend_on_it(index: str) -> None:
    batch = events([float(n % 20) for n in range(1000)])
    whole = pairs(match_batches([batch], index, "1", NAMES))
    small = list(match_batches([batch], index, "1", NAMES, rows=7, pairs=10))
    assert len(whole) == 2050
    assert max(part.num_rows for part in small) == 7
    assert pairs(iter(small)) == whole


def test_small_batches_are_united_and_the_first_goes_at_once() -> None:
    batches = [events([float(n)] * size) for n, size in enumerate((3, 2, 2, 2, 1, 0, 9, 1))]
    assert [batch.num_rows for batch in united(batches, events=8)] == [3, 6, 10, 1]
    assert [batch.num_rows for batch in united(batches, nbytes=1)] == [3, 2, 2, 2, 1, 9, 1]
    assert pa.Table.from_batches(united(batches, events=8)).equals(pa.Table.from_batches(batches))


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The events of each slice that is matched."""
    taken: list[int] = []
    whole = Matcher.match_batch

    def spy(self: Matcher, table: pa.RecordBatch, **options: Any) -> pa.Table:
        assert not options["ordered"], "Spark has no use for the order"
        taken.append(table.num_rows)
        return whole(self, table, **options)

    monkeypatch.setattr(Matcher, "match_batch", spy)
    return taken


def test_slices_shrink_to_what_fits(index: str, sizes: list[int]) -> None:
    """Every event has two or three matches: slices of at most 100 matches have at most 50 events after the first."""
    list(match_batches([events([float(n % 20) for n in range(500)])], index, "1", NAMES, pairs=100))
    assert sizes[0] <= 8
    assert max(sizes[1:]) <= 50
    assert min(sizes[3:]) >= 25
    assert sum(sizes) == 500


def test_a_process_keeps_its_pace_from_task_to_task_with_the_same_index(index: str, sizes: list[int]) -> None:
    batch = events([float(n % 20) for n in range(500)])
    firsts = []
    for fingerprint in ("1", "1", "2"):
        list(match_batches([batch], index, fingerprint, NAMES))
        firsts.append(sizes[0])
        sizes.clear()
    assert firsts[0] == firsts[2] <= 8
    assert firsts[1] == 500


@pytest.mark.usefixtures("unhurried_audit")
def test_an_audit_is_counted_in_the_evidence(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prices: list[float | None] = [float(number % 20) for number in range(3000)]
    counted = []
    for broken in (False, True):
        if broken:
            monkeypatch.setattr(CombinedIndex, "match", lambda *_, **__: (np.empty((0, 2), np.int32), 0))
        evidence = Evidence()
        options = MatchOptions(audit=1.0)
        list(match_batches([events(prices)], index, f"audit {broken}", NAMES, options, evidence=evidence))
        counted.append((evidence.audited > 0, evidence.disagreements > 0))
    assert counted == [(True, False), (True, True)]


def test_an_index_is_opened_once_for_each_content(index: str) -> None:
    first = open_index(index, "one")
    assert open_index(index, "one") is first
    assert open_index(index, "two") is not first


def test_what_two_snapshots_have_in_common_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Matcher(background_merge=False)
    writer.subscribe_many(pa.table({"id": [str(n) for n in range(100)], "where": [f"a > {n}" for n in range(100)]}))
    writer.save(tmp_path)
    old = open_index(str(tmp_path), "old")
    before = dict(old.match({"a": 50}))
    writer.unsubscribe("3")
    writer.rescore("4", 9.0)
    writer.subscribe("new", "a = 50")
    writer.commit()
    expected = dict(Matcher.open(tmp_path, mode="read").match({"a": 50}))
    with monkeypatch.context() as patch:
        patch.setattr(commit, "_read_segment", None)
        new = open_index(str(tmp_path), "new")
    assert dict(new.match({"a": 50})) == expected
    assert dict(old.match({"a": 50})) == before
    assert before["4"] != expected["4"]
    assert before.keys() ^ expected.keys() == {"3", "new"}
    writer.close()


def test_a_share_that_cannot_be_is_refused_before_the_job() -> None:
    with pytest.raises(OptionError, match=r"audit is 2\.0"):
        MatchOptions(audit=2.0)


def test_a_folder_that_is_not_there_is_named_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"nowhere on this worker.*ship_index=True"):
        next(match_batches([events([5])], str(tmp_path / "nowhere"), "1", NAMES))


def test_the_daemon_loads_what_workers_need() -> None:
    from tocsin.spark._worker.daemon import load

    assert load() == 2


SKEWED = """
import sys
from pathlib import Path
import numpy as np
import pyarrow as pa
from tocsin.spark._worker.batches import match_batches

events = pa.RecordBatch.from_arrays([pa.array(range(20)), pa.array([1] + [-1] * 19)], ["0", "1"])
largest = rows = 0
for batch in match_batches([events], sys.argv[1], "1", ("n", "a")):
    largest, rows = max(largest, batch.num_rows), rows + batch.num_rows
# Not ru_maxrss, which a child has from the process that started it.
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(rows, largest, int(status["VmHWM"].split()[0]) // 1024)
"""


@pytest.mark.slow
def test_an_event_with_a_million_matches_fits_in_a_gigabyte(tmp_path: Path) -> None:
    ids = [f"s{n}" for n in range(1_000_000)]
    Matcher.from_table(pa.table({"id": ids, "where": [f"a >= 0 AND a < {n + 2}" for n in range(len(ids))]})).save(
        tmp_path
    )
    done = subprocess.run([sys.executable, "-c", SKEWED, str(tmp_path)], capture_output=True, text=True, check=True)
    rows, largest, megabytes = map(int, done.stdout.split())
    assert (rows, largest) == (1_000_000, 1 << 16)
    assert megabytes < 1024, f"{megabytes} MB"
