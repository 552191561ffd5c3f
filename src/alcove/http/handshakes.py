"""TLS handshakes computed in threads beside the event loop.

Whoever chooses a server's certificates chooses what a handshake costs: the verification of a long chain of costly
keys takes half a second; and a server's own handshakes take a millisecond or two each, hundreds of which may come
together. Threads only compute, while OpenSSL does not hold the interpreter lock; the bytes are sent and received by
the event loop, so that a peer that is slow to answer occupies no thread.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar
from weakref import WeakValueDictionary

from alcove.http.byte_streams import ByteStream
from alcove.http.errors import HandshakeFailed
from alcove.http.tls_transport import TlsSession

T = TypeVar("T")

THREADS = 4
"""Steps of handshakes that are computed at a time in a process, at most one of each tenant; the others wait,
until their calls or probes time out."""
HANDSHAKE_READS_MAX = 128
"""Reads of RECEIVED_BYTES_MAX before one handshake must be complete; after that the call or probe fails."""
RECEIVED_BYTES_MAX = 16 << 10


class Handshakes:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tls")
        self._turns: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def perform(
        self,
        owner: Hashable,
        stream: ByteStream,
        make_context: Callable[[], ssl.SSLContext],
        server_name: str,
    ) -> TlsSession:
        """The session with the server at the other end of the stream. Of each `owner` one step is
        computed at a time. `make_context` is called in a thread. Raises HandshakeFailed, ssl.SSLError, OSError,
        ValueError (for an invalid server name), and what `make_context` raises."""
        compute = partial(self._compute, owner)
        session = await compute(partial(_begin, make_context, server_name))
        await complete(session, compute, stream.send, partial(stream.receive, RECEIVED_BYTES_MAX))
        return session

    async def _compute(self, owner: Hashable, work: Callable[[], T]) -> T:
        """The result of `work` in a thread, when it is the owner's turn."""
        turn = self._turns.get(owner)
        if turn is None:
            turn = self._turns[owner] = asyncio.Lock()
        await turn.acquire()
        try:
            computing = asyncio.get_running_loop().run_in_executor(self._threads, work)
        except BaseException:
            turn.release()
            raise
        # The thread is occupied until it returns, even if the request was cancelled.
        computing.add_done_callback(lambda _computing: turn.release())
        return await asyncio.shield(computing)


async def complete(
    session: TlsSession,
    compute: Callable[[Callable[[], bool]], Awaitable[bool]],
    send: Callable[[bytes], Awaitable[None]],
    receive: Callable[[], Awaitable[bytes]],
) -> None:
    """Completes a handshake.

    `compute` calls a function in a thread; `receive` returns what the peer sent next, empty at its end. Raises
    HandshakeFailed, ssl.SSLError, OSError, and what the callables raise."""
    for _ in range(HANDSHAKE_READS_MAX):
        try:
            is_complete = await compute(partial(_step, session))
        except ssl.SSLError:
            with suppress(OSError):  # The alert tells the peer's owner what is wrong.
                await send(session.outgoing.read())
            raise
        if session.outgoing.pending:
            await send(session.outgoing.read())
        if is_complete:
            return
        data = await receive()
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        session.incoming.write(data)
    raise HandshakeFailed("the peer's handshake has too many messages")


def _begin(make_context: Callable[[], ssl.SSLContext], server_name: str) -> TlsSession:
    context = make_context()
    # A second handshake would be computed on the event loop.
    context.options |= ssl.OP_NO_RENEGOTIATION
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=server_name)
    return TlsSession(tls, incoming, outgoing)


def _step(session: TlsSession) -> bool:
    """Whether the handshake is complete."""
    try:
        session.tls.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
