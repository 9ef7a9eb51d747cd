"""The supervisor: it binds the address, starts the writer and the workers, and starts again what dies.

It holds the listening socket, so that clients wait instead of being refused while a worker starts. It does nothing
else, so that there is little in it that can fail.
"""

import contextlib
import ipaddress
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tocsin.errors import OptionError
from tocsin.serve.board import STARTED, Board
from tocsin.serve.children import Lifeline
from tocsin.serve.settings import ServerSettings
from tocsin.serve.tenants import KeyFile

BACKLOG = 2048
LOOK_S = 0.1
"""How often the supervisor looks for children that died."""
LONGEST_PAUSE_S = 5.0
"""A child that dies again and again is started at most this long after its death."""
STOP_S = 10.0


@dataclass
class Child:
    """A process that is kept running."""

    name: str
    start: Callable[[], "subprocess.Popen[bytes]"]
    process: "subprocess.Popen[bytes] | None" = None
    started: float = 0.0
    deaths: int = 0

    def keep_running(self) -> None:
        """Start the process if it does not run; wait longer if it died soon after its last starts."""
        now = time.monotonic()
        if self.process is not None and self.process.poll() is None:
            return
        if self.process is not None:
            if self.deaths == 0 or now - self.started > LONGEST_PAUSE_S:
                self.deaths = 0
            if now - self.started < min(0.1 * 2**self.deaths, LONGEST_PAUSE_S):
                return
            print(f"tocsin: {self.name} ended with {self.process.returncode}, starting again", file=sys.stderr)
            self.deaths += 1
        self.process, self.started = self.start(), now


def listen(host: str, port: int, is_open: bool) -> socket.socket:
    """Bind an address. Raises OptionError if it cannot be had, or without keys if others could reach it."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise OptionError(f"there is no address {host!r}: {error}", "Use 127.0.0.1 or 0.0.0.0") from error
    if is_open and not ipaddress.ip_address(str(address[0])).is_loopback:
        raise OptionError(
            f"{host} can be reached by others, and there are no keys",
            "Add a key with tocsin keys add, or listen on 127.0.0.1",
        )
    listening = socket.socket(family, kind)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
    except OSError as error:
        raise OptionError(f"cannot listen on {host}:{port}: {error.strerror}", "Choose another --port") from error
    listening.listen(BACKLOG)
    return listening


def serve(
    settings: ServerSettings,
    host: str,
    port: int,
    ready: Callable[[str], None],
    stop: threading.Event | None = None,
) -> None:
    """Run a server until a signal or `stop` ends it; `ready` is called with its address once it answers."""
    stop = stop or threading.Event()
    if threading.current_thread() is threading.main_thread():
        ends = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            # Without `nohup`, it ends with its terminal.
            ends.append(signal.SIGHUP)
        for number in ends:
            signal.signal(number, lambda *_: stop.set())
    listening = listen(host, port, KeyFile(Path(settings.keys)).is_open)
    address = listening.getsockname()
    shown = f"[{address[0]}]" if ":" in address[0] else address[0]
    runtime = tempfile.mkdtemp(prefix="tocsin-")
    try:
        settings = replace(settings, runtime=runtime)
        Board(settings.board, settings.workers).announce(STARTED, int(time.time()))
        children = _children(settings, listening)
        _watch(children, stop, lambda: ready(f"http://{shown}:{address[1]}"), listening)
        _stop(children)
    finally:
        listening.close()
        shutil.rmtree(runtime, ignore_errors=True)


def _children(settings: ServerSettings, listening: socket.socket) -> list[Child]:
    lifeline, argument, handle = Lifeline(), settings.to_json(), listening.fileno()

    def worker(number: int) -> "subprocess.Popen[bytes]":
        return lifeline.start("tocsin.serve.worker", argument, str(number), str(handle), inherited=(handle,))

    writer = Child("the writer", lambda: lifeline.start("tocsin.serve.writer", argument))
    workers = [Child(f"worker {number}", lambda number=number: worker(number)) for number in range(settings.workers)]  # type: ignore[misc]
    return [writer, *workers]


def _watch(children: list[Child], stop: threading.Event, ready: Callable[[], None], listening: socket.socket) -> None:
    for child in children:
        child.keep_running()
    threading.Thread(target=_tell_when_ready, args=(listening, ready, stop), daemon=True).start()
    while not stop.wait(LOOK_S):
        for child in children:
            child.keep_running()


def _tell_when_ready(listening: socket.socket, ready: Callable[[], None], stop: threading.Event) -> None:
    """Wait for the first answer."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    request = f"GET /healthz HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n".encode()
    while not stop.is_set():
        with contextlib.suppress(OSError), socket.create_connection((host, port), 60) as client:
            client.sendall(request)
            if client.recv(64).startswith(b"HTTP/1.1 200"):
                ready()
                return
        stop.wait(LOOK_S)


def _stop(children: list[Child]) -> None:
    """Let workers finish their requests, then end the writer."""
    for group in (children[1:], children[:1]):
        running = [child.process for child in group if child.process is not None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + STOP_S
        for process in running:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
