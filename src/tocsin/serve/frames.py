"""Messages between workers and the writer: JSON behind its length, over a Unix socket.

A worker numbers its requests, so that many wait for answers on one connection. The writer answers in any order.
"""

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

from tocsin.errors import StorageError

_HEAD = 4
MOST_BYTES = 1 << 30
CONNECT_SECONDS = 15.0
"""How long a worker waits for a writer that is being started again."""


def pack(message: dict[str, Any]) -> bytes:
    """Return a message as bytes."""
    # Dates of Arrow events become texts, as in JSON events.
    body = json.dumps(message, default=str).encode()
    return len(body).to_bytes(_HEAD) + body


async def read(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Read one message; raises IncompleteReadError at the end of the connection."""
    length = int.from_bytes(await reader.readexactly(_HEAD))
    if length > MOST_BYTES:
        raise ConnectionError(f"a message of {length:,} bytes")
    message: dict[str, Any] = json.loads(await reader.readexactly(length))
    return message


def writer_lost() -> StorageError:
    """Return the error for a request whose answer will not come."""
    return StorageError(
        "the writer stopped before it answered: the change may have been made or not",
        "Send it again; a publish with an Idempotency-Key is not delivered twice",
    )


class WriterClient:
    """A worker's connection to the writer; it connects when it is needed, and again when the writer was restarted."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = itertools.count()
        self._writer: asyncio.StreamWriter | None = None
        self._connecting = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a message and wait for its answer. Raises StorageError if the writer dies meanwhile."""
        writer = await self._connected()
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            writer.write(pack(message | {"number": number}))
            await writer.drain()
            result: dict[str, Any] = await answer
            return result
        except (ConnectionError, OSError):
            raise writer_lost() from None
        finally:
            self._waiting.pop(number, None)

    async def _connected(self) -> asyncio.StreamWriter:
        async with self._connecting:
            deadline = asyncio.get_running_loop().time() + CONNECT_SECONDS
            while self._writer is None:
                try:
                    reader, self._writer = await asyncio.open_unix_connection(str(self._path), limit=1 << 20)
                    self._reading = asyncio.create_task(self._read(reader))
                except OSError:
                    if asyncio.get_running_loop().time() > deadline:
                        raise StorageError("the writer does not run", "Look into the log of the server") from None
                    await asyncio.sleep(0.05)
            writer: asyncio.StreamWriter = self._writer
            return writer

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                message = await read(reader)
                waiting = self._waiting.get(message.pop("number"))
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self._writer = None
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(writer_lost())
