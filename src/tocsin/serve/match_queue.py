"""Matching in a worker: the newest commit, and events of concurrent requests matched together."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
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
Waiting = tuple[dict[str, Any], "asyncio.Future[Found]"]


class MatchQueue:
    """Matches events against the newest commit that the writer has announced.

    Single events that arrive in the same turn of the event loop wait for each other: none waits for a clock.
    """

    def __init__(self, matcher: Matcher, board: Board) -> None:
        self._matcher = matcher
        self._board = board
        self._seen = 0
        self._waiting: dict[str, list[Waiting]] = {}
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
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._flush)
        result: asyncio.Future[Found] = loop.create_future()
        self._waiting.setdefault(json.dumps(tags, sort_keys=True) if tags else "", []).append((event, result))
        return result

    def _flush(self) -> None:
        groups, self._waiting = self._waiting, {}
        for key, group in groups.items():
            tags = json.loads(key) if key else None
            # A client that went away cancels its request.
            group = [waiting for waiting in group if not waiting[1].cancelled()]
            start = time.perf_counter()
            if len(group) >= TUNING.match_together:
                self._match_together(group, tags)
            else:
                self._match_each(group, tags)
            self._board.count("match_seconds", time.perf_counter() - start)
            self._board.count("matched_events", len(group))

    def _match_each(self, group: list[Waiting], tags: Mapping[str, str] | None) -> None:
        for event, result in group:
            try:
                found = self.matcher().match(self.timed(event), tags=tags)
                result.set_result((list(found.ids), list(found.scores)))
                self._board.count("matches", len(found))
                self._count_audit(found.evidence)
            except Exception as error:
                result.set_exception(error)

    def _match_together(self, group: list[Waiting], tags: Mapping[str, str] | None) -> None:
        try:
            matcher = self.matcher()
            table = matcher.match_batch([self.timed(event) for event, _ in group], tags=tags)
        except TocsinError:
            # One of them cannot be read: each gets its own answer.
            self._match_each(group, tags)
            return
        except Exception as error:
            for _, result in group:
                result.set_exception(error)
            return
        self._board.count("micro_batches")
        self._board.count("matches", len(table))
        self._count_audit(Evidence(**json.loads(table.schema.metadata[b"tocsin"])))
        for (_, result), found in zip(group, split(table, len(group)), strict=True):
            result.set_result(found)

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
    ids, scores = matches["subscription"].to_pylist(), matches["score"].to_pylist()
    starts = [0, *ends]
    return [(ids[start:end], scores[start:end]) for start, end in zip(starts, ends, strict=False)]
