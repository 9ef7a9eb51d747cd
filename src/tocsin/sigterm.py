"""SIGTERM as an exception, so that a process that is told to end cleans up first."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

AGAIN_S = 0.05


@contextlib.contextmanager
def unwound_by_sigterm() -> Iterator[None]:
    """Let SIGTERM raise SystemExit meanwhile; a handler that somebody has set stays."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> None:
    """Raise SystemExit; within an import let the signal come again instead, a little later.

    While Python compiles a module it may drop an exception that a handler raises, and the process would go on.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            threading.Timer(AGAIN_S, os.kill, (os.getpid(), number)).start()
            return
        frame = frame.f_back
    sys.exit(128 + number)
