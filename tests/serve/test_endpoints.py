"""Every endpoint, with a real server."""

import asyncio
import contextlib
import json
import re
import socket
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyarrow import parquet

from serving import ServerProcess, wait_for
from tocsin import Matcher
from tocsin.serve.openapi import CALLS
from tocsin.serve.service import RECENT

ARROW, LINES = "application/vnd.apache.arrow.stream", "application/x-ndjson"


def stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def put(client: httpx.Client, id: str, where: str, **more: Any) -> None:
    answer = client.put(f"/subscriptions/{id}", json={"where": where, **more})
    assert answer.status_code in (200, 201), answer.text


def ids(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [match["id"] for match in answer.json()["matches"]]


def test_a_subscription_is_put_read_matched_replaced_and_deleted(client: httpx.Client, name: str) -> None:
    body = {"where": f"{name} < 10", "score": 2.5, "weights": {name: 0.5}, "tags": {"team": "x"}, "subscriber": "ada"}
    assert client.put(f"/subscriptions/{name}", json=body).status_code == 201
    found = client.get(f"/subscriptions/{name}").json()
    assert found == {**body, "id": name, "tags": {"team": "x", "user": "ada"}}
    event = {"event": {name: 5}}
    assert client.post("/match", json=event).json()["matches"] == [{"id": name, "score": 2.5}]
    assert client.put(f"/subscriptions/{name}", json={"where": f"{name} > 10"}).status_code == 200
    assert ids(client.post("/match", json=event)) == []
    assert client.delete(f"/subscriptions/{name}").status_code == 200
    assert client.get(f"/subscriptions/{name}").status_code == 404
    assert client.delete(f"/subscriptions/{name}").status_code == 404


def test_an_acknowledged_change_is_seen_by_every_worker(server: ServerProcess, name: str) -> None:
    # New connections go to any worker; each must know what was acknowledged before.
    for number in range(15):
        with server.client() as one:
            put(one, name, f"{name} = {number}")
        for _ in range(4):
            with server.client() as other:
                assert ids(other.post("/match", json={"event": {name: number}})) == [name]


def test_connections_that_stay_open_are_shared_by_the_workers(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "index")

    def by_worker() -> list[int]:
        with server.client() as client:
            return [int(count) for count in re.findall(r"requests_total\{.*\} (\d+)", client.get("/metrics").text)]

    try:
        # The server is ready when one worker is.
        wait_for(lambda: all(by_worker()))
        before = by_worker()
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(60)]
            for one in opened:
                one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert one.recv(1000).startswith(b"HTTP/1.1 200")
            # A worker takes one that it should have left if the other does not come for it.
            counts = [now - then for now, then in zip(by_worker(), before, strict=True)]
            assert min(counts) >= 5, counts
            with server.client() as client:
                # One that was closed is counted until its worker looks.
                wait_for(lambda: client.get("/stats").json()["counters"]["connections"] == 61)
    finally:
        server.stop()


def test_many_changes_at_once_share_commits(server: ServerProcess, client: httpx.Client, name: str) -> None:
    before = client.get("/stats").json()["counters"]

    async def put_all() -> list[int]:
        async with httpx.AsyncClient(base_url=server.address, timeout=60) as many:
            bodies = [
                many.put(f"/subscriptions/{name}-{number}", json={"where": f"{name} = {number}"})
                for number in range(60)
            ]
            return [answer.status_code for answer in await asyncio.gather(*bodies)]

    assert asyncio.run(put_all()) == [201] * 60
    after = client.get("/stats").json()["counters"]
    assert after["changes"] - before["changes"] == 60
    assert after["commits"] - before["commits"] < 40
    assert ids(client.post("/match", json={"event": {name: 7}})) == [f"{name}-7"]


def test_concurrent_matches_equal_those_of_the_library(server: ServerProcess, client: httpx.Client, name: str) -> None:
    for number in range(5):
        put(client, f"{name}-{number}", f"{name} > {number * 10} AND {name}_b <> 3")
    events = [{name: value, f"{name}_b": value % 5} for value in range(60)]
    expected = Matcher()
    for number in range(5):
        expected.subscribe(f"{name}-{number}", f"{name} > {number * 10} AND {name}_b <> 3")

    async def match_all() -> list[list[str]]:
        limits = httpx.Limits(max_connections=60)
        async with httpx.AsyncClient(base_url=server.address, timeout=60, limits=limits) as many:
            answers = await asyncio.gather(*(many.post("/match", json={"event": event}) for event in events))
            return [ids(answer) for answer in answers]

    found = [answer for _ in range(3) for answer in asyncio.run(match_all())]
    assert found == [list(expected.match(event).ids) for event in events] * 3


def test_many_events_tags_top_k_and_highlight(client: httpx.Client, name: str) -> None:
    put(client, f"{name}-a", f"{name} < 10", score=1.0, tags={"team": name})
    put(client, f"{name}-b", f"{name} < 20", score=3.0)
    events = [{name: 5, "key": "p"}, {name: 15, "key": "q"}]
    answer = client.post("/match", json={"events": events, "id": "key"}).json()["matches"]
    assert [(match["event"], match["id"]) for match in answer] == [
        ("p", f"{name}-a"),
        ("p", f"{name}-b"),
        ("q", f"{name}-b"),
    ]
    assert ids(client.post("/match", json={"event": events[0], "tags": {"team": name}})) == [f"{name}-a"]
    assert ids(client.post("/match", json={"event": events[0], "top_k": 1})) == [f"{name}-b"]
    relaxed = {"event": {name: 100}, "top_k": 1, "mode": "relaxed", "tags": {"team": name}}
    assert ids(client.post("/match", json=relaxed)) == []
    (match,) = client.post("/match", json={"event": {name: 15}, "highlight": True}).json()["matches"]
    assert match["because"] == [f"{name} < 20"]
    put(client, f"{name}-c", f"has_words({name}, 'york')")
    (match,) = client.post("/match", json={"event": {name: "In York"}, "highlight": True}).json()["matches"]
    assert match["highlights"] == {name: [[3, 7]]}


def test_arrow_in_and_out(client: httpx.Client, name: str) -> None:
    rows = pa.table({"id": [f"{name}-a", f"{name}-b"], "where": [f"{name} < 10", f"{name} <"], "score": [1.0, 2.0]})
    answer = client.post("/subscriptions:bulk", content=stream(rows), headers={"Content-Type": ARROW}).json()
    assert answer["taken"] == 1
    assert [(row["line"], row["subscription"]) for row in answer["rejected"]] == [(2, f"{name}-b")]
    events = pa.table({name: [5, 50], "key": ["p", "q"]})
    found = client.post("/match?id=key", content=stream(events), headers={"Content-Type": ARROW})
    table = pa.ipc.open_stream(found.content).read_all()
    assert table.to_pylist() == [{"event": "p", "subscription": f"{name}-a", "score": 1.0}]


def test_bulk_lines_report_bad_rows_and_take_the_rest(client: httpx.Client, name: str) -> None:
    lines = [
        json.dumps({"id": f"{name}-1", "where": f"{name} < 1"}),
        "{",
        json.dumps({"id": f"{name}-2", "where": f"{name} AND"}),
        json.dumps({"id": f"{name}-3"}),
        "",
        json.dumps({"id": f"{name}-4", "where": f"{name} < :most", "params": {"most": 4}}),
    ]
    answer = client.post("/subscriptions:bulk", content="\n".join(lines), headers={"Content-Type": LINES}).json()
    assert (answer["taken"], [row["line"] for row in answer["rejected"]]) == (2, [2, 3, 4])
    assert answer["rejected"][1]["position"] is not None
    assert ids(client.post("/match", json={"event": {name: 0}})) == [f"{name}-1", f"{name}-4"]


def test_lists_by_tag_and_text_page_by_page(client: httpx.Client, name: str) -> None:
    for number in range(5):
        put(client, f"{name}-{number}", f"{name} < {number}", tags={"group": name})
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = client.get("/subscriptions", params={"tag": f"group:{name}", "limit": 2, "cursor": cursor}).json()
        found += [row["id"] for row in page["subscriptions"]]
        cursor = page["cursor"]
    assert found == [f"{name}-{number}" for number in range(5)]
    page = client.get("/subscriptions", params={"text": f"{name} < 3"}).json()
    assert [row["id"] for row in page["subscriptions"]] == [f"{name}-3"]


def test_a_list_warns_of_what_is_probably_not_meant(client: httpx.Client, name: str) -> None:
    client.post("/publish", json={"event": {name: 1}})
    wheres = {
        "fine": f"{name} < 5",
        "never": f"{name} < 1 AND {name} > 2",
        "always": f"{name} IS NULL OR {name} IS NOT NULL",
        "unknown": f"{name}x < 5",
    }
    for code, where in wheres.items():
        put(client, f"{name}-{code}", where, tags={"group": name})
    rows = client.get("/subscriptions", params={"tag": f"group:{name}"}).json()["subscriptions"]
    assert [(row["id"].partition("-")[2], bool(row["warnings"])) for row in rows] == [
        ("always", True),
        ("fine", False),
        ("never", True),
        ("unknown", True),
    ]
    assert rows[3]["warnings"] == [f"no event has '{name}x'"]
    client.post("/publish", json={"event": {f"{name}x": 1}})
    client.post("/publish", json={"events": [{name: 1}] * RECENT})
    (row,) = client.get("/subscriptions", params={"text": f"{name}-unknown"}).json()["subscriptions"]
    assert (row["hits"], row["warnings"]) == (1, [])
    assert "every event satisfies it" in rows[0]["warnings"]
    assert all("cost_share" in row for row in rows)
    # Other tests have no use for it.
    client.delete(f"/subscriptions/{name}-always")


def test_dates_of_json_events_are_dates(client: httpx.Client, name: str) -> None:
    put(client, name, f"{name} >= DATE '2026-03-01'")
    assert ids(client.post("/match", json={"event": {name: "2026-03-02"}})) == [name]
    assert ids(client.post("/match", json={"event": {name: "2026-02-02T10:00:00"}})) == []
    assert ids(client.post("/publish", json={"event": {name: "2026-03-02"}})) == [name]


def test_explain_tells_true_from_false_from_null(client: httpx.Client, name: str) -> None:
    body = {"event": {"a": 12}, "where": "(a < 10 OR b = 'x') AND a > 1"}
    answer = client.post("/explain", json=body).json()
    assert answer["matches"] is False
    either, more = answer["tree"]["parts"]
    assert [part["truth"] for part in (answer["tree"], either, *either["parts"], more)] == [
        "NULL",
        "NULL",
        "FALSE",
        "NULL",
        "TRUE",
    ]
    assert either["parts"][0]["values"] == {"a": 12}
    put(client, name, f"{name} < 10")
    assert client.post("/explain", json={"event": {name: 5}, "id": name}).json()["matches"] is True


def test_a_condition_that_looks_back_is_explained_against_published_events(client: httpx.Client, name: str) -> None:
    client.post("/publish", json={"events": [{name: 5}, {name: 7}]})
    where = f"{name} > ANY (SELECT {name} FROM history)"
    found = [client.post("/explain", json={"where": where, "event": {name: value}}).json() for value in (6, 4)]
    assert [one["matches"] for one in found] == [True, False]
    assert found[0]["tree"]["truth"] == "TRUE"


def test_check_names_errors_and_warnings(client: httpx.Client, name: str) -> None:
    put(client, name, f"{name} < 10")
    (error,) = client.post("/check", json={"where": "price BETWEEN 10"}).json()["errors"]
    assert error["message"]
    assert error["position"] >= 0
    assert error["hint"]

    def codes(where: str) -> list[str]:
        return [warning["code"] for warning in client.post("/check", json={"where": where}).json()["warnings"]]

    assert codes(f"{name} < 1 AND {name} > 2") == ["never"]
    assert codes(f"{name}_typo < 1") == ["unknown"]
    assert codes(f"{name} IS NOT NULL OR {name} IS NULL") == ["always", "unindexed"]
    assert codes(f"{name} < 5") == []


def test_backtest_of_published_posted_and_parquet_events(
    server: ServerProcess, client: httpx.Client, name: str
) -> None:
    put(client, name, f"{name} < 3")
    events = [{name: value} for value in range(10)]
    client.post("/publish", json={"events": events})
    answer = client.post("/backtest", json={"where": f"{name} BETWEEN 2 AND 6", "id": name}).json()
    assert answer["hits"] == 5
    assert sum(bucket["hits"] for bucket in answer["buckets"]) == 5
    assert {row["event"][name] for row in answer["examples"]} == {2, 3, 4, 5, 6}
    present = answer["present"]
    assert (present["hits"], present["gained"], present["lost"]) == (3, 4, 2)
    posted = client.post("/backtest", json={"where": f"{name} > ALL (SELECT {name} FROM history)", "events": events})
    assert posted.json()["hits"] == 10
    folder = server.folder.parent / "data" / name
    folder.mkdir()
    parquet.write_table(pa.table({name: list(range(100))}), folder / "a.parquet")
    found = client.post("/backtest", json={"where": f"{name} < 25", "parquet": name}).json()
    assert (found["events"], found["hits"]) == (100, 25)
    outside = client.post("/backtest", json={"where": f"{name} < 25", "parquet": "../index"})
    assert outside.status_code == 400


def test_history_is_shared_by_all_workers(server: ServerProcess, client: httpx.Client, name: str) -> None:
    # Events of other tests are history too: they have no such attribute, and ALL over NULL is NULL.
    put(client, name, f"{name} > ALL (SELECT {name} FROM history WHERE {name} IS NOT NULL)")
    rang = [ids(client.post("/publish", json={"event": {name: value}})) for value in (10, 12, 11)]
    assert rang == [[name], [name], []]
    for _ in range(6):
        with server.client() as any_worker:
            assert ids(any_worker.post("/match", json={"event": {name: 11}})) == []
            assert ids(any_worker.post("/match", json={"event": {name: 13}})) == [name]
    client.delete(f"/subscriptions/{name}")


def test_plan_stats_health_metrics(client: httpx.Client, name: str) -> None:
    put(client, name, f"{name} < 10")
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/plan").json()["steps"]
    stats = client.get("/stats").json()
    assert name in stats["attributes"]
    metrics = client.get("/metrics").text
    lines = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))
    assert float(lines["tocsin_requests_total"]) > 0
    assert "tocsin_audited_pairs_total" in lines
    assert float(lines["tocsin_audit_disagreements_total"]) == 0
    assert float(lines["tocsin_subscriptions"]) == stats["index"]["subscriptions"]


def test_the_openapi_document_has_every_route(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    assert set(document["paths"]) == set(CALLS)
    for path, methods in CALLS.items():
        url = path.replace("{id}", "nobody").replace("{subscriber}", "nobody")
        for method in ("get", "put", "post", "delete"):
            if path.endswith("/stream") and method == "get":
                continue
            status = client.request(method.upper(), url).status_code
            assert (status == 405) == (method not in methods), (method, url, status)


@pytest.mark.parametrize("path", ["/", "/page.js", "/page.css"])
def test_the_page_is_served_without_external_requests(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    assert "connect-src 'self'" in answer.headers["content-security-policy"]
    assert "https://" not in answer.text
