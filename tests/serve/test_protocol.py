"""Single matches take a lane of their own; whichever way a request comes, it gets the same answer, in its turn."""

import json
import socket

import httpx
import pytest

from serving import ServerProcess


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
