"""Matching in a worker: the newest commit, and events of concurrent requests matched together."""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.errors import TocsinError
from tocsin.files.event_files import conversions_of_json, converted
from tocsin.matcher import Matcher
from tocsin.model.result import Evidence
from tocsin.serve.board import SNAPSHOT, Board
from tocsin.tuning import TUNING

Found = tuple[list[str], list[float]]
"""The ids and scores of one event."""
Done = Callable[[Found | Exception], None]
"""Takes the answer to one event."""


class MatchQueue:
    """Matches events against the newest commit that the writer has announced.

    Single events that arrive in the same turn of the event loop wait for each other: none waits for a clock.
    """

    def __init__(self, matcher: Matcher, board: Board) -> None:
        self._matcher = matcher
        self._board = board
        self._seen = 0
        self._waiting: dict[tuple[tuple[str, str], ...], list[tuple[dict[str, Any], Done]]] = {}
        """Events by the tags that they are matched with."""
        self._conversions: Mapping[str, Callable[[str], object]] = {}

    def matcher(self) -> Matcher:
        """Return the matcher with everything that was acknowledged before now."""
        newest = self._board[SNAPSHOT]
        if newest != self._seen:
            # Read before: what is announced meanwhile is seen next time.
            self._matcher.refresh()
            self._conversions = conversions_of_json(self._matcher.kinds)
            self._seen = newest
            self._board.count("refreshes")
        return self._matcher

    def timed(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return an event of JSON with dates and numbers for the texts that are only compared with such."""
        return converted(event, self._conversions)

    def match(self, event: dict[str, Any], tags: Mapping[str, str] | None) -> "asyncio.Future[Found]":
        """Match one event, together with others that arrive now."""
        result: asyncio.Future[Found] = asyncio.get_running_loop().create_future()

        def done(found: Found | Exception) -> None:
            if result.cancelled():
                return
            if isinstance(found, Exception):
                result.set_exception(found)
            else:
                result.set_result(found)

        self.submit(event, tags, done)
        return result

    def submit(self, event: dict[str, Any], tags: Mapping[str, str] | None, done: Done) -> None:
        """Match one event, together with others that arrive now, and call `done` with what was found, or an error."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting.setdefault(tuple(sorted(tags.items())) if tags else (), []).append((event, done))

    def flush(self) -> None:
        """Match all events that wait."""
        groups, self._waiting = self._waiting, {}
        for tags, group in groups.items():
            start = time.perf_counter()
            # Few are matched one by one, and each is answered before the next is matched.
            for (_, done), found in zip(
                group, self._answers([event for event, _ in group], dict(tags) or None), strict=True
            ):
                self._board.count("match_seconds", time.perf_counter() - start)
                done(found)
                start = time.perf_counter()
            self._board.count("matched_events", len(group))

    def _answers(self, events: list[dict[str, Any]], tags: dict[str, str] | None) -> Iterable[Found | Exception]:
        one_by_one = (self._match_one(event, tags) for event in events)
        if len(events) < TUNING.match_together:
            return one_by_one
        try:
            table = self.matcher().match_batch([self.timed(event) for event in events], tags=tags)
        except TocsinError:
            # One of them cannot be read: each gets its own answer.
            return one_by_one
        except Exception as error:
            return [error] * len(events)
        self._board.count("micro_batches")
        self._board.count("matches", len(table))
        self._count_audit(Evidence(**json.loads(table.schema.metadata[b"tocsin"])))
        return split(table, len(events))

    def _match_one(self, event: dict[str, Any], tags: dict[str, str] | None) -> Found | Exception:
        try:
            found = self.matcher().match(self.timed(event), tags=tags)
        except Exception as error:
            return error
        self._board.count("matches", len(found))
        if found.evidence.audited:
            self._count_audit(found.evidence)
        return list(found.ids), list(found.scores)

    def _count_audit(self, evidence: Evidence) -> None:
        self._board.count("audited_pairs", evidence.audited)
        self._board.count("audit_disagreements", evidence.disagreements)


def split(matches: pa.Table, events: int) -> list[Found]:
    """Return the matches of each event of a batch, which are in the order of events.

    >>> table = pa.table({"event": [0, 2, 2], "subscription": ["a", "a", "b"], "score": [1.0, 1.0, 2.0]})
    >>> split(table, 3)
    [(['a'], [1.0]), ([], []), (['a', 'b'], [1.0, 2.0])]
    """
    ends = np.searchsorted(matches["event"].to_numpy(), np.arange(events), side="right").tolist()
    # Cast before it is listed: `to_pylist` of a dictionary-encoded column takes 35 times as long.
    ids = matches["subscription"].cast(pa.large_string()).to_numpy().tolist()
    scores = matches["score"].to_numpy().tolist()
    starts = [0, *ends]
    return [(ids[start:end], scores[start:end]) for start, end in zip(starts, ends, strict=False)]
