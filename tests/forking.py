"""Run something in a forked child of a test, and get its answer."""

import json
import os
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

LONG = 60
"""Seconds after which a child that has not answered hangs, however busy the machine is."""


def forked(act: Callable[[], object], seconds: int = LONG) -> Any:
    """What `act` returns in a child; as JSON has it."""
    with child_of(act, seconds) as answer:
        return answer()


@contextmanager
def child_of(act: Callable[[], object], seconds: int = LONG) -> Iterator[Callable[[], Any]]:
    """A child that acts; yields what waits for its answer."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        # Forking beside threads is what is tested.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process == 0:
        signal.alarm(seconds)
        try:
            text = json.dumps([act()])
        except BaseException:
            text = json.dumps(traceback.format_exc())
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)

    def answer() -> Any:
        with os.fdopen(read, "rb") as file:
            text = file.read()
        status = os.waitpid(process, 0)[1]
        assert status == 0, f"the child was ended by signal {os.WTERMSIG(status)}"
        found = json.loads(text)
        assert isinstance(found, list), found
        return found[0]

    yield answer
