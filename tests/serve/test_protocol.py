"""Single matches take a lane of their own; whichever way a request comes, it gets the same answer, in its turn."""

import asyncio
import json
import socket
from typing import Any, NamedTuple

import httpx
import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from serving import ServerProcess
from tocsin.serve.gate import Caller
from tocsin.serve.match_lane import MOST_HEADS, Answer, KnownHeads, MatchLane
from tocsin.serve.protocol import HttpProtocol
from tocsin.serve.tenants import Tenant, hash_of


def request(body: bytes, *headers: str, path: str = "/match") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def answers(server: ServerProcess, parts: list[bytes], count: int) -> list[tuple[int, bytes]]:
    """The status and the body of each answer to what is sent, part by part."""
    with socket.create_connection(("127.0.0.1", server.port), 30) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = client.makefile("rb")
        for part in parts:
            client.sendall(part)
        found = []
        for _ in range(count):
            status, length = int(reader.readline().split()[1]), 0
            while (line := reader.readline().strip()) != b"":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            found.append((status, reader.read(length)))
        return found


@pytest.fixture
def subscribed(client: httpx.Client, name: str) -> str:
    for number in range(3):
        client.put(f"/subscriptions/{name}-{number}", json={"where": f"{name} > {number}", "score": number + 0.5})
    return name


def expected(name: str, value: int) -> bytes:
    found = [{"id": f"{name}-{number}", "score": number + 0.5} for number in range(3) if value > number]
    return json.dumps({"matches": found}).encode()


def event(name: str, value: int) -> bytes:
    return json.dumps({"event": {name: value}}).encode()


def test_requests_in_one_packet_are_answered_in_order(server: ServerProcess, subscribed: str) -> None:
    bodies = [event(subscribed, value) for value in (0, 1, 2, 3)]
    health = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    sent = [
        request(bodies[1]),
        health,
        request(bodies[2]),
        request(b"{"),
        request(bodies[3]),
        request(bodies[0]),
        health,
    ]
    found = answers(server, [b"".join(sent)], len(sent))
    ok = (200, b'{"status": "ok"}')
    one, two, three, nothing = ((200, expected(subscribed, value)) for value in (1, 2, 3, 0))
    assert [*found[:3], *found[4:]] == [one, ok, two, three, nothing, ok]
    assert found[3][0] == 400


@pytest.mark.parametrize("at", [1, 30, -20, -1])
def test_a_request_in_pieces_has_the_same_answer(server: ServerProcess, subscribed: str, at: int) -> None:
    whole = request(event(subscribed, 2))
    assert answers(server, [whole[:at], whole[at:], whole], 2) == [(200, expected(subscribed, 2))] * 2


def test_a_chunked_body_has_the_same_answer(server: ServerProcess, subscribed: str) -> None:
    body = event(subscribed, 3)
    head = b"POST /match HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (5, body[:5], len(body) - 5, body[5:])
    assert answers(server, [head + chunks], 1) == [(200, expected(subscribed, 3))]


def test_a_connection_is_closed_when_the_client_wants_it(server: ServerProcess, subscribed: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 30) as client:
        client.sendall(request(event(subscribed, 1), "Connection: close"))
        content = b"".join(iter(lambda: client.recv(65536), b""))
    assert content.endswith(expected(subscribed, 1))


def test_requests_are_counted_once(server: ServerProcess, client: httpx.Client, subscribed: str) -> None:
    def counted() -> tuple[float, float]:
        counters = client.get("/stats").json()["counters"]
        return counters["requests"], counters["errors"]

    requests, errors = counted()
    answers(server, [request(event(subscribed, 1)) * 5 + request(b'{"event": 1}')], 6)
    assert counted() == (requests + 7, errors + 1)


KEYS = {hash_of(key): key for key in ("ada", "bob")}


class Transport:
    """Keeps what is written to it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def write(self, content: bytes) -> None:
        self.written.append(content)

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...


class Lane:
    """Answers with the body, and says who asked; takes no body that begins with `{`."""

    def __init__(self) -> None:
        self.heads = KnownHeads()
        self.admissions = 0

    def flush(self) -> None: ...

    def is_for(self, scope: Scope, url: bytes, method: bytes) -> bool:
        return MatchLane.is_for(scope, url, method)

    def take(self, caller: Caller, body: bytes, answer: Answer, state: dict[str, Any]) -> bool:
        self.admissions += 1
        state["tenant"] = Tenant(KEYS[caller.key_hash])
        if body.startswith(b"{"):
            state["document"] = body
            return False
        answer(state["tenant"].name.encode() + b" " + body)
        return True


class Parser:
    """Counts what is parsed."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser
        self.fed = 0

    def feed_data(self, data: bytes) -> None:
        self.fed += 1
        self._parser.feed_data(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)


class Seen(NamedTuple):
    """What became of some packets."""

    written: list[bytes]
    parsed: int
    admissions: int


async def refusing(scope: Scope, _: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 400, "headers": []})
    await send({"type": "http.response.body", "body": scope["state"]["tenant"].name.encode()})


async def _received(packets: list[bytes], app: ASGIApp) -> Seen:
    config = uvicorn.Config(app, lifespan="off", log_level="warning")
    config.load()
    lane, transport = Lane(), Transport()
    made: Any = HttpProtocol
    protocol = made(lane=lane, config=config, server_state=ServerState(), app_state={})
    protocol.connection_made(transport)
    protocol.parser = parser = Parser(protocol.parser)
    for packet in packets:
        protocol.data_received(packet)
        while protocol.tasks:
            await asyncio.sleep(0)
    protocol.connection_lost(None)
    return Seen(transport.written, parser.fed, lane.admissions)


def received(packets: list[bytes], app: ASGIApp = refusing) -> Seen:
    """Let one connection receive packets; what the lane does not take goes to an application."""
    return asyncio.run(_received(packets, app))


def test_a_head_is_parsed_once() -> None:
    sent = ((b"[11]", "ada"), (b"[22]", "ada"), (b"[33]", "bob"), (b"[4]", "ada"), (b"[55]", "bob"))
    seen = received([request(body, f"Authorization: Bearer {key}") for body, key in sent])
    assert seen.written == [key.encode() + b" " + body for body, key in sent]
    assert seen.parsed == 3, "one for each head that is new"
    assert seen.admissions == 5, "and everybody passes the gate each time"


def test_a_request_in_pieces_behind_a_known_head_is_parsed() -> None:
    whole = request(b"[11]", "Authorization: Bearer ada")
    assert received([whole, whole[:-2], whole[-2:]]).parsed == 3
    seen = received([whole, whole + whole, whole])
    assert (seen.written, seen.parsed) == ([b"ada [11]"] * 4, 2)


def test_a_refused_request_with_a_known_head_passes_the_gate_once() -> None:
    seen = received([request(body, "Authorization: Bearer ada") for body in (b"1", b"{", b"2")])
    assert seen.admissions == 3
    assert (seen.written[0], seen.written[-1]) == (b"ada 1", b"ada 2")
    assert b"400 Bad Request" in b"".join(seen.written[1:-1])


def test_known_heads_are_few_and_say_how_long_the_body_is() -> None:
    heads, scope = KnownHeads(), {"headers": [(b"host", b"localhost"), (b"content-length", b"3")]}
    heads.learn(b"chunked", {"headers": []}, 3)
    heads.learn(b"two requests", scope, 30)
    heads.learn(b"x" * 5000, scope, 3)
    assert heads.find(b"chunked", 3) is heads.find(b"two requests", 30) is heads.find(b"x" * 5000, 3) is None
    heads.learn(b"first", scope, 3)
    assert heads.find(b"first", 4) is None
    assert heads.find(b"first", 3) == Caller(is_own=True, key_hash="")
    for number in range(MOST_HEADS):
        heads.learn(b"%d" % number, scope, 3)
    assert heads.find(b"first", 3) is None


def test_the_document_that_the_lane_declines_goes_on_with_the_request() -> None:
    whole = request(b'{"events": []}', "Authorization: Bearer ada")
    parsed: list[object] = []

    async def answer(scope: Scope, _: Receive, send: Send) -> None:
        parsed.append(scope["state"].get("document"))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    received([whole, whole], answer)
    assert parsed == [b'{"events": []}'] * 2


def test_a_body_of_another_type_goes_the_usual_way(server: ServerProcess, subscribed: str) -> None:
    body = event(subscribed, 1)
    found = answers(server, [request(body, "Content-Type: text/plain"), request(body)], 2)
    assert [status for status, _ in found] == [415, 200]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32-le"])
def test_a_body_in_another_encoding_has_the_same_answer(server: ServerProcess, subscribed: str, encoding: str) -> None:
    body = event(subscribed, 2).decode().encode(encoding)
    assert answers(server, [request(body)], 1) == [(200, expected(subscribed, 2))]
