"""Events in files that workers read themselves: the answers of a DataFrame, and each row group in one task."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from tocsin import spark as tocsin_spark
from tocsin.errors import OptionError
from tocsin.matcher import Matcher
from tocsin.spark.parquet import Footer, divide

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHERES = {
    "integer": "i BETWEEN 1 AND 50",
    "float": "f > 2.4",
    "decimal": "d > 19.99",
    "text": "s LIKE 'Sm%'",
    "boolean": "b",
    "date": "day >= DATE '2026-03-02'",
    "time": "at > TIMESTAMP '2026-03-02 12:30:00'",
    "local time": "clock > TIMESTAMP '2026-03-02 12:30:00'",
    "tag": "array_contains(tags, 'y')",
    "nested": "maker.home.city = 'Milos'",
    "missing": "maker.name IS NULL",
    "unknown": "nobody IS NULL AND f IS NULL",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three segments."""
    path = tmp_path_factory.mktemp("index")
    matcher = Matcher(background_merge=False)
    matcher.save(path)
    for number, (id, where) in enumerate(WHERES.items()):
        matcher.subscribe(id, where, score=number / 4, tags={"parity": str(number % 2)})
        if number % 4 == 3:
            matcher.commit()
    matcher.close()
    return path


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three files with several row groups and every type; names with spaces; some columns are not in all files."""
    folder = tmp_path_factory.mktemp("events of May")
    for number in range(3):
        table = pa.Table.from_pylist([_event(key) for key in range(number * 50, number * 50 + 50)])
        table = table.set_column(2, "i", table["i"].cast(pa.int16()))
        if number == 1:
            table = table.drop_columns(["b", "maker"])
        parquet.write_table(table, folder / f"part {number}.parquet", row_group_size=15, coerce_timestamps="us")
    return str(folder)


def _event(key: int) -> dict[str, Any]:
    if key % 11 == 5:
        return {"key": key, "name": f"e{key}", "i": None}
    noon = dt.datetime(2026, 3, 2, 12, 0)
    return {
        "key": key,
        "name": f"e{key}",
        "i": key,
        "f": key / 20,
        "d": Decimal(key) / 4 + Decimal("0.001"),
        "s": "Smith" if key % 3 else "Ångström",
        "b": key % 2 == 0,
        "day": dt.date(2026, 2, 1) + dt.timedelta(key),
        "at": (noon + dt.timedelta(minutes=key)).replace(tzinfo=dt.UTC),
        "clock": noon + dt.timedelta(minutes=key),
        "tags": ["x", "y"][: key % 3],
        "maker": {"name": "Ada" if key % 5 else None, "home": {"city": "Milos" if key % 7 else "Rome"}},
        "unused": "-",
    }


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"id": "name", "keep_columns": ["maker", "at", "clock", "i", "tags", "d"]},
        {"tags": {"parity": "1"}, "keep_columns": ["name"]},
        {"top_k": 2},
        {"top_k": 2, "ranked_index": "ir-tree"},
        {"top_k": 3, "mode": "relaxed", "score_by": {"f": 3.0, "i": 2.0}},
        {"shards": 3},
        {"shards": 2, "top_k": 2, "mode": "relaxed", "score_by": "max"},
        {"ship_index": True},
    ],
    ids=str,
)
def test_files_answer_as_their_rows(
    spark: "SparkSession",
    index: Path,
    events: str,
    options: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = {"id": "key", **options}
    by_rows = tocsin_spark.match(spark.read.parquet(events), index, **options)
    in_files = tocsin_spark.match(events, index, **options)
    # The ends of the files say that every event has a name.
    assert not in_files.schema["event"].nullable
    assert in_files.schema.simpleString() == by_rows.schema.simpleString()
    answer = sorted(map(str, in_files.collect()))
    assert len(answer) > 100
    assert answer == sorted(map(str, by_rows.collect()))
    in_files.explain()
    assert "FileScan" not in capsys.readouterr().out
    by_rows.explain()
    assert "FileScan" in capsys.readouterr().out


def test_a_dataframe_of_nothing_but_files_is_read_by_workers_if_they_are_asked_to(
    spark: "SparkSession", index: Path, events: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(file) for file in sorted(Path(events).iterdir())]
    cached = spark.read.parquet(events).filter("key >= 0").cache()
    kept = spark.read.parquet(*files).persist()
    frames = {
        "folder": (spark.read.parquet(events), False),
        "files": (spark.read.parquet(*files[:2]), False),
        "format": (spark.read.format("parquet").load(events), False),
        "options": (spark.read.option("mergeSchema", True).parquet(events), True),
        "filter": (spark.read.parquet(events).filter("key > 3"), True),
        "view": (spark.read.parquet(events).alias("e"), True),
        "cached": (cached, True),
        "kept": (kept, True),
    }
    for name, (frame, by_spark_only) in frames.items():
        tocsin_spark.match(frame, index, id="key").explain()
        assert "Scan" in capsys.readouterr().out, name
        if by_spark_only:
            with pytest.raises(OptionError, match=r"workers cannot read.*reader=\"spark\""):
                tocsin_spark.match(frame, index, id="key", reader="workers")
        else:
            tocsin_spark.match(frame, index, id="key", reader="workers").explain()
            assert "FileScan" not in capsys.readouterr().out, name
    tocsin_spark.match(events, index, id="key", reader="spark").explain()
    assert "FileScan" in capsys.readouterr().out
    cached.unpersist()
    kept.unpersist()


@pytest.mark.parametrize(
    "properties",
    [
        {"org.apache.spark.version": "2.4.8"},
        {"org.apache.spark.version": "3.0.1"},
        {"org.apache.spark.version": "4.0.0", "org.apache.spark.legacyDateTime": ""},
        {"org.apache.spark.version": "4.0.0", "org.apache.spark.legacyINT96": ""},
    ],
    ids=str,
)
def test_spark_shifts_the_dates_of_the_old_calendar(
    spark: "SparkSession", tmp_path: Path, properties: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    matcher = Matcher.from_table(pa.table({"id": ["that day"], "where": ["day = DATE '1582-10-04'"]}))
    matcher.save(tmp_path / "index")
    days = pa.table({"key": [1, 2], "day": [dt.date(1582, 10, 4), dt.date(1582, 10, 14)]})
    parquet.write_table(days.replace_schema_metadata(properties), tmp_path / "days.parquet")
    with caplog.at_level("INFO", "tocsin.spark.parquet"):
        found = tocsin_spark.match(tmp_path / "days.parquet", tmp_path / "index", id="key").collect()
    assert "may have dates of the Julian calendar" in caplog.text
    rows = spark.read.parquet(str(tmp_path / "days.parquet")).filter("day = DATE '1582-10-04'").collect()
    assert [row["event"] for row in found] == [row["key"] for row in rows]


@pytest.mark.usefixtures("spark")
def test_spark_reads_very_many_files(
    index: Path,
    events: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("tocsin.spark.parquet.MOST_FILES", 2)
    with caplog.at_level("INFO", "tocsin.spark.parquet"):
        found = tocsin_spark.match(events, index, id="key")
    assert "more than 2 files" in caplog.text
    assert found.count() > 100


def test_a_folder_a_file_a_glob_and_an_address_are_files(spark: "SparkSession", index: Path, events: str) -> None:
    file = Path(events) / "part 0.parquet"
    for given_, files in ((file, 1), (f"{events}/part [01].parquet", 2), (Path(events), 3), (f"file://{file}", 1)):
        found = tocsin_spark.match(given_, index, id="key", tags={"parity": "0"})
        keys = {row["event"] for row in found.collect()}
        assert keys
        assert keys <= set(range(files * 50))
        assert max(keys) >= files * 50 - 10
    subscriptions = spark.createDataFrame([("all", "i >= 0")], "id string, where string")
    assert tocsin_spark.match(events, subscriptions, id="key").count() == sum(key % 11 != 5 for key in range(150))


def test_spark_reads_what_workers_cannot_and_the_log_says_why(
    spark: "SparkSession", tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    matcher = Matcher.from_table(pa.table({"id": ["may", "high"], "where": ["month = 5", "a > 1"]}))
    matcher.save(tmp_path / "index")
    months = spark.createDataFrame([(1, 5, 1), (2, 6, 2), (3, 5, 2)], "key int, month int, a int")
    months.write.partitionBy("month").parquet(str(tmp_path / "months"))
    with caplog.at_level("INFO", "tocsin.spark.parquet"):
        found = tocsin_spark.match(tmp_path / "months", tmp_path / "index", id="key").collect()
        assert {tuple(row)[:2] for row in found} == {(1, "may"), (3, "may"), (2, "high"), (3, "high")}
        assert "'month' is a partition column, in the names of folders" in caplog.text
        assert tocsin_spark.match(tmp_path / "months" / "month=5", tmp_path / "index", id="key").count() == 1
        assert "workers read the files" in caplog.text


@pytest.mark.usefixtures("spark")
def test_events_without_a_name_are_matched_as_well(index: Path, tmp_path: Path) -> None:
    for number, names in enumerate((["a", "b"], ["c", None])):
        table = pa.table({"name": pa.array(names, pa.string()), "i": [5, 6]})
        parquet.write_table(table, tmp_path / f"{number}.parquet")
    found = tocsin_spark.match(tmp_path, index, id="name")
    assert {row["event"] for row in found.collect()} == {"a", "b", "c", None}
    assert found.schema["event"].nullable


def test_files_without_events_and_files_without_a_session(
    spark: "SparkSession", index: Path, events: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.read.parquet(events).limit(0).write.parquet(str(tmp_path / "none"))
    assert tocsin_spark.match(tmp_path / "none", index, id="key").collect() == []
    with pytest.raises(OptionError, match="no column 'id' to name them by"):
        tocsin_spark.match(events, index, id="id")
    monkeypatch.setattr("tocsin.spark.parquet.SparkSession.getActiveSession", lambda: None)
    with pytest.raises(OptionError, match=r"no Spark session.*Start one"):
        tocsin_spark.match(events, index, id="key")


@given(st.lists(st.lists(st.integers(0, 50), max_size=6), max_size=6), st.integers(1, 9))
def test_every_row_group_is_in_one_task_and_tasks_are_even(files: list[list[int]], least: int) -> None:
    footers = [Footer(f"file {n}", tuple(rows), sum(rows), pa.schema([]), True) for n, rows in enumerate(files)]
    tasks = divide(footers, least)
    read = [(piece.uri, group) for task in tasks for piece in task for group in piece.groups]
    sizes = {(f"file {n}", group): rows for n, groups in enumerate(files) for group, rows in enumerate(groups) if rows}
    assert sorted(read) == sorted(sizes)
    share = sum(sizes.values()) / least
    for task in tasks:
        members = [sizes[piece.uri, group] for piece in task for group in piece.groups]
        # The middles lie within one share, so that at most half a group stands out at either end.
        assert sum(members) <= share + members[0] / 2 + members[-1] / 2 + 1e-9
        assert members


def test_a_task_has_no_more_bytes_than_are_well_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.spark.parquet.BYTES_A_TASK", 1000)
    footers = [Footer("file", (10,) * 100, 10_000, pa.schema([]), True)]
    assert [len(piece.groups) for (piece,) in divide(footers, 2)] == [10] * 10
