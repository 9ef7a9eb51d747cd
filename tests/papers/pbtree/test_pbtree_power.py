"""The power fails: what was not synced is lost in any order, or half written. The order of syncs must bear that.

A recorder notes each write, truncation and sync of the file and its log. For a crash at any point, each file is what
its last sync made durable plus an arbitrary choice of what came after it.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tocsin.papers.pbtree import PBPlusTree

Predicate = tuple[str, Any, int]
Event = tuple[str, str, int, bytes]  # what, file, offset or size, data
OPS = ["<", "<=", "=", "!=", ">=", ">"]


def record(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[Event]:
    """Note what happens to the files in `folder` from now on."""
    events: list[Event] = []
    real_write, real_truncate, real_sync = os.pwrite, os.ftruncate, os.fsync

    def name(handle: int) -> str:
        inode = os.fstat(handle).st_ino
        return next((each.name for each in folder.iterdir() if each.stat().st_ino == inode), "")

    def write(handle: int, data: bytes, offset: int) -> int:
        events.append(("write", name(handle), offset, bytes(data)))
        return real_write(handle, data, offset)

    def truncate(handle: int, size: int) -> None:
        events.append(("truncate", name(handle), size, b""))
        real_truncate(handle, size)

    def sync(handle: int) -> None:
        real_sync(handle)
        events.append(("sync", name(handle), 0, b""))

    monkeypatch.setattr(os, "pwrite", write)
    monkeypatch.setattr(os, "ftruncate", truncate)
    monkeypatch.setattr(os, "fsync", sync)
    return events


def apply(content: bytearray, event: Event, torn: bool) -> None:
    what, _, place, data = event
    if what == "truncate":
        del content[place:]
    elif what == "write":
        data = data[: len(data) // 2] if torn else data
        content.extend(bytes(max(0, place - len(content))))
        content[place : place + len(data)] = data


def after_power_failure(start: bytes, events: list[Event], name: str, rng: random.Random) -> bytes:
    """What is left of a file."""
    mine = [event for event in events if event[1] == name]
    synced = max((i for i, event in enumerate(mine) if event[0] == "sync"), default=-1)
    content = bytearray(start)
    for i, event in enumerate(mine):
        if i <= synced or rng.random() < 0.6:
            apply(content, event, torn=i > synced and rng.random() < 0.2)
    return bytes(content)


@pytest.mark.parametrize("log_bytes", [0, 8_000, 1 << 30], ids=["checkpoint always", "sometimes", "never"])
@pytest.mark.parametrize("bulk", [False, True], ids=["one by one", "built"])
def test_the_last_commit_survives_a_power_failure(
    log_bytes: int, bulk: bool, folder: Path, monkeypatch: pytest.MonkeyPatch, new_tree: Callable[..., PBPlusTree]
) -> None:
    live, crashed = folder / "live", folder / "crashed"
    live.mkdir()
    crashed.mkdir()
    path = live / "t.pbt"
    tree = new_tree(path=path, log_bytes=log_bytes)
    start = path.read_bytes()
    commits: list[tuple[int, set[Predicate]]] = [(0, set())]  # after how many events, and what the tree then is
    rng = random.Random(log_bytes)
    with monkeypatch.context() as patch:
        events = record(patch, live)
        held: set[Predicate] = set()
        for batch in range(6):
            fresh = {(rng.choice(OPS), rng.randrange(40), rng.randrange(9)) for _ in range(25)} - held
            if bulk and batch == 0:
                ops, keys, sids = zip(*fresh, strict=True)
                tree.insert_many(ops, keys, sids)
            else:
                for predicate in sorted(fresh):
                    tree.insert(*predicate)
            gone = set(rng.sample(sorted(held), len(held) // 3))
            for predicate in sorted(gone):
                tree.delete(*predicate)
            held = (held | fresh) - gone
            tree.commit()
            commits.append((len(events), set(held)))
    for trial in range(120):
        rng = random.Random(trial)
        point = rng.randrange(len(events) + 1)
        for name in ("t.pbt", "t.pbt.log"):
            (crashed / name).write_bytes(
                after_power_failure(start if name == "t.pbt" else b"", events[:point], name, rng)
            )
        with PBPlusTree.open(crashed / "t.pbt") as left:
            left.check()
            found = set(left.predicates())
        done = max(i for i, (when, _) in enumerate(commits) if when <= point)
        allowed = [state for _, state in commits[done : done + 2]]
        assert found in allowed, f"crash after event {point} of trial {trial}"
        (crashed / "t.pbt").unlink()
