"""A worker: it answers matches itself and hands changes to the writer."""

import asyncio
import gc
import socket
import threading
import time
from functools import partial
from typing import Any

import uvicorn

from tocsin._compile import load_compiler
from tocsin.compile_ahead import full_event
from tocsin.delivery.inboxes import InboxStore
from tocsin.matcher import Matcher
from tocsin.serve.advice import Advice
from tocsin.serve.app import application
from tocsin.serve.board import SNAPSHOT, Board
from tocsin.serve.connections import Server
from tocsin.serve.frames import WriterClient
from tocsin.serve.match_lane import MatchLane
from tocsin.serve.match_queue import MatchQueue
from tocsin.serve.protocol import HttpProtocol
from tocsin.serve.service import Service
from tocsin.serve.settings import ServerSettings

KEEP_ALIVE_SECONDS = 75


def wait_for_writer(board: Board) -> None:
    """Wait until there is an index."""
    while not board[SNAPSHOT]:
        time.sleep(0.02)


async def run(settings: ServerSettings, board: Board, listening: socket.socket) -> None:
    """Answer requests until a signal ends the process."""
    log = settings.audit_log if settings.audit else None
    matcher = Matcher.open(settings.index, mode="read", background_merge=False, audit=settings.audit, audit_log=log)
    # Loads the compiled kernels before the first request: none is interpreted, however small the index.
    load_compiler()
    event = full_event(matcher)
    matcher.match(event)
    matcher.match_batch([event] * 4)
    # Those that check a condition are loaded beside the first requests.
    threading.Thread(target=Advice.of, args=("a = 1 AND b > 2",), name="warm-up", daemon=True).start()
    service = Service(
        settings,
        board,
        MatchQueue(matcher, board),
        InboxStore(settings.inboxes, read_only=True),
        WriterClient(settings.socket),
    )
    options: dict[str, Any] = {
        "log_level": "warning",
        "access_log": False,
        "lifespan": "off",
        "proxy_headers": False,
        "server_header": False,
        "date_header": False,
        "timeout_keep_alive": KEEP_ALIVE_SECONDS,
        "timeout_graceful_shutdown": 3,
        "ws_max_size": 1 << 16,
    }
    # What was loaded stays: the collector need not look at it again and again. Requests leave few cycles; to look for
    # them after every 700 objects, as Python does, took 5 % of the time of a match.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
    gate = application(service)
    protocol: Any = partial(HttpProtocol, lane=MatchLane(gate, service.queue, board))
    config = uvicorn.Config(gate, http=protocol, **options)
    await Server(config, listening, service).serve()


def main(argument: str, number: str, handle: str) -> None:
    """Run a worker process."""
    settings = ServerSettings.of(argument)
    board = Board(settings.board, settings.workers, row=2 + int(number))
    wait_for_writer(board)
    listening = socket.socket(fileno=int(handle))
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(run(settings, board, listening))


def _loop_factory() -> Any:
    import uvloop

    return uvloop.new_event_loop
