"""The board: a page of memory that all processes of a server share, with numbers that one announces and others read.

Row 0 has what the writer announces, row 1 its counters, and each worker has a row of counters of its own behind them.
Every number has one process that writes it, so that there are no locks; an aligned eight-byte store is whole. The last
part is the exception: a slot for each tenant with the time from which on its next request is within its rate. Two
workers that take a turn at the same moment may let one request too many pass.
"""

import mmap
import zlib
from pathlib import Path

import numpy as np

SNAPSHOT, ENTRY, WRITER_PID, STARTED = range(4)
"""Row 0: the number of commits that were announced, the newest inbox entry, and who the writer is, since when."""
COUNTERS = (
    *("requests", "errors", "matched_events", "matches", "match_seconds", "micro_batches", "refreshes"),
    *("changes", "commits", "commit_seconds", "published_events", "published_matches", "entries", "suppressed"),
    *("webhooks_sent", "webhooks_failed", "dead_letters", "waiting", "audited_pairs", "audit_disagreements"),
    *("answered", "answer_seconds", "merges", "connections"),
)
_COLUMNS = max(len(COUNTERS), 32)
_SLOTS = 4096
_PLACES = {name: place for place, name in enumerate(COUNTERS)}


class Board:
    """The shared numbers of one server; `row` is the one that this process counts in."""

    def __init__(self, path: Path, workers: int, row: int = 0) -> None:
        shape = (2 + workers) * _COLUMNS + _SLOTS
        if not path.exists():
            path.write_bytes(bytes(8 * shape))
        with path.open("r+b") as file:
            shared = mmap.mmap(file.fileno(), 8 * shape)
        # A view of memory is read and written in a tenth of the time that NumPy takes for one number.
        numbers = memoryview(shared).cast("d")
        self._announced, self._next_turn = numbers[:_COLUMNS], numbers[-_SLOTS:]
        self._mine = numbers[row * _COLUMNS : (row + 1) * _COLUMNS]
        self._rows = np.frombuffer(shared)[:-_SLOTS].reshape(-1, _COLUMNS)
        self.workers = workers

    def __getitem__(self, place: int) -> int:
        return int(self._announced[place])

    def announce(self, place: int, number: int) -> None:
        """Let all processes see a number; only the writer calls this."""
        self._announced[place] = number

    def count(self, name: str, by: float = 1.0) -> None:
        """Add to a counter of this process."""
        self._mine[_PLACES[name]] += by

    def set(self, name: str, value: float) -> None:
        """Set a gauge of this process."""
        self._mine[_PLACES[name]] = value

    def totals(self) -> dict[str, float]:
        """Return each counter, summed over all processes."""
        return dict(zip(COUNTERS, self._rows[1:].sum(axis=0).tolist(), strict=False))

    def by_worker(self, name: str) -> list[float]:
        """Return a counter of each worker."""
        counted: list[float] = self._rows[2:, _PLACES[name]].tolist()
        return counted

    def take_turn(self, tenant: str, rate: float, now: float) -> float:
        """Take one request of a tenant's `rate` a second; return 0, or the seconds to wait if it has used its second.

        A tenant that was quiet may send the requests of one second at once.
        """
        slot = zlib.crc32(tenant.encode()) % _SLOTS
        turn = max(self._next_turn[slot], now - 1.0)
        if turn > now:
            return turn - now
        self._next_turn[slot] = turn + 1.0 / rate
        return 0.0
