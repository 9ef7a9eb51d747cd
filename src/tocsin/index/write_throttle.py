"""Throttle changes while other threads match: both share one interpreter.

A thread that changes subscriptions runs Python throughout and holds the interpreter's lock, which a match waits for
whenever it returns from a kernel. After every change, the next batch must also build a small segment. So while other
threads match, changes sleep `REST` times as long as they and the builds that they caused took. Where no other thread
matches, changes never sleep.

Single events need no build. Beside them a change sleeps at once, and between its steps, so that a match waits for one
step of a change; several in a row would be one long wait.

Measured: beside a thread that only subscribes, single events kept 0.02 to 0.17 of their speed without the throttle and
keep 0.61 to 0.74 with it; batches kept 0.4 to 0.6 and keep 0.74 (`tocsin bench segments`).
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

REST = 4.0
"""Seconds of sleep for each second of work: changes take a fifth of the time. With 2 seconds, and more segments in the
buffer, single events kept 0.39 to 0.5 of their speed."""
SHORTEST = 0.01
"""Where matches build, shorter sleeps are put off: several changes in a row make the next one build one segment."""
LONGEST = 0.25
"""The longest sleep of one change, in seconds."""
LATELY = 0.02
"""Matches that follow each other within so many seconds count as one stream, which changes sleep for."""


class _UnderWay:
    """A match under way. It costs a third of a generator that does the same."""

    def __init__(self, throttle: "WriteThrottle") -> None:
        self._throttle = throttle

    def __enter__(self) -> None:
        self._throttle.begin_match()

    def __exit__(self, *_: object) -> None:
        self._throttle.end_match()


class WriteThrottle:
    """Track the matches under way and the time that changes took, and let changes sleep."""

    def __init__(self) -> None:
        self._queue = threading.Lock()
        """Held by the one change that sleeps or works."""
        self._counting = threading.Lock()
        self._matches = 0
        self._under_way = _UnderWay(self)
        self._last_match, self._last_thread = -LATELY, 0
        self._begun = 0.0
        """When the change under way began to work, after its last sleep."""
        self._owed = 0.0
        """Seconds of sleep that are due for work done so far."""
        self._builds = False
        """Whether a match has built a segment since the last sleep."""

    def matching(self) -> "_UnderWay":
        """Count a match as under way, within the block of a `with`."""
        return self._under_way

    def begin_match(self) -> None:
        """Count a match as begun."""
        with self._counting:
            self._matches += 1

    def end_match(self) -> None:
        """Count a match as done."""
        with self._counting:
            self._matches -= 1
            self._last_match, self._last_thread = time.monotonic(), threading.get_ident()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Make a change: sleep if that is due, then work."""
        with self._queue:
            self._sleep()
            self._begun = time.monotonic()
            try:
                yield
            finally:
                self._owed += REST * (time.monotonic() - self._begun)

    def between_steps(self) -> None:
        """Within a change, sleep as before one: for what it has done so far."""
        self._owed += REST * (time.monotonic() - self._begun)
        self._sleep()
        self._begun = time.monotonic()

    def _sleep(self) -> None:
        if not self.has_matches():
            self._owed = 0.0
        elif self._owed > (SHORTEST if self._builds else 0.0):
            time.sleep(min(self._owed, LONGEST))
            self._owed, self._builds = 0.0, False

    @contextmanager
    def building(self) -> Iterator[None]:
        """Measure what a match builds because of changes."""
        self._builds = True
        start = time.monotonic()
        try:
            yield
        finally:
            self._owed += REST * (time.monotonic() - start)

    def has_matches(self) -> bool:
        """Whether another thread matches now, or did within the last `LATELY` seconds."""
        lately = time.monotonic() - self._last_match < LATELY
        return self._matches > 0 or (lately and self._last_thread != threading.get_ident())
