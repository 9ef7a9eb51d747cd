"""Let threads switch quickly while a change builds a small segment beside matches.

That takes milliseconds of Python. A thread that wants the interpreter meanwhile waits for the switch interval, 5 ms by
default: a match of 0.1 ms would take 5, each time that it returns from a kernel. While something is built, the interval
is `QUICK`. It belongs to the whole process, so that it is what it was before as soon as nothing is being built.

Merges in the background do without: they are long, and one match in 5 ms that waits is better than all that are slow.
"""

import sys

from tocsin.forks import Guard, Level, tell_children

QUICK = 0.0002
"""Seconds. A switch takes some microseconds."""


class QuickSwitching:
    """Builds under way: within the block of a `with` on it, threads switch quickly. There is one for the process."""

    def __init__(self) -> None:
        self._lock = Guard(Level.INDEX)
        self._under_way = 0
        self._usual = sys.getswitchinterval()
        tell_children(self)

    def __enter__(self) -> None:
        with self._lock:
            if not self._under_way:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(QUICK, self._usual))
            self._under_way += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._under_way -= 1
            if not self._under_way:
                sys.setswitchinterval(self._usual)

    def become_child(self) -> None:
        """After a fork: the threads that build are the parent's."""
        if self._under_way:
            self._under_way = 0
            sys.setswitchinterval(self._usual)


QUICK_SWITCHING = QuickSwitching()
