"""Matches reach the inboxes of subscribers, once, by every way there is."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from serving import ServerProcess, wait_for
from tocsin.delivery.webhook import is_signed

SECRET = "a secret of a subscriber"


def subscribe(client: httpx.Client, name: str, where: str | None = None) -> None:
    """A subscription of the subscriber `name`, to events that have the attribute `name`."""
    body = {"where": where or f"{name} >= 0", "subscriber": name}
    assert client.put(f"/subscriptions/{name}", json=body).status_code == 201


def publish(client: httpx.Client, name: str, *values: int, **more: Any) -> dict[str, Any]:
    answer = client.post("/publish", json={"events": [{name: value, **more} for value in values]})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def entries(client: httpx.Client, name: str, after: int = 0, wait: float = 0) -> list[dict[str, Any]]:
    answer = client.get(f"/inbox/{name}", params={"after": after, "wait": wait})
    found: list[dict[str, Any]] = answer.json()["entries"]
    return found


def values(found: list[dict[str, Any]], name: str) -> list[Any]:
    """The values of the events of entries; a digest is a list of them."""
    return [
        [match["event"][name] for match in entry["digest"]] if "digest" in entry else entry["event"][name]
        for entry in found
    ]


def test_an_inbox_has_each_match_once_and_in_order(client: httpx.Client, name: str) -> None:
    subscribe(client, name)
    publish(client, name, 1, 2, 3)
    publish(client, name, 4)
    found = entries(client, name)
    assert values(found, name) == [1, 2, 3, 4]
    assert [entry["subscription"] for entry in found] == [name] * 4
    numbers = [entry["number"] for entry in found]
    assert numbers == sorted(set(numbers))
    assert values(entries(client, name, after=numbers[1]), name) == [3, 4]


def test_a_repeated_publish_is_not_delivered_again(client: httpx.Client, name: str) -> None:
    subscribe(client, name)
    for number in range(3):
        answer = client.post("/publish", json={"event": {name: 1}}, headers={"Idempotency-Key": name}).json()
        assert answer["repeated"] is (number > 0)
        assert [match["id"] for match in answer["matches"]] == [name]
    assert len(entries(client, name)) == 1


def test_a_long_poll_waits_for_the_first_entry(server: ServerProcess, client: httpx.Client, name: str) -> None:
    subscribe(client, name)
    found: list[list[dict[str, Any]]] = []

    def wait() -> None:
        with server.client() as other:
            found.append(entries(other, name, wait=20))

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.3)
    assert not found
    publish(client, name, 7)
    thread.join(10)
    assert values(found[0], name) == [7]
    assert entries(client, name, after=found[0][0]["number"], wait=0.1) == []


def test_server_sent_events_go_on_where_the_client_stopped(client: httpx.Client, name: str) -> None:
    subscribe(client, name)
    publish(client, name, 1, 2)

    def read(count: int, last: str = "") -> list[tuple[str, int]]:
        headers = {"Last-Event-ID": last} if last else {}
        seen = []
        with client.stream("GET", f"/inbox/{name}/stream", headers=headers) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            number = ""
            for line in answer.iter_lines():
                if line.startswith("id: "):
                    number = line[4:]
                elif line.startswith("data: "):
                    seen.append((number, json.loads(line[6:])["event"][name]))
                    if len(seen) == count:
                        break
        return seen

    first = read(2)
    assert [value for _, value in first] == [1, 2]
    publish(client, name, 3)
    assert [value for _, value in read(1, first[-1][0])] == [3]


def test_a_websocket_follows_an_inbox(server: ServerProcess, client: httpx.Client, name: str) -> None:
    subscribe(client, name)
    publish(client, name, 1)
    with connect(f"ws://127.0.0.1:{server.port}/inbox/{name}/socket?after=0") as socket:
        assert json.loads(socket.recv(10))["event"] == {name: 1}
        publish(client, name, 2)
        assert json.loads(socket.recv(10))["event"] == {name: 2}


def settings(client: httpx.Client, name: str, **given: Any) -> None:
    assert client.put(f"/inbox/{name}/settings", json=given).status_code == 200
    shown = client.get(f"/inbox/{name}/settings").json()
    assert set(shown) == set(given)


def test_repetitions_are_told_once(client: httpx.Client, name: str) -> None:
    subscribe(client, name)
    settings(client, name, dedupe=["subscription", "isbn"])
    publish(client, name, 1, isbn="p")
    publish(client, name, 2, isbn="p")
    publish(client, name, 3, isbn="q")
    assert values(entries(client, name), name) == [1, 3]


def test_a_digest_comes_when_there_are_enough_or_it_is_time(client: httpx.Client, name: str) -> None:
    subscribe(client, name)
    settings(client, name, digest={"matches": 3, "seconds": 1.0})
    publish(client, name, 1, 2)
    assert entries(client, name) == []
    publish(client, name, 3)
    assert values(entries(client, name), name) == [[1, 2, 3]]
    publish(client, name, 4)
    assert len(entries(client, name)) == 1
    found = entries(client, name, after=entries(client, name)[-1]["number"], wait=10)
    assert values(found, name) == [[4]]


def test_above_the_rate_matches_wait_and_come_as_a_digest(client: httpx.Client, name: str) -> None:
    subscribe(client, name)
    settings(client, name, rate={"entries": 2, "seconds": 1.5})
    for value in (1, 2, 3, 4):
        publish(client, name, value)
    assert values(entries(client, name), name) == [1, 2]
    found = entries(client, name, after=entries(client, name)[-1]["number"], wait=10)
    assert values(found, name) == [[3, 4]]


def test_in_quiet_hours_nothing_is_told(client: httpx.Client, name: str) -> None:
    subscribe(client, name)
    now = time.time()
    clock = [time.strftime("%H:%M:%S", time.gmtime(now + shift)) for shift in (-3600, 3600)]
    settings(client, name, quiet={"from": clock[0], "to": clock[1]})
    publish(client, name, 1, 2)
    assert entries(client, name) == []
    settings(client, name, quiet={"from": clock[1], "to": clock[0]})
    assert values(entries(client, name, wait=10), name) == [[1, 2]]


class Receiver:
    """A webhook that refuses the first requests."""

    def __init__(self, refusals: int) -> None:
        self.received: list[tuple[dict[str, str], bytes]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.received.append((dict(self.headers), body))
                self.send_response(500 if len(outer.received) <= refusals else 204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/hook"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver(refusals=2)
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_webhook_is_signed_and_tried_again(client: httpx.Client, name: str, receiver: Receiver) -> None:
    subscribe(client, name)
    settings(client, name, webhook={"url": receiver.url, "secret": SECRET})
    assert client.get(f"/inbox/{name}/settings").json()["webhook"] == {"url": receiver.url}
    publish(client, name, 5)
    wait_for(lambda: len(receiver.received) >= 3)
    time.sleep(0.5)
    assert len(receiver.received) == 3
    keys = {headers["Idempotency-Key"] for headers, _ in receiver.received}
    assert len(keys) == 1
    headers, body = receiver.received[-1]
    assert is_signed(headers["Tocsin-Signature"], SECRET, body, time.time())
    assert not is_signed(headers["Tocsin-Signature"], SECRET + "!", body, time.time())
    sent = json.loads(body)
    (entry,) = entries(client, name)
    assert (sent["subscriber"], sent["number"], sent["entry"]["event"]) == (name, entry["number"], {name: 5})


def test_one_dead_webhook_does_not_hold_up_another(client: httpx.Client, name: str, receiver: Receiver) -> None:
    subscribe(client, name)
    settings(client, name, webhook={"url": "http://127.0.0.1:9/", "secret": SECRET})
    publish(client, name, *range(20))
    other = f"{name}b"
    subscribe(client, other)
    settings(client, other, webhook={"url": receiver.url, "secret": SECRET})
    publish(client, other, 5)
    wait_for(lambda: len(receiver.received) >= 3)
    assert client.get(f"/inbox/{name}/dead").json() == {"dead": []}
