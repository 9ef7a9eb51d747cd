"""Files of events: formats, kinds, bad lines."""

import datetime as dt
import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from tocsin.errors import EventError, OptionError
from tocsin.model.values import Kind
from tocsin.spark.read_files import MALFORMED, file_format, read_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tocsin.spark.read_files import EventFile

KINDS = {
    "price": {Kind.NUMBER},
    "code": {Kind.STRING, Kind.ANY},
    "at": {Kind.TIME},
    "maker.city": {Kind.STRING},
    "both": {Kind.STRING, Kind.TIME},
    "absent": {Kind.NUMBER},
}
NOON = dt.datetime(2026, 3, 2, 12, 0)


def rows(source: "EventFile") -> list[tuple[object, ...]]:
    names = [name for name in source.events.columns if name != MALFORMED]
    events = source.events.toArrow().to_pylist()
    plain = [[_naive(event[name]) for name in names] for event in events if event.get(MALFORMED) is None]
    return [tuple(event) for event in plain]


def _naive(value: object) -> object:
    return value.astimezone(dt.UTC).replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def test_json_lines_with_bad_lines_and_values_of_other_types(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(
        '{"id": "a", "price": 1.5, "code": "01", "at": "2026-03-02T12:00:00Z", "maker": {"city": "Rome", "x": 1}}\n'
        "no event\n"
        '{"id": "b", "price": "n/a", "at": "yesterday", "both": "2026-03-02", "unused": [1, 2]}\n'
        "\n"
        '{"id": "c", "at": "2026-03-02T13:00:00+01:00"\n'
    )
    source = read_events(spark, path, KINDS, "id")
    assert source.events.drop(MALFORMED).columns == ["at", "both", "code", "id", "maker.city", "price"]
    assert rows(source) == [(NOON, None, "01", "a", "Rome", 1.5), (None, "2026-03-02", None, "b", None, None)]
    assert source.bad_lines() == [(2, "no event"), (5, '{"id": "c", "at": "2026-03-02T13:00:00+01:00"')]


def test_integers_of_json_stay_exact(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(f'{{"id": 1, "price": {2**62 + 1}}}\n')
    assert rows(read_events(spark, path, KINDS, "id")) == [(1, 2**62 + 1)]


def test_csv_gets_its_types_from_the_subscriptions(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text('id,price,code,at,unused\n1,1.5,01,2026-03-02 12:00:00,x\n2,,"0,2",,y\n3,9\n')
    source = read_events(spark, path, KINDS, "id")
    assert rows(source) == [(NOON, "01", 1, 1.5), (None, "0,2", 2, None)]
    assert source.bad_lines() == [(4, "3,9")]


def test_parquet_is_taken_as_it_is(spark: "SparkSession", tmp_path: Path) -> None:
    table = pa.table({"id": [1], "at": ["2026-03-02"], "price": pa.array([2], pa.int8()), "unused": [1]})
    (tmp_path / "events").mkdir()
    parquet.write_table(table, tmp_path / "events" / "part-0.parquet")
    source = read_events(spark, tmp_path / "events", KINDS, "id")
    assert not source.can_be_malformed
    assert rows(source) == [("2026-03-02", 1, 2)]


def test_compressed_json_lines_have_bad_lines_without_numbers(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"id": 1, "price": 2}\noops\n'))
    source = read_events(spark, path, KINDS, "id")
    assert rows(source) == [(1, 2)]
    assert source.bad_lines() == [(None, "oops")]


@pytest.mark.parametrize("name", ["events.jsonl", "events.csv"])
def test_an_empty_file_has_no_events(spark: "SparkSession", tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    assert rows(read_events(spark, tmp_path / name, KINDS, "id")) == []


def test_what_cannot_be_read_is_named(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"there is no file .*nowhere\.jsonl"):
        read_events(spark, tmp_path / "nowhere.jsonl", KINDS, "id")
    (tmp_path / "events.jsonl").write_text(json.dumps({"key": 1, "price": 2}) + "\n")
    with pytest.raises(OptionError, match=r"no column 'id'.*--id from key, price"):
        read_events(spark, tmp_path / "events.jsonl", KINDS, "id")
    (tmp_path / "rubbish.jsonl").write_text("rubbish\n")
    with pytest.raises(EventError, match=r"no line of .* is a JSON object"):
        read_events(spark, tmp_path / "rubbish.jsonl", KINDS, "id")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.jsonl", "json"), ("a.b.csv.gz", "csv"), ("a.parquet", "parquet"), ("a.ndjson.zst", "json")],
)
def test_the_suffix_tells_the_format(name: str, expected: str) -> None:
    assert file_format(Path(name)) == expected


def test_an_unknown_suffix_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OptionError, match=r"Name it with one of \.jsonl"):
        file_format(Path("events.xls"))
