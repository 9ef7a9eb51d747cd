"""Shards of an index: the answer stays, shards are even, merges keep them, and a killed process changes nothing."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from children import kill_while_resharding
from strategies import conditions, events
from tocsin import Matcher, OptionError
from tocsin.index import intake
from tocsin.index.merge import FACTOR
from tocsin.index.reshard import shards_of
from tocsin.model.events import Event


def of_four_segments(path: Path, size: int = 10) -> Matcher:
    matcher = Matcher(background_merge=False)
    matcher.save(path)
    for segment in range(4):
        matcher.subscribe_many([{"id": f"{segment}-{n}", "where": f"a >= {n}"} for n in range(size)])
    matcher.commit()
    return matcher


@settings(deadline=None)
@given(
    wheres=st.lists(conditions(), min_size=1, max_size=24),
    cuts=st.lists(st.integers(0, 24), max_size=3),
    dropped=st.sets(st.integers(0, 23), max_size=6),
    shards=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    asked=st.lists(events(), max_size=6),
)
def test_the_answer_does_not_depend_on_shards(
    wheres: list[str], cuts: list[int], dropped: set[int], shards: list[int], asked: list[Event]
) -> None:
    matcher = Matcher(background_merge=False)
    rows = [{"id": f"s{n}", "where": where, "tags": {"n": str(n)}} for n, where in enumerate(wheres)]
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(rows)], strict=True):
        matcher.subscribe_many(rows[start:end])
    for n in dropped & set(range(len(rows))):
        matcher.unsubscribe(f"s{n}")
    if "s0" in matcher:
        matcher.rescore("s0", 7.0)
    before = [(found.ids, found.scores) for found in map(matcher.match, asked)]
    standing = sorted(matcher.subscriptions(), key=lambda one: one.id)
    for count in shards:
        matcher.reshard(count)
        assert [(found.ids, found.scores) for found in map(matcher.match, asked)] == before
        assert sorted(matcher.subscriptions(), key=lambda one: one.id) == standing
        live = [len(one) for one in matcher._subscriptions._segments]
        assert max(live, default=0) <= -(-len(matcher) // count)
        assert len(shards_of(live, count)) <= count


def test_segments_that_fit_a_shard_stay_and_no_text_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = of_four_segments(tmp_path)

    def parsed(*_: object) -> None:
        raise AssertionError("a text was parsed")

    monkeypatch.setattr(intake, "parse_rows", parsed)
    monkeypatch.setattr("tocsin.index.options.parse", parsed)
    files = set(tmp_path.glob("segment-*"))
    matcher.reshard(2)
    matcher.commit()
    assert set(tmp_path.glob("segment-*")) == files
    matcher.reshard(8)
    matcher.commit()
    assert sorted(matcher.stats().segments) == [5] * 8
    assert not files & set(tmp_path.glob("segment-*"))
    matcher.close()
    with Matcher.open(tmp_path) as opened:
        assert opened.match({"a": 3}).ids == sorted(f"{segment}-{n}" for segment in range(4) for n in range(4))
        opened.compact()
        assert sorted(opened.stats().segments) == [5] * 8


def test_merges_keep_the_shards() -> None:
    matcher = Matcher(background_merge=False)
    matcher.subscribe_many([{"id": f"s{n}", "where": f"a >= {n}"} for n in range(80)])
    matcher.reshard(FACTOR)
    for n in range(40):
        matcher.subscribe_many([{"id": f"new{n}", "where": f"a >= {n}"}])
    held = matcher._subscriptions
    held._merge_what_is_due()
    sizes = [len(live) for live in held._segments]
    assert max(sizes) <= 120 // FACTOR
    assert len(sizes) < FACTOR + 40
    # Whole segments of at most a shard can be grouped within a third of the best.
    assert max(sum(sizes[number] for number in group) for group in shards_of(sizes, FACTOR)) <= 15 * 4 / 3
    assert len(matcher.match({"a": 100})) == 120


@pytest.mark.parametrize("written", [0, 3, 8])
def test_a_process_that_is_killed_leaves_the_index_as_it_was(tmp_path: Path, written: int) -> None:
    of_four_segments(tmp_path).close()
    kill_while_resharding(tmp_path, written)
    with Matcher.open(tmp_path, background_merge=False) as matcher:
        assert matcher.stats().segments == (10, 10, 10, 10)
        assert len(matcher.match({"a": 100})) == 40
        matcher.reshard(8)
        matcher.commit()
        assert matcher.stats().segments == (5,) * 8
        assert len(matcher.match({"a": 100})) == 40
    # What the killed process had written is gone.
    assert len(list(tmp_path.glob("*segment-*"))) == 8


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    matcher = of_four_segments(tmp_path)
    with pytest.raises(OptionError, match="shards is 0"):
        matcher.reshard(0)
    matcher.close()
    with pytest.raises(OptionError, match="opened for reading"):
        Matcher.open(tmp_path, mode="read").reshard(2)
