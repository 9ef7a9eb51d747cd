"""Back-tests: the matches that are gained and lost on events of the past if subscriptions change.

Only what changed is matched (`Matcher.of_changes`), and only row groups of Parquet files are read in which it may hold.
"""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays import Int64s
from tocsin.errors import EventError, OptionError, SubscriptionError
from tocsin.files.backtest_plot import as_svg, as_text
from tocsin.files.event_files import EventFiles, batch_table, joined
from tocsin.files.formats import COMPRESSIONS, data_files
from tocsin.files.parquet_scan import ReadCounts, scan_parquet
from tocsin.files.subscription_files import read_subscriptions
from tocsin.index.difference import AFTER
from tocsin.matcher import Matcher
from tocsin.model.events import Events
from tocsin.model.values import Kind
from tocsin.storage.folder import Folder

GAINED, LOST = "gained", "lost"

Source = Any
"""Subscriptions: a Matcher, the folder of an index, a file of subscriptions, or a table of them."""


@dataclass(frozen=True)
class Backtest:
    """The outcome of a back-test; `str()` of it is a small plot."""

    changes: pa.Table
    """The columns `event`, `subscription`, `change` (gained or lost), and `day` if there is a time."""
    summary: pa.Table
    """The counts `subscription, day, gained, lost`, sorted; `day` is NULL if there is no time."""
    subscriptions: int
    """The ids that have changed, come or gone."""
    read: ReadCounts
    rejected: list[SubscriptionError] = field(default_factory=list)
    """The changed subscriptions that cannot be understood, and why."""

    def __str__(self) -> str:
        return as_text(self.summary)

    def svg(self) -> str:
        """Draw the changes by day, or by subscription if there is no time."""
        return as_svg(self.summary)

    def _repr_svg_(self) -> str:
        return self.svg()


def backtest(
    events: Events | str | Path,
    before: Source,
    after: Source,
    *,
    id: str | None = None,
    time: str | None = None,
    order: str | None = None,
    now: dt.datetime | None = None,
    options: Mapping[str, Any] | None = None,
) -> Backtest:
    """Return the matches that events of the past gain and lose if the subscriptions `before` become those `after`.

    `events` are a file or a folder, or what `Matcher.match_batch` takes. The subscriptions of each side are a Matcher,
    the folder of an index, or a table or a file as `Matcher.from_table` and `read_subscriptions` take them; those with
    the same id and meaning on both sides are not matched. Of Parquet files only row groups in which some changed
    condition may hold are read. `event` is the value of the column `id`, or the number of the event from 0 on. The
    column `time` gives the day of an event. If a changed subscription looks back, all events are read, in their order
    or by the column `order`, and those of the back-test alone are its history. `options` are what `Matcher(...)` takes,
    for sides that are no matcher and no index.

    >>> events = [{"price": price, "day": dt.date(2026, 5, 1 + price // 10)} for price in range(30)]
    >>> found = backtest(events, [{"id": "a", "where": "price < 5"}], [{"id": "a", "where": "price < 3"}], time="day")
    >>> found.changes.to_pylist()[0]["change"], len(found.changes), found.summary.to_pylist()
    ('lost', 2, [{'subscription': 'a', 'day': datetime.date(2026, 5, 1), 'gained': 0, 'lost': 2}])
    """
    contrast = Contrast.of(before, after, options)
    scan = EventScan(contrast, id, time, order, now)
    tables = list(scan.changes(events))
    changes = joined(tables) if tables else scan.no_changes
    return Backtest(changes, scan.summary, len(contrast.names), scan.read, contrast.rejected)


class Contrast:
    """The subscriptions that differ between two sides, and the changes that they make to the matches of events."""

    def __init__(self, matcher: Matcher, rejected: Sequence[SubscriptionError] = ()) -> None:
        self.matcher = matcher
        """As `Matcher.of_changes` makes it."""
        self.rejected = [*rejected, *matcher.rejected]
        self.names = pa.array(sorted({id[1:] for id in matcher.ids.to_pylist()}), pa.large_string())
        self.looks_back = bool(matcher.looking_back())

    @classmethod
    def of(cls, before: Source, after: Source, options: Mapping[str, Any] | None = None) -> "Contrast":
        """Compare the subscriptions of two sides; `options` are those of a matcher, for tables and files."""
        (old, wrong_before), (new, wrong_after) = _opened(before), _opened(after)
        return cls(Matcher.of_changes(old, new, **(options or {})), [*wrong_before, *wrong_after])

    def changes(self, events: Events, now: dt.datetime | None = None) -> pa.Table:
        """Return the changes as `event, subscription, score`: the row of the event, 1 if the match is gained, else -1.

        They are ordered by event, then by subscription. If a subscription looks back, the events are remembered.
        """
        if self.looks_back:
            found = self.matcher.publish_batch(events, now=now)
        else:
            found = self.matcher.match_batch(events, ordered=False, now=now)
        rows, ids = np.asarray(found["event"]), found["subscription"].combine_chunks()
        place = np.asarray(pc.index_in(pc.utf8_slice_codeunits(ids.dictionary, 1), self.names))
        is_after = np.asarray(pc.starts_with(ids.dictionary, AFTER))
        numbers = np.asarray(ids.indices)
        gained, key = is_after[numbers], rows * max(len(self.names), 1) + place[numbers]
        order = np.argsort(key, kind="stable")
        key = key[order]
        # A match on both sides has its key twice.
        is_twice = key[1:] == key[:-1]
        kept = order[~(np.append(is_twice, False) | np.append(False, is_twice))[: order.size]]
        subscriptions = pa.DictionaryArray.from_arrays(place[numbers[kept]], self.names)
        score = np.where(gained[kept], 1.0, -1.0)
        return pa.table({"event": rows[kept], "subscription": subscriptions, "score": score})


def _opened(side: Source) -> tuple[Source, list[SubscriptionError]]:
    """Return a Matcher or a table, and the lines of a file that are not subscriptions."""
    if not isinstance(side, (str, Path)):
        return side, []
    path = Path(side)
    if path.is_dir() and Folder(path).newest() is not None:
        return Matcher.open(path, mode="read", background_merge=False), []
    found = read_subscriptions(path)
    return found.table, found.rejected


class EventScan:
    """One pass over the events of a back-test."""

    def __init__(
        self,
        contrast: Contrast,
        id: str | None = None,
        time: str | None = None,
        order: str | None = None,
        now: dt.datetime | None = None,
    ) -> None:
        self.read = ReadCounts()
        self.summary = summarise([])
        """Of the changes so far."""
        self._contrast = contrast
        self._id, self._time, self._order = id, time, order
        self._now = now or dt.datetime.now(dt.UTC)

    @property
    def no_changes(self) -> pa.Table:
        """The columns of the changes, without rows."""
        return self._table(np.empty(0, np.int64), pa.table({name: [] for name in {self._id, self._time} - {None}}))

    def changes(self, events: Events | str | Path) -> Iterator[pa.Table]:
        """Yield the changes of one batch of events after the other."""
        for rows, batch in self._batches(events):
            found = self._table(rows, batch)
            self.summary = add_up([self.summary, summarise([found])])
            yield found

    def _table(self, rows: Int64s, batch: pa.Table | Sequence[Any]) -> pa.Table:
        """Match a batch whose events have these numbers."""
        found = self._contrast.changes(batch, self._now)
        places = found["event"].combine_chunks()
        columns = {
            "event": pa.array(rows).take(places) if self._id is None else _column(batch, self._id).take(places),
            "subscription": found["subscription"].cast(pa.string()),
            "change": changes_of(found["score"]),
        }
        if self._time is not None:
            columns["day"] = days(_column(batch, self._time).take(places), self._time)
        return pa.table(columns)

    def _batches(self, events: Events | str | Path) -> Iterator[tuple[Int64s, Any]]:
        if isinstance(events, (str, Path)):
            files = data_files(Path(events), "events")
            is_parquet = all(file.format == "parquet" and file.path.suffix not in COMPRESSIONS for file in files)
            if is_parquet and self._order is None:
                wanted = self._contrast.matcher.attributes.union(filter(None, (self._id, self._time)))
                yield from scan_parquet(files, self._contrast.matcher, self.read, wanted)
                return
            kinds = self._contrast.matcher.kinds
            if self._time is not None:
                kinds[self._time] = {Kind.TIME}
            batches: Iterator[Any] = EventFiles(Path(events), kinds, order=self._order).batches()
        elif self._order is not None:
            raise OptionError("events that are not files have their order", "Sort them, and leave out the order")
        elif isinstance(events, pa.RecordBatchReader):
            batches = iter(events)
        else:
            batches = iter([events if isinstance(events, (pa.Table, pa.RecordBatch)) else _table_or_rows(events)])
        for batch in batches:
            first = self.read.events
            self.read.events += len(batch)
            yield np.arange(first, first + len(batch)), batch


def _table_or_rows(events: Events) -> Any:
    """Read what is not Arrow's own; dicts stay as they are."""
    if hasattr(events, "__arrow_c_stream__") or hasattr(events, "__arrow_c_array__"):
        return pa.table(events)
    return list(events)


def _column(batch: Any, name: str) -> pa.Array:
    table = batch if isinstance(batch, pa.Table) else batch_table(batch)
    if name not in table.column_names:
        raise OptionError(f"the events have no column {name!r}", f"They have {', '.join(table.column_names)}")
    return table[name].combine_chunks()


def changes_of(scores: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return the words for scores of 1 and -1."""
    return pa.array(np.where(np.asarray(scores) > 0, GAINED, LOST), pa.string())


def days(times: pa.Array, name: str) -> pa.Array:
    """Return the day of each time, in UTC; texts are dates or times of ISO 8601.

    >>> days(pa.array(["2026-05-01T23:30:00-02:00", None, "soon"]), "at").to_pylist()
    [datetime.date(2026, 5, 2), None, None]
    """
    if pa.types.is_null(times.type) or pa.types.is_date(times.type):
        return times.cast(pa.date32())
    if pa.types.is_timestamp(times.type):
        return times.cast(pa.timestamp("us"), safe=False).cast(pa.date32(), safe=False)
    if pa.types.is_string(times.type) or pa.types.is_large_string(times.type):
        return pa.array([_day(text) for text in times.to_pylist()], pa.date32())
    raise EventError(f"{name!r} is {times.type}, not a time", "Name a column of timestamps, dates, or ISO 8601 texts")


def _day(text: str | None) -> dt.date | None:
    try:
        moment = None if text is None else dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment is None else (moment.astimezone(dt.UTC) if moment.tzinfo else moment).date()


def summarise(changes: Sequence[pa.Table]) -> pa.Table:
    """Count the changes by subscription and day; changes without days have none."""
    counted = []
    for table in changes:
        day = table["day"] if "day" in table.column_names else pa.nulls(len(table), pa.date32())
        gained = pc.equal(table["change"], GAINED).cast(pa.int64())
        columns = {"subscription": table["subscription"], "day": day, "gained": gained, "lost": pc.subtract(1, gained)}
        counted.append(pa.table(columns))
    return add_up(counted)


def add_up(summaries: Sequence[pa.Table]) -> pa.Table:
    """Add up counts by subscription and day."""
    schema = [("subscription", pa.string()), ("day", pa.date32()), ("gained", pa.int64()), ("lost", pa.int64())]
    together = pa.concat_tables([pa.schema(schema).empty_table(), *summaries])
    added = together.group_by(["subscription", "day"]).aggregate([("gained", "sum"), ("lost", "sum")])
    named = added.rename_columns({"gained_sum": "gained", "lost_sum": "lost"}).select([name for name, _ in schema])
    return named.sort_by([("subscription", "ascending"), ("day", "ascending")])
