"""The five subscriptions that docs/internals/pairs.md and docs/internals/segments.md work through by hand."""

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from tocsin import Matcher
from tocsin._compile import VECTOR_WIDTH
from tocsin.conjunctions.pairs import access
from tocsin.conjunctions.pairs.kernels import BY_TEST
from tocsin.storage import container
from tocsin.tuning import TUNING

PAIRS = [
    "price BETWEEN 10 AND 20 AND pages > 300",
    "price = 40 AND author = 'Smith'",
    "price IN (10, 40) AND pages < 300",
    "author IS NULL AND price > 20 AND pages = 300",
    "has_words(body, 'milos') AND price <= 20",
]
EVENTS = [
    {"price": 10, "pages": 350, "author": "Jones", "body": "milos"},
    {"price": 40, "pages": 100, "author": "Smith"},
    {"pages": 300},
]


def filed(look_cost: float, monkeypatch: pytest.MonkeyPatch) -> Matcher:
    monkeypatch.setattr(access, "TUNING", replace(TUNING, look_cost=look_cost))
    return Matcher.from_table(pa.table({"id": list("01234"), "where": PAIRS}))


def arrays_of(matcher: Matcher) -> dict[str, npt.NDArray[Any]]:
    (state,) = matcher._subscriptions.current().states
    return {name.removeprefix("conjunctions."): array for name, array in state.segment.container().arrays.items()}


def candidates(matcher: Matcher) -> int:
    table = matcher.match_batch(EVENTS)
    found = sorted((row["event"], row["subscription"]) for row in table.to_pylist())
    assert found == [(0, "0"), (0, "4"), (1, "1"), (1, "2")]
    return int(json.loads(table.schema.metadata[b"tocsin"])["candidates"])


def test_the_note_on_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = filed(0.0, monkeypatch)
    arrays = arrays_of(matcher)
    tables = ["column_a", "shift_a", "column_b", "shift_b", "multiplier_a", "multiplier_b", "mask", "first_bucket"]
    assert np.stack([arrays[f"pairs.tables.{name}"] for name in tables], axis=1).tolist() == [
        [BY_TEST, 0, 3, 1, 4, 1, 15, 0],
        [1, 0, 3, 0, 8, 1, 31, 16],
        [2, 0, 3, 0, 8, 1, 31, 48],
        [2, 0, 5, 0, 2, 1, 7, 80],
    ]
    bucket = np.repeat(np.arange(88), np.diff(arrays["pairs.postings.starts"]))
    assert np.column_stack([bucket[:3], arrays["pairs.postings.rows"]]).tolist() == [
        [at, 4, 0, 0, 0, 3, 5, 0, 0] for at in (4, 5, 6)
    ]
    assert arrays["pairs.postings.rectangles"].tolist() == [
        [0, 2, 2, 1, 3, 5, 0, 0],
        [1, 1, 1, 5, 5, 5, 0, 0],
        [2, 0, 0, 1, 1, 5, 0, 0],
        [2, 0, 0, 5, 5, 5, 0, 0],
        [3, 1, 1, 0, 0, 0, -1, -1],
    ]
    assert arrays["pairs.postings.conjunction_of"].tolist() == [0, 1, 2, 2, 3]
    filed_at = dict(zip(bucket[3:].tolist(), arrays["pairs.postings.rectangle"].tolist(), strict=True))
    assert filed_at == {38: 1, 58: 2, 62: 3, 74: 0, 75: 0, 76: 0, 85: ~4}
    short = arrays["pairs.postings.short"][:-VECTOR_WIDTH].reshape(-1, 7)
    assert short[3].tolist() == [3, 3, 2, 4, 0, 0, 65534], "the bucket 74, of one posting"
    assert short[6].tolist() == [2, 2, 1, 1, 0, 0, 0], "the bucket 85, of one posting"
    assert arrays["pairs.postings.short_shift"].tolist() == [0] * 6
    assert arrays["pairs.postings.rest_starts"].tolist() == [0, 0, 0, 0, 1, 1]
    assert arrays["pairs.postings.rest"].tolist() == [[3, 0, 1]]
    assert arrays["pairs.postings.ranges"].tolist() == [[4, 6]]
    assert candidates(matcher) == 5


def test_five_conjunctions_are_worth_no_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tables: event 0 has a test that one conjunction waits for, and all events verify the other four."""
    matcher = filed(TUNING.look_cost, monkeypatch)
    assert arrays_of(matcher)["pairs.tables.column_a"].tolist() == [BY_TEST, 5]
    assert candidates(matcher) == 1 + 3 * 4


def named(index: Path, sort: str) -> set[str]:
    return {file.name for file in index.glob(f"{sort}-*")}


def test_the_note_on_segments(tmp_path: Path) -> None:
    matcher = Matcher(background_merge=False)
    matcher.subscribe("mid", "price BETWEEN 10 AND 20")
    matcher.subscribe("low", "price < 10", tags={"tenant": "acme"})
    matcher.subscribe("any", "price > 20 OR author = 'Smith'")
    matcher.subscribe("two", "author = 'Jones' AND price >= 10", score=2.0)
    matcher.subscribe("not", "price = 5 AND price > 7")
    matcher.save(tmp_path)

    (first,) = named(tmp_path, "segment")
    segment = container.read(tmp_path / first)
    assert segment.meta["columns"] == [["author", "string", None], ["price", "number", None]]
    said: dict[str, list[Any]] = {
        "ids.offsets": [0, 3, 6, 9, 12, 15],
        "scores": [1, 1, 1, 1, 2],
        "owners.owner": [0, 0, 1, 2, 4],
        "several": [True, False, False, False, False],
        "never": [3],
        "form.owner": [0, 0, 1, 2, 4],
        "form.starts": [0, 1, 2, 3, 4, 6],
        "form.column": [1, 0, 1, 1, 0, 1],
        "form.low": [4, 3, 0, 1, 1, 1],
        "form.high": [4, 3, 0, 3, 1, 4],
        "tags.starts": [0, 1],
        "tags.members": [1],
        "domain.1.constants": [10, 20],
    }
    assert {name: segment.arrays[name].tolist() for name in said} == said
    texts = {name: segment.arrays[f"{name}.bytes"].tobytes() for name in ("ids", "extras", "tags", "domain.0")}
    assert texts == {
        "ids": b"anylowmidnottwo",
        "extras": b'{"tags": {"tenant": "acme"}}',
        "tags": b'["tenant", "acme"]',
        "domain.0": b"JonesSmith",
    }

    matcher.unsubscribe("low")
    matcher.rescore("two", 3.0)
    matcher.subscribe("new", "price = 10")
    state = matcher._subscriptions.current().states[0]
    assert state.dropped.tolist() == [False, True, False, False, False]
    assert state.scores.tolist() == [1, 1, 1, 1, 3]
    matcher.commit()
    (changes,) = named(tmp_path, "changes")
    assert named(tmp_path, "segment") == {first}
    content = json.loads((tmp_path / "snapshot-000002.json").read_text())["content"]
    assert content["parts"] == [{"segment": first, "changes": changes, "subscriptions": 4}]
    assert content["fresh"] == {"ids": ["new"], "texts": ["price = 10"], "scores": [1.0], "extras": [""]}
    changed = container.read(tmp_path / changes).arrays
    assert {name: array.tolist() for name, array in changed.items()} == {
        "dropped": [1],
        "rescored": [4],
        "scores": [3.0],
    }
    raw = (tmp_path / changes).read_bytes()
    (position,) = struct.unpack_from("<Q", raw, 16)
    directory = json.loads(raw[position:])["arrays"]
    assert [entry[2] for entry in directory.values()] + [position] == [64, 128, 192, 256]

    matcher.compact()
    matcher.commit()
    (merged,) = named(tmp_path, "segment")
    assert {file.name for file in tmp_path.iterdir()} == {merged, "snapshot-000003.json", "write.lock"}
    arrays = container.read(tmp_path / merged).arrays
    assert arrays["ids.bytes"].tobytes() == b"anymidnewnottwo"
    assert arrays["scores"].tolist() == [1, 1, 1, 1, 3]
