"""Back-tests of files and tables: what is read, what is skipped, what is refused."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tocsin import Matcher, OptionError, backtest
from tocsin.errors import EventError, TocsinError
from tocsin.files import row_group_filter
from tocsin.files.row_group_filter import RowGroupFilter, bounds_of

OLD = {"low": "n < 10", "same": "n >= 0 AND n < 900", "gone": "n = 3"}
NEW = {"low": "n < 12", "same": "n < 900 AND 0 <= n", "new": "n = 777"}
BEFORE, AFTER = ([{"id": id, "where": where} for id, where in side.items()] for side in (OLD, NEW))
CHANGES = [(3, "gone", "lost"), (10, "low", "gained"), (11, "low", "gained"), (777, "new", "gained")]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A thousand events in two files, in row groups of 100; a day has 400 of them."""
    folder = tmp_path / "log"
    folder.mkdir()
    first = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)
    for start in (0, 500):
        numbers = list(range(start, start + 500))
        table = pa.table(
            {
                "key": [f"k{number}" for number in numbers],
                "n": numbers,
                "at": [first + dt.timedelta(days=number // 400) for number in numbers],
                "note": ["x" * 50] * 500,
            }
        )
        pq.write_table(table, folder / f"{start}.parquet", row_group_size=100)
    return folder


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def test_only_what_changed_is_matched_and_only_where_it_may_hold(log: Path) -> None:
    found = backtest(log, BEFORE, AFTER)
    assert rows(found.changes) == CHANGES
    assert found.subscriptions == 3
    assert (found.read.events, found.read.row_groups_read, found.read.row_groups_skipped) == (1000, 2, 8)
    of_n = [
        pq.read_metadata(log / file).row_group(group).column(1).total_compressed_size
        for file, group in (("0.parquet", 0), ("500.parquet", 2))
    ]
    assert found.read.bytes_read == sum(of_n), "of ten row groups, one column of two"
    total = sum(
        pq.read_metadata(file).row_group(group).column(column).total_compressed_size
        for file in log.iterdir()
        for group in range(5)
        for column in range(4)
    )
    assert found.read.bytes_read + found.read.bytes_skipped == total


def test_ids_days_and_the_plot(log: Path) -> None:
    found = backtest(log, BEFORE, AFTER, id="key", time="at")
    days = [dt.date(2026, 5, 1), dt.date(2026, 5, 2)]
    expected = [(f"k{number}", *change, days[number // 400]) for number, *change in CHANGES]
    assert rows(found.changes) == expected
    assert rows(found.summary) == [("gone", days[0], 0, 1), ("low", days[0], 2, 0), ("new", days[1], 1, 0)]
    assert [line.split() for line in str(found).splitlines()] == [
        ["day", "lost", "gained"],
        ["2026-05-01", "1", "█" * 12, "2", "█" * 24],
        ["2026-05-02", "0", "1", "█" * 12],
    ]
    assert found.svg().count("<rect") == 3
    assert "2026-05-02: 1 gained" in found.svg()


def test_sides_of_every_form(log: Path, tmp_path: Path) -> None:
    before = Matcher.from_table(BEFORE)
    before.save(tmp_path / "before")
    file = tmp_path / "after.csv"
    file.write_text("id,where\n" + "".join(f"{row['id']},{row['where']}\n" for row in AFTER))
    live = Matcher.open(tmp_path / "before", mode="copy")
    live.subscribe("low", "n < 12")
    live.subscribe("new", "n = 777")
    live.unsubscribe("gone")
    for old in (BEFORE, before, tmp_path / "before", str(tmp_path / "before")):
        for new in (AFTER, file, live):
            assert rows(backtest(log, old, new).changes) == CHANGES
    assert rows(backtest(log, AFTER, BEFORE).changes) == [
        (number, id, "lost" if change == "gained" else "gained") for number, id, change in CHANGES
    ]


def test_nothing_changed_and_nothing_is_read(log: Path) -> None:
    found = backtest(log, BEFORE, [*BEFORE[:1], {"id": "same", "where": "n BETWEEN 0 AND 899 OR 1 > 2"}, BEFORE[2]])
    assert (len(found.changes), found.subscriptions) == (0, 1), "899 is not 900 for numbers that are not integers"
    alike = backtest(log, BEFORE, [*BEFORE[:1], {"id": "same", "where": "NOT (n < 0 OR n >= 900)"}, BEFORE[2]])
    assert (alike.changes.column_names, len(alike.changes), alike.subscriptions) == (
        ["event", "subscription", "change"],
        0,
        0,
    )
    assert (alike.read.row_groups_read, alike.read.bytes_read, alike.read.events) == (0, 0, 1000)
    assert str(alike) == "no match is gained or lost"


def test_subscriptions_that_look_back_read_every_event(log: Path) -> None:
    record = [{"id": "record", "where": "n > ALL (SELECT n FROM history) AND n > 990"}]
    found = backtest(log, [], record, id="key")
    assert [row["event"] for row in found.changes.to_pylist()] == [f"k{number}" for number in range(991, 1000)]
    assert found.read.row_groups_skipped == 0
    by_order = backtest(log, [], [{"id": "first", "where": "NOT EXISTS (SELECT 1 FROM history)"}], order="key")
    assert len(by_order.changes) == 1


def test_events_of_other_formats(tmp_path: Path) -> None:
    lines = tmp_path / "events.jsonl"
    lines.write_text('{"n": 1, "at": "2026-05-01"}\nnonsense\n{"n": 2, "at": "2026-05-02T01:00:00+02:00"}\n')
    found = backtest(lines, [], [{"id": "all", "where": "n > 0"}], time="at")
    assert rows(found.changes) == [(0, "all", "gained", dt.date(2026, 5, 1)), (1, "all", "gained", dt.date(2026, 5, 1))]
    reader = pa.RecordBatchReader.from_batches(
        pa.schema([("n", pa.int64())]), iter([pa.record_batch({"n": [1, 2]}), pa.record_batch({"n": [2]})])
    )
    assert rows(backtest(reader, [], [{"id": "two", "where": "n = 2"}]).changes) == [
        (1, "two", "gained"),
        (2, "two", "gained"),
    ]


def test_what_cannot_be_understood_is_reported_if_it_changed(log: Path) -> None:
    bad = {"id": "bad", "where": "n <"}
    found = backtest(log, [*BEFORE, bad], [*AFTER, bad, {"id": "worse", "where": "n >"}])
    assert [error.subscription for error in found.rejected] == ["worse"]
    assert rows(found.changes) == CHANGES


def test_what_is_refused(log: Path) -> None:
    def refused(error: type[TocsinError], text: str, **options: str) -> None:
        with pytest.raises(error, match=text):
            backtest(log, BEFORE, AFTER, **options)  # type: ignore[arg-type]  # names of columns

    refused(OptionError, "no column 'nobody'", id="nobody")
    refused(EventError, "'n' is int64, not a time", time="n")
    with pytest.raises(OptionError, match="retain_events is 5 before and None after"):
        backtest(log, Matcher(retain_events=5), Matcher())
    with pytest.raises(OptionError, match="leave out the order"):
        backtest([{"n": 1}], BEFORE, AFTER, order="n")


def test_statistics_that_say_less_are_taken_for_what_they_say(tmp_path: Path) -> None:
    """Dates, times of nanoseconds, decimals, texts, nested columns, columns without statistics, and NULL alone."""
    table = pa.table(
        {
            "ns": pa.array([1, 2_000], pa.timestamp("ns")),
            "inside": [{"city": "a"}, {"city": "b"}],
            "list": [[1], [2]],
            "none": pa.nulls(2, pa.int64()),
            "bare": [1, 2],
            "f": [1.0, float("nan")],
        }
    )
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, write_statistics=["ns", "inside.city", "list", "none", "f"])
    file = pq.read_metadata(path)
    [city] = bounds_of(file, "inside.city", [0])
    assert (city.least, city.greatest) == ("a", "b")
    assert not bounds_of(file, "none", [0])[0].has_values
    assert bounds_of(file, "f", [0])[0].has_nulls, "NaN is NULL, and not in the statistics"
    assert bounds_of(file, "bare", [0])[0].least is None
    assert not bounds_of(file, "nobody", [0])[0].has_values
    for where, read in [
        ("ns < TIMESTAMP '1970-01-01 00:00:00.000001'", 1),
        ("ns > TIMESTAMP '1970-01-01 00:00:00.000002'", 0),
        ("inside.city = 'c'", 0),
        ("inside.city = 'c' OR array_contains(list, 2)", 1),
        ("none = 1 OR nobody = 1", 0),
        ("nobody IS NULL AND bare > 5", 1),
        ("f > 2", 0),
        ("f IS NULL", 1),
        ("f + 1 > 9", 1),
        ("f = 'text'", 1),  # values of another kind: not told from values too far off
    ]:
        assert backtest(path, [], [{"id": "x", "where": where}]).read.row_groups_read == read, where


def test_row_groups_are_judged_alike_at_once_and_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten row groups n = 10 g to 10 g + 9, of which the fourth has a NULL; a is 1 in the last."""
    numbers = [None if n == 35 else n for n in range(100)]
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"n": numbers, "a": [n // 90 for n in range(100)]}), path, row_group_size=10)
    texts = [
        "n IN (3, 77) AND a = 0",
        "n BETWEEN 18 AND 21 AND a < 1",
        "n IS NULL",
        "n > 50 AND a = 1",
        "n = 5 AND a = 1",
    ]
    matcher = Matcher.from_table(pa.table({"id": list("abcde"), "where": texts}))
    expected = [0, 1, 2, 3, 7, 9]
    for most in (1 << 24, 10, 1):
        monkeypatch.setattr(row_group_filter, "_MOST_AT_ONCE", most)
        found = RowGroupFilter(matcher.forms).may_match(pq.read_metadata(path))
        assert [group for group, may_match in enumerate(found) if may_match] == expected
    assert RowGroupFilter(Matcher().forms).may_match(pq.read_metadata(path)) == [False] * 10
