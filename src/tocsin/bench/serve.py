"""The server on loopback with 100,000 alerts, against FastAPI answering a constant of the same size.

The constant is the limit: a server that does nothing. Both run two worker processes and get the same requests from the
same client, in turns. The client and the workers share the processors of this machine, so that requests a second are
for comparison only; the processor time of the workers for one request says more on a machine that has other work.
"""

import asyncio
import contextlib
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tocsin.bench import stocks
from tocsin.bench.runner import Report, Result
from tocsin.matcher import Matcher
from tocsin.serve.settings import ServerSettings
from tocsin.serve.supervisor import serve

if TYPE_CHECKING:
    from fastapi import FastAPI

WORKERS = 2
CONNECTIONS = 8
CHANGES_A_SECOND = 200
ROUNDS = 3
_SIZE = "TOCSIN_CONSTANT_BYTES"


def constant() -> "FastAPI":
    """Return the application that answers a constant; uvicorn runs it in processes of its own."""
    from fastapi import FastAPI, Response

    content = b'{"matches": "' + b"x" * max(0, int(os.environ[_SIZE]) - 15) + b'"}'
    app = FastAPI()

    @app.post("/match")
    async def answer() -> Response:
        return Response(content, media_type="application/json")

    return app


@dataclass
class Taken:
    """What a client measured."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    """Of the workers."""
    latencies: list[float] = field(default_factory=list)
    bytes: int = 0

    def add(self, other: "Taken") -> None:
        """Add another round."""
        self.seconds += other.seconds
        self.cpu_s += other.cpu_s
        self.latencies += other.latencies
        self.bytes = other.bytes

    @property
    def per_second(self) -> float:
        """Requests a second."""
        return len(self.latencies) / self.seconds

    @property
    def cpu_us(self) -> float:
        """Processor time of the workers for one request, in microseconds."""
        return self.cpu_s / len(self.latencies) * 1e6

    def percentile(self, percent: int) -> float:
        """Return a percentile of the latencies in milliseconds."""
        return 1000 * statistics.quantiles(self.latencies, n=100)[percent - 1]


def run(*, quick: bool = False, seed: int = 1) -> Report:
    """Requests a second, latencies and processor time of single matches, batches, and matches beside changes."""
    count, seconds = (20_000, 1.0) if quick else (100_000, 4.0)
    report = Report(
        "serve",
        {
            "subscriptions": count,
            "workers": WORKERS,
            "connections": CONNECTIONS,
            "seconds": ROUNDS * seconds,
            "seed": seed,
        },
    )
    events = list(stocks.events(400, seed))
    single = [_request({"event": event}) for event in events]
    batches = [_request({"events": events[start : start + 100]}) for start in range(0, 400, 100)]
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        matcher = Matcher.from_table(stocks.subscriptions(count, seed))
        matcher.save(index)
        # Kernels that are not compiled yet are compiled here, once, and not in each process of the server.
        matcher.match(events[0])
        matcher.match_batch(events)
        matcher.close()
        with _served(index) as (port, workers):
            _measure(port, workers, single[:50] + batches, 1.0)
            found = _measure(port, workers, single, 0.5)
            with _constant(found.bytes) as (limit_port, limit_workers):
                _measure(limit_port, limit_workers, single, 0.5)
                limit, alone = Taken(), Taken()
                for _ in range(ROUNDS):
                    limit.add(_measure(limit_port, limit_workers, single, seconds))
                    alone.add(_measure(port, workers, single, seconds))
            many = _measure(port, workers, batches, seconds)
            # Until the first change is acknowledged, its kernels are loaded.
            with _changes(port) as made:
                while not made.acknowledged:
                    time.sleep(0.1)
                beside = Taken()
                for _ in range(ROUNDS):
                    beside.add(_measure(port, workers, single, seconds))
    for name, taken, size in (
        ("FastAPI, a constant", limit, 1),
        ("single match", alone, 1),
        ("100 events a request", many, 100),
        (f"single match beside {made.per_second:.0f} changes/s", beside, 1),
    ):
        extra = {
            "requests_per_s": taken.per_second,
            "p50_ms": taken.percentile(50),
            "p99_ms": taken.percentile(99),
            "cpu_us_per_request": taken.cpu_us,
        }
        report.results.append(Result(name, events_per_s=size * taken.per_second, extra=dict(extra)))
    share, cpu_share = alone.per_second / limit.per_second, limit.cpu_us / alone.cpu_us
    report.claim("single match, of the constant's requests/s", ">= 60 %", f"{share:.0%}", share >= 0.6)
    report.claim("the same by processor time of the workers", ">= 60 %", f"{cpu_share:.0%}", cpu_share >= 0.6)
    for name, taken in (("single match", alone), ("beside changes", beside)):
        p99 = taken.percentile(99)
        report.claim(f"{name}: p99", "< 10 ms", f"{p99:.1f} ms", p99 < 10)
    return report


def _request(body: dict[str, object]) -> bytes:
    content = json.dumps(body, default=str).encode()
    head = (
        f"POST /match HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
    )
    return f"{head}\r\n\r\n".encode() + content


@contextlib.contextmanager
def _served(index: Path) -> Iterator[tuple[int, list[int]]]:
    """Run the server; give its port and the ids of its workers."""
    settings = ServerSettings(
        index=str(index), state=str(index / "serve"), runtime="", workers=WORKERS, keys=str(index / "keys.json")
    )
    address: list[str] = []
    ready, stop = threading.Event(), threading.Event()

    def tell(text: str) -> None:
        address.append(text)
        ready.set()

    thread = threading.Thread(target=serve, args=(settings, "127.0.0.1", 0, tell, stop))
    thread.start()
    try:
        ready.wait(600)
        yield int(address[0].rpartition(":")[2]), _children(os.getpid(), "tocsin.serve.worker")
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def _constant(size: int) -> Iterator[tuple[int, list[int]]]:
    """Run the constant; give its port and the ids of its workers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "tocsin.bench.serve:constant", "--factory", "--port", str(port)]
    command += ["--workers", str(WORKERS), "--no-access-log", "--log-level", "warning"]
    process = subprocess.Popen(command, env={**os.environ, _SIZE: str(size)})
    try:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        # uvicorn needs a moment until both workers listen.
        time.sleep(2.0)
        yield port, _children(process.pid, "")
    finally:
        process.terminate()
        process.wait()


def _children(parent: int, command: str) -> list[int]:
    """Return the processes of a parent whose command line has a text in it."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            status = (entry / "stat").read_text().rpartition(")")[2].split()
            if entry.name.isdigit() and int(status[1]) == parent and command in (entry / "cmdline").read_text():
                found.append(int(entry.name))
    return found


def _cpu(processes: Sequence[int]) -> float:
    """Return the processor seconds that processes have used."""
    ticks = 0
    for process in processes:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _measure(port: int, workers: Sequence[int], requests: Sequence[bytes], seconds: float) -> Taken:
    """Send requests over several connections for a while, each as soon as the last is answered."""
    taken = Taken()
    before, start = _cpu(workers), time.perf_counter()
    asyncio.run(_ask(port, requests, seconds, taken))
    taken.seconds, taken.cpu_s = time.perf_counter() - start, _cpu(workers) - before
    return taken


async def _ask(port: int, requests: Sequence[bytes], seconds: float, taken: Taken) -> None:
    end = time.perf_counter() + seconds
    turns = itertools.cycle(requests)

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (begin := time.perf_counter()) < end:
            writer.write(next(turns))
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(head.decode())
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            taken.latencies.append(time.perf_counter() - begin)
            taken.bytes = length
        writer.close()

    await asyncio.gather(*(one() for _ in range(CONNECTIONS)))


@dataclass
class _Changes:
    """Changes that are being made, and how many were acknowledged."""

    start: float
    acknowledged: int = 0
    end: float = 0.0

    @property
    def per_second(self) -> float:
        """Acknowledged changes a second."""
        return self.acknowledged / (self.end - self.start)


@contextlib.contextmanager
def _changes(port: int) -> Iterator[_Changes]:
    """Put subscriptions at a rate, beside other work."""
    made, stop = _Changes(time.perf_counter()), threading.Event()

    async def put(number: int, limit: asyncio.Semaphore) -> None:
        async with limit:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            content = json.dumps({"where": f"symbol = 'NEW' AND price > {number}"}).encode()
            head = f"PUT /subscriptions/new-{number % 5000} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
            writer.write(head.encode() + content)
            answer = await reader.read()
            made.acknowledged += answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201"))
            writer.close()

    async def put_all() -> None:
        limit, tasks = asyncio.Semaphore(100), set()
        for number in itertools.count():
            if stop.is_set():
                break
            tasks.add(asyncio.create_task(put(number, limit)))
            due = made.start + number / CHANGES_A_SECOND
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await asyncio.gather(*tasks)

    thread = threading.Thread(target=lambda: asyncio.run(put_all()))
    thread.start()
    try:
        yield made
    finally:
        stop.set()
        thread.join()
        made.end = time.perf_counter()
