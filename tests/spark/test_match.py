"""`tocsin.spark.match` on a real session: answers, types, what is shipped, what is refused."""

import datetime as dt
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tocsin import spark as tocsin_spark
from tocsin.errors import OptionError, StorageError
from tocsin.matcher import Matcher
from tocsin.spark.event_columns import event_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Pairs = set[tuple[object, str]]


def pairs(matches: "DataFrame") -> Pairs:
    return {(row["event"], row["subscription"]) for row in matches.collect()}


def subscriptions(spark: "SparkSession", wheres: dict[str, str]) -> "DataFrame":
    return spark.createDataFrame(list(wheres.items()), "id string, where string")


def test_events_of_every_type_match_as_in_process(spark: "SparkSession") -> None:
    schema = (
        "key long, i int, f double, d decimal(20,4), s string, b boolean, day date, at timestamp, "
        "tags array<string>, maker struct<name:string,home:struct<city:string>>, unused string"
    )
    when = dt.datetime(2026, 3, 2, 12, 30, tzinfo=dt.UTC)
    day = dt.date(2026, 3, 2)
    maker = {"name": "Ada", "home": {"city": "Milos"}}
    rows = [
        (1, 5, 2.5, Decimal("19.9900"), "Smith", True, day, when, ["x", "y"], maker, "-"),
        (2, None, float("nan"), None, None, None, None, None, None, None, "-"),
        (3, -5, 1e300, Decimal("-1"), "Ångström", False, dt.date(1969, 1, 1), when, [], {"name": None}, "-"),
    ]
    wheres = {
        "integer": "i BETWEEN 1 AND 5",
        "float": "f > 2.4",
        "decimal": "d = 19.99",
        "text": "s LIKE 'Sm%'",
        "words": "has_words(s, 'ångström')",
        "boolean": "b",
        "date": "day >= DATE '2026-03-02'",
        "time": "at = TIMESTAMP '2026-03-02 12:30:00'",
        "tag": "array_contains(tags, 'y')",
        "nested": "maker.home.city = 'Milos'",
        "missing": "maker.name IS NULL",
        "unknown": "nobody IS NULL AND f IS NULL",
        "product": "i * f = 12.5 AND upper(maker.home.city) = 'MILOS'",
        "exact": "d * 2 = 39.98 AND d + i = 24.99",
        "month": "date_trunc('month', at) = DATE '2026-03-01' AND at < now() AND day = '2026-03-02'",
    }
    events = spark.createDataFrame(rows, schema)
    expected = {
        *((1, name) for name in wheres if name not in ("missing", "unknown", "words")),
        (2, "missing"),
        (2, "unknown"),
        (3, "float"),
        (3, "words"),
        (3, "time"),
        (3, "missing"),
    }
    matches = tocsin_spark.match(events, subscriptions(spark, wheres), id="key")
    assert matches.schema.simpleString() == "struct<event:bigint,subscription:string,score:double>"
    assert pairs(matches) == expected
    in_process = Matcher.from_table(pa.table({"id": list(wheres), "where": list(wheres.values())}))
    found = in_process.match_batch(events.toArrow(), id="key").to_pylist()
    assert {(row["event"], row["subscription"]) for row in found} == expected


@pytest.mark.parametrize("type_", ["long", "date", "decimal(12,2)"])
def test_ids_of_subscriptions_keep_their_type(spark: "SparkSession", tmp_path: Path, type_: str) -> None:
    ids = {"long": 2**60, "date": dt.date(2026, 5, 1), "decimal(12,2)": Decimal("7.50")}
    rules = spark.createDataFrame([(ids[type_], "x > 1")], f"id {type_}, where string")
    events = spark.createDataFrame([(1, 2), (2, 1)], "key int, x int")
    tocsin_spark.build(rules, tmp_path / "index")
    for source in (rules, tmp_path / "index"):
        matches = tocsin_spark.match(events, source, id="key", shards=1)
        assert matches.schema["subscription"].dataType == rules.schema["id"].dataType
        assert pairs(matches) == {(1, ids[type_])}
    tocsin_spark.build(subscriptions(spark, {"a": "x > 1"}), tmp_path / "index")
    assert pairs(tocsin_spark.match(events, tmp_path / "index", id="key")) == {(1, "a")}


def test_ids_that_have_no_text_are_refused(spark: "SparkSession") -> None:
    rules = spark.createDataFrame([(bytearray(b"x"), "x > 1")], "id binary, where string")
    with pytest.raises(OptionError, match="ids are binary"):
        tocsin_spark.match(spark.range(1), rules, id="id")


def test_columns_of_the_subscription(spark: "SparkSession", tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.subscribe("a", "x > 1", tags={"user": "ada"})
    matcher.subscribe("b", "x > 1 AND x > ALL (SELECT x FROM history)", tags={"user": "bob"})
    matcher.subscribe("c", "x > 0")
    matcher.save(tmp_path / "index")
    events = spark.createDataFrame([(1, 2, "p"), (2, 1, "q")], "key int, x int, page string")
    columns = ["where", "user"]
    found = tocsin_spark.match(
        events, tmp_path / "index", id="key", order="key", keep_columns=["page"], subscription_columns=columns
    )
    assert found.columns == ["event", "subscription", "score", "page", "where", "user"]
    assert sorted(tuple(row)[3:] for row in found.collect()) == [
        ("p", "x > 0", None),
        ("p", "x > 1", "ada"),
        ("p", "x > 1 AND x > ALL (SELECT x FROM history)", "bob"),
        ("q", "x > 0", None),
    ]
    mine = tocsin_spark.match(events, tmp_path / "index", id="key", tags={"user": "ada"}, subscription_columns=["user"])
    assert [tuple(row) for row in mine.collect()] == [(1, "a", 1.0, "ada")]
    with pytest.raises(OptionError, match="'key' is already a column of the matches: event"):
        tocsin_spark.match(events, tmp_path / "index", id="key", order="key", keep_columns=["key"])
    for name, kept in (("score", []), ("page", ["page"])):
        with pytest.raises(OptionError, match=f"'{name}' is already a column"):
            tocsin_spark.match(
                events,
                tmp_path / "index",
                id="key",
                order="key",
                keep_columns=kept,
                subscription_columns=[name],
            )


@pytest.mark.parametrize("stored", [False, True])
def test_columns_of_the_subscriptions_dataframe_keep_their_type(
    spark: "SparkSession", tmp_path: Path, stored: bool, caplog: pytest.LogCaptureFixture
) -> None:
    day = dt.date(2026, 3, 2)
    rows = [(7, "x > 1", 3, "o'neil", day, {"plan": "gold", "level": "9"}), (8, "x > 0", None, None, None, None)]
    schema = "id long, where string, level int, `the user` string, since date, tags map<string,string>"
    rules = spark.createDataFrame(rows, schema)
    events = spark.createDataFrame([(1, 2)], "key int, x int")
    columns = ["level", "the user", "since"]
    given = tocsin_spark.build(rules, tmp_path / "index", keep_columns=columns) if stored else rules
    found = tocsin_spark.match(events, given, id="key", subscription_columns=[*columns, "plan"])
    assert dict(found.dtypes)["level"] == "int"
    assert dict(found.dtypes)["since"] == "date"
    assert sorted(tuple(row) for row in found.collect()) == [
        (1, 7, 1.0, 3, "o'neil", day, "gold"),
        (1, 8, 1.0, None, None, None, None),
    ]
    assert "no subscription has a tag" not in caplog.text
    tocsin_spark.match(events, given, id="key", subscription_columns=["pland"])
    assert "no subscription has a tag 'pland': the column is NULL" in caplog.text


def test_columns_that_subscriptions_cannot_give_are_named(spark: "SparkSession") -> None:
    events = spark.createDataFrame([(1, 2)], "key int, x int")
    rules = spark.createDataFrame([("a", "x > 1", "ada", [1])], "id string, where string, user string, list array<int>")
    for columns, message in (
        (["usr"], "no column 'usr', and no tags.*'user'"),
        (["list"], "'list' is array<int>"),
        (["id"], "'id' is already a column"),
    ):
        with pytest.raises(OptionError, match=message):
            tocsin_spark.match(events, rules, id="key", subscription_columns=columns)
    with pytest.raises(OptionError, match="no column 'usr'"):
        tocsin_spark.build(rules, keep_columns=["usr"])


def test_attributes_are_checked_when_match_is_called(spark: "SparkSession", caplog: pytest.LogCaptureFixture) -> None:
    events = spark.createDataFrame([(1, 5, "x")], "key int, price int, name string")
    wheres = {"a": "prize < 9", "b": "name > 7", "c": "price < 9 AND name = 'x'"}
    matches = tocsin_spark.match(events, subscriptions(spark, wheres), id="key")
    said = [record.getMessage() for record in caplog.records if record.name.endswith("event_columns")]
    assert said == ["no event has 'prize'. Did you mean 'price'?"]
    caplog.clear()
    tocsin_spark.match(events, subscriptions(spark, {"b": "name > 7"}), id="key")
    assert "'name' is a string, and is compared with a number" in caplog.text
    assert matches.count() == 1


def test_the_evidence_of_the_last_call(spark: "SparkSession", caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "tocsin.spark.evidence")
    tocsin_spark.match(spark.range(30), subscriptions(spark, {"low": "id < 10"}), id="id").count()
    found = tocsin_spark.last_evidence()
    assert (found.events, found.matches) == (30, 10)
    assert "30 events" in caplog.text


def test_many_events_in_several_partitions_equal_the_matcher_in_process(spark: "SparkSession") -> None:
    events = spark.range(1000, numPartitions=3).selectExpr("id AS key", "id % 97 AS a", "id % 13 / 2.0D AS b")
    wheres = {f"s{n}": f"a BETWEEN {n} AND {n + 3} AND b < {n % 7}.5" for n in range(60)}
    in_process = Matcher.from_table(pa.table({"id": list(wheres), "where": list(wheres.values())}))
    expected = {
        (row["event"], row["subscription"]) for row in in_process.match_batch(events.toArrow(), id="key").to_pylist()
    }
    matches = tocsin_spark.match(events, subscriptions(spark, wheres), id="key")
    assert len(expected) > 500
    assert pairs(matches) == expected
    assert matches.count() == len(expected)


def test_scores_are_those_of_the_subscriptions(spark: "SparkSession") -> None:
    scored = spark.createDataFrame([(7, "a > 0", 2), (8, "a > 1", None)], "id int, where string, score int")
    events = spark.createDataFrame([("x", 2)], "name string, a int")
    rows = tocsin_spark.match(events, scored, id="name").collect()
    assert {tuple(row) for row in rows} == {("x", 7, 2.0), ("x", 8, 1.0)}


def test_bad_subscriptions_are_reported_and_the_rest_run(spark: "SparkSession") -> None:
    wheres = {"good": "a > 0", "broken": "a >", "unknown": "frobnicate(a)"}
    index = tocsin_spark.build(subscriptions(spark, wheres))
    report = {row["subscription"]: row["reason"] for row in index.rejected.collect()}
    assert set(report) == {"broken", "unknown"}
    assert "frobnicate" in report["unknown"].lower()
    events = spark.createDataFrame([(1, 2)], "key int, a int")
    assert pairs(tocsin_spark.match(events, index, id="key")) == {(1, "good")}


def test_an_index_serves_many_queries_and_may_be_a_path(spark: "SparkSession", tmp_path: Path) -> None:
    events = spark.createDataFrame([(1, 2), (2, 3)], "key int, a int")
    tocsin_spark.build(subscriptions(spark, {"two": "a = 2"}), tmp_path / "index")
    assert pairs(tocsin_spark.match(events, tmp_path / "index", id="key")) == {(1, "two")}
    assert pairs(events.transform(tocsin_spark.match, str(tmp_path / "index"), id="key")) == {(1, "two")}


def test_a_shipped_index_gives_the_same_answer(spark: "SparkSession") -> None:
    events = spark.createDataFrame([(1, 2), (2, 3)], "key int, a int")
    index = tocsin_spark.build(subscriptions(spark, {"two": "a = 2"}))
    for _ in range(2):
        assert pairs(tocsin_spark.match(events, index, id="key", ship_index=True)) == {(1, "two")}


def test_the_query_is_lazy_and_narrow_and_reads_only_what_is_named(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = spark.range(10).selectExpr("id", "id AS a", "'x' AS wide", "struct(id AS b, 'y' AS heavy) AS s")
    data.write.parquet(str(tmp_path / "events"))
    events = spark.read.parquet(str(tmp_path / "events"))
    matches = tocsin_spark.match(events, subscriptions(spark, {"one": "a = 1 AND s.b = 1"}), id="id")
    matches.explain("formatted")
    plan = capsys.readouterr().out
    assert "MapInArrow" in plan
    assert "Exchange" not in plan
    assert "ReadSchema: struct<id:bigint,a:bigint,s:struct<b:bigint>>" in plan
    assert pairs(matches) == {(1, "one")}


def test_a_call_runs_one_job_for_the_subscriptions_and_opens_the_index_once(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    events = spark.createDataFrame([(1, 5)], "key int, a int")
    wheres = subscriptions(spark, {"x": "a > 1"})
    opened: list[Path] = []
    open_ = Matcher.open

    def noted(path: Path, **options: Any) -> Matcher:
        opened.append(path)
        return open_(path, **options)

    monkeypatch.setattr(Matcher, "open", noted)
    spark.sparkContext.setJobGroup("one call", "")
    try:
        matches = tocsin_spark.match(events, wheres, id="key")
        assert len(spark.sparkContext.statusTracker().getJobIdsForGroup("one call")) == 1
    finally:
        spark.sparkContext._jsc.clearJobGroup()
    assert len(opened) == 1
    assert pairs(matches) == {(1, "x")}


def test_no_subscriptions_match_nothing(spark: "SparkSession") -> None:
    events = spark.createDataFrame([(1, 5)], "key int, a int")
    assert pairs(tocsin_spark.match(events, subscriptions(spark, {}), id="key")) == set()


def test_the_settings_of_the_session_stay_as_they_are(spark: "SparkSession") -> None:
    before = spark.conf.getAll
    events = spark.createDataFrame([(1, 2)], "key int, a int")
    assert tocsin_spark.match(events, subscriptions(spark, {"two": "a = 2"}), id="key").count() == 1
    assert spark.conf.getAll == before


def test_names_with_dots_spaces_and_backticks(spark: "SparkSession") -> None:
    events = spark.createDataFrame([(1, 2, 3, 4)], ["the key", "a.b", "user agent", "tick`ed"])
    wheres = {"dot": "a.b = 2", "space": '"user agent" = 3', "tick": '"tick`ed" = 4'}
    assert pairs(tocsin_spark.match(events, subscriptions(spark, wheres), id="the key")) == {
        (1, name) for name in wheres
    }


def test_what_is_missing_is_named(spark: "SparkSession", tmp_path: Path) -> None:
    events = spark.createDataFrame([(1, 2)], "key int, a int")
    with pytest.raises(OptionError, match=r"no column 'id' to name them by\. Choose from key, a"):
        tocsin_spark.match(events, subscriptions(spark, {"two": "a = 2"}), id="id")
    with pytest.raises(OptionError, match=r"no column 'where'"):
        tocsin_spark.build(spark.createDataFrame([("x", "a = 1")], "id string, condition string"))
    with pytest.raises(StorageError, match="no index in"):
        tocsin_spark.match(events, tmp_path / "nowhere", id="key")
    reader: Any = "worker"
    for match in (tocsin_spark.match, partial(tocsin_spark.backtest, events)):
        with pytest.raises(OptionError, match="there is no reader 'worker'"):
            match(events, tmp_path / "nowhere", id="key", reader=reader)
    with pytest.raises(OptionError, match="workers do not read events with an order"):
        tocsin_spark.match(events, tmp_path / "nowhere", id="key", order="a", reader="workers")


def test_subscriptions_that_look_back_are_refused(spark: "SparkSession", tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.subscribe("record", "a > ALL (SELECT a FROM history)", tags={"of": "ada"})
    matcher.subscribe("plain", "a > 0", tags={"of": "bob"})
    matcher.save(tmp_path / "index")
    events = spark.createDataFrame([(1, 2)], "key int, a int")
    with pytest.raises(OptionError, match=r"1 subscriptions look back.*: record\..*order="):
        tocsin_spark.match(events, tmp_path / "index", id="key")
    # Who is not asked need not be left out.
    assert pairs(tocsin_spark.match(events, tmp_path / "index", id="key", tags={"of": "bob"})) == {(1, "plain")}
    matcher.unsubscribe("record")
    matcher.commit()
    assert pairs(tocsin_spark.match(events, tmp_path / "index", id="key")) == {(1, "plain")}


def test_event_columns_follow_structs_only(spark: "SparkSession") -> None:
    schema = spark.createDataFrame([], "a struct<b:struct<c:int>,list:array<struct<d:int>>>, flat int").schema
    attributes = {"a.b.c", "a.b", "flat", "flat.x", "a.list.d", "a.nothing", "nothing"}
    assert list(event_columns(schema, attributes)) == ["a.b", "a.b.c", "flat"]
