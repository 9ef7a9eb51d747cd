"""The history of a matcher: in memory, in its folder, for readers, with retention."""

import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

import children
from tocsin import Matcher, OptionError, StorageError

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


def test_explain_says_what_an_aggregate_is() -> None:
    matcher = Matcher()
    matcher.subscribe("dear", "price > (SELECT avg(price) FROM history h WHERE h.symbol = event.symbol)")
    matcher.subscribe("often", "(SELECT count(*) FROM history h WHERE h.at >= event.at - 10 OR h.symbol = 'y') > 2")
    for event in ({"price": 1, "symbol": "x", "at": 0}, {"price": 2.5, "symbol": "x", "at": 5}, {"symbol": "x"}):
        matcher.publish(event)
    event = {"price": 1.75, "symbol": "x", "at": 12}
    said = str(matcher.explain(event, "dear"))
    assert "avg of 2 old values is 1.75, price is 1.75" in said
    assert "count is 1" in str(matcher.explain(event, "often"))
    assert "avg of 0 old values is NULL" in str(matcher.explain({"price": 9, "symbol": "y"}, "dear"))
    assert matcher.match(event | {"price": 2}).ids == ["dear"]


def test_explain_shows_the_old_event() -> None:
    matcher = Matcher()
    matcher.subscribe("record", RECORD)
    matcher.publish({"price": 10})
    assert "see the old event {'price': 10}" in str(matcher.explain({"price": 9}, "record"))


def test_a_history_that_moved_to_a_folder_is_the_one_that_is_asked(tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.subscribe("record", RECORD)
    matcher.publish({"price": 10})
    matcher.compact()
    matcher.publish({"price": 20})
    matcher.save(tmp_path)
    assert [matcher.publish({"price": price}).ids for price in (15, 30, 25)] == [[], ["record"], []]


def test_a_copy_in_another_folder_has_the_history(tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.subscribe("record", RECORD)
    matcher.publish({"price": 10})
    matcher.save(tmp_path / "first")
    matcher.close()
    Matcher.open(tmp_path / "first").save(tmp_path / "second")
    assert Matcher.open(tmp_path / "second").match({"price": 9}).ids == []


def test_a_detached_matcher_leaves_its_folder_alone(tmp_path: Path) -> None:
    writer = Matcher()
    writer.subscribe("record", RECORD)
    writer.publish({"price": 10})
    writer.save(tmp_path / "index")
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    alone = Matcher.open(tmp_path / "index", mode="copy")
    assert [alone.publish({"price": price}).ids for price in (9, 30, 20)] == [[], ["record"], []]
    alone.subscribe("cheap", "price < 5")
    assert alone.match({"price": 4}).ids == ["cheap"]
    with pytest.raises(OptionError, match="these subscriptions have no folder"):
        alone.commit()
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == before
    assert writer.publish({"price": 20}).ids == ["record"], "the writer goes on"
    alone.save(tmp_path / "own")
    again = Matcher.open(tmp_path / "own")
    assert (list(again), again.match({"price": 25}).ids) == (["cheap", "record"], [])


def test_a_matcher_that_was_closed_reads_what_is_committed(tmp_path: Path) -> None:
    matcher = Matcher(background_merge=False)
    matcher.subscribe("record", RECORD)
    matcher.save(tmp_path)
    matcher.publish({"price": 10})
    matcher.commit()
    matcher.publish({"price": 20})
    matcher.close()
    other = Matcher.open(tmp_path, background_merge=False)
    other.publish({"price": 30})
    assert matcher.match({"price": 15}).ids == ["record"], "neither 20 nor 30 is committed"
    other.commit()
    assert len(Matcher.open(tmp_path).history) == 2


@pytest.fixture
def published(tmp_path: Path) -> Path:
    matcher = Matcher()
    matcher.subscribe("record", RECORD)
    matcher.publish({"price": 10})
    matcher.save(tmp_path / "index")
    matcher.close()
    return tmp_path / "index"


@pytest.mark.parametrize(
    "process", [multiprocessing.get_context("fork").Process, multiprocessing.get_context("spawn").Process]
)
def test_a_reader_makes_no_copies(
    published: Path, tmp_path: Path, process: Callable[..., BaseProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also not in children, which end without cleaning up."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setenv("TMPDIR", str(scratch))
    before = {file: file.stat().st_mtime_ns for file in published.rglob("*")}
    for detached in (True, False):
        reader = Matcher.open(published, mode="copy" if detached else "write")
        assert reader.match({"price": 9}).ids == []
        assert list(scratch.iterdir()) == []
        child = process(target=children.look_back, args=(published, detached))
        child.start()
        child.join()
        assert child.exitcode == 0
    assert [file for file in scratch.iterdir() if "history" in file.name] == []
    assert {file: file.stat().st_mtime_ns for file in published.rglob("*")} == before


def test_a_history_that_may_only_be_read_is_read(published: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        shutil.copytree(published, index)
        for file in [*index.rglob("*"), index, index.parent]:
            file.chmod(0o555 if file.is_dir() else 0o444)
        # Root may write everything, so be somebody else.
        user = 65534 if os.getuid() == 0 else None
        child = multiprocessing.get_context("fork").Process(target=children.look_back, args=(index, True, user))
        child.start()
        child.join()
        for file in [index.parent, index, index / "history"]:
            file.chmod(0o755)
    assert child.exitcode == 0


def test_single_events_have_searches_and_totals_as_a_batch_has() -> None:
    """So many shapes are judged at once for a single event, and totals beside them."""
    texts = [f"{new} {op} (SELECT {old} FROM history)" for new in "abcd" for old in "abcd" for op in ("> ALL", "= ANY")]
    texts += ["a > (SELECT avg(a) FROM history)", "(SELECT count(*) FROM history h WHERE h.b = event.b) >= 2"]
    alone, together = Matcher(), Matcher()
    for matcher in (alone, together):
        matcher.subscribe_many([{"id": f"{number:02}", "where": text} for number, text in enumerate(texts)])
    events = [
        {name: number * factor % 11 for name, factor in zip("abcd", (1, 2, 3, 7), strict=True)} for number in range(30)
    ]
    one_by_one = [(number, id) for number, event in enumerate(events) for id in alone.publish(event).ids]
    batch = together.publish_batch(events)
    assert one_by_one == list(zip(batch["event"].to_pylist(), batch["subscription"].to_pylist(), strict=True))
    assert {"32", "33"} <= {id for _, id in one_by_one}, "both totals held at times"
