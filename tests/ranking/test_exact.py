"""Layers: a segment's best subscriptions are matched before the whole, with the same answer."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ranked_by_the_book import Event, Ranked, as_row, best, exact_scores, rows_of
from tocsin import Matcher, Subscription
from tocsin.ranking import exact as ranked


def large_set(random: np.random.Generator, count: int) -> list[Subscription]:
    subscriptions = []
    for number in random.permutation(count).tolist():
        low = int(random.integers(0, 60))
        where = f"x BETWEEN {low} AND {low + 40} AND y > {random.integers(0, 30)}"
        where += " OR s = 'a'" if number % 7 == 0 else ""
        tags = {"tenant": "acme"} if number % 2 else {}
        subscriptions.append(Subscription(f"s{number}", where, float(random.integers(0, 20)), {}, tags))
    return subscriptions


@pytest.fixture
def paid_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build layers after the first batch."""
    monkeypatch.setattr(ranked, "REPAID", 0)


@pytest.mark.usefixtures("paid_at_once")
@pytest.mark.parametrize("as_batch", [list, pa.Table.from_pylist])
def test_layers_give_the_same_answer_with_less_work(as_batch: Callable[[list[Event]], Any]) -> None:
    random = np.random.default_rng(3)
    subscriptions = large_set(random, 400)
    matcher = Matcher.from_table(pa.Table.from_pylist([as_row(subscription) for subscription in subscriptions]))
    rows: list[Event] = [
        {"x": int(random.integers(0, 110)), "y": int(random.integers(0, 60)), "s": str(random.choice(["a", "b"]))}
        for _ in range(60)
    ]
    batch = as_batch(rows)

    def asked(k: int, tags: dict[str, str] | None = None) -> tuple[list[Ranked], pa.Table]:
        table = matcher.match_batch(batch, top_k=k, tags=tags)
        return rows_of(table, len(rows)), table

    def expected(k: int, tags: dict[str, str] | None = None) -> list[Ranked]:
        chosen = [s for s in subscriptions if not tags or s.tags == tags]
        return [best(exact_scores(chosen, event), k) for event in rows]

    def layers() -> int:
        return len(matcher._subscriptions.current().states[0].ranking.layers)

    def candidates(table: pa.Table) -> int:
        return int(json.loads(table.schema.metadata[b"tocsin"])["candidates"])

    def planned() -> str:
        [step] = [step for step in matcher.plan().steps if step.what.endswith("top-k")]
        return step.choice

    assert layers() == 0
    assert planned() == "exact: all matches, then the best; relaxed: not asked yet"
    without, first = asked(3)
    assert layers() > 1
    within, second = asked(3)
    assert without == within == expected(3)
    assert planned().startswith("exact: in layers of ")
    assert "and 400 subscriptions for k up to 3" in planned()
    matcher.top_k(rows[0], 1, mode="relaxed")
    assert planned().endswith("relaxed: every predicate of every event")
    assert candidates(second) < candidates(first)
    assert asked(2)[0] == expected(2)
    assert asked(5, {"tenant": "acme"})[0] == expected(5, {"tenant": "acme"})
    assert asked(200)[0] == expected(200), "a larger k goes without the layers that were cut for a smaller one"
    # What was outside the layers becomes the best, and the best of all are dropped or fall.
    by_score = sorted(subscriptions, key=lambda s: (s.score, s.id))
    changes = {by_score[0].id: 100.0, by_score[1].id: 19.0, by_score[-1].id: -1.0, by_score[-2].id: 7.0}
    for id_, score in changes.items():
        matcher.rescore(id_, score)
    for dropped in by_score[-6:-3]:
        matcher.unsubscribe(dropped.id)
        subscriptions.remove(dropped)
    subscriptions = [replace(s, score=changes.get(s.id, s.score)) for s in subscriptions]
    assert layers() > 1, "layers outlive changes"
    assert asked(3)[0] == expected(3)
    assert [list(matcher.top_k(event, 3)) for event in rows[:5]] == expected(3)[:5]


@pytest.mark.usefixtures("paid_at_once")
def test_no_layers_where_the_history_is_looked_at() -> None:
    matcher = Matcher()
    for number in range(40):
        matcher.subscribe(f"s{number:02}", "x > 0", score=number)
    matcher.subscribe("record", "x > ALL (SELECT x FROM history)", score=100.0)
    matcher.publish({"x": 5})
    for x, ids in ((7, ["record", "s39"]), (5, ["s39", "s38"]), (7, ["record", "s39"])):
        assert matcher.top_k({"x": x}, 2).ids == ids
    assert matcher._subscriptions.current().states[0].ranking.layers == ()
