"""Child processes that do not outlive their parent."""

import importlib
import os
import subprocess
import sys
import threading


class Lifeline:
    """A pipe whose other end closes when this process ends, however it ends: children wait for that."""

    def __init__(self) -> None:
        self._far, self._near = os.pipe()

    def start(self, module: str, *arguments: str, inherited: tuple[int, ...] = ()) -> "subprocess.Popen[bytes]":
        """Start a process that runs `main(*arguments)` of a module."""
        command = [sys.executable, "-m", "tocsin.serve.children", str(self._far), module, *arguments]
        # In a group of its own: Ctrl-C is for the parent, which lets workers end before the writer.
        handles = (self._far, *inherited)
        return subprocess.Popen(command, pass_fds=handles, stdin=subprocess.DEVNULL, process_group=0)


def die_with(parent: int) -> None:
    """End this process when its parent has ended; `parent` is the end of a `Lifeline`."""

    def wait() -> None:
        os.read(parent, 1)
        os._exit(0)

    threading.Thread(target=wait, name="parent", daemon=True).start()


if __name__ == "__main__":
    # First of all: the imports of a module take seconds, and the parent may die within them.
    die_with(int(sys.argv[1]))
    importlib.import_module(sys.argv[2]).main(*sys.argv[3:])
