"""Tenants see and change what is theirs, and not more of it than they may."""

import asyncio
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from serving import ServerProcess, wait_for
from tocsin import cli
from tocsin.model.limits import Limits
from tocsin.serve.bodies import arrow_bytes
from tocsin.serve.tenants import KeyFile


class Tenants:
    """A server with keys: an administrator, two tenants, and one with narrow limits."""

    def __init__(self, folder: Path) -> None:
        self.file = KeyFile(folder / "keys.json")
        self.admin = self.file.add("root", {}, admin=True)
        wide = Limits(subscriptions=1000, predicates=50, text_bytes=1000, matches=100, requests=1000.0)
        self.acme = self.file.add("acme", {}, wide)
        self.zeta = self.file.add("zeta", {}, wide)
        narrow = Limits(subscriptions=3, predicates=4, text_bytes=60, matches=2, requests=30.0)
        self.narrow = self.file.add("narrow", {"team": "x"}, narrow)
        self.server = ServerProcess(folder / "index", ["--keys", str(self.file.path), "--workers", "1"])

    def client(self, key: str | None) -> httpx.Client:
        return self.server.client(key)


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    made = Tenants(tmp_path_factory.mktemp("tenants"))
    yield made
    made.server.stop()


def ids(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [match["id"] for match in answer.json()["matches"]]


def test_without_a_key_only_the_page_and_health_answer(tenants: Tenants) -> None:
    with tenants.client(None) as nobody:
        assert nobody.get("/healthz").status_code == 200
        assert nobody.get("/").status_code == 200
        for path in ("/stats", "/subscriptions", "/inbox/ada", "/metrics", "/plan"):
            assert nobody.get(path).status_code == 401
        assert nobody.post("/match", json={"event": {}}).status_code == 401
        assert nobody.get("/stats", headers={"Authorization": "Bearer wrong"}).status_code == 401


def test_tenants_do_not_see_each_other(tenants: Tenants) -> None:
    with tenants.client(tenants.acme) as acme, tenants.client(tenants.zeta) as zeta:
        for one in (acme, zeta):
            body = {"where": "shared < 10", "subscriber": "ada"}
            assert one.put("/subscriptions/mine", json=body).status_code == 201
        assert acme.put("/subscriptions/only-acme", json={"where": "shared < 20"}).status_code == 201
        assert ids(acme.post("/match", json={"event": {"shared": 5}})) == ["mine", "only-acme"]
        assert ids(zeta.post("/match", json={"event": {"shared": 5}})) == ["mine"]
        assert ids(zeta.post("/match", json={"events": [{"shared": 5}]})) == ["mine"]
        assert ids(zeta.post("/match", json={"event": {"shared": 5}, "top_k": 9})) == ["mine"]
        sink = pa.BufferOutputStream()
        events = pa.table({"shared": [5]})
        with pa.ipc.new_stream(sink, events.schema) as writer:
            writer.write_table(events)
        headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
        answer = zeta.post("/match", content=sink.getvalue().to_pybytes(), headers=headers)
        assert pa.ipc.open_stream(answer.content).read_all()["subscription"].to_pylist() == ["mine"]
        assert zeta.get("/subscriptions/only-acme").status_code == 404
        assert zeta.delete("/subscriptions/only-acme").status_code == 404
        assert zeta.get("/subscriptions/../acme/mine").status_code == 404
        assert zeta.post("/explain", json={"event": {}, "id": "only-acme"}).status_code == 404
        listed = [row["id"] for row in zeta.get("/subscriptions").json()["subscriptions"]]
        assert listed == ["mine"]
        assert "tenant" not in zeta.get("/subscriptions/mine").json()["tags"]
        refused = zeta.post("/match", json={"event": {}, "tags": {"tenant": "acme"}})
        assert refused.status_code == 400
        assert zeta.put("/subscriptions/a", json={"where": "x < 1", "tags": {"tenant": "acme"}}).status_code == 400


def test_inboxes_and_events_belong_to_a_tenant(tenants: Tenants) -> None:
    with tenants.client(tenants.acme) as acme, tenants.client(tenants.zeta) as zeta:
        acme.put("/subscriptions/in", json={"where": "secret >= 1", "subscriber": "eve"})
        zeta.put("/subscriptions/in", json={"where": "secret >= 1", "subscriber": "eve"})
        assert ids(acme.post("/publish", json={"event": {"secret": 1}, "key": "k"})) == ["in"]
        assert len(acme.get("/inbox/eve").json()["entries"]) == 1
        assert zeta.get("/inbox/eve").json()["entries"] == []
        assert zeta.get("/inbox/acme%2Feve").json()["entries"] == []
        assert zeta.get("/events").json()["events"] == []
        assert zeta.post("/backtest", json={"where": "secret >= 1"}).json()["hits"] == 0
        # The key of a request is a tenant's own as well.
        assert ids(zeta.post("/publish", json={"event": {"secret": 2}, "key": "k"})) == ["in"]
        assert [entry["subscription"] for entry in zeta.get("/inbox/eve").json()["entries"]] == ["in"]
        assert "acme" not in zeta.get("/stats").text


def test_an_administrator_reads_any_inbox_and_slashes_are_part_of_names(tenants: Tenants) -> None:
    with (
        tenants.client(tenants.acme) as acme,
        tenants.client(tenants.zeta) as zeta,
        tenants.client(tenants.admin) as root,
    ):
        for one in (acme, root):
            body = {"where": "slashed = 1", "subscriber": "team/bob"}
            assert one.put("/subscriptions/slashed", json=body).status_code == 201
        root.post("/publish", json={"event": {"slashed": 1}}).raise_for_status()

        def read(one: httpx.Client, inbox: str) -> list[str]:
            return [entry["subscription"] for entry in one.get(f"/inbox/{inbox}").json()["entries"]]

        assert read(acme, "team%2Fbob") == read(root, "acme/team/bob") == read(root, "/team/bob") == ["slashed"]
        assert read(zeta, "acme%2Fteam%2Fbob") == read(zeta, "team/bob") == read(root, "team/bob") == []
        assert root.put("/inbox/acme/team/bob/settings", json={"dedupe": "subscription"}).status_code == 200
        assert acme.get("/inbox/team/bob/settings").json() == {"dedupe": "subscription"}


def test_what_shows_all_tenants_is_for_administrators(tenants: Tenants) -> None:
    with tenants.client(tenants.acme) as acme, tenants.client(tenants.admin) as admin:
        for path in ("/metrics", "/plan"):
            assert acme.get(path).status_code == 403
            assert admin.get(path).status_code == 200
        assert acme.post("/backtest", json={"where": "x < 1", "parquet": "."}).status_code == 403
        acme.put("/subscriptions/seen", json={"where": "seen < 10"})
        assert ids(admin.post("/match", json={"event": {"seen": 5}})) == ["acme/seen"]


def test_history_is_not_for_tenants(tenants: Tenants) -> None:
    with tenants.client(tenants.acme) as acme:
        where = "price > ALL (SELECT price FROM history)"
        assert acme.put("/subscriptions/back", json={"where": where}).status_code == 422
        line = f'{{"id": "back", "where": "{where}"}}'
        answer = acme.post("/subscriptions:bulk", content=line, headers={"Content-Type": "application/x-ndjson"})
        assert (answer.json()["taken"], answer.json()["rejected_count"]) == (0, 1)


def test_limits_answer_with_their_reason(tenants: Tenants) -> None:
    with tenants.client(tenants.narrow) as narrow:
        for id in ("a", "b", "c"):
            assert narrow.put(f"/subscriptions/{id}", json={"where": "x > 0"}).status_code == 201
        refused = narrow.put("/subscriptions/d", json={"where": "x > 0"})
        assert (refused.status_code, "at most 3 are allowed" in refused.text) == (429, True)
        assert refused.json()["error"]["subscription"] == "d"
        assert narrow.put("/subscriptions/a", json={"where": "x > 1"}).status_code == 200
        line = '{"id": "d", "where": "x > 0"}'
        bulk = narrow.post("/subscriptions:bulk", content=line, headers={"Content-Type": "application/x-ndjson"})
        assert (bulk.status_code, bulk.json()["taken"], bulk.json()["rejected_count"]) == (200, 0, 1)
        assert "3 are allowed" in bulk.text
        assert narrow.delete("/subscriptions/b").status_code == 200
        assert narrow.put("/subscriptions/d", json={"where": "x > 0"}).status_code == 201
        long = narrow.put("/subscriptions/a", json={"where": "x > 0" + " " * 60})
        assert (long.status_code, "65 bytes" in long.text) == (422, True)
        many = narrow.put("/subscriptions/a", json={"where": "a = 1 AND b = 1 AND c = 1 AND d = 1 AND e = 1"})
        assert (many.status_code, "5 predicates" in many.text) == (422, True)
        matches = narrow.post("/match", json={"event": {"x": 5}})
        assert (matches.status_code, "3 subscriptions" in matches.text) == (422, True)
        for table, status in ((pa.table({"x": [5], "n": ["a"]}), 422), (pa.table({"x": [1, 1], "n": ["a", "a"]}), 200)):
            content, headers = arrow_bytes(table), {"Content-Type": "application/vnd.apache.arrow.stream"}
            for query in ("", "?id=n"):
                assert narrow.post(f"/match{query}", content=content, headers=headers).status_code == status
        published = narrow.post("/publish", json={"event": {"x": 5}}).json()
        assert (len(published["matches"]), published["left_out"]) == (2, 1)
        assert narrow.post("/publish", json={"event": {"x": -5}}).json()["left_out"] == 0


def test_requests_a_second_are_limited(tenants: Tenants) -> None:
    async def ask() -> list[int]:
        headers = {"Authorization": f"Bearer {tenants.narrow}"}
        async with httpx.AsyncClient(base_url=tenants.server.address, headers=headers, timeout=30) as client:
            answers = await asyncio.gather(*(client.get("/subscriptions/a") for _ in range(100)))
            assert all(int(answer.headers["retry-after"]) > 0 for answer in answers if answer.status_code == 429)
            return [answer.status_code for answer in answers]

    statuses = asyncio.run(ask())
    assert set(statuses) <= {200, 404, 429}
    assert statuses.count(429) > 0


def test_webhooks_of_tenants_stay_outside(tenants: Tenants) -> None:
    with tenants.client(tenants.acme) as acme:
        for url in ("http://127.0.0.1:9/", "http://[::1]/", "http://10.0.0.1/", "http://169.254.169.254/latest"):
            body = {"webhook": {"url": url, "secret": "0123456789abcdef"}}
            assert acme.put("/inbox/eve/settings", json=body).status_code == 400


def test_a_websocket_takes_its_key_as_a_subprotocol(tenants: Tenants) -> None:
    url = f"ws://127.0.0.1:{tenants.server.port}/inbox/eve/socket"
    with pytest.raises(InvalidStatus):
        connect(url)
    with tenants.client(tenants.zeta) as zeta:
        zeta.put("/subscriptions/socket", json={"where": "socket >= 1", "subscriber": "eve"})
        zeta.post("/publish", json={"event": {"socket": 1}})
    with connect(url, subprotocols=[f"tocsin.key.{tenants.zeta}"]) as socket:  # type: ignore[list-item]
        assert socket.recv(10)


def test_keys_are_added_listed_and_revoked(
    tenants: Tenants, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    file = str(tenants.file.path)
    assert cli.main(["keys", "add", file, "newcomer", "--requests", "5"]) == 0
    key = capsys.readouterr().out.strip()
    assert key not in tenants.file.path.read_text()
    assert stat.S_IMODE(tenants.file.path.stat().st_mode) == 0o600
    with tenants.client(key) as newcomer:
        wait_for(lambda: newcomer.get("/subscriptions").status_code == 200)
        assert cli.main(["keys", "list", file]) == 0
        shown = capsys.readouterr().out
        (line,) = [line for line in shown.splitlines() if "newcomer" in line]
        assert " requests 5.0 " in line, "what is not as usual, alone"
        assert max(map(len, shown.splitlines())) <= 120, "it fits a terminal, also in a file"
        (entry,) = [entry for entry in tenants.file.entries() if entry["name"] == "newcomer"]
        assert cli.main(["keys", "revoke", file, entry["id"]]) == 0
        wait_for(lambda: newcomer.get("/subscriptions").status_code == 401)
    assert cli.main(["keys", "revoke", file, "nothing"]) == 2
    assert cli.main(["keys", "add", file, "a/b"]) == 2


def test_without_keys_others_cannot_be_served(tmp_path: Path) -> None:
    assert cli.main(["serve", str(tmp_path / "index"), "--host", "0.0.0.0", "--port", "0"]) == 2
    assert cli.main(["serve"]) == 2
