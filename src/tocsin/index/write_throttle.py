"""Turns: matches and changes share one interpreter, and neither starves the other.

A thread that changes subscriptions runs Python throughout: it has the interpreter's lock, which a match waits for
whenever it returns from a kernel. And after every change the next match has a part to build. So changes pay for what
they cost: while other threads match, they rest `REST` times as long as they worked, their own work and that of matches
that had to build for them. Where no other thread matches, nobody rests.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

REST = 4.0
"""Seconds of rest for each second of work: changes take a fifth of the time, matches have the rest to themselves."""
SHORTEST = 0.01
"""Rests of fewer seconds are put off: several changes in a row cost the next match one part, not one each."""
LONGEST = 0.25
"""No change waits for more seconds than this."""
LATELY = 0.02
"""Matches that follow each other within so many seconds are a stream, and changes rest for it as for one match."""


class Turns:
    """Who is at work, and how long changes should rest."""

    def __init__(self) -> None:
        self._queue = threading.Lock()
        """Held by the one change that rests or works."""
        self._counting = threading.Lock()
        self._matches = 0
        self._last_match, self._last_thread = -LATELY, 0
        self._owed = 0.0
        """Seconds of rest for the work that was done."""

    @contextmanager
    def matching(self) -> Iterator[None]:
        """Be a match under way."""
        with self._counting:
            self._matches += 1
        try:
            yield
        finally:
            with self._counting:
                self._matches -= 1
                self._last_match, self._last_thread = time.monotonic(), threading.get_ident()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Be a change: rest if it is time to, then work."""
        with self._queue:
            if not self._is_stream():
                self._owed = 0.0
            elif self._owed > SHORTEST:
                time.sleep(min(self._owed, LONGEST))
                self._owed = 0.0
            with self.working():
                yield

    @contextmanager
    def working(self) -> Iterator[None]:
        """Take note of work on changes."""
        start = time.monotonic()
        try:
            yield
        finally:
            self._owed += REST * (time.monotonic() - start)

    def _is_stream(self) -> bool:
        """Whether another thread matches: now, or a moment ago and soon again."""
        lately = time.monotonic() - self._last_match < LATELY
        return self._matches > 0 or (lately and self._last_thread != threading.get_ident())
