"""An index of an older version is upgraded in place: the same answers, the same history, and crash-safe."""

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tocsin import Limits, Matcher, StorageError
from tocsin.index import form
from tocsin.index.commit import verify
from tocsin.index.options import Options
from tocsin.index.upgrade import Upgrade, upgrade
from tocsin.storage import container
from tocsin.storage.container import READABLE, VERSION
from tocsin.storage.folder import Folder

DATA = Path(__file__).parent / "data"
OLD = [(3, DATA / "version-3"), (4, DATA / "version-4"), (5, DATA / "version-5")]
"""Written by the last code of each version: two segments, a dropped and a rescored subscription, two published events.
"""
VERSION_3 = DATA / "version-3"
SCORES = {
    "either": 2.0,
    "later": 3.0,
    "never": 1.0,
    "path": 1.0,
    "pattern": 1.0,
    "range": 1.0,
    "record": 1.0,
    "rescored": 4.0,
    "words": 1.5,
}


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return Path(shutil.copytree(VERSION_3, tmp_path / "index"))


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "write.lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def assert_upgraded(index: Path) -> None:
    verify(Folder(index))
    with Matcher.open(index, background_merge=False) as matcher:
        assert {one.id: one.score for one in matcher.subscriptions()} == SCORES
        assert matcher["range"].tags == {"tenant": "acme"}
        assert matcher["either"].weights == {"price": 0.5}
        event = {"price": 14, "author": "Smith", "body": "My holiday in Milos", "title": "an error"}
        assert matcher.match(event).ids == ["either", "pattern", "range", "rescored", "words"]
        assert matcher.match({"doc": '<nitf xmlns="urn:news"><p lede="true"/></nitf>'}).ids == ["path"]
        assert matcher.match({"price": 14}, tags={"tenant": "acme"}).ids == ["range"]
        assert len(matcher.history) == 2
        assert [matcher.publish({"price": price}).ids for price in (14.5, 16)] == [
            ["range", "rescored"],
            ["range", "record", "rescored"],
        ]


def test_version_5_is_read_as_it_is(tmp_path: Path) -> None:
    assert READABLE == 5
    index = Path(shutil.copytree(DATA / "version-5", tmp_path / "index"))
    assert_upgraded(index)
    with Matcher.open(index, mode="write") as matcher:
        matcher.subscribe("next", "price < 0")
        matcher.commit()
    assert Folder(index).read(3)["version"] == VERSION
    with Matcher.open(index) as matcher:
        assert {one.id: one.score for one in matcher.subscriptions()} == SCORES | {"next": 1.0}


def test_version_6_is_read_as_it_is_and_upgraded(tmp_path: Path) -> None:
    """Its regular expressions have other arrays, which are made anew."""
    index = Path(shutil.copytree(DATA / "version-6", tmp_path / "index"))
    for _ in range(2):
        verify(Folder(index))
        with Matcher.open(index, background_merge=False) as matcher:
            assert matcher.match({"line": "GET /a.php", "price": 4, "body": "Un caf\u00e9"}).ids == [
                "accents",
                "exact",
                "never",
            ]
            assert matcher.match({"line": "USER abc FAILED"}).ids == ["folded", "never"]
            assert matcher.match({"line": "17", "price": 4}).ids == []
        assert upgrade(index).version in (6, VERSION)
    assert Folder(index).read(2)["version"] == VERSION


def test_version_7_is_read_as_it_is_and_upgraded(tmp_path: Path) -> None:
    """Its wide ranges lie in other blocks, and have their ends there."""
    index = Path(shutil.copytree(DATA / "version-7", tmp_path / "index"))
    for _ in range(2):
        verify(Folder(index))
        with Matcher.open(index, background_merge=False) as matcher:
            for a, b in [(12, 88), (30, 30), (100, 7)]:
                lows = [(n * 7 % 31, n * 11 % 29) for n in range(600)]
                expected = [f"s{n:03}" for n, (x, y) in enumerate(lows) if x <= a <= x + 70 and y <= b <= y + 70]
                ids = [id for id in expected if id != "s007"]
                assert matcher.match({"a": a, "b": b}).ids == ids
                batch = matcher.match_batch([{"a": a, "b": b}, {}, {"a": a, "b": b}])
                assert batch["subscription"].to_pylist() == ids + ids
        assert upgrade(index).version in (7, VERSION)
    assert Folder(index).read(2)["version"] == VERSION


def test_version_8_is_read_as_it_is_and_upgraded(tmp_path: Path) -> None:
    """Its ranges that often match lie in blocks without regions, and rows have all lines."""
    index = Path(shutil.copytree(DATA / "version-8", tmp_path / "index"))
    lows = [(n * 7 % 31, n * 11 % 29) for n in range(1400)]
    for _ in range(2):
        verify(Folder(index))
        with Matcher.open(index, background_merge=False) as matcher:
            for a, b in [(12, 88), (30, 30), (100, 7)]:
                expected = [f"s{n:03}" for n, (x, y) in enumerate(lows) if x <= a <= x + 70 and y <= b <= y + 70]
                ids = sorted(id for id in expected if id != "s007")
                assert matcher.match({"a": a, "b": b}).ids == ids
                batch = matcher.match_batch([{"a": a, "b": b}, {}, {"a": a, "b": b}])
                assert batch["subscription"].to_pylist() == ids + ids
        assert upgrade(index).version in (8, VERSION)
    assert Folder(index).read(3)["version"] == VERSION


@pytest.mark.parametrize(("version", "folder"), OLD[:-1])
def test_an_older_version_names_the_command_that_upgrades_it(version: int, folder: Path, tmp_path: Path) -> None:
    index = Path(shutil.copytree(folder, tmp_path / "index"))
    said = rf"version {version}, .* version {VERSION}\. Run `tocsin index upgrade {index}`"
    with pytest.raises(StorageError, match=said):
        Matcher.open(index)
    assert content(index) == content(folder)


@pytest.mark.parametrize(("version", "folder"), OLD)
def test_an_upgrade_keeps_subscriptions_options_and_history(version: int, folder: Path, tmp_path: Path) -> None:
    index = Path(shutil.copytree(folder, tmp_path / "index"))
    assert upgrade(index) == Upgrade(version, len(SCORES), [], is_committed=True)
    snapshot = Folder(index).read(3)
    # Version 5 stores limits, here the defaults of its time.
    limits = Limits(subscriptions=None, matches=None) if version == 5 else Limits()
    assert Options.of(snapshot["options"]) == Options(limits, namespaces={"n": "urn:news"}, retain_events=50)
    assert [part["subscriptions"] for part in snapshot["parts"]] == [8, 1]
    assert [part["changes"] for part in snapshot["parts"]] == [None, None]
    old = content(folder)
    kept = {name for name, data in content(index).items() if old.get(name) == data}
    assert kept == {name for name in old if name.startswith("history/")}
    assert_upgraded(index)


def test_an_index_that_is_up_to_date_stays_as_it_is(index: Path) -> None:
    upgrade(index)
    before = content(index)
    assert upgrade(index) == Upgrade(VERSION, len(SCORES), [], is_committed=False)
    assert content(index) == before


def test_an_older_normal_form_is_parsed_again(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upgrade(index)
    for module in ("commit", "segment", "upgrade"):
        monkeypatch.setattr(f"tocsin.index.{module}.FORM_VERSION", form.FORM_VERSION + 1)
    with pytest.raises(StorageError, match=r"normal form version 1, this Tocsin reads version 2.*index upgrade"):
        Matcher.open(index)
    assert upgrade(index).is_committed
    assert_upgraded(index)
    monkeypatch.undo()
    for read in (Matcher.open, upgrade):
        with pytest.raises(StorageError, match=r"normal form version 2, this Tocsin reads version 1\. Update Tocsin"):
            read(index)


def test_a_newer_version_asks_for_a_newer_tocsin(index: Path) -> None:
    upgrade(index)
    segment = next(index.glob("segment-*.tocsin"))
    raw = bytearray(segment.read_bytes())
    struct.pack_into("<I", raw, 8, VERSION + 1)
    segment.write_bytes(raw)
    for read in (Matcher.open, upgrade):
        with pytest.raises(StorageError, match=rf"format version {VERSION + 1}, .* {VERSION}\. Update Tocsin"):
            read(index)


def die(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "step",
    ["tocsin.storage.container.write", "tocsin.storage.folder.Folder.commit", "tocsin.index.upgrade.LiveSegment"],
)
def test_the_old_snapshot_stands_until_the_new_one_is_committed(
    index: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as dying:
        dying.setattr(step, die)
        # As if the process was killed: it does not tidy up.
        dying.setattr(Folder, "remove_new", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            upgrade(index)
    assert content(index).items() >= content(VERSION_3).items()
    assert Folder(index).newest() == 2
    assert upgrade(index).version == 3
    assert len(list(index.glob("segment-*"))) == 2
    assert_upgraded(index)


def test_a_process_that_dies_before_it_tidies_up_has_upgraded(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as dying:
        dying.setattr(Folder, "clean", die)
        with pytest.raises(KeyboardInterrupt):
            upgrade(index)
    assert Folder(index).newest() == 3
    assert_upgraded(index)


def test_a_writer_keeps_an_upgrade_out(index: Path) -> None:
    writer = Folder(index)
    writer.lock()
    with pytest.raises(StorageError, match="is being written by process"):
        upgrade(index)
    writer.unlock()
    assert content(index) == content(VERSION_3)


def test_a_history_that_was_just_saved_comes_along(index: Path) -> None:
    (index / "history").rename(index / ".history-000002")
    upgrade(index)
    assert not (index / ".history-000002").exists()
    assert_upgraded(index)


def flip(file: Path) -> None:
    raw = bytearray(file.read_bytes())
    raw[raw.index(b"price BETWEEN")] ^= 1
    file.write_bytes(raw)


@pytest.mark.parametrize(
    ("damage", "said"), [(flip, "is damaged: array 'texts.bytes'"), (Path.unlink, "lacks its file segment-1628")]
)
def test_a_damaged_index_is_not_upgraded(index: Path, damage: Callable[[Path], None], said: str) -> None:
    damage(index / "segment-1628fc9a2d59beeb.tocsin")
    before = content(index)
    with pytest.raises(StorageError, match=said):
        upgrade(index)
    assert content(index) == before


def test_a_folder_without_an_index_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="there is no index in"):
        upgrade(tmp_path / "missing")
    assert not (tmp_path / "missing").exists()


def test_texts_that_are_refused_now_are_dropped_only_when_told(index: Path) -> None:
    segment = index / "segment-5fbf9d3789f82cce.tocsin"
    stored = container.read(segment, oldest=3)
    text = stored.arrays["texts.bytes"].copy()
    text[:3] = 33
    container.write(segment, container.Container({**stored.arrays, "texts.bytes": text}, stored.meta))
    before = content(index)
    found = upgrade(index)
    assert ([error.subscription for error in found.rejected], found.is_committed) == (["later"], False)
    assert content(index) == before
    assert upgrade(index, drop_rejected=True).is_committed
    assert sorted(Matcher.open(index)) == sorted(SCORES.keys() - {"later"})
