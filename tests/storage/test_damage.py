"""A damaged index never answers wrongly, hangs or crashes: it says which file is damaged.

`damaging.py` does the damage and asks in child processes. A file whose checksums are right may hold another index than
the one that was saved; then it may answer for that one, but no kernel reads outside its arrays.
"""

import json
import os
import struct
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import damaging
from tocsin import Matcher, StorageError
from tocsin.index import commit as store
from tocsin.storage import container
from tocsin.storage.folder import Folder


def outcomes(folder: Path, kinds: Sequence[str], count: int, seed: int) -> dict[str, Counter[str]]:
    """Damage an index so often in each way, and count what came of it; what is not named is shown."""
    run = subprocess.run(
        [sys.executable, damaging.__file__, str(folder), ",".join(kinds), str(count), str(seed)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )
    results = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(results) == count * len(kinds)
    for result in results:
        if result["outcome"] not in (damaging.NAMED, damaging.SAME, damaging.OTHER):
            print(result)
    return {kind: Counter(result["outcome"] for result in results if result["kind"] == kind) for kind in kinds}


def test_damage_is_named_and_right_checksums_cannot_mislead_a_kernel(tmp_path: Path) -> None:
    """Both ways on one index: to build it takes longer than to damage it so often."""
    both = outcomes(tmp_path, ["random", "crafted"], 12, seed=1)
    found = both["random"]
    assert set(found) <= {damaging.NAMED, damaging.SAME}
    assert found[damaging.NAMED] > found[damaging.SAME]
    found = both["crafted"]
    assert set(found) <= {damaging.NAMED, damaging.SAME, damaging.OTHER}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_thousand_damages_are_named(tmp_path: Path, seed: int) -> None:
    assert set(outcomes(tmp_path, ["random"], 100, seed)["random"]) <= {damaging.NAMED, damaging.SAME}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_three_hundred_files_with_right_checksums_cannot_mislead_a_kernel(tmp_path: Path, seed: int) -> None:
    found = outcomes(tmp_path, ["crafted"], 100, seed)["crafted"]
    assert set(found) <= {damaging.NAMED, damaging.SAME, damaging.OTHER}


@pytest.fixture
def index(tmp_path: Path) -> Path:
    with Matcher.from_table([{"id": f"s{i}", "where": f"x > {i} AND y < {i}"} for i in range(100)]) as matcher:
        matcher.save(tmp_path / "index")
    return tmp_path / "index"


def segment_of(index: Path) -> Path:
    [path] = index.glob("segment-*")
    return path


def flip(path: Path, array: str) -> None:
    """Flip a bit in an array of a file."""
    data = bytearray(path.read_bytes())
    directory = json.loads(data[data.rindex(b'{"meta"') :])
    data[directory["arrays"][array][2]] ^= 1
    path.write_bytes(data)


DAMAGED = "conjunctions.pairs.postings.rectangles"


@pytest.mark.parametrize("verify", ["open", "full"])
def test_what_matching_reads_is_verified_when_an_index_is_opened(index: Path, verify: store.Verify) -> None:
    flip(segment_of(index), DAMAGED)
    with pytest.raises(StorageError, match=f"segment-.*{DAMAGED}"):
        Matcher.open(index, verify=verify)


def test_a_lazy_index_verifies_before_it_answers(index: Path) -> None:
    flip(segment_of(index), DAMAGED)
    with Matcher.open(index, verify="lazy") as matcher, pytest.raises(StorageError, match=f"segment-.*{DAMAGED}"):
        matcher.match({"x": 50, "y": 0})


@pytest.mark.parametrize("array", ["texts.bytes", "extras.offsets", "form.low"])
def test_what_subscribers_said_is_verified_when_it_is_asked_for(index: Path, array: str) -> None:
    flip(segment_of(index), array)
    with Matcher.open(index) as matcher:
        expected = [f"s{i}" for i in range(1, 50)]
        assert sorted(matcher.match({"x": 50, "y": 0}).ids) == sorted(expected)
        with pytest.raises(StorageError, match=array):
            matcher.explain({"x": 50}, "s1")
    with pytest.raises(StorageError, match=array):
        Matcher.open(index, verify="full")


@pytest.mark.parametrize(
    "extras", ['{"tags" {"t": "a"}}', '{"tags": ["t", "a"]}', '{"tags": {"t": 12}}', '{"where": {"t":"a"}}', "[" * 19]
)
def test_weights_and_tags_that_cannot_be_read_are_named(tmp_path: Path, extras: str) -> None:
    """With a right checksum: a subscription, a merge and a ranking by weights ask for them."""
    with Matcher.from_table([{"id": f"s{i}", "where": f"x > {i}", "tags": {"t": "a"}} for i in range(9)]) as matcher:
        matcher.save(tmp_path / "index")
    path = segment_of(tmp_path / "index")
    stored = container.read(path)
    arrays = dict(stored.arrays)
    texts = arrays["extras.bytes"].tobytes().replace(b'{"tags": {"t": "a"}}', extras.ljust(20).encode())
    container.write(path, container.Container(arrays | {"extras.bytes": np.frombuffer(texts, np.uint8)}, stored.meta))
    for ask in (
        lambda matcher: matcher["s1"],
        lambda matcher: (matcher.unsubscribe("s0"), matcher.compact()),
        lambda matcher: matcher.top_k({"x": 5}, 3, mode="relaxed"),
    ):
        with Matcher.open(tmp_path / "index") as matcher:
            assert "s1" in matcher.match({"x": 5}).ids
            with pytest.raises(StorageError, match=r"segment-.*extras\.bytes"):
                ask(matcher)


def test_an_array_that_failed_is_not_used_the_second_time(index: Path) -> None:
    path = segment_of(index)
    stored = container.read(path)
    arrays = dict(stored.arrays)
    arrays["owners.owner"] = arrays["owners.owner"] + np.int32(1000)
    container.write(path, container.Container(arrays, stored.meta))
    matcher = Matcher.open(index, verify="lazy")
    for _ in range(2):
        with pytest.raises(StorageError, match=r"owners\.owner.*numbers from"):
            matcher.match({"x": 50, "y": 0})


@pytest.mark.parametrize(
    "entry",
    [
        ["|O", [4], 64, 32, 0],
        ["<i8", [4], 65, 32, 0],
        ["<i8", [4], 1 << 40, 32, 0],
        ["<i8", [1 << 62, 1 << 62], 64, 32, 0],
        ["<i8", [-4], 64, 32, 0],
        ["<i8", "4", 64, 32, 0],
    ],
    ids=["objects", "not aligned", "beyond the end", "overflow", "negative", "text"],
)
def test_a_directory_cannot_lead_out_of_its_file(index: Path, entry: list[object]) -> None:
    path = segment_of(index)
    raw = path.read_bytes()
    at = raw.rindex(b'{"meta"')
    directory = json.loads(raw[at:])
    directory["arrays"]["scores"] = entry
    text = json.dumps(directory).encode()
    header = struct.pack("<8sIIQQ", container.MAGIC, container.VERSION, zlib.crc32(text), at, len(text))
    path.write_bytes(header + raw[len(header) : at] + text)
    with pytest.raises(StorageError, match=r"segment-.*'scores'"):
        Matcher.open(index)


@pytest.mark.parametrize("name", ["../../etc/segment-00.tocsin", "/etc/passwd", "segment-../x.tocsin", None, 7])
def test_a_snapshot_cannot_name_a_file_elsewhere(index: Path, name: object) -> None:
    folder = Folder(index)
    content = folder.read(folder.committed())
    content["parts"][0]["segment"] = name
    folder.write(folder.committed() + 1, content)
    with pytest.raises(StorageError, match="not a file of an index"):
        Matcher.open(index)


def test_files_have_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with Matcher() as matcher:
            matcher.subscribe("record", "x > ALL (SELECT x FROM history)")
            matcher.save(tmp_path / "index")
            matcher.publish({"x": 1})
            matcher.commit()
    finally:
        os.umask(before)
    modes = {path.relative_to(tmp_path): path.stat().st_mode & 0o077 for path in tmp_path.rglob("*")}
    assert len(modes) > 5
    assert set(modes.values()) == {0}


def test_verify_leaves_the_history_to_its_writer(tmp_path: Path) -> None:
    """It opened the history as a writer does, and so removed what a writer was about to commit."""
    from typer.testing import CliRunner

    from tocsin.cli import app

    with Matcher() as matcher:
        matcher.subscribe("record", "x > ALL (SELECT x FROM history)")
        matcher.save(tmp_path / "index")
        matcher.publish({"x": 1})
        matcher.commit()
        stray = tmp_path / "index" / "history" / "column-99.payloads"
        stray.write_bytes(b"being written")
        before = {path: path.stat().st_mtime_ns for path in (tmp_path / "index").rglob("*")}
        answer = CliRunner().invoke(app, ["index", "verify", str(tmp_path / "index")])
        assert answer.exit_code == 0, answer.output
        assert "history, 1 events" in answer.output
        assert {path: path.stat().st_mtime_ns for path in (tmp_path / "index").rglob("*")} == before


def test_a_file_that_was_cut_off_after_it_was_mapped_is_named(index: Path) -> None:
    """A checksum is that of bytes that are read, not mapped: pages that are gone would end the process by SIGBUS."""
    with Matcher.open(index, verify="lazy") as matcher:
        path = segment_of(index)
        os.truncate(path, path.stat().st_size // 2)
        with pytest.raises(StorageError, match="does not match its checksum"):
            matcher.match({"x": 1})
