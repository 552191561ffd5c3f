"""The socket between an API server's parent process and one of its workers. Both ends may call the other.

A message is one of

    (CALL, number, name, arguments)      answered by a reply with the same number
    (NOTE, 0, name, arguments)           not answered
    (RESULT, number, result)
    (ERROR, number, kind, text, detail)

encoded by `marshal` with a length prefix, since both ends run the same interpreter and trust each other. Messages of
one direction are handled in the order in which they are sent.
"""

from __future__ import annotations

import asyncio
import logging
import marshal
import socket
from asyncio import Future
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

from alcove.api.ids import Revision
from alcove.store.base import (
    Compacted,
    RevisionInFuture,
    RevisionMismatch,
    StoreError,
    StoreUnavailable,
    WriteOutcomeUnknown,
)
from alcove.store.keys import resource_text
from alcove.store.sqlite_reads import key_of

log = logging.getLogger(__name__)

HEADER_BYTES = 4
UNSENT_BYTES_MAX = 128 << 20
"""An end that leaves more unread does not work any more: the channel is closed."""

CALL, NOTE, RESULT, ERROR = range(4)
_MISMATCH, _COMPACTED, _FUTURE, _UNAVAILABLE, _UNKNOWN, _OTHER = range(6)

Handler = Callable[..., Awaitable[Any] | None]
"""Called with a message's arguments. The awaited result is the reply to a call."""


class ChannelClosed(StoreUnavailable):
    """The other end has exited."""


class WorkerChannel(asyncio.Protocol):
    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}
        self.closed: Future[None] = asyncio.get_running_loop().create_future()
        """Done when the channel is closed by either end."""
        self._loop = asyncio.get_running_loop()
        self._calls: dict[int, Future[Any]] = {}
        self._number = 0
        self._unread = bytearray()
        self._answering: set[Future[Any]] = set()
        self._transport: asyncio.Transport

    async def connect(self, end: socket.socket) -> None:
        """Begins to use one end of a socket pair. Set the handlers before."""
        end.setblocking(False)
        await self._loop.create_connection(lambda: self, sock=end)

    def call(self, name: str, *arguments: Any) -> Future[Any]:
        """The other end's reply. Raises ChannelClosed, by the result too, and what the other end raised."""
        if self.closed.done():
            raise ChannelClosed("the other process has exited")
        self._number += 1
        result = self._calls[self._number] = self._loop.create_future()
        self.send(packed(CALL, self._number, name, arguments))
        return result

    def note(self, name: str, *arguments: Any) -> None:
        self.send(packed(NOTE, 0, name, arguments))

    def send(self, message: bytes) -> None:
        """Sends a `packed` message."""
        if self.closed.done():
            return
        self._transport.write(message)
        if self._transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            log.error("process does not read its channel; closing it")
            self._transport.abort()

    def close(self) -> None:
        self._transport.close()
        self._end()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        begin = 0
        with memoryview(self._unread) as view:
            while len(view) - begin >= HEADER_BYTES:
                end = begin + HEADER_BYTES + int.from_bytes(view[begin : begin + HEADER_BYTES], "big")
                if len(view) < end:
                    break
                message = marshal.loads(view[begin + HEADER_BYTES : end])
                begin = end
                self._handle(*message)
        del self._unread[:begin]

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
        calls, self._calls = self._calls, {}
        for result in calls.values():
            if not result.done():
                result.set_exception(ChannelClosed("the other process has exited"))
                result.exception()  # The one who waits may be gone, too.

    def _handle(self, form: int, number: int, *rest: Any) -> None:
        if form in (NOTE, CALL):
            name, arguments = rest
            self._answer(number, self.handlers.get(name, _unknown), arguments)
            return
        result = self._calls.pop(number, None)
        if result is None or result.done():
            return
        if form == RESULT:
            result.set_result(rest[0])
        else:
            result.set_exception(_decoded(*rest))

    def _answer(self, number: int, handler: Handler, arguments: tuple[Any, ...]) -> None:
        try:
            answer = handler(*arguments)
        except (StoreError, ValueError) as error:
            if not number:
                raise
            self.send(packed(ERROR, number, *_encoded(error)))
            return
        if answer is not None:
            pending = asyncio.ensure_future(answer)
            self._answering.add(pending)
            pending.add_done_callback(partial(self._reply, number))

    def _reply(self, number: int, answered: Future[Any]) -> None:
        self._answering.discard(answered)
        error = ChannelClosed("cancelled") if answered.cancelled() else answered.exception()
        if self.closed.done() or not number:
            return
        if error is None:
            self.send(packed(RESULT, number, answered.result()))
        else:
            self.send(packed(ERROR, number, *_encoded(error)))


def _unknown(*_arguments: Any) -> None:
    raise ValueError("this process does not answer such calls")


def packed(*message: Any) -> bytes:
    data = marshal.dumps(message)
    return len(data).to_bytes(HEADER_BYTES, "big") + data


def _encoded(error: BaseException) -> tuple[int, str, Any]:
    match error:
        case RevisionMismatch(key=key, actual=actual):
            place = (resource_text(key.resource), key.tenant, key.namespace, key.name)
            return _MISMATCH, "", (place, actual)
        case Compacted(compacted=revision):
            return _COMPACTED, "", revision
        case RevisionInFuture(newest=revision):
            return _FUTURE, "", revision
        case WriteOutcomeUnknown():
            return _UNKNOWN, str(error), None
        case StoreUnavailable():
            return _UNAVAILABLE, str(error), None
        case _:
            return _OTHER, f"{type(error).__name__}: {error}", None


def _decoded(kind: int, text: str, detail: Any) -> Exception:
    if kind == _MISMATCH:
        place, actual = detail
        return RevisionMismatch(key_of(*place), Revision(actual))
    if kind == _COMPACTED:
        return Compacted(Revision(detail))
    if kind == _FUTURE:
        return RevisionInFuture(Revision(detail))
    if kind == _UNAVAILABLE:
        return StoreUnavailable(text)
    return WriteOutcomeUnknown(text) if kind == _UNKNOWN else ValueError(text)
