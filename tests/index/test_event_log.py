"""What a matcher remembers of published events: whole events, whenever the subscriptions come."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tocsin import Matcher, OptionError, StorageError, SubscriptionError
from tocsin.predicates.history import event_log
from tocsin.predicates.history.column_files import VERSION, Commit

RECORD = "price > ALL (SELECT price FROM history)"
NEW_AUTHOR = "NOT EXISTS (SELECT 1 FROM history h WHERE h.author = event.author)"


def test_a_subscription_sees_the_events_before_it() -> None:
    matcher = Matcher()
    matcher.publish({"price": 10})
    matcher.subscribe("record", RECORD)
    assert [matcher.publish({"price": price}).ids for price in (9, 11)] == [[], ["record"]]


def test_an_attribute_that_nobody_had_named_is_known() -> None:
    matcher = Matcher()
    matcher.publish_batch(pa.table({"author": ["Smith", "Jones"]}))
    matcher.subscribe("new", NEW_AUTHOR)
    assert [matcher.match({"author": name}).ids for name in ("Jones", "Lee")] == [[], ["new"]]


def test_an_answer_does_not_depend_on_the_subscriptions_of_others() -> None:
    alone, beside = Matcher(), Matcher()
    beside.subscribe("other", "price < ANY (SELECT price FROM history)")
    for matcher in (alone, beside):
        matcher.publish({"price": 10})
    beside.unsubscribe("other")
    for matcher in (alone, beside):
        matcher.publish({"price": 20})
        matcher.subscribe("record", RECORD)
        assert matcher.match({"price": 15}).ids == []
        assert matcher.match({"price": 25}).ids == ["record"]


@pytest.mark.parametrize("where", ["memory", "disk", "reader"])
def test_old_events_are_read_back_as_they_were(where: str, tmp_path: Path) -> None:
    events: list[dict[str, Any]] = [
        {"price": 10, "at": dt.datetime(2020, 1, 1, 12), "sold": True, "user": {"name": "Ada", "$odd": 1}},
        {"price": 19.99, "at": dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "tags": ["a", "b"]},
        {"price": Decimal("19.99"), "at": dt.date(2021, 1, 1), "raw": b"\x00\xff"},
        {"price": 2**70, "user": {"born": dt.date(1815, 12, 10)}},
        {"price": "much"},
        {},
    ]
    matcher = Matcher()
    if where != "memory":
        matcher.save(tmp_path)
    for event in events[:3]:
        matcher.publish(event)
    matcher.publish_batch(events[3:])
    events[0]["user"]["name"] = "changed behind our back"
    events[0]["user"] = {"name": "Ada", "$odd": 1}
    if where != "memory":
        matcher.commit()
        matcher.close()
        matcher = Matcher.open(tmp_path, mode="read" if where == "reader" else "write")
    assert list(matcher.history.events()) == events
    if where != "reader":
        matcher.subscribe("born", "EXISTS (SELECT 1 FROM history h WHERE h.user.born < event.born)")
        assert matcher.match({"born": dt.date(1900, 1, 1)}).ids == ["born"]


def test_tables_are_read_back_in_their_types() -> None:
    times = pa.array([dt.datetime(2020, 1, 1), None], pa.timestamp("s"))
    table = pa.table(
        {
            "price": pa.array([1, None], pa.int16()),
            "cost": pa.array([Decimal("1.50"), Decimal("2.00")], pa.decimal128(9, 2)),
            "name": pa.array(["a", "b"]).dictionary_encode(),
            "at": times,
            "user": [{"age": 3}, None],
        }
    )
    matcher = Matcher()
    matcher.publish_batch(table)
    assert [row.get("price") for row in matcher.history.events()] == [1, None]
    matcher.subscribe("age", "age > ANY (SELECT user.age FROM history)")
    matcher.subscribe("at", "at = ANY (SELECT at FROM history)")
    matcher.subscribe("cost", "cost = 1.5 AND cost = ANY (SELECT cost FROM history)")
    assert matcher.match({"age": 4}).ids == ["age"]
    assert matcher.match({"at": dt.datetime(2020, 1, 1), "cost": 1.5}).ids == ["at", "cost"]


def test_segments_are_few_and_what_has_expired_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "WAITING_EVENTS", 16)
    matcher = Matcher(retain_events=100)
    matcher.save(tmp_path)
    for number in range(300):
        matcher.publish({"n": number})
        if number % 7 == 0:
            matcher.commit()
    matcher.commit()
    assert len(list(tmp_path.glob("history/events-*.parquet"))) < 12
    assert [event["n"] for event in matcher.history.events()] == list(range(200, 300))
    log = matcher.history.store.log
    assert log is not None
    assert log.first > 0, "segments that have expired are gone"
    matcher.history.store.check()
    matcher.close()
    again = Matcher.open(tmp_path)
    again.subscribe("n", "n = ANY (SELECT n FROM history)")
    assert [again.match({"n": number}).ids for number in (199, 200, 299)] == [[], ["n"], ["n"]]


def test_history_is_given_at_the_start() -> None:
    matcher = Matcher()
    matcher.subscribe("record", RECORD)
    matcher.history.load(pa.table({"price": [10, 30]}))
    assert [matcher.publish({"price": price}).ids for price in (20, 40)] == [[], ["record"]]
    with pytest.raises(OptionError, match="there are 4 events in the history already"):
        matcher.history.load([{"price": 1}])


def test_only_the_attributes_that_are_named_are_kept(tmp_path: Path) -> None:
    matcher = Matcher(history=["price", "user.name"])
    matcher.publish({"price": 10, "text": "long", "user": {"name": "Ada"}})
    assert list(matcher.history.events()) == [{"price": 10, "user": {"name": "Ada"}}]
    matcher.subscribe("record", RECORD)
    matcher.subscribe("ada", "name = ANY (SELECT user.name FROM history)")
    with pytest.raises(SubscriptionError, match=r"the history does not keep text.*price, user.name.*history=\"all\""):
        matcher.subscribe("text", "text = ANY (SELECT text FROM history)")
    rejected = matcher.subscribe_many([{"id": "a", "where": NEW_AUTHOR}, {"id": "b", "where": RECORD}])
    assert [error.subscription for error in rejected] == ["a"]
    matcher.save(tmp_path)
    matcher.close()
    again = Matcher.open(tmp_path)
    with pytest.raises(SubscriptionError, match="the history does not keep author"):
        again.subscribe("author", NEW_AUTHOR)
    assert again.match({"price": 11, "name": "Ada"}).ids == ["ada", "b", "record"]


def test_a_matcher_without_history_refuses_to_look_back() -> None:
    matcher = Matcher(history=None)
    matcher.publish({"price": 10})
    with pytest.raises(SubscriptionError, match=r"no event is remembered.*history=\"all\""):
        matcher.subscribe("record", RECORD)
    with pytest.raises(SubscriptionError, match="no event is remembered"):
        matcher.subscribe("any", "EXISTS (SELECT 1 FROM history)")
    with pytest.raises(OptionError, match="no events are kept"):
        next(matcher.history.events())
    with pytest.raises(OptionError, match="history is 'some'"):
        Matcher(history="some")


def test_a_damaged_segment_is_named(tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.save(tmp_path)
    matcher.publish_batch([{"text": f"event {number}"} for number in range(1000)])
    matcher.commit()
    matcher.close()
    [segment] = tmp_path.glob("history/events-*.parquet")
    data = bytearray(segment.read_bytes())
    data[len(data) // 3] ^= 1
    segment.write_bytes(data)
    for read in (lambda history: list(history.events()), lambda history: history.store.log.check_files()):
        with pytest.raises(StorageError, match=r"history file .*events-\d+\.parquet is damaged"):
            read(Matcher.open(tmp_path).history)
    segment.write_bytes(data[:-1])
    with pytest.raises(StorageError, match="its size is not what was committed"):
        len(Matcher.open(tmp_path).history)
    segment.unlink()
    with pytest.raises(StorageError, match=r"events-\d+\.parquet is missing"):
        len(Matcher.open(tmp_path).history)


def older(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a history of one event as version 1 did: columns, no log."""
    matcher = Matcher()
    matcher.subscribe("record", RECORD)
    matcher.publish({"price": 10})
    matcher.save(folder)
    matcher.close()
    history = folder / "history"
    state = Commit.read(history)
    state.events = []
    with monkeypatch.context() as patch:
        patch.setattr("tocsin.predicates.history.column_files.VERSION", 1)
        state.write(history)
    for segment in history.glob("events-*"):
        segment.unlink()


def test_a_history_of_version_1_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older(tmp_path, monkeypatch)
    reader = Matcher.open(tmp_path, mode="read")
    assert list(reader.history.events()) == [{"price": 10}]
    matcher = Matcher.open(tmp_path)
    assert [matcher.publish({"price": price, "author": "Lee"}).ids for price in (9, 11)] == [[], ["record"]]
    matcher.commit()
    matcher.close()
    assert f'"version": {VERSION}' in (tmp_path / "history" / "commit.json").read_text()
    again = Matcher.open(tmp_path)
    assert [event["price"] for event in again.history.events()] == [10, 9, 11]
    with pytest.raises(SubscriptionError, match=r"an older Tocsin remembered events without author.*history\.clear"):
        again.subscribe("author", NEW_AUTHOR)
    again.subscribe("cheap", "price < ALL (SELECT price FROM history)")
    again.save(tmp_path / "copy")
    again.history.clear()
    again.subscribe("author", NEW_AUTHOR)
    assert again.publish({"author": "Lee"}).ids == ["author", "cheap", "record"]
    assert again.publish({"author": "Lee"}).ids == []


def test_clearing_forgets_every_event(tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.save(tmp_path)
    matcher.publish({"price": 10})
    matcher.commit()
    matcher.history.clear()
    matcher.commit()
    assert (len(matcher.history), list(matcher.history.events())) == (0, [])
    matcher.close()
    again = Matcher.open(tmp_path)
    again.subscribe("record", RECORD)
    assert again.match({"price": 1}).ids == ["record"]


def test_explain_shows_why_all_is_null() -> None:
    matcher = Matcher()
    matcher.subscribe("record", RECORD)
    matcher.publish({"price": 10})
    matcher.publish({"author": "Lee"})
    assert matcher.match({"price": 11}).ids == []
    assert "NULL: price of the old event {} does not compare with 11" in str(matcher.explain({"price": 11}, "record"))
    assert "see the old event {'price': 10}" in str(matcher.explain({"price": 9}, "record"))
    matcher.subscribe("cured", "price > ALL (SELECT price FROM history WHERE price IS NOT NULL)")
    matcher.subscribe("greatest", "price > (SELECT max(price) FROM history)")
    assert matcher.match({"price": 11}).ids == ["cured", "greatest"]


def test_subqueries_come_in_bulk_as_one_by_one() -> None:
    """Constants of a shape are filled into each of its texts, however often a term was multiplied."""
    events = [{"a": a, "b": b} for a in range(4) for b in range(3)]
    texts = {
        f"{c} {n}": text
        for c in range(4)
        for n, text in enumerate(
            [
                f"EXISTS (SELECT 1 FROM history h WHERE h.a = {c} AND (h.b = 1 OR NOT (h.b < {c} OR h.a > event.a)))",
                f"a > (SELECT max(a) FROM history h WHERE h.b NOT BETWEEN {c} AND 1 OR h.a IN ({c}, 3))",
                f"(SELECT min(a) FROM history h WHERE h.b = {c % 3}) = {c}",
            ]
        )
    }
    single, bulk = Matcher(), Matcher()
    for id, text in texts.items():
        single.subscribe(id, text)
    assert bulk.subscribe_many([{"id": id, "where": text} for id, text in texts.items()]) == []
    found = [single.publish(event).ids for event in events]
    assert [bulk.publish(event).ids for event in events] == found
    assert any(found)
