"""TLS handshakes with webhooks, computed in threads beside the event loop.

A tenant chooses its webhooks' certificates: the verification of a long chain with costly keys takes half a
second. Threads only compute, while OpenSSL does not hold the interpreter lock; the bytes are sent and received
by the event loop, so that a webhook that is slow to answer occupies no thread.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import errno
import os
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, lru_cache, partial
from typing import TypeVar
from weakref import WeakValueDictionary

from alcove.api.ids import TenantId
from alcove.apiserver.outbound.errors import WebhookError
from alcove.apiserver.outbound.tls_transport import TlsSession

T = TypeVar("T")

THREADS = 4
"""Steps of handshakes that are computed at a time, at most one of each tenant; the others wait, until their
calls time out."""
HANDSHAKE_READS_MAX = 128
"""Reads of RECEIVED_BYTES_MAX before one webhook's handshake must be complete; after that the call fails."""
RECEIVED_BYTES_MAX = 16 << 10
CA_BUNDLE_BYTES_MAX = 64 << 10
"""Size of one webhook's `caBundle`, decoded; with a larger one its calls fail."""
CONTEXTS_MAX = 64
"""CA bundles of all tenants that are kept loaded; one that is not kept is loaded again for the next
connection."""


class Handshakes:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="webhook-tls")
        self._turns: WeakValueDictionary[TenantId, asyncio.Lock] = WeakValueDictionary()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def perform(
        self, tenant: TenantId, sock: socket.socket, authority: str, server_name: str
    ) -> TlsSession:
        """The session with the webhook at the other end of the connected socket. `authority` is its CA bundle
        in base64; empty for the machine's authorities. Raises WebhookError, ssl.SSLError, OSError, ValueError
        (for an invalid server name)."""
        loop = asyncio.get_running_loop()
        session = await self._compute(tenant, partial(_begin, authority, server_name))
        for _ in range(HANDSHAKE_READS_MAX):
            try:
                is_complete = await self._compute(tenant, partial(_step, session))
            except ssl.SSLError:
                with suppress(OSError):  # The alert tells the webhook's owner what is wrong.
                    sock.send(session.outgoing.read())
                raise
            await loop.sock_sendall(sock, session.outgoing.read())
            if is_complete:
                return session
            data = await loop.sock_recv(sock, RECEIVED_BYTES_MAX)
            if not data:
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            session.incoming.write(data)
        raise WebhookError("tls: the webhook's handshake has too many messages")

    async def _compute(self, tenant: TenantId, work: Callable[[], T]) -> T:
        """The result of `work` in a thread, when it is the tenant's turn."""
        turn = self._turns.get(tenant)
        if turn is None:
            turn = self._turns[tenant] = asyncio.Lock()
        await turn.acquire()
        try:
            computing = asyncio.get_running_loop().run_in_executor(self._threads, work)
        except BaseException:
            turn.release()
            raise
        # The thread is occupied until it returns, even if the request was cancelled.
        computing.add_done_callback(lambda _computing: turn.release())
        return await asyncio.shield(computing)


def _begin(authority: str, server_name: str) -> TlsSession:
    context = _context(authority) if authority else _default_context()
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


@cache
def _default_context() -> ssl.SSLContext:
    return _without_renegotiation(ssl.create_default_context())


@lru_cache(maxsize=CONTEXTS_MAX)
def _context(authority: str) -> ssl.SSLContext:
    """Raises WebhookError."""
    if len(authority) > CA_BUNDLE_BYTES_MAX // 3 * 4 + 4:
        raise WebhookError(f"the webhook's caBundle has more than {CA_BUNDLE_BYTES_MAX} bytes")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # From a file, because Python holds the interpreter lock while it loads certificates from memory.
    descriptor = os.memfd_create("ca-bundle", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, base64.b64decode(authority, validate=True))
        context.load_verify_locations(cafile=f"/proc/self/fd/{descriptor}")
    except (binascii.Error, ssl.SSLError) as error:
        raise WebhookError("unable to load root certificates from the webhook's caBundle") from error
    finally:
        os.close(descriptor)
    return _without_renegotiation(context)


def _without_renegotiation(context: ssl.SSLContext) -> ssl.SSLContext:
    """A second handshake would be computed on the event loop."""
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context
