"""What the tests of the PB+tree share: the definition of the six operators, and trees in a temporary folder."""

import operator
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tocsin.papers.pbtree import PBPlusTree

Predicate = tuple[str, Any, int]

HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


@pytest.fixture(scope="session")
def naive() -> Callable[[Iterable[Predicate], Any], list[int]]:
    """The definition: the ids of all predicates that hold for a value."""

    def search(predicates: Iterable[Predicate], value: Any) -> list[int]:
        return sorted(sid for op, key, sid in predicates if HOLDS[op](value, key))

    return search


@pytest.fixture
def folder() -> Iterator[Path]:
    """A temporary folder, in memory where the system has a place for that: no waiting for a disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as name:
        yield Path(name)


@pytest.fixture
def new_tree(folder: Path) -> Iterator[Callable[..., PBPlusTree]]:
    """Make trees; close them at the end."""
    made: list[PBPlusTree] = []

    def make(key_type: str = "integer", *, path: Path | None = None, **options: Any) -> PBPlusTree:
        place = path or folder / f"{len(made)}.pbt"
        made.append(PBPlusTree.create(place, key_type, **{"page_size": 512, "cache_bytes": 0, **options}))
        return made[-1]

    yield make
    for tree in made:
        tree.close()
