"""The history of a matcher: in memory, in its folder, for readers, with retention."""

from pathlib import Path

import pytest

from tocsin import Matcher, StorageError

RECORD = "price > ALL (SELECT price FROM history)"


def test_a_saved_history_goes_on_after_reopening(tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.subscribe("record", RECORD)
    assert matcher.publish({"price": 10}).ids == ["record"]
    matcher.save(tmp_path)
    assert matcher.publish({"price": 20}).ids == ["record"]
    matcher.commit()
    assert matcher.publish({"price": 30}).ids == ["record"]
    matcher.close()

    again = Matcher.open(tmp_path)
    assert again.match({"price": 20}).ids == [], "20 was committed"
    assert again.match({"price": 25}).ids == ["record"], "30 was not"
    assert again.publish({"price": 25}).ids == ["record"]
    assert again.publish({"price": 24}).ids == []


def test_a_reader_sees_the_history_that_was_committed(tmp_path: Path) -> None:
    writer = Matcher()
    writer.subscribe("record", RECORD)
    writer.save(tmp_path)
    writer.publish({"price": 10})
    writer.commit()
    reader = Matcher.open(tmp_path)
    assert reader.match({"price": 9}).ids == []
    writer.publish({"price": 5})
    writer.commit()
    reader.refresh()
    assert reader.match({"price": 11}).ids == ["record"]
    with pytest.raises(StorageError, match="is being written by process"):
        reader.publish({"price": 12})


def test_retention_is_kept_with_the_index(tmp_path: Path) -> None:
    matcher = Matcher(retain_events=2)
    matcher.subscribe("record", RECORD)
    for price in (50, 10, 20):
        matcher.publish({"price": price})
    matcher.save(tmp_path)
    matcher.close()
    again = Matcher.open(tmp_path)
    assert len(again.history) == 2
    assert again.match({"price": 30}).ids == ["record"], "50 has expired"


def test_removing_a_subscription_releases_what_only_it_needed() -> None:
    matcher = Matcher()
    matcher.subscribe("price", RECORD)
    matcher.subscribe("author", "EXISTS (SELECT 1 FROM history h WHERE h.author = event.author)")
    matcher.publish({"price": 10, "author": "Smith"})
    assert matcher.history.store.columns.keys() == {"price", "author"}
    matcher.unsubscribe("author")
    matcher.publish({"price": 11, "author": "Jones"})
    assert matcher.history.store.columns.keys() == {"price"}


def test_explain_shows_the_old_event() -> None:
    matcher = Matcher()
    matcher.subscribe("record", RECORD)
    matcher.publish({"price": 10})
    assert "see the old event {'price': 10}" in str(matcher.explain({"price": 9}, "record"))
