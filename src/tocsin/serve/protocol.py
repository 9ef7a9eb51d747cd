"""HTTP as the server speaks it: uvicorn's, with a time limit for the head of a request and a lane for single matches.

A request that the lane takes costs no task, no queue of body parts and no routing; everything else goes uvicorn's way.
Clients send the same head again and again: one that led into the lane before is not parsed again, only looked up.
"""

import asyncio
from typing import Any, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tocsin.serve.gate import Caller
from tocsin.serve.match_lane import MatchLane

HEADER_SECONDS = 10.0
_HEAD_END = b"\r\n\r\n"


class HttpProtocol(HttpToolsProtocol):
    """One connection. A client that sends no head of a request, or half of one, is cut off."""

    def __init__(self, *, lane: MatchLane, **given: Any) -> None:
        super().__init__(**given)
        self._lane = lane
        self._deadline: asyncio.TimerHandle | None = None
        self._is_in_head = True
        self._held: list[bytes] | None = None
        """The body, so far, of a request that the lane may take once it is whole."""
        self._is_in_lane = False
        self._is_between = True
        """Whether what comes next is the head of a request."""
        self._declined: dict[str, Any] = {}
        """What the lane has found out about a request that it has declined before the head is parsed."""
        self._last_answer = 0.0
        self._idle: asyncio.TimerHandle | None = None
        """Looks whether the lane was used since; a timer for each answer would cost as much as a tenth of a match."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEADER_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        head, end, body = data.partition(_HEAD_END) if self._is_between else (b"", b"", b"")
        if end and self._take_known(head, body):
            return
        super().data_received(data)
        if end and self._is_in_lane and self._is_between:
            self._lane.heads.learn(head, cast(Scope, self.scope), len(body))
        if self._held is not None:
            # The rest of the body is still on its way: there are time limits for that.
            self._go_usual_way()
        if self._is_in_head and self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _take_known(self, head: bytes, body: bytes) -> bool:
        """Let the lane take a request that is whole and has a known head; False if it is to be parsed."""
        caller = self._lane.heads.find(head, len(body))
        if caller is None or self.flow.write_paused or not (self.cycle is None or self.cycle.response_complete):
            return False
        if self._is_in_lane:
            self._lane.flush()
        self._unset_keepalive_if_required()
        self._is_in_head = False
        self._end_deadline()
        self._is_in_lane = self._lane.take(caller, body, self._answer, self._declined)
        if self._is_in_lane:
            self._declined.clear()
        return self._is_in_lane

    def on_message_begin(self) -> None:
        if self._is_in_lane:
            # The next request is here already: answers keep the order of requests.
            self._lane.flush()
        super().on_message_begin()
        self._is_between = False
        self._is_in_head = True

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._end_deadline()
        if self._declined:
            # It has passed the gate, and does so once.
            self.scope["state"] |= self._declined
            self._declined.clear()
        elif self._is_for_lane():
            self._held = []
            return
        super().on_headers_complete()

    def _is_for_lane(self) -> bool:
        return (
            self._lane.is_for(cast(Scope, self.scope), self.url, self.parser.get_method())
            and (self.cycle is None or self.cycle.response_complete)
            and not self.expect_100_continue
            and not self.flow.write_paused
            and self.parser.should_keep_alive()
            and self.parser.get_http_version() == "1.1"
            and not self.parser.should_upgrade()
        )

    def on_body(self, body: bytes) -> None:
        if self._held is None:
            super().on_body(body)
        else:
            self._held.append(body)

    def on_message_complete(self) -> None:
        self._is_between = True
        if self._held is not None:
            scope = cast(Scope, self.scope)
            if self._lane.take(Caller.of(scope), b"".join(self._held), self._answer, scope["state"]):
                self._held, self._is_in_lane = None, True
                return
            self._go_usual_way()
        super().on_message_complete()

    def _go_usual_way(self) -> None:
        held, self._held = self._held or [], None
        super().on_headers_complete()
        for part in held:
            super().on_body(part)

    def _answer(self, content: bytes) -> None:
        """Send what the lane answers."""
        self._is_in_lane = False
        if not self.transport.is_closing():
            self.transport.write(content)
            self.server_state.total_requests += 1
            self._last_answer = self.loop.time()
            if self._idle is None:
                self._idle = self.loop.call_later(self.timeout_keep_alive, self._close_if_idle)

    def _close_if_idle(self) -> None:
        """Close a connection that was quiet since the last answer of the lane; others have uvicorn's timer."""
        rest = self._last_answer + self.timeout_keep_alive - self.loop.time()
        is_busy = self._is_in_lane or not (self.cycle is None or self.cycle.response_complete)
        if rest > 0 or is_busy or self.timeout_keep_alive_task is not None:
            self._idle = self.loop.call_later(max(rest, 1.0), self._close_if_idle)
        else:
            self.transport.close()

    def shutdown(self) -> None:
        if self._is_in_lane:
            self._lane.flush()
        super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._deadline, self._idle):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)
