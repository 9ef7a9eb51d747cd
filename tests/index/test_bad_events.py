"""A value that cannot be read is NULL and counted, in every way to ask; all else of its event and batch is matched."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from matchers import answer, evidence_of, found, matcher_of
from tocsin import EventError, Matcher
from tocsin.model.readable import FAR_OFF, NO_UNICODE

LONE = "half \ud83d"
WHERES = {
    "good": "n = 1",
    "null": "v IS NULL",
    "equal": "v = 'ok'",
    "word": "has_words(v, 'half')",
    "like": "v LIKE 'h%'",
    "ilike": "v ILIKE '%HALF%'",
    "xml": "xpath_exists(v, '/a')",
    "pair": "v < w",
    "old": "v = ANY (SELECT v FROM history)",
    "deep": "u.v IS NULL",
}
WAYS: list[dict[str, Any]] = [{}, {"remember": True}, {"top_k": 20}, {"top_k": 20, "mode": "relaxed"}]
IN_LISTS = {"has": "array_contains(v, 'ok')", "has not": "NOT array_contains(v, 'ok')"}


def bad_text(kind: pa.DataType) -> pa.Array:
    """The texts "ok", one that is no UTF-8, NULL and "ok"."""
    texts = pa.Array.from_buffers(
        pa.string(),
        4,
        [pa.py_buffer(b"\x0b"), pa.py_buffer(np.array([0, 2, 4, 4, 6], np.int32)), pa.py_buffer(b"ok\xff\xfeok")],
    )
    return texts.cast(kind)


BAD_TEXTS: dict[str, Callable[[], pa.Array]] = {
    "string": lambda: bad_text(pa.string()),
    "large string": lambda: bad_text(pa.large_string()),
    "view": lambda: bad_text(pa.string_view()),
    "dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3], pa.int8()), bad_text(pa.string())),
    "runs": lambda: pc.run_end_encode(bad_text(pa.string())),
    "extension": lambda: pa.ExtensionArray.from_storage(pa.json_(), bad_text(pa.string())),
}


@pytest.mark.parametrize("layout", BAD_TEXTS)
@pytest.mark.parametrize("options", WAYS, ids=str)
def test_a_text_that_is_no_utf8_is_null_and_counted(layout: str, options: dict[str, Any]) -> None:
    texts = BAD_TEXTS[layout]()
    # The unrelated column is as bad, and is not read.
    table = pa.table({"v": texts, "w": texts, "x": texts, "n": [1, 1, 1, 1]})
    matches = answer(matcher_of(**WHERES), table, **options)
    assert evidence_of(matches)["errors"][f"v: {NO_UNICODE}"] == 1
    assert not any(name.startswith("x") for name in evidence_of(matches)["errors"])
    as_read = [{"v": text, "w": text, "n": 1} for text in ("ok", None, None, "ok")]
    assert found(matcher_of(**WHERES), table, **options) == found(matcher_of(**WHERES), as_read, **options)


def test_bad_items_of_lists_and_fields_of_structs_are_null() -> None:
    texts = bad_text(pa.string())
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 4], pa.int32()), texts)
    structs = pa.StructArray.from_arrays([texts], ["v"], mask=pa.array([False, False, False, True]))
    matches = matcher_of(**IN_LISTS).match_batch(pa.table({"v": lists}))
    assert matches["subscription"].to_pylist() == ["has", "has"]
    assert evidence_of(matches)["errors"] == {f"v: {NO_UNICODE}": 1}
    matcher = matcher_of(null="u.v IS NULL", ok="u.v = 'ok'", word="has_words(u.v, 'ok')")
    expected = [(0, "ok"), (0, "word"), (1, "null"), (2, "null"), (3, "null")]
    assert found(matcher, pa.table({"u": structs})) == expected
    assert evidence_of(matcher.match_batch(pa.table({"u": structs})))["errors"] == {f"u.v: {NO_UNICODE}": 1}


ASK: dict[str, Callable[[Matcher, dict[str, Any]], Any]] = {
    "match": lambda matcher, event: matcher.match(event),
    "publish": lambda matcher, event: matcher.publish(event),
    "top_k": lambda matcher, event: matcher.top_k(event, 20),
}


@pytest.mark.parametrize("way", ASK)
@pytest.mark.parametrize(
    "event", [{"v": LONE}, {"v": LONE, "u": {LONE: LONE}, LONE: 1}, {"v": LONE, "w": "z", "x": [LONE]}], ids=ascii
)
def test_half_of_a_pair_is_null_and_counted(way: str, event: dict[str, Any]) -> None:
    answer = ASK[way](matcher_of(**WHERES), {**event, "n": 1})
    assert sorted(answer.ids) == ["deep", "good", "null"]
    assert answer.evidence.errors == {f"v: {NO_UNICODE}": 1}


def test_half_of_a_pair_in_a_batch_concerns_no_other_event() -> None:
    events = [{"v": "ok"}, {"v": LONE}, {"v": ["ok", LONE]}, {"u": {"v": LONE}, "v": "<a/>"}, {"v": "ok"}]
    read = [{"v": "ok"}, {"v": None}, {"v": ["ok", None]}, {"u": {"v": None}, "v": "<a/>"}, {"v": "ok"}]
    for options in WAYS:
        expected = found(matcher_of(**WHERES, **IN_LISTS), read, **options)
        assert found(matcher_of(**WHERES, **IN_LISTS), events, **options) == expected
        errors = evidence_of(answer(matcher_of(**WHERES, **IN_LISTS), events, **options))["errors"]
        assert errors[f"v: {NO_UNICODE}"] == 2
        assert errors[f"u.v: {NO_UNICODE}"] == 1


def test_explain_sees_what_the_matcher_sees() -> None:
    matcher = matcher_of(**WHERES)
    event = {"v": LONE, "n": 1}
    assert [id for id in WHERES if matcher.explain(event, id).matches] == ["good", "null", "deep"]
    assert matcher.explain(event, "word").matches is False


def test_a_history_with_half_of_a_pair_is_kept_on_disk(tmp_path: Any) -> None:
    matcher = matcher_of(old="v = ANY (SELECT v FROM history)")
    matcher.save(tmp_path / "index")
    matcher.publish({"v": LONE})
    matcher.publish({"v": "é"})
    matcher.commit()
    matcher.close()
    reader = Matcher.open(tmp_path / "index")
    assert [reader.match({"v": text}).ids for text in (LONE, "é")] == [[], ["old"]]


NOW = "TIMESTAMP '2026-01-01'"
TIMES = {"late": f"t > {NOW}", "early": f"t < {NOW}", "null": "t IS NULL", "pair": "t <= u"}
BACK = {"back": "t >= ANY (SELECT t FROM history)", "unset": "EXISTS (SELECT 1 FROM history h WHERE h.t IS NULL)"}


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_times_beyond_microseconds_are_null_and_counted(unit: str) -> None:
    column = pa.array([2**62, -(2**62), 0, None], pa.int64()).cast(pa.timestamp(unit))
    table = pa.table({"t": column, "u": column, "x": column})
    matches = matcher_of(**TIMES).match_batch(table)
    rows = zip(matches["event"].to_pylist(), matches["subscription"].to_pylist(), strict=True)
    assert sorted(rows) == [(0, "null"), (1, "null"), (2, "early"), (2, "pair"), (3, "null")]
    assert evidence_of(matches)["errors"] == {f"t: {FAR_OFF}": 2, f"u: {FAR_OFF}": 2}


def test_dates_beyond_microseconds_are_null_and_counted() -> None:
    days = pa.array([2**31 - 1, 0], pa.int32()).cast(pa.date32())
    milliseconds = pa.array([2**62, 1], pa.int64()).cast(pa.date64())
    for column in (days, milliseconds):
        matches = matcher_of(**TIMES).match_batch(pa.table({"t": column}))
        assert sorted(matches["subscription"].to_pylist()) == ["early", "null"]
        assert evidence_of(matches)["errors"] == {f"t: {FAR_OFF}": 1}


@pytest.mark.parametrize("zone", [None, "UTC", "Mars/Olympus_Mons", "America/New_York"])
@pytest.mark.parametrize("options", WAYS, ids=str)
def test_years_beyond_those_of_python_compare_whatever_the_zone(zone: str | None, options: dict[str, Any]) -> None:
    """The last second of 9999 in New York is in the year 10000, as is what says "for ever" in many tables."""
    years = np.array(["2025-01-01", "10000-01-01", "20000-01-01", "-0044-03-15", "NaT"], "datetime64[us]")
    times = pa.array(years.astype(np.int64), mask=np.isnat(years)).cast(pa.timestamp("us", zone))
    table = pa.table({"t": times, "u": times.take(pa.array([1, 0, 2, 0, 0]))})
    expected = [
        (0, "early"),
        (0, "pair"),
        (1, "late"),
        (2, "late"),
        (2, "pair"),
        (3, "early"),
        (3, "pair"),
        (4, "null"),
    ]
    if options.get("mode") != "relaxed":
        expected += [(1, "back"), (2, "back")] if options.get("remember") else []
        assert found(matcher_of(**TIMES, **BACK), table, **options) == sorted(expected)
    unrelated = table.rename_columns(["x", "y"]).append_column("n", pa.array([1] * 5))
    assert len(found(matcher_of(good="n = 1", **BACK), unrelated, **options)) == (9 if options.get("remember") else 5)


def test_times_of_pandas() -> None:
    pd: Any = pytest.importorskip("pandas")
    far = pd.Timestamp(np.datetime64(2**55, "s"))
    matcher = matcher_of(**TIMES, **BACK)
    for event in ({"t": far}, {"t": pd.NaT}):
        assert "null" in matcher.publish(event)
    assert matcher.match({"t": far}).evidence.errors == {f"t: {FAR_OFF}": 1}
    assert matcher.match({"t": pd.NaT}).evidence.errors == {}
    assert matcher.explain({"t": far}, "null").matches
    assert found(matcher_of(**TIMES), [{"t": far}, {"t": pd.Timestamp("2027-01-01")}]) == [(0, "null"), (1, "late")]


def test_two_columns_of_one_name_are_an_error_that_names_it() -> None:
    table = pa.table([[1, 2], [3, 4], [5, 6]], names=["a", "b", "a"])
    with pytest.raises(EventError, match=r"2 columns 'a'.*Rename"):
        matcher_of(x="a = 1").match_batch(table)
    with pytest.raises(EventError, match="2 columns 'a'"):
        matcher_of(x="b = ANY (SELECT a FROM history)").publish_batch(table)
    with pytest.raises(EventError, match="2 columns 'a'"):
        matcher_of(x="b = 3").match_batch(table, id="a")
    assert found(matcher_of(x="b = 3", y="b < ANY (SELECT b FROM history)"), table, remember=True) == [(0, "x")]
    structs = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["f", "f"])
    with pytest.raises(EventError, match=r"2 columns 'f', and 's\.f'"):
        matcher_of(x="s.f = 1").match_batch(pa.table({"s": structs}))


def test_names_of_events_that_cannot_be_read_are_null() -> None:
    matcher = matcher_of(good="n = 1")
    for events in (pa.table({"v": bad_text(pa.string()), "n": [1] * 4}), [{"v": "ok", "n": 1}, {"v": LONE, "n": 1}]):
        matches = matcher.match_batch(events, id="v")
        assert matches["event"].to_pylist()[:2] == ["ok", None]
        assert evidence_of(matches)["errors"] == {f"v: {NO_UNICODE}": 1}
    with pytest.raises(EventError, match="'v' cannot name events"):
        matcher.match_batch([{"v": 1}, {"v": "a"}], id="v")


def test_what_could_not_be_read_is_summed_over_the_parts_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.matcher.BATCH", 2)
    events = [{"v": LONE, "n": "one"}, {"v": "ok"}, {"v": LONE}, {"v": LONE, "n": "two"}]
    for top_k in (None, 2):
        evidence = evidence_of(matcher_of(**WHERES).match_batch(events, top_k=top_k))
        assert evidence["errors"][f"v: {NO_UNICODE}"] == 3
        assert evidence["mismatches"] == {"n": 2}


def test_a_worker_goes_on_after_bad_text() -> None:
    from tocsin.spark._worker.batches import match_slices

    batch = pa.record_batch({"key": [1, 2, 3, 4], "v": bad_text(pa.string())})
    rows = [
        batch.to_pydict()["event"] for batch in match_slices(matcher_of(ok="v = 'ok'").match_batch, [batch], keep=2)
    ]
    assert rows == [[1, 4]]


def test_durations_and_times_of_day_compare_with_nothing() -> None:
    """DuckDB orders them; here they are of no kind, in tables as in dicts."""
    wheres = {"less": "a < b", "not": "NOT a < b", "there": "a IS NOT NULL", "old": "a < ANY (SELECT b FROM history)"}
    for column, values in (
        (pa.duration("us"), [dt.timedelta(1), dt.timedelta(2)]),
        (pa.time64("us"), [dt.time(1), dt.time(2)]),
    ):
        table = pa.table({"a": pa.array(values, column), "b": pa.array(values[::-1], column)})
        for events in (table, table.to_pylist()):
            assert found(matcher_of(**wheres), events, remember=True) == [(0, "there"), (1, "there")]


def test_dots_lead_into_columns_and_keys_alike() -> None:
    """The shortest head that there is leads on, on every level."""
    nested = {"a.b": {"c.d": {"e": 1}}, "a": {"x": {"y.z": 2}}, "q": {"r.s": {"t": 3}}}
    wheres = {"hidden": "a.b.c.d.e = 1", "y": "a.x.y.z = 2", "t": "q.r.s.t = 3", "whole": '"a.b" IS NOT NULL'}
    assert found(matcher_of(**wheres), [nested]) == [(0, "t"), (0, "whole"), (0, "y")]
    assert found(matcher_of(**wheres), pa.Table.from_pylist([nested])) == [(0, "t"), (0, "whole"), (0, "y")]


def test_a_document_that_cannot_be_read_is_counted_before_and_after_a_merge() -> None:
    matcher = Matcher()
    matcher.subscribe("path", "xpath_exists(doc, '/a') AND price < 5")
    event = {"doc": "<a><b></a>", "price": 1}
    fresh = matcher.match(event).evidence.errors
    matcher.compact()
    assert fresh == matcher.match(event).evidence.errors
    assert [*fresh.values()] == [1]
