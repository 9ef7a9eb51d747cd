"""Bad requests get an answer that says what is wrong, and leave the server as it was."""

import json
import random
import socket
import time
from typing import Any

import httpx
import pytest

from serving import ServerProcess
from tocsin import Matcher, SubscriptionError


def error_of(answer: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any] = answer.json()["error"]
    assert found["message"]
    return found


def test_a_bad_condition_has_the_error_of_the_library(client: httpx.Client, name: str) -> None:
    answer = client.put(f"/subscriptions/{name}", json={"where": "price BETWEEN 10"})
    assert answer.status_code == 422
    found = error_of(answer)
    assert (found["type"], found["subscription"]) == ("SubscriptionError", name)
    with pytest.raises(SubscriptionError) as raised:
        Matcher().subscribe(name, "price BETWEEN 10")
    library = raised.value
    assert (found["message"], found["position"], found["hint"]) == (library.message, library.position, library.hint)
    assert client.get(f"/subscriptions/{name}").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/match", b"{", 400),
        ("POST", "/match", b"[]", 400),
        ("POST", "/match", b"\xff", 400),
        ("POST", "/match", b'{"event": 3}', 400),
        ("POST", "/match", b'{"events": {}}', 400),
        ("POST", "/match", b'{"event": {}, "events": []}', 400),
        ("POST", "/match", b'{"event": {}, "tgas": {}}', 400),
        ("POST", "/match", b'{"event": {}, "tags": []}', 400),
        ("POST", "/match", b'{"event": {}, "top_k": "many"}', 400),
        ("POST", "/match", b'{"event": {}, "top_k": true}', 400),
        ("POST", "/match", b'{"event": {}, "top_k": 1, "mode": "best"}', 400),
        ("POST", "/match", b"[" * 100_000, 400),
        ("POST", "/match", b'{"event": {"a": ' + b"9" * 5000 + b"}}", 400),
        ("POST", "/publish", b'{"event": []}', 400),
        ("POST", "/check", b"{}", 400),
        ("POST", "/explain", b'{"event": {}, "id": "nobody at all"}', 404),
        ("POST", "/backtest", b'{"where": "x <"}', 422),
        ("PUT", "/subscriptions/x", b'{"where": "x < 1", "score": "high"}', 400),
        ("PUT", "/subscriptions/x", b'{"where": "x < 1", "score": Infinity}', 422),
        ("PUT", "/subscriptions/x", b'{"where": "x < :y", "params": {"z": 1}}', 422),
        ("PUT", "/subscriptions/x", b'{"where": "x < 1", "weihgts": {}}', 400),
        ("PUT", "/subscriptions/x", b'{"score": 1}', 400),
        ("PUT", "/subscriptions/%ED%A0%80", b'{"where": "x < 1", "tags": {"a": "\\ud800"}}', 422),
        ("PUT", "/inbox/x/settings", b'{"digest": {"minutes": 0}}', 400),
        ("PUT", "/inbox/x/settings", b'{"quiet": {"from": "25:00", "to": "7:00"}}', 400),
        ("PUT", "/inbox/x/settings", b'{"colour": "red"}', 400),
        ("PUT", "/inbox/x/settings", b'{"webhook": {"url": "file:///etc/passwd", "secret": "0123456789abcdef"}}', 400),
        ("GET", "/inbox/x?after=minus", b"", 400),
        ("GET", "/subscriptions?tag=novalue", b"", 400),
        ("GET", "/nowhere", b"", 404),
    ],
)
def test_bad_requests_are_refused(client: httpx.Client, method: str, path: str, body: bytes, status: int) -> None:
    answer = client.request(method, path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    error_of(answer)
    assert client.get("/subscriptions/x").status_code == 404


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_an_id_that_is_not_there_has_the_error_of_the_library(client: httpx.Client, method: str, name: str) -> None:
    answer = client.request(method, f"/subscriptions/{name}")
    assert answer.status_code == 404
    assert answer.json()["error"]["type"] == "UnknownSubscriptionError"
    assert answer.json()["error"]["message"] == f"there is no subscription {name!r}"


def test_an_event_that_is_no_object_is_named_as_it_was_given(client: httpx.Client) -> None:
    said = [
        client.post("/match", json=body).json()["error"]["message"] for body in ({"event": 3}, {"events": [{}, "x"]})
    ]
    assert said == ["`event` is a JSON number, not an object", "event 1 is a JSON text, not an object"]


@pytest.mark.parametrize("params", [{}, {"params": {}}, {"params": {"z": 1}}])
def test_a_parameter_without_a_value_is_named_where_it_stands(client: httpx.Client, params: dict[str, object]) -> None:
    given = {"where": "x = 'a:b' AND x < :y", **params}
    refused = client.put("/subscriptions/x", json=given)
    checked = client.post("/check", json=given)
    assert (refused.status_code, checked.status_code) == (422, 200)
    for error in (error_of(refused), *checked.json()["errors"]):
        assert error["message"] == "the parameter :y has no value"
        assert error["position"] == 18


def test_a_body_of_another_type_is_refused(client: httpx.Client) -> None:
    for path in ("/match", "/publish", "/check", "/subscriptions:bulk"):
        answer = client.post(path, content=b"a=1", headers={"Content-Type": "application/x-www-form-urlencoded"})
        assert answer.status_code == 415


def test_rubbish_for_arrow_is_refused(client: httpx.Client) -> None:
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    for body in (b"", b"rubbish", b"\xff" * 100, b"\x00" * 1000):
        assert client.post("/match", content=body, headers=headers).status_code == 400


def test_large_bodies_are_refused_whether_announced_or_not(client: httpx.Client) -> None:
    large = b'{"event": {"a": "' + b"x" * (5 << 20) + b'"}}'
    answer = client.post("/match", content=large, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413

    def parts() -> Any:
        for start in range(0, len(large), 1 << 16):
            yield large[start : start + (1 << 16)]

    try:
        answer = client.post("/match", content=parts(), headers={"Content-Type": "application/json"})
        assert answer.status_code == 413
    except (httpx.WriteError, httpx.RemoteProtocolError):
        pass  # the server hung up while we were still sending


def test_slow_bodies_and_slow_heads_are_cut_off(server: ServerProcess) -> None:
    head = b"POST /match HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    with socket.create_connection(("127.0.0.1", server.port), 10) as slow:
        slow.sendall(head)
        assert slow.recv(1000).startswith(b"HTTP/1.1 408")
    with socket.create_connection(("127.0.0.1", server.port), 30) as slower:
        slower.sendall(b"POST /match HTTP/1.1\r\nHost: lo")
        assert slower.recv(1000) == b""


def test_a_request_that_ends_half_way_changes_nothing(server: ServerProcess, client: httpx.Client, name: str) -> None:
    body = json.dumps({"where": f"{name} < 1"}).encode()
    head = f"PUT /subscriptions/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 10) as gone:
        gone.sendall(f"{head}Content-Length: {len(body) + 1}\r\n\r\n".encode() + body)
    time.sleep(0.3)
    assert client.get(f"/subscriptions/{name}").status_code == 404


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
def test_without_keys_pages_of_other_sites_are_refused(client: httpx.Client, headers: dict[str, str]) -> None:
    assert client.get("/stats", headers=headers).status_code == 403
    assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 200


def mangled(chosen: random.Random, body: bytes) -> bytes:
    """A body with something wrong."""
    data = bytearray(body)
    for _ in range(chosen.randint(1, 4)):
        place = chosen.randrange(len(data) + 1)
        action = chosen.randrange(4)
        if action == 0:
            data[place:place] = bytes(chosen.randrange(256) for _ in range(chosen.randint(1, 8)))
        elif action == 1:
            del data[place : place + chosen.randint(1, 10)]
        elif action == 2:
            data[place:place] = chosen.choice([b"null", b"[]", b"{}", b"1e999", b"-0", b'"\\ud800"', b"NaN", b"'"])
        else:
            data[place:place] = data[chosen.randrange(len(data) + 1) :][: chosen.randint(1, 30)]
    return bytes(data)


def fuzz(server: ServerProcess, requests: int, seed: int) -> None:
    """Send malformed requests; none may fail with a status of 500 or leave the server without an answer."""
    chosen = random.Random(seed)
    seeds = [
        ("POST", "/match", b'{"event": {"price": 5, "author": "Smith"}, "tags": {"a": "b"}, "top_k": 3}'),
        ("POST", "/publish", b'{"events": [{"price": 5}], "key": "k"}'),
        ("PUT", "/subscriptions/fuzz", b'{"where": "price < 10 AND a LIKE \'x%\'", "score": 1.5, "tags": {"a": "b"}}'),
        ("POST", "/subscriptions:bulk", b'{"id": "f", "where": "x < 1"}\n{"id": "g", "where": "y IN (1, 2)"}'),
        ("POST", "/check", b'{"where": "has_words(title, \'a b*\') OR price BETWEEN 1 AND 2"}'),
        ("POST", "/explain", b'{"event": {"a": [1, 2]}, "where": "array_contains(a, 1)"}'),
        ("POST", "/backtest", b'{"where": "a < 1", "events": [{"a": 0}]}'),
        ("PUT", "/inbox/fuzz/settings", b'{"digest": {"minutes": 5}, "rate": {"entries": 2}, "dedupe": "a, b"}'),
        ("GET", "/subscriptions?tag=a:b&limit=2&cursor=x", b""),
        ("GET", "/inbox/fuzz?after=1&limit=2", b""),
    ]
    with server.client() as client:
        for _ in range(requests):
            method, path, body = chosen.choice(seeds)
            kind = "application/x-ndjson" if "bulk" in path else "application/json"
            if chosen.random() < 0.1:
                kind = chosen.choice(["application/vnd.apache.arrow.stream", "text/plain", "application/x-ndjson"])
            if not body or chosen.random() < 0.1:
                path += "".join(chosen.choice("abc%/?&=:\u00e9") for _ in range(5))
            answer = client.request(method, path, content=mangled(chosen, body), headers={"Content-Type": kind})
            assert answer.status_code < 500, (method, path, answer.text)
        assert client.get("/healthz").status_code == 200


def test_malformed_requests_leave_it_serving(server: ServerProcess) -> None:
    workers = {child.pid for child in server.children("worker")}
    writers = {child.pid for child in server.children("writer")}
    fuzz(server, 400, seed=1)
    assert {child.pid for child in server.children("worker")} == workers
    assert {child.pid for child in server.children("writer")} == writers


@pytest.mark.slow
def test_ten_thousand_malformed_requests_leave_it_serving(server: ServerProcess) -> None:
    workers = {child.pid for child in server.children("worker")}
    fuzz(server, 10_000, seed=2)
    assert {child.pid for child in server.children("worker")} == workers


def test_a_bad_line_of_published_events_is_named_and_none_is_taken(client: httpx.Client, name: str) -> None:
    lines = f'{{"{name}": 1}}\n{{"{name}": }}\n'
    answer = client.post("/publish", content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["message"].startswith("line 2: ")
    assert error["position"] == lines.index("}\n", 20) - lines.index("\n") - 1
    assert not [event for event in client.get("/events").json()["events"] if name in event["event"]]
