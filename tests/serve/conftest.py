"""One server for the tests that only ask; each brings attributes and ids of its own."""

import uuid
from collections.abc import Iterator

import httpx
import pytest

from serving import ServerProcess


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("served")
    data = folder / "data"
    data.mkdir()
    running = ServerProcess(
        folder / "index", ["--data", str(data), "--max-body-mb", "4", "--body-seconds", "1.5", "--audit", "0.5"]
    )
    yield running
    running.stop()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture
def name() -> str:
    """A name that no other test uses, for attributes, ids and subscribers."""
    return f"n{uuid.uuid4().hex[:10]}"
