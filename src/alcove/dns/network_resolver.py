"""Resolves the queries of one network: a datagram in, a datagram out.

There are three paths, the fastest first: a reply cached by the bytes of its query ("hot"), a reply from the
zone, and an upstream query. All cached replies are dropped when the zone changes.
"""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from alcove.dns import wire
from alcove.dns.answers import DnsAnswer, answer
from alcove.dns.cache import DnsQuestion
from alcove.dns.encode import chained, encode
from alcove.dns.records import RecordType
from alcove.dns.reply import TCP_BYTES_MAX, Reply, compose, failure, is_rotatable, refuse, rotated, size_max
from alcove.dns.upstream import Forwarder, Upstream
from alcove.dns.wire import CD, HEADER_BYTES, IN, RA, TC, MalformedMessage, Query, Rcode
from alcove.dns.zone import DnsZone

KEPT_BYTES_MAX = 256 << 10
"""The limit of cached replies of one network; when it is reached, all are dropped."""
ANSWERS_PER_DATAGRAM_MAX = 128
"""Answers that are encoded for a datagram: more than fit into one. All are for TCP."""
_ENTRY_BYTES = 300
_TRANSFERS = (RecordType.AXFR, RecordType.IXFR)
_OPT_PLAIN_BYTES = 11


class Counters(Struct):
    """Counters since the network is served; `answered` includes `hot`."""

    answered: int = 0
    hot: int = 0
    forwarded: int = 0
    failed: int = 0
    malformed: int = 0
    unsent: int = 0
    """Replies that could not be sent."""


class HotReply:
    """A complete reply except id and question. Several addresses are rotated (round robin)."""

    __slots__ = ("first", "head", "span", "tail")

    def __init__(self, head: bytes, tail: bytes, first: int, span: int) -> None:
        self.head = head
        self.tail = tail
        self.first = first
        self.span = span

    def rotate(self) -> None:
        tail, first, span = self.tail, self.first, self.span
        self.tail = tail[first:span] + tail[:first] + tail[span:]


class PendingQuery(Struct, frozen=True):
    """A query that must be forwarded upstream."""

    query: Query
    question: DnsQuestion
    bytes_max: int
    alias: DnsAnswer | None = None


class NetworkResolver:
    def __init__(self, zone: DnsZone, upstream: Upstream | None, clock: Callable[[], float]) -> None:
        self.zone = zone
        self.counters = Counters()
        self._clock = clock
        self._hot: dict[bytes, HotReply] = {}
        self._replies: dict[bytes, Reply] = {}
        self._kept_bytes = 0
        self._version = -1
        self._turn = 0
        """Where the next answer begins that has more addresses than fit into a datagram."""
        self._forwarder: Forwarder | None = None
        self.set_upstream(upstream)

    def set_upstream(self, upstream: Upstream | None) -> None:
        """None if the network has no egress; then names outside the zone do not exist."""
        tenant = self.zone.network.tenant
        self._forwarder = Forwarder(tenant, upstream, self._clock) if upstream is not None else None
        self._flags = RA if upstream is not None else 0
        self._version = -1

    def hot(self, packet: bytes) -> bytes | None:
        """The cached reply to an equal datagram; None if it must be resolved by `datagram`."""
        if self._version != self.zone.version:
            self._drop_cached()
            return None
        # Only keys of valid questions are stored, so a match proves that the name ends here.
        end = packet.find(0, HEADER_BYTES) + 1
        cached = self._hot.get(packet[2:HEADER_BYTES] + packet[HEADER_BYTES:end].lower() + packet[end:])
        if cached is None:
            return None
        self.counters.hot += 1
        self.counters.answered += 1
        if cached.first:
            cached.rotate()
        return packet[:2] + cached.head + packet[HEADER_BYTES : end + 4] + cached.tail

    def datagram(self, packet: bytes) -> bytes | PendingQuery | None:
        """The reply, or a pending query for `finish`; None if no reply must be sent."""
        return self._respond(packet, None)

    def message(self, packet: bytes) -> bytes | PendingQuery | None:
        """As `datagram`, with the size limit of TCP."""
        return self._respond(packet, TCP_BYTES_MAX)

    async def finish(self, pending: PendingQuery) -> bytes:
        """Forwards the query upstream and returns the reply."""
        if self._forwarder is None:  # Egress was disabled meanwhile.
            return compose(pending.query, failure(Rcode.SERVFAIL), pending.bytes_max)
        self.counters.forwarded += 1
        reply = await self._forwarder.ask(pending.question)
        if reply.rcode == Rcode.SERVFAIL:
            self.counters.failed += 1
        return self._compose(pending, reply)

    def _respond(self, packet: bytes, bytes_max: int | None) -> bytes | PendingQuery | None:
        if self._version != self.zone.version:
            self._drop_cached()
        try:
            query = wire.parse_query(packet)
        except MalformedMessage:
            self.counters.malformed += 1
            return refuse(packet, Rcode.FORMERR)
        if query is None:
            self.counters.malformed += 1
            return None
        refused = _refusal(query)
        if refused is not None:
            return compose(query, failure(Rcode(refused & wire.RCODE_MASK)), TCP_BYTES_MAX, refused >> 4)
        size = bytes_max or size_max(query)
        reply = self._replies.get(query.key) or self._lookup(query, size)
        if isinstance(reply, PendingQuery):
            return self._from_cache(reply)
        self.counters.answered += 1
        sent = compose(query, reply, size)
        if bytes_max is None:
            self._cache_hot(packet, query, reply, sent)
        if query.key in self._replies and is_rotatable(reply, query.type):
            self._replies[query.key] = rotated(reply)
        return sent

    def _lookup(self, query: Query, size: int) -> Reply | PendingQuery:
        result = answer(self.zone, query.name, query.type, isolated=self._forwarder is None)
        if result is None or result.elsewhere is not None:
            dnssec_ok = query.edns is not None and query.edns.dnssec_ok
            name = result.elsewhere if result is not None and result.elsewhere is not None else query.name
            question = DnsQuestion(name, query.type, dnssec_ok, bool(query.flags & CD))
            return PendingQuery(query, question, size, result)
        is_long = len(result.answers) > ANSWERS_PER_DATAGRAM_MAX and size < TCP_BYTES_MAX
        if is_long and query.type in (RecordType.A, RecordType.AAAA):
            # Only some of them fit: others each time.
            self._turn = (self._turn + 1) % len(result.answers)
            answers = result.answers[self._turn :] + result.answers[: self._turn]
            result = replace(result, answers=answers)
        bytes_max = size if is_long else TCP_BYTES_MAX
        reply = encode(query.name, query.type, result, self.zone, self._flags, bytes_max)
        if result.negative_of is None and not is_long and self._make_room(len(reply.tail)):
            self._replies[query.key] = reply
        return reply

    def _from_cache(self, pending: PendingQuery) -> bytes | PendingQuery:
        reply = self._forwarder.cached(pending.question) if self._forwarder is not None else None
        if reply is None:
            return pending
        self.counters.answered += 1
        return self._compose(pending, reply)

    def _compose(self, pending: PendingQuery, reply: Reply) -> bytes:
        query = pending.query
        if pending.alias is not None:
            reply = self._chained(pending, pending.alias, reply)
        else:
            flags = reply.flags & ~(wire.AA | TC) | self._flags
            reply = Reply(flags, reply.counts, reply.tail, reply.ends, reply.ttls)
        return compose(query, reply, pending.bytes_max)

    def _chained(self, pending: PendingQuery, alias: DnsAnswer, reply: Reply) -> Reply:
        target = pending.question
        question = target.name + target.type.to_bytes(2, "big") + IN.to_bytes(2, "big")
        message = compose(Query(b"\0\0", 0, question, target.name, target.type, IN), reply, TCP_BYTES_MAX)
        name, kind = pending.query.name, pending.query.type
        try:
            return chained(name, kind, alias, message, reply.rcode, self.zone, self._flags)
        except MalformedMessage:
            return failure(Rcode.SERVFAIL, self._flags)

    def _cache_hot(self, packet: bytes, query: Query, reply: Reply, sent: bytes) -> None:
        """Caches the reply by the bytes of its query, unless it is truncated or negative, or the query has
        unusual options."""
        end = HEADER_BYTES + len(query.question)
        rest = packet[end:]
        is_plain = not rest or (query.edns is not None and len(rest) == _OPT_PLAIN_BYTES)
        is_truncated = int.from_bytes(sent[2:4], "big") & TC
        if is_truncated or not is_plain or reply.rcode or packet.find(0, HEADER_BYTES) != end - 5:
            return
        if not self._make_room(len(sent)):
            return
        is_rotated = is_rotatable(reply, query.type)
        first, span = (reply.ends[0], reply.ends[reply.counts[0] - 1]) if is_rotated else (0, 0)
        key = packet[2:HEADER_BYTES] + query.key + rest
        self._hot[key] = HotReply(sent[2:HEADER_BYTES], sent[end:], first, span)

    def _make_room(self, size: int) -> bool:
        self._kept_bytes += size + _ENTRY_BYTES
        if self._kept_bytes > KEPT_BYTES_MAX:
            self._drop_cached()
            self._kept_bytes = size + _ENTRY_BYTES
        return self._kept_bytes <= KEPT_BYTES_MAX

    def _drop_cached(self) -> None:
        self._hot.clear()
        self._replies.clear()
        self._kept_bytes = 0
        self._version = self.zone.version


def _refusal(query: Query) -> Rcode | None:
    """The error code of a query that is not supported; None if it is."""
    if query.opcode:
        return Rcode.NOTIMP
    if query.edns is not None and query.edns.version:
        return Rcode.BADVERS
    if query.qclass != IN or query.type in _TRANSFERS:
        return Rcode.REFUSED
    return None
