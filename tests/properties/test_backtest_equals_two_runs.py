"""A back-test equals the difference of two full runs, on generated subscriptions and events."""

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import conditions, conditions_on_history, events, odd_conditions
from tocsin import Matcher, backtest
from tocsin.files.row_group_filter import RowGroupFilter

Event = dict[str, Any]
Changes = set[tuple[object, str, str]]
FEWER = settings(max_examples=settings().max_examples // 4)
"""Each example builds up to six matchers and writes a file."""
NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


def table_of(wheres: dict[str, str]) -> pa.Table:
    return pa.table({"id": pa.array(list(wheres), pa.string()), "where": pa.array(list(wheres.values()), pa.string())})


def full_runs(before: dict[str, str], after: dict[str, str], batch: Any, remember: bool = False) -> Changes:
    """The difference of two full runs."""
    found = []
    for wheres in (before, after):
        matcher = Matcher.from_table(table_of(wheres))
        match = matcher.publish_batch if remember else matcher.match_batch
        found.append({(row["event"], row["subscription"]) for row in match(batch, now=NOW).to_pylist()})
    lost = {(*pair, "lost") for pair in found[0] - found[1]}
    return lost | {(*pair, "gained") for pair in found[1] - found[0]}


def rows_of(changes: pa.Table) -> Changes:
    rows = [tuple(row[name] for name in ("event", "subscription", "change")) for row in changes.to_pylist()]
    assert len(set(rows)) == len(rows), "no change is reported twice"
    return set(rows)


def changed(wheres: Sequence[str], how: Sequence[int], new: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Two sides: of each subscription the text stays, changes, goes, or comes."""
    before, after = {}, {}
    for number, (text, change) in enumerate(zip(wheres, how, strict=False)):
        if change != 3:
            before[f"s{number}"] = text
        if change != 2:
            after[f"s{number}"] = text if change == 0 else new[number % len(new)]
    return before, after


def live(wheres: dict[str, str], others: dict[str, str]) -> Matcher:
    """A matcher with several segments that has lived: some of the others were there first, and went."""
    matcher = Matcher(background_merge=False)
    matcher.subscribe_many(table_of(others))
    ids = list(wheres)
    matcher.subscribe_many(table_of({id: wheres[id] for id in ids[::2]}))
    for id in ids[1::2]:
        matcher.subscribe(id, wheres[id])
    for id in others.keys() - wheres.keys():
        matcher.unsubscribe(id)
    return matcher


SIDES = st.builds(
    changed,
    st.lists(conditions() | odd_conditions(), min_size=1, max_size=8),
    st.lists(st.integers(0, 3), min_size=8, max_size=8),
    st.lists(conditions() | odd_conditions(), min_size=1, max_size=8),
)


@FEWER
@given(sides=SIDES, batch=st.lists(events(), min_size=1, max_size=8), size=st.integers(1, 4), lived=st.booleans())
def test_parquet_files(
    tmp_path_factory: pytest.TempPathFactory,
    typed: Callable[[Sequence[Event]], pa.Table],
    sides: tuple[dict[str, str], dict[str, str]],
    batch: list[Event],
    size: int,
    lived: bool,
) -> None:
    before, after = sides
    path = tmp_path_factory.mktemp("events") / "events.parquet"
    pq.write_table(typed(batch), path, row_group_size=size)
    read = pq.read_table(path)
    given_sides = (live(before, after), live(after, before)) if lived else (table_of(before), table_of(after))
    found = backtest(path, *given_sides, now=NOW)
    assert rows_of(found.changes) == full_runs(before, after, read)
    assert found.read.events == len(batch)
    # The filter by itself: a row group that it would skip has no match of any subscription.
    matcher = Matcher.from_table(table_of(after))
    matched = matcher.match_batch(read, now=NOW)["event"].to_pylist()
    groups = RowGroupFilter(matcher.forms).may_match(pq.read_metadata(path))
    assert {row // size for row in matched} <= {group for group, may_match in enumerate(groups) if may_match}


LOOKING_BACK = st.builds(
    changed,
    st.lists(conditions_on_history() | conditions(), min_size=1, max_size=4),
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
    st.lists(conditions_on_history(), min_size=1, max_size=4),
)


@FEWER
@given(sides=LOOKING_BACK, batch=st.lists(events(), min_size=1, max_size=8), in_file=st.booleans())
def test_subscriptions_that_look_back(
    tmp_path_factory: pytest.TempPathFactory,
    typed: Callable[[Sequence[Event]], pa.Table],
    sides: tuple[dict[str, str], dict[str, str]],
    batch: list[Event],
    in_file: bool,
) -> None:
    before, after = sides
    read: Any = batch
    if in_file:
        path = tmp_path_factory.mktemp("events") / "events.parquet"
        pq.write_table(typed(batch), path, row_group_size=2)
        read = pq.read_table(path)
    found = backtest(path if in_file else batch, table_of(before), table_of(after), now=NOW)
    assert rows_of(found.changes) == full_runs(before, after, read, remember=True)
