"""A server in a process of its own, for tests."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import psutil  # type: ignore[import-untyped]

# Tests may themselves run behind `nohup`, which a server takes for its own.
_PROGRAM = (
    "import signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    "from tocsin.cli import main; sys.exit(main(sys.argv[1:]))"
)


class ServerProcess:
    """`tocsin serve` on a free port; `port` stays the same when it is started again."""

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        self.folder = folder
        self.options = list(options)
        self.log: list[str] = []
        self.port = 0
        self.start()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        command = [sys.executable, "-c", _PROGRAM, "serve", str(self.folder), "--port", str(self.port), *self.options]
        source = str(Path(__file__).parent.parent / "src")
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": source}, process_group=0
        )
        ready = threading.Event()
        threading.Thread(target=self._read, args=(ready,), daemon=True).start()
        assert ready.wait(120), "".join(self.log)

    def _read(self, ready: threading.Event) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self.log.append(line)
                found = re.search(r"on http://[\w.]+:(\d+)", line)
                if found:
                    self.port = int(found[1])
                    ready.set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, key: str | None = None) -> httpx.Client:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=self.address, headers=headers, timeout=60)

    def children(self, module: str) -> list[psutil.Process]:
        """The processes of a kind: `writer` or `worker`."""
        found = []
        for child in psutil.Process(self.process.pid).children():
            # One that has just died has no command line.
            with contextlib.suppress(psutil.Error):
                if f"tocsin.serve.{module}" in " ".join(child.cmdline()):
                    found.append(child)
        return found

    def kill_all(self) -> None:
        """Kill the supervisor without a warning; its children must notice."""
        children = psutil.Process(self.process.pid).children()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        psutil.wait_procs(children, timeout=10)
        assert not any(child.is_running() for child in children)

    def signal_as_terminal(self, number: signal.Signals) -> None:
        """Send a signal to the group of the server, as a terminal does for Ctrl-C, or when it is closed."""
        os.killpg(self.process.pid, number)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)


def wait_for(condition: object, seconds: float = 20.0) -> None:
    """Wait until a function returns something true."""
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
