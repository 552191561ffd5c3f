"""Queries the node's resolvers, from the node's network namespace, and caches their replies for each network.

Every query uses a new socket with a random source port and a random id; only a reply from that server with
that id and question is accepted. Truncated replies are queried again over TCP.

UpstreamError
├── Unanswered   no server answered in time
└── Overloaded   the tenant has too many queries in flight
"""

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from struct import pack

from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.dns import reply as replies
from alcove.dns.cache import DnsQuestion, ReplyCache
from alcove.dns.records import RecordType
from alcove.dns.reply import UDP_BYTES_MAX, Reply, failure
from alcove.dns.wire import CD, DO, HEADER_BYTES, IN, RD, TC, MalformedMessage, Rcode

_FATAL_CODES = (Rcode.SERVFAIL, Rcode.REFUSED, Rcode.NOTIMP, Rcode.FORMERR)
WAITING_PER_TENANT_MAX = 128
"""Queries of one tenant on a node that wait for an upstream reply; its further queries fail with SERVFAIL."""
FREE_PARTS = 7
"""A tenant may have one of this many parts of the upstream slots that are free: a lone tenant gets an eighth of
all, and after 20 tenants have taken all they can, another one still finds eight. What is over a tenant's share
fails with SERVFAIL."""


class UpstreamError(Exception):
    pass


class Unanswered(UpstreamError):
    pass


class Overloaded(UpstreamError):
    pass


class Resolver(Struct, frozen=True):
    address: str
    port: int = 53


class UpstreamLimits(Struct, frozen=True):
    attempt_seconds: float = 1.5
    total_seconds: float = 4.0
    """Less than the five seconds that resolvers in pods wait."""
    in_flight_max: int = 1024
    """Queries to upstream servers of all tenants on a node; see FREE_PARTS for one tenant's share."""


DEFAULT_LIMITS = UpstreamLimits()


class Upstream:
    def __init__(self, resolvers: Sequence[Resolver], limits: UpstreamLimits = DEFAULT_LIMITS) -> None:
        self._resolvers = tuple(resolvers)
        self._limits = limits
        self._in_flight = 0
        self._preferred = 0
        self._in_flight_by_tenant: Counter[TenantId] = Counter()
        self._waiting_by_tenant: Counter[TenantId] = Counter()

    async def ask(self, tenant: TenantId, question: DnsQuestion) -> Reply:
        """The first usable reply; a failure reply only if all servers failed. Raises UpstreamError."""
        free = self._limits.in_flight_max - self._in_flight
        if free <= 0 or self._in_flight_by_tenant[tenant] >= max(1, free // FREE_PARTS):
            raise Overloaded
        self._in_flight += 1
        try:
            with _counted(self._in_flight_by_tenant, tenant):
                async with asyncio.timeout(self._limits.total_seconds):
                    return await self._ask_all(question)
        except TimeoutError:
            raise Unanswered from None
        finally:
            self._in_flight -= 1

    def waiting(self, tenant: TenantId) -> AbstractContextManager[None]:
        """Counts a query of the tenant that waits for a reply. Raises Overloaded."""
        if self._waiting_by_tenant[tenant] >= WAITING_PER_TENANT_MAX:
            raise Overloaded
        return _counted(self._waiting_by_tenant, tenant)

    async def _ask_all(self, question: DnsQuestion) -> Reply:
        failed: Reply | None = None
        count = len(self._resolvers)
        first = self._preferred
        for attempt in range(2 * count):
            number = (first + attempt) % count
            try:
                async with asyncio.timeout(self._limits.attempt_seconds):
                    reply = await _exchange(self._resolvers[number], question)
            except (TimeoutError, OSError, MalformedMessage, asyncio.IncompleteReadError):
                continue
            if reply.rcode not in _FATAL_CODES:
                self._preferred = number
                return reply
            failed = reply
            if attempt >= count - 1:
                break
        if failed is None:
            raise Unanswered
        return failed


@contextmanager
def _counted(counter: Counter[TenantId], tenant: TenantId) -> Iterator[None]:
    counter[tenant] += 1
    try:
        yield
    finally:
        counter[tenant] -= 1
        if not counter[tenant]:
            del counter[tenant]


async def _exchange(resolver: Resolver, question: DnsQuestion) -> Reply:
    reply = await _by_udp(resolver, question)
    return await _by_tcp(resolver, question) if reply.flags & TC else reply


async def _by_udp(resolver: Resolver, question: DnsQuestion) -> Reply:
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in resolver.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
        sock.connect((resolver.address, resolver.port))
        sent = _message(question)
        sock.send(sent)
        while True:
            received = await loop.sock_recv(sock, 2 * UDP_BYTES_MAX)
            reply = _matching_reply(sent, received)
            if reply is not None:
                return reply


async def _by_tcp(resolver: Resolver, question: DnsQuestion) -> Reply:
    reader, writer = await asyncio.open_connection(resolver.address, resolver.port)
    try:
        sent = _message(question)
        writer.write(pack(">H", len(sent)) + sent)
        length = int.from_bytes(await reader.readexactly(2), "big")
        reply = _matching_reply(sent, await reader.readexactly(length))
    finally:
        writer.close()
    if reply is None or reply.flags & TC:
        raise MalformedMessage("not the reply to the question")
    return reply


def _message(question: DnsQuestion) -> bytes:
    flags = RD | (CD if question.unchecked else 0)
    header = os.urandom(2) + pack(">HHHHH", flags, 1, 0, 0, 1)
    option = pack(">BHHIH", 0, RecordType.OPT, UDP_BYTES_MAX, DO if question.dnssec_ok else 0, 0)
    return header + question.name + pack(">HH", question.type, IN) + option


def _matching_reply(sent: bytes, received: bytes) -> Reply | None:
    """The reply; None if it does not answer the sent query, so that the caller continues to wait."""
    if received[:2] != sent[:2]:
        return None
    try:
        question, reply = replies.read(received)
    except MalformedMessage:
        return None
    return reply if question.lower() == sent[HEADER_BYTES : HEADER_BYTES + len(question)] else None


class Forwarder:
    """Forwards one network's queries for names outside its zone to the upstream servers, and caches the
    replies.

    Each network has a separate cache, so that a tenant cannot learn another tenant's queries from response
    times.
    """

    def __init__(self, tenant: TenantId, upstream: Upstream, clock: Callable[[], float]) -> None:
        self._tenant = tenant
        self._upstream = upstream
        self._cache = ReplyCache(clock)
        self._pending: dict[DnsQuestion, asyncio.Future[Reply]] = {}

    def cached(self, question: DnsQuestion) -> Reply | None:
        return self._cache.get(question)

    async def ask(self, question: DnsQuestion) -> Reply:
        """The upstream reply, or SERVFAIL; never raises. Concurrent queries of the same question are sent
        once."""
        try:
            with self._upstream.waiting(self._tenant):
                pending = self._pending.get(question)
                if pending is None:
                    return await self._ask_upstream(question)
                return await asyncio.shield(pending)
        except Overloaded:
            return failure(Rcode.SERVFAIL)

    async def _ask_upstream(self, question: DnsQuestion) -> Reply:
        pending: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._pending[question] = pending
        reply = failure(Rcode.SERVFAIL)
        try:
            reply = await self._upstream.ask(self._tenant, question)
            self._cache.put(question, reply)
        except Overloaded:
            pass
        except UpstreamError:
            self._cache.put(question, reply)
        finally:
            del self._pending[question]
            pending.set_result(reply)
        return reply
