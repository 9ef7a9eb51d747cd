"""Child processes that do not outlive their parent."""

import os
import subprocess
import sys
import threading


class Lifeline:
    """A pipe whose other end closes when this process ends, however it ends: children wait for that."""

    def __init__(self) -> None:
        self._far, self._near = os.pipe()

    def start(self, module: str, *arguments: str, inherited: tuple[int, ...] = ()) -> "subprocess.Popen[bytes]":
        """Start `python -m module arguments…`, with the end of the pipe as its last argument."""
        command = [sys.executable, "-m", module, *arguments, str(self._far)]
        return subprocess.Popen(command, pass_fds=(self._far, *inherited), stdin=subprocess.DEVNULL)


def die_with(parent: int) -> None:
    """End this process when its parent has ended; `parent` is the end of a `Lifeline`."""

    def wait() -> None:
        os.read(parent, 1)
        os._exit(0)

    threading.Thread(target=wait, name="parent", daemon=True).start()
