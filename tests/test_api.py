"""The public face of Tocsin: exports, the order of rows, what may be passed in, modes of opening, evidence."""

import datetime as dt
import subprocess
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from importlib import metadata
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tocsin
from matchers import evidence_of, found, matcher_of
from tocsin import EventError, Matcher, OptionError
from tocsin.index.id_order import FEW_ROWS
from tocsin.model.readable import FAR_OFF, NO_UNICODE


def test_exports_are_listed_and_there() -> None:
    assert set(tocsin.__all__) < set(dir(tocsin))
    for name in tocsin.__all__:
        assert getattr(tocsin, name).__name__ == name
    assert tocsin.__version__ == metadata.version("tocsin")
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = tocsin.Nothing


def test_every_type_that_a_matcher_returns_is_exported() -> None:
    matcher = matcher_of(a="x > 1 AND s = 'a'")
    explanation = matcher.explain({"x": 2}, "a")
    returned = [
        *(matcher.match({}), matcher.match({}).evidence, matcher["a"], matcher.plan(), matcher.plan().steps[0]),
        *(matcher.stats(), matcher.history, explanation, explanation.alternatives[0][0]),
        *matcher.kinds["x"],
    ]
    assert [type(value) for value in returned if getattr(tocsin, type(value).__name__) is not type(value)] == []


def test_names_and_version_load_no_index() -> None:
    code = "import sys, tocsin; dir(tocsin), tocsin.__version__; print([m for m in sys.modules if 'numba' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# The order of rows.


def in_segments(segments: int, per_segment: int) -> Matcher:
    """Subscriptions whose ids are dealt to the segments in turn; some are replaced, dropped, or have another score."""
    matcher = Matcher(background_merge=False)
    ids = [f"{'sé'[number % 2]}{number * 7 % 1000}" for number in range(segments * per_segment)]
    for start in range(segments):
        mine = ids[start::segments]
        scores = [float(number % 5) for number in range(len(mine))]
        matcher.subscribe_many(
            pa.table({"id": mine, "where": [f"x >= {n % 7}" for n in range(len(mine))], "score": scores})
        )
    matcher.unsubscribe(ids[3])
    matcher.rescore(ids[4], 9.5)
    if segments > 1:
        matcher.subscribe(ids[5], "x >= 3")
    return matcher


@pytest.mark.parametrize(("segments", "events"), [(1, 5), (1, 100), (3, 5), (3, 100)])
def test_rows_are_ordered_by_event_then_id(segments: int, events: int) -> None:
    matcher = in_segments(segments, 150 // segments)
    batch = [{"x": row * 5 % 9 - 1} for row in range(events)]
    expected = [(row, id, score) for row, event in enumerate(batch) for id, score in matcher.match(event)]
    assert (len(expected) > FEW_ROWS) == (events == 100), "the test is about both"
    table = matcher.match_batch(batch)
    assert [tuple(row.values()) for row in table.to_pylist()] == expected
    assert [tuple(row.values()) for row in matcher.publish_batch(batch).to_pylist()] == expected
    unordered = matcher.match_batch(batch, ordered=False)
    assert unordered.schema.equals(table.schema)
    assert sorted(tuple(row.values()) for row in unordered.to_pylist()) == sorted(expected)
    by_rows = np.asarray(table["event"])
    assert (np.diff(by_rows) >= 0).all()


@pytest.mark.parametrize("segments", [1, 3])
def test_the_order_follows_changes(segments: int) -> None:
    """Ranks of ids are kept between batches; a change makes them anew."""
    matcher = in_segments(segments, 150 // segments)
    batch = [{"x": 8}] * 100
    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: matcher.subscribe("a first", "x > 7", 4.0),
        lambda: matcher.rescore("a first", 5.0),
        lambda: matcher.unsubscribe("a first"),
        matcher.compact,
    ]
    for change in changes:
        change()
        one = list(matcher.match(batch[0]))
        assert [(row["subscription"], row["score"]) for row in matcher.match_batch(batch).to_pylist()] == one * 100


def test_rows_of_several_parts_of_a_batch_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.matcher.BATCH", 7)
    matcher = matcher_of(b="x > 0", a="x > 1")
    events = [{"key": f"k{row}", "x": row % 3} for row in range(20)]
    expected = [(row, id) for row in range(20) for id in ("a", "b") if row % 3 > (id == "a")]
    for id, named in ((None, expected), ("key", [(f"k{row}", id) for row, id in expected])):
        table = matcher.match_batch(events, id=id)
        assert [(row["event"], row["subscription"]) for row in table.to_pylist()] == named


# How a folder is opened.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with matcher_of(a="x > 1", record="x > ALL (SELECT x FROM history)") as matcher:
        matcher.publish({"x": 5})
        matcher.save(tmp_path / "index")
    return tmp_path / "index"


CHANGES: dict[str, Callable[[Matcher], object]] = {
    "subscribe": lambda matcher: matcher.subscribe("b", "x > 2"),
    "subscribe_many": lambda matcher: matcher.subscribe_many([{"id": "b", "where": "x > 2"}]),
    "unsubscribe": lambda matcher: matcher.unsubscribe("a"),
    "rescore": lambda matcher: matcher.rescore("a", 2.0),
    "publish": lambda matcher: matcher.publish({"x": 9}),
    "publish_batch": lambda matcher: matcher.publish_batch([{"x": 9}]),
    "compact": lambda matcher: matcher.compact(),
    "commit": lambda matcher: matcher.commit(),
    "save": lambda matcher: matcher.save("elsewhere"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_reader_refuses_changes(folder: Path, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Matcher.open(folder, mode="read") as reader, Matcher.open(folder) as writer:
        with pytest.raises(OptionError, match=r"index was opened for reading\. Open it with mode='write'"):
            CHANGES[change](reader)
        assert (reader.match({"x": 2}).ids, reader.match({"x": 6}).ids) == (["a"], ["a", "record"])
        # It has not become the writer, nor does it after it has followed another one.
        writer.subscribe("new", "x > 0")
        writer.commit()
        assert reader.refresh()
        assert reader.match({"x": 2}).ids == ["a", "new"]
        with pytest.raises(OptionError, match="opened for reading"):
            CHANGES[change](reader)
    assert not (tmp_path / "elsewhere").exists()


def test_a_copy_leaves_its_folder_alone(folder: Path, tmp_path: Path) -> None:
    copy = Matcher.open(folder, mode="copy")
    with Matcher.open(folder) as writer:
        writer.subscribe("b", "x > 2")
        copy.subscribe("c", "x > 3")
        assert copy.publish({"x": 6}).ids == ["a", "c", "record"]
        writer.commit()
    assert list(Matcher.open(folder, mode="read")) == ["a", "b", "record"]
    with pytest.raises(OptionError, match=r"no folder\. Call save"):
        copy.commit()
    copy.save(tmp_path / "own")
    copy.close()
    assert Matcher.open(tmp_path / "own", mode="read").match({"x": 6}).ids == ["a", "c"]


def test_a_writer_gives_way_when_its_context_ends(folder: Path) -> None:
    with Matcher.open(folder) as first:
        first.subscribe("b", "x > 2")
        first.commit()
        with Matcher.open(folder) as second, pytest.raises(tocsin.StorageError):
            second.subscribe("c", "x > 3")
    with Matcher.open(folder) as second:
        second.subscribe("c", "x > 3")
        second.commit()
    assert list(Matcher.open(folder)) == ["a", "b", "c", "record"]

    def fail() -> None:
        with Matcher.open(folder) as third:
            third.unsubscribe("a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert "a" in Matcher.open(folder), "what is not committed is lost"


def test_an_unknown_mode_is_named(folder: Path) -> None:
    with pytest.raises(OptionError, match=r"mode is 'append'\. Use 'read', 'write' or 'copy'"):
        Matcher.open(folder, mode="append")  # type: ignore[arg-type]


def test_a_matcher_shows_what_it_holds(folder: Path) -> None:
    matcher = matcher_of(**{f"s{n}": f"a{n} > {n}" for n in range(7)})
    assert repr(matcher) == "<Matcher: 7 subscriptions on a0, a1, a2, a3, a4, …>"
    assert repr(Matcher()) == "<Matcher: 0 subscriptions>"
    assert repr(Matcher.open(folder, mode="read")) == f"<Matcher: 2 subscriptions on x, in {folder}>"
    html = matcher_of(a='"<b>" > 1')._repr_html_()
    assert html.startswith("<table>")
    assert html.endswith("</table>")
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert "in memory" in html


# What may be passed in.

ROWS: list[dict[str, Any]] = [
    {"id": "a", "where": "x > 1", "score": 2.0, "tags": {"t": "1"}, "weights": {"x": 0.5}},
    {"id": "b", "where": "x >", "score": 1.0, "tags": None, "weights": None},
    {"id": "c", "where": "x > 2", "score": None, "tags": {"t": "2"}, "weights": None},
]
PLAIN = [{"id": row["id"], "where": row["where"], "score": row["score"]} for row in ROWS]
TABLE = pa.Table.from_pylist(PLAIN)
SUBSCRIPTIONS: dict[str, Callable[[], Any]] = {
    "arrow table": lambda: TABLE,
    "record batch": lambda: pa.RecordBatch.from_pylist(PLAIN),
    "reader": lambda: pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(max_chunksize=2)),
    "pandas": lambda: pd.DataFrame(PLAIN),
    "polars": lambda: pl.DataFrame(PLAIN),
    "duckdb": lambda: duckdb.from_arrow(TABLE),
    "duckdb's reader": lambda: duckdb.from_arrow(TABLE).to_arrow_reader(2),
    "dicts": lambda: PLAIN,
    "generator of dicts": lambda: iter(PLAIN),
}


@pytest.mark.parametrize("form", SUBSCRIPTIONS)
def test_subscriptions_come_in_any_form(form: str) -> None:
    for made in (Matcher(), Matcher.from_table(SUBSCRIPTIONS[form]())):
        rejected = made.subscribe_many(SUBSCRIPTIONS[form]())
        assert [error.subscription for error in rejected] == ["b"]
        assert [(one.id, one.where, one.score) for one in made.subscriptions()] == [
            ("a", "x > 1", 2.0),
            ("c", "x > 2", 1.0),
        ]
        assert {error.subscription for error in made.rejected} == {"b"}


@pytest.mark.parametrize("form", [list, pd.DataFrame, pl.DataFrame, pa.Table.from_pylist], ids=str)
def test_weights_and_tags_come_with_them(form: Callable[[list[dict[str, Any]]], Any]) -> None:
    matcher = Matcher.from_table(form(ROWS))
    assert matcher.match({"x": 3}, tags={"t": "2"}).ids == ["c"]
    assert matcher["a"].weights == {"x": 0.5}


@pytest.mark.parametrize("form", SUBSCRIPTIONS)
@pytest.mark.parametrize("missing", ["id", "where"])
def test_a_missing_column_is_an_error_in_every_form(form: str, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{name: value for name, value in row.items() if name != missing} for row in PLAIN]
    monkeypatch.setattr(sys.modules[__name__], "PLAIN", rows)
    monkeypatch.setattr(sys.modules[__name__], "TABLE", TABLE.drop_columns(missing))
    with pytest.raises(OptionError, match=f"the table has no column '{missing}'"):
        Matcher().subscribe_many(SUBSCRIPTIONS[form]())


def test_bad_dicts_do_not_sink_the_others() -> None:
    rows: list[dict[str, Any]] = [
        {"id": 7, "where": "x > 1"},
        {"id": "no text", "where": 5},
        {"id": "no score", "where": "x > 1", "score": "high"},
        {"id": "half", "where": "s = '\ud83d'"},
        {"id": "\ud83d", "where": "x > 1"},
        {"id": "no tags", "where": "x > 1", "tags": 3},
        {"id": "", "where": "x > 1"},
        {"id": "good", "where": "x > 1", "score": 3, "tags": {"t": 1}, "unknown": object()},
    ]
    matcher = Matcher()
    assert [error.subscription for error in matcher.subscribe_many(rows)] == [
        *("no score", "half", "row 4", "no tags", "row 6", "no text"),
    ]
    assert list(matcher.match({"x": 2})) == [("7", 1.0), ("good", 3.0)]
    assert matcher.subscribe_many([]) == []


@pytest.mark.parametrize(
    "bad", [7, "text", {"id": "a", "where": "x = 1"}, [1], pl.LazyFrame(PLAIN)], ids=lambda bad: type(bad).__name__
)
def test_what_is_no_table_is_refused(bad: Any) -> None:
    with pytest.raises(OptionError, match=r"is not a table|is a mapping, not"):
        Matcher().subscribe_many(bad)
    with pytest.raises(EventError):
        Matcher().match_batch(bad)


def test_a_column_of_several_types_is_named() -> None:
    frame = pd.DataFrame({"id": ["a", 1], "where": ["x = 1"] * 2, "x": ["a", 1]})
    with pytest.raises(OptionError, match=r"cannot be read.*column id"):
        Matcher().subscribe_many(frame)
    with pytest.raises(EventError, match=r"cannot be read.*column id"):
        Matcher().match_batch(frame)


EVENT_ROWS: list[dict[str, Any]] = [
    {"key": f"k{row}", "x": row, "s": None if row == 2 else "ab"[row % 2], "at": dt.datetime(2026, 1, 1 + row)}
    for row in range(5)
]
EVENT_TABLE = pa.Table.from_pylist(EVENT_ROWS)
EVENTS: dict[str, Callable[[], Any]] = {
    "arrow table": lambda: EVENT_TABLE,
    "record batch": lambda: pa.RecordBatch.from_pylist(EVENT_TABLE.to_pylist(), EVENT_TABLE.schema),
    "reader": lambda: pa.RecordBatchReader.from_batches(EVENT_TABLE.schema, EVENT_TABLE.to_batches(max_chunksize=2)),
    "pandas": lambda: EVENT_TABLE.to_pandas(),
    "polars": lambda: pl.DataFrame(EVENT_TABLE),
    "duckdb": lambda: duckdb.from_arrow(EVENT_TABLE),
    "duckdb's reader": lambda: duckdb.from_arrow(EVENT_TABLE).to_arrow_reader(2),
    "dicts": lambda: EVENT_ROWS,
    "generator of dicts": lambda: iter(EVENT_ROWS),
}


@pytest.mark.parametrize("form", EVENTS)
def test_events_come_in_any_form(form: str) -> None:
    matcher = matcher_of(
        large="x > 2",
        b="s = 'b'",
        null="s IS NULL",
        late="at >= TIMESTAMP '2026-01-04 00:00:00'",
        more="x > ALL (SELECT x FROM history)",
    )
    plain = [(1, "b"), (2, "null"), (3, "b"), (3, "large"), (3, "late"), (4, "large"), (4, "late")]
    expected = sorted([*plain, *((row, "more") for row in range(5))])
    table = matcher.match_batch(EVENTS[form]())
    assert [(row["event"], row["subscription"]) for row in table.to_pylist()] == expected, "row numbers go on"
    assert table.schema.field("event").type == pa.int64()
    assert evidence_of(table)["events"] == 5
    assert found(matcher, EVENTS[form](), id="key") == [(f"k{row}", id) for row, id in expected]
    best = matcher.match_batch(EVENTS[form](), top_k=1)
    assert best["event"].to_pylist() == [0, 1, 2, 3, 4]
    assert found(matcher, EVENTS[form](), remember=True) == expected
    assert [id for _, id in found(matcher, EVENTS[form]()) if id == "more"] == [], "all were remembered"


@pytest.mark.parametrize("form", EVENTS)
@pytest.mark.parametrize("rows", [0, 5])
def test_a_missing_column_of_names_is_an_error_in_every_form(
    form: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "dicts" in form and not rows:
        pytest.skip("no dict has no names")
    monkeypatch.setattr(sys.modules[__name__], "EVENT_TABLE", EVENT_TABLE.slice(0, rows))
    with pytest.raises(OptionError, match=r"the events have no column 'nobody'\. They have .*key"):
        matcher_of(a="x > 1").match_batch(EVENTS[form](), id="nobody")


def test_an_empty_reader_has_the_types_of_its_schema() -> None:
    reader = pa.RecordBatchReader.from_batches(EVENT_TABLE.schema, [])
    table = matcher_of(a="x > 1").match_batch(reader, id="key")
    assert (len(table), table.schema.field("event").type) == (0, pa.string())


def test_events_are_not_one_event() -> None:
    with pytest.raises(EventError, match="several mappings, not one dict"):
        matcher_of(a="x > 1").match_batch({"x": 1})


# Values of NumPy, Arrow and pandas in dicts.

NS = np.datetime64("2026-03-01T12:00:00.000000001")
VALUES: list[tuple[str, Any, str]] = [
    *(("integer", kind(7), "v = 7 AND v < 8") for kind in (np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64)),
    *(("float", kind(2.5), "v = 2.5 AND v < 3") for kind in (np.float16, np.float32, np.float64, np.longdouble)),
    ("NaN", np.float64("nan"), "v IS NULL"),
    *((f"bool {kind.__name__}", kind(True), "v AND v = TRUE") for kind in (np.bool_, pa.scalar)),
    ("str_", np.str_("Ada"), "v = 'Ada' AND v LIKE 'A%'"),
    ("bytes_", np.bytes_(b"Ada"), "v IS NOT NULL AND (v = 'Ada') IS NOT TRUE"),
    ("day", np.datetime64("2026-03-01"), "v = DATE '2026-03-01'"),
    ("month", np.datetime64("2026-03"), "v = DATE '2026-03-01'"),
    ("seconds", np.datetime64("2026-03-01T12:00:00"), "v = TIMESTAMP '2026-03-01 12:00:00'"),
    ("nanoseconds", NS, "v > TIMESTAMP '2026-03-01 12:00:00' AND v < TIMESTAMP '2026-03-01 12:00:00.000001'"),
    ("before 1970", np.datetime64(-1, "ns"), "v < DATE '1970-01-01' AND v > TIMESTAMP '1969-12-31 23:59:59.999999'"),
    ("a far year", np.datetime64("20000-01-01"), "v > DATE '9999-12-31'"),
    ("NaT", np.datetime64("NaT"), "v IS NULL"),
    ("a duration", np.timedelta64(7, "ns"), "v IS NOT NULL AND (v = 7) IS NOT TRUE"),
    ("no duration", np.timedelta64("NaT"), "v IS NULL"),
    ("0-d", np.array(7), "v = 7"),
    ("0-d text", np.array("Ada"), "v = 'Ada'"),
    ("0-d time", np.array(NS), "v > TIMESTAMP '2026-03-01 12:00:00'"),
    ("masked", np.ma.masked, "v IS NULL"),
    ("1-d", np.array([3, 7]), "array_contains(v, 7) AND NOT array_contains(v, 4)"),
    ("1-d texts", np.array(["Ada", "Abe"]), "array_contains(v, 'Abe')"),
    ("1-d objects", np.array(["Ada", 7, None], object), "array_contains(v, 'Ada') AND array_contains(v, 7)"),
    ("1-d times", np.array([NS, "NaT"], "datetime64[ns]"), "(array_contains(v, 1772366400000000001)) IS NOT TRUE"),
    ("masked array", np.ma.array([3, 7], mask=[False, True]), "array_contains(v, 3)"),
    ("tuple", ("Ada", "Abe"), "array_contains(v, 'Abe')"),
    ("set", {"Ada", "Abe"}, "array_contains(v, 'Abe')"),
    ("frozenset", frozenset({7}), "array_contains(v, 7)"),
    ("tuple of scalars", (np.int8(7), np.str_("Ada")), "array_contains(v, 7) AND array_contains(v, 'Ada')"),
    ("arrow integer", pa.scalar(7, pa.int8()), "v = 7"),
    ("arrow decimal", pa.scalar(Decimal("2.50")), "v = 2.5"),
    ("arrow text", pa.scalar("Ada", pa.large_string()), "v = 'Ada'"),
    ("arrow dictionary", pa.array(["Ada"]).dictionary_encode()[0], "v = 'Ada'"),
    ("arrow NULL", pa.scalar(None, pa.string()), "v IS NULL"),
    ("arrow date", pa.scalar(dt.date(2026, 3, 1)), "v = DATE '2026-03-01'"),
    ("arrow nanoseconds", pa.scalar(1, pa.timestamp("ns")), "v > DATE '1970-01-01' AND v < DATE '1970-01-02'"),
    ("arrow's far year", pa.scalar(10**12, pa.timestamp("s")), "v > DATE '9999-12-31'"),
    ("arrow list", pa.scalar(["Ada", None]), "array_contains(v, 'Ada')"),
    ("arrow struct", pa.scalar({"w": 7}), "v.w = 7 AND v IS NOT NULL"),
    ("pandas NA", pd.NA, "v IS NULL"),
    ("pandas NaT", pd.NaT, "v IS NULL"),
    ("pandas Timestamp", pd.Timestamp("2026-03-01 13:00", tz="CET"), "v = TIMESTAMP '2026-03-01 12:00:00'"),
    ("pandas nanoseconds", pd.Timestamp(NS), "v > TIMESTAMP '2026-03-01 12:00:00'"),
    ("pandas Timedelta", pd.Timedelta(7), "v IS NOT NULL AND (v = 7) IS NOT TRUE"),
]


@pytest.mark.parametrize(("value", "where"), [pytest.param(value, where, id=name) for name, value, where in VALUES])
def test_values_of_other_libraries_mean_what_they_say(value: Any, where: str) -> None:
    matcher = matcher_of(yes=where, no=f"({where}) IS NOT TRUE")
    assert matcher.match({"v": value}).ids == ["yes"]
    assert found(matcher, [{"v": value}, {"v": value}]) == [(0, "yes"), (1, "yes")]
    assert [id for id, _ in matcher.top_k({"v": value}, 2)] == ["yes"]
    assert matcher.explain({"v": value}, "yes").matches
    assert matcher.match({"v": value}).evidence.errors == {}


def test_values_of_other_libraries_that_cannot_be_read_are_null_and_counted() -> None:
    matcher = matcher_of(null="v IS NULL")
    bad = pa.array([b"\xff"]).view(pa.string())[0]
    for value, reason in (
        (bad, NO_UNICODE),
        (np.str_("\ud83d"), NO_UNICODE),
        (np.datetime64(10**15, "s"), FAR_OFF),
        (pa.scalar(10**15, pa.timestamp("s")), FAR_OFF),
    ):
        answer = matcher.match({"v": value})
        assert (answer.ids, answer.evidence.errors) == (["null"], {f"v: {reason}": 1})


def test_names_of_events_may_be_numpy_scalars() -> None:
    matcher = matcher_of(a="x > 0")
    for values in ([np.int64(3), np.int64(4)], [np.datetime64("2026-01-01"), np.datetime64("2026-01-02")]):
        table = matcher.match_batch([{"key": value, "x": 1} for value in values], id="key")
        assert table["event"].to_pylist() == [
            value.item() if isinstance(value, np.int64) else value.astype("M8[us]").item() for value in values
        ]
    with pytest.raises(EventError, match="cannot name events"):
        matcher.match_batch([{"key": 1, "x": 1}, {"key": "a", "x": 1}], id="key")


# Evidence.


@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("batches", [1, 2])
def test_counts_add_over_batches_and_not_over_segments(
    segments: int, batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each of the batches, and all of them, are matched in parts.
    monkeypatch.setattr("tocsin.matcher.BATCH", 1_000)
    matcher = Matcher(background_merge=False)
    for number in range(segments):
        wheres = [f"x > {number}", f"xpath_exists(doc, '/a{number}')"]
        matcher.subscribe_many(pa.table({"id": [f"{number}-{n}" for n in range(2)], "where": wheres}))
    events = 2_200
    table = pa.table({"x": ["one"] * events, "doc": ["<a>"] * events})
    for given in (
        table,
        pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=events // batches)),
    ):
        evidence = evidence_of(matcher.match_batch(given))
        assert evidence["events"] == events
        assert evidence["mismatches"] == {"x": events}
        assert sum(evidence["errors"].values()) == events
        assert all(name.startswith("doc: ") for name in evidence["errors"])
    parts: Iterator[pa.Table] = (table.slice(start, events // batches) for start in range(0, events, events // batches))
    assert sum(evidence_of(matcher.match_batch(part))["mismatches"]["x"] for part in parts) == events


def test_evidence_of_names_is_counted_once() -> None:
    matcher = matcher_of(a="key = 'a' OR x = 1")
    keys = pa.array([b"a", b"\xff", b"b"]).view(pa.string())
    table = matcher.match_batch(pa.table({"key": keys, "x": [0, 1, 1]}), id="key")
    assert evidence_of(table)["errors"] == {f"key: {NO_UNICODE}": 1}
    assert table["event"].to_pylist() == ["a", None, "b"]


def test_the_time_of_history_and_ranking_is_told() -> None:
    matcher = matcher_of(record="x > ALL (SELECT x FROM history)", plain="x > 1")
    batch = [{"x": row % 17} for row in range(200)]
    for answer in (matcher.publish(batch[1]).evidence, matcher.match(batch[1]).evidence):
        assert answer.history_s > 0
        assert answer.rank_s == 0
    published = evidence_of(matcher.publish_batch(batch))
    assert published["history_s"] > 0
    assert published["rank_s"] == 0
    best = evidence_of(matcher.publish_batch(batch, top_k=1, mode="relaxed"))
    assert best["history_s"] > 0
    assert best["rank_s"] > 0
    assert matcher.top_k(batch[2], 1).evidence.rank_s > 0
    without = evidence_of(matcher_of(a="x > 1").match_batch(batch))
    assert (without["history_s"], without["rank_s"]) == (0, 0)
    assert without["encode_s"] > 0
    assert without["match_s"] > 0
