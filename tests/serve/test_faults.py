"""Processes are killed at random moments under load: nothing that was acknowledged is lost or doubled."""

import itertools
import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import psutil  # type: ignore[import-untyped]  # it has no stubs
import pytest

from serving import ServerProcess, wait_for

SUBSCRIBER = "ada"


class Load:
    """Clients that change and publish without end, and know what was acknowledged."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.stopped = threading.Event()
        self.put: dict[str, str] = {}
        """The condition of each acknowledged subscription."""
        self.published: list[int] = []
        self._numbers = itertools.count()
        self._failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in (self._change, self._publish)]
        for thread in self._threads:
            thread.start()

    def _run(self, work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except BaseException as error:
            self._failures.append(error)

    def _request(self, method: str, path: str, body: dict[str, object], headers: dict[str, str]) -> bool:
        """Send a request until it is acknowledged; False if the load ends before that."""
        while True:
            try:
                with httpx.Client(base_url=self.server.address, timeout=30) as client:
                    answer = client.request(method, path, json=body, headers=headers)
                if answer.status_code in (200, 201):
                    return True
                assert answer.status_code == 503, answer.text
            except httpx.TransportError:
                pass
            if self.stopped.is_set():
                return False
            time.sleep(0.05)

    def _change(self) -> None:
        while not self.stopped.is_set():
            number = next(self._numbers)
            id, where = f"s{number % 50}", f"never = {number}"
            if self._request("PUT", f"/subscriptions/{id}", {"where": where}, {}):
                self.put[id] = where
            else:
                # It may have been taken or not.
                self.put.pop(id, None)

    def _publish(self) -> None:
        for value in itertools.count():
            if self.stopped.is_set():
                return
            if self._request("POST", "/publish", {"event": {"x": value}}, {"Idempotency-Key": f"k{value}"}):
                self.published.append(value)

    def stop(self) -> None:
        self.stopped.set()
        for thread in self._threads:
            thread.join(60)
        assert self._failures == []


def inbox(client: httpx.Client) -> Counter[int]:
    found: Counter[int] = Counter()
    after = 0
    while True:
        answer = client.get(f"/inbox/{SUBSCRIBER}", params={"after": after, "limit": 1000}).json()
        if not answer["entries"]:
            return found
        found.update(entry["event"]["x"] for entry in answer["entries"])
        after = answer["after"]


def kill_at_random(folder: Path, rounds: int, seed: int) -> None:
    chosen = random.Random(seed)
    server, load = ServerProcess(folder), None
    try:
        with server.client() as client:
            answer = client.put("/subscriptions/all", json={"where": "x >= 0", "subscriber": SUBSCRIBER})
            assert answer.status_code == 201
        load = Load(server)
        for _ in range(rounds):
            time.sleep(chosen.uniform(0.0, 1.0))
            what = chosen.choice(["writer", "worker", "all"])
            if what == "all":
                server.kill_all()
                server.start()
            else:
                running = server.children(what)
                if running:
                    _kill(chosen.choice(running))
            before = len(load.published), len(load.put)
            wait_for(lambda before=before: (len(load.published), len(load.put)) > before, 60)
        load.stop()
        with server.client() as client:
            for id, where in load.put.items():
                assert client.get(f"/subscriptions/{id}").json()["where"] == where
            found = inbox(client)
        assert [value for value in load.published if found[value] != 1] == []
        assert [value for value, times in found.items() if times > 1] == []
        # The last one may have been delivered without an acknowledgement.
        assert set(found) - set(load.published) <= {max(load.published) + 1}
        assert len(load.published) >= rounds
    finally:
        if load is not None:
            load.stopped.set()
        server.stop()


def _kill(process: psutil.Process) -> None:
    os.kill(process.pid, signal.SIGKILL)


def test_a_few_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    kill_at_random(tmp_path / "index", rounds=5, seed=1)


@pytest.mark.slow
def test_a_hundred_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    kill_at_random(tmp_path / "index", rounds=int(os.environ.get("FAULT_RUNS", "100")), seed=2)


def test_the_history_has_what_was_delivered_before_a_kill(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "index", ["--workers", "1"])
    try:
        with server.client() as client:
            body = {"where": "x > ALL (SELECT x FROM history)", "subscriber": SUBSCRIBER}
            assert client.put("/subscriptions/record", json=body).status_code == 201
            for value in (5, 9, 7):
                assert client.post("/publish", json={"event": {"x": value}}).status_code == 200
        for child in server.children("writer"):
            _kill(child)
        with server.client() as client:
            # While the writer starts again, a change is refused: it can be asked for once more.
            answers: list[httpx.Response] = []

            def published() -> bool:
                answers.append(client.post("/publish", json={"event": {"x": 8}}))
                return answers[-1].status_code == 200

            wait_for(published)
            assert answers[-1].json()["matches"] == []
            assert len(client.post("/publish", json={"event": {"x": 10}}).json()["matches"]) == 1
            assert inbox(client) == Counter([5, 9, 10])
    finally:
        server.stop()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_terminal_ends_the_server_in_order_and_silently(
    tmp_path: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests under way are answered, streams end, nothing is said of it, and nothing is left behind."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    server = ServerProcess(tmp_path / "index", ["--workers", "1"])
    waited: list[httpx.Response] = []

    def wait_for_entries() -> None:
        with server.client() as client:
            waited.append(client.get(f"/inbox/{SUBSCRIBER}", params={"wait": 60}))

    assert len(list(temporary.iterdir())) == 1, "the board and the socket of the writer"
    with server.client() as client:
        client.put("/subscriptions/all", json={"where": "x >= 0", "subscriber": SUBSCRIBER}).raise_for_status()
        waiting = threading.Thread(target=wait_for_entries)
        waiting.start()
        with client.stream("GET", f"/inbox/{SUBSCRIBER}/stream") as stream:
            lines = stream.iter_lines()
            assert next(lines) == "retry: 1000"
            with server.client() as other:
                wait_for(lambda: other.get("/stats").json()["counters"]["connections"] == 3)
            said = len(server.log)
            server.signal_as_terminal(number)
            assert list(lines)[-1] == ""
    waiting.join(30)
    assert server.process.wait(30) == 0
    assert [answer.json()["entries"] for answer in waited] == [[]]
    assert server.log[said:] == []
    assert list(temporary.iterdir()) == []
