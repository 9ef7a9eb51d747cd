"""Connections: which worker takes the next one.

All workers wait at one listening socket. Whoever wakes first would take all that is there, and hold clients that keep
their connections open for as long as they do, while the others have nothing to do. So a worker with more connections
than another waits a moment before it takes one more; if it is still there then, the others are busy or dead.
"""

import asyncio
import contextlib
import socket
from typing import Any

import uvicorn

from tocsin.serve.service import Service

PATIENCE_S = 0.005
"""How long a worker with more connections than another leaves a new one to it."""
NO_MORE_S = 1.0
"""How long none is taken after the system refused one, for example because too many files are open."""


class Server(uvicorn.Server):
    """uvicorn's server, which takes its connections one by one, from a socket that it shares with other workers."""

    def __init__(self, config: uvicorn.Config, listening: socket.socket, service: Service) -> None:
        super().__init__(config)
        self._listening = listening
        self._service = service
        self._board = service.board
        self._opening: set[asyncio.Task[Any]] = set()
        """Connections that were taken and are not in the state of the server yet."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 (it has its own)
        """Begin to take connections."""
        await super().startup(sockets=[])
        self._listening.setblocking(False)
        self._wait()

    async def on_tick(self, counter: int) -> bool:
        """Look, ten times a second, whether the server is to end."""
        # Those that have ended since are not counted elsewhere.
        self._count()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections; let requests under way end."""
        self._rest()
        self._service.is_stopping = True
        await super().shutdown(sockets)

    def _wait(self) -> None:
        if not self.should_exit:
            asyncio.get_running_loop().add_reader(self._listening, self._take)

    def _rest(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listening)

    def _take(self) -> None:
        """Take a connection that waits, or leave it to another worker for a moment."""
        if self._count() > min(self._board.by_worker("connections")):
            self._rest()
            asyncio.get_running_loop().call_later(PATIENCE_S, self._insist)
        else:
            self._accept()

    def _insist(self) -> None:
        """Take a connection that no other worker came for, if there is one."""
        self._wait()
        if not self.should_exit:
            self._accept()

    def _accept(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:
            self._rest()
            asyncio.get_running_loop().call_later(NO_MORE_S, self._wait)
            return
        opening = asyncio.get_running_loop().create_task(self._open(connection))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        self._count()

    async def _open(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        protocol: Any = self.config.http_protocol_class
        state = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
        # A client that has gone already is none.
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol(**state), connection)

    def _count(self) -> int:
        """Return how many connections there are, and let the other workers know."""
        count = len(self.server_state.connections) + len(self._opening)
        self._board.set("connections", count)
        return count
