"""Matching in a worker: the newest commit, and events of concurrent requests matched together."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.errors import TocsinError
from tocsin.files.event_files import conversions_of_json, converted
from tocsin.index.answer import tags_key
from tocsin.matcher import Matcher
from tocsin.model.result import Evidence
from tocsin.serve.board import SNAPSHOT, Board
from tocsin.tuning import TUNING

Found = tuple[Sequence[str], Sequence[float]]
"""The ids and scores of one event."""
Done = Callable[[Found | Exception], None]
"""Takes the answer to one event."""
_Asked = tuple[dict[str, Any], Mapping[str, str] | None, Done]
"""An event, the tags that it is matched with, and who waits for the answer."""
LONGEST_WAIT_S = 0.001
"""Answers wait so long for those to the other events of the same turn."""


class MatchQueue:
    """Matches events against the newest commit that the writer has announced.

    Single events that arrive in the same turn of the event loop wait for each other: none waits for a clock.
    """

    def __init__(self, matcher: Matcher, board: Board) -> None:
        self._matcher = matcher
        self._board = board
        self._seen = 0
        self._waiting: list[_Asked] = []
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
        self._waiting.append((event, tags, done))

    def flush(self) -> None:
        """Match all events that wait."""
        waiting, self._waiting = self._waiting, []
        few = waiting
        if len(waiting) >= TUNING.match_together:
            few = []
            by_tags: dict[object, list[_Asked]] = {}
            for asked in waiting:
                by_tags.setdefault(tags_key(asked[1]), []).append(asked)
            for group in by_tags.values():
                if len(group) < TUNING.match_together or not self._match_together(group):
                    few += group
        while few:
            few = self._match_some(few)

    def _match_some(self, waiting: list[_Asked]) -> list[_Asked]:
        """Match events one by one, until that takes too long for an answer to wait, and answer them; return the rest.

        Code that has run just before runs faster: a match and an answer in turns take a tenth more time than several
        matches and then their answers.
        """
        start = time.perf_counter()
        answers, matches, seconds = [], 0, 0.0
        for event, tags, _ in waiting:
            found = self._match_one(event, tags)
            answers.append(found)
            matches += len(found[0]) if type(found) is tuple else 0
            seconds = time.perf_counter() - start
            if seconds > LONGEST_WAIT_S:
                break
        self._count(len(answers), matches, seconds)
        for (_, _, done), found in zip(waiting, answers, strict=False):
            done(found)
        return waiting[len(answers) :]

    def _match_one(self, event: dict[str, Any], tags: Mapping[str, str] | None) -> Found | Exception:
        try:
            found = self.matcher().match(self.timed(event), tags=tags)
        except Exception as error:
            return error
        if found.evidence.audited:
            self._count_audit(found.evidence)
        return found.ids, found.scores

    def _match_together(self, group: Sequence[_Asked]) -> bool:
        """Match events with the same tags as one batch; False if one of them cannot be read, and none is answered."""
        start = time.perf_counter()
        answers: Sequence[Found | Exception]
        try:
            table = self.matcher().match_batch([self.timed(event) for event, _, _ in group], tags=group[0][1])
        except TocsinError:
            return False
        except Exception as error:
            answers, matches = [error] * len(group), 0
        else:
            answers, matches = split(table, len(group)), len(table)
            self._board.count("micro_batches")
            self._count_audit(Evidence(**json.loads(table.schema.metadata[b"tocsin"])))
        self._count(len(group), matches, time.perf_counter() - start)
        for (_, _, done), found in zip(group, answers, strict=True):
            done(found)
        return True

    def _count(self, events: int, matches: int, seconds: float) -> None:
        self._board.count("matched_events", events)
        self._board.count("matches", matches)
        self._board.count("match_seconds", seconds)

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
