"""Run as a script: kill processes that change a tree, at random points, and report what the file says afterwards.

``python killed_workloads.py FOLDER FIRST COUNT`` forks one child per workload. The child commits batch after batch and
reports each commit through a pipe; the parent kills it (SIGKILL) at a random moment, opens the file, and prints one
line of JSON: how many commits were reported, which commit the file holds, and what `check` said.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tocsin.errors import StorageError
from tocsin.papers.pbtree import PBPlusTree

OPS = ["<", "<=", "=", "!=", ">=", ">"]
Predicate = tuple[str, Any, int]
Step = tuple[bool, Predicate]


def workload(seed: int) -> tuple[dict[str, Any], str, Iterator[list[Step]]]:
    """Options, key type and an endless stream of batches; the same for the same seed."""
    rng = random.Random(seed)
    options = {
        "page_size": rng.choice([512, 1024, 4096]),
        "cache_bytes": rng.choice([0, 20_000, 1_000_000]),
        "log_bytes": rng.choice([0, 30_000, 300_000]),  # 0: a checkpoint after every commit
    }
    key_type = rng.choice(["integer", "float", "string"])
    keys, sids = rng.choice([(2, 4000), (30, 200), (1000, 5)])

    def batches() -> Iterator[list[Step]]:
        held: list[Predicate] = []
        while True:
            batch: list[Step] = []
            deletes = rng.choice([0.0, 0.3, 0.8]) if held else 0.0  # the first batch only inserts
            for _ in range(rng.choice([1, 20, 60])):
                if held and rng.random() < deletes:
                    at = rng.randrange(len(held))
                    held[at], held[-1] = held[-1], held[at]
                    batch.append((False, held.pop()))
                else:
                    number = rng.randrange(keys)
                    key = number if key_type == "integer" else number / 8 if key_type == "float" else f"k{number}" * 3
                    predicate = (rng.choice(OPS), key, rng.randrange(sids))
                    held.append(predicate)
                    batch.append((True, predicate))
            yield batch

    return options, key_type, batches()


def commit_for_ever(path: Path, seed: int, report: int) -> None:
    """The child: one commit per batch, one byte into the pipe after each."""
    options, _, batches = workload(seed)
    del options["page_size"]
    with PBPlusTree.open(path, **options) as tree:
        for number, batch in enumerate(batches):
            if number == 0 and seed % 3 == 0:
                tree.insert_many(*zip(*(predicate for _, predicate in batch), strict=True))
            else:
                for is_insert, predicate in batch:
                    (tree.insert if is_insert else tree.delete)(*predicate)
            tree.commit()
            os.write(report, b".")


def kill_one(path: Path, seed: int) -> int:
    """Start a child, kill it at a random moment, and return how many commits it reported."""
    rng = random.Random(-seed)
    options, key_type, _ = workload(seed)
    PBPlusTree.create(path, key_type, **options).close()
    end, report = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(end)
            commit_for_ever(path, seed, report)
        finally:
            os._exit(1)
    os.close(report)
    reported, wanted = 0, rng.randrange(9)
    while reported < wanted:
        arrived = os.read(end, wanted - reported)
        if not arrived:
            break
        reported += len(arrived)
    time.sleep(rng.random() * 0.006)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    while arrived := os.read(end, 1024):
        reported += len(arrived)
    os.close(end)
    if os.WTERMSIG(status) != signal.SIGKILL:
        raise RuntimeError(f"the child of workload {seed} ended by itself, with status {status}")
    return reported


def survivor(path: Path, seed: int, reported: int) -> dict[str, object]:
    """Open the file; say which commit it holds, None if it is none of the two that it may hold."""
    found: int | None = None
    try:
        with PBPlusTree.open(path) as tree:
            tree.check()
            predicates = set(tree.predicates())
    except StorageError as error:
        return {"seed": seed, "reported": reported, "found": None, "problem": str(error)}
    expected: set[Predicate] = set()
    _, _, batches = workload(seed)
    for commit in range(reported + 2):
        if commit >= reported and predicates == expected:
            found = commit
        for is_insert, predicate in next(batches):
            (expected.add if is_insert else expected.discard)(predicate)
    return {"seed": seed, "reported": reported, "found": found, "problem": None}


def main(folder: Path, first: int, count: int) -> None:
    for seed in range(first, first + count):
        path = folder / f"{seed}.pbt"
        reported = kill_one(path, seed)
        left = path.with_name(path.name + ".log").stat().st_size if path.with_name(path.name + ".log").exists() else 0
        print(json.dumps({**survivor(path, seed, reported), "log": left}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
