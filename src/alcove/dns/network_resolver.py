"""One network's side of the server: a datagram in, a datagram out.

Three ways, the fastest first: a reply known by the bytes of its question; a reply made from the zone; a
question for the world, which takes its time. What is known by bytes never outlives a change of the zone.
"""

from collections.abc import Callable

from msgspec import Struct

from alcove.dns import wire
from alcove.dns.answers import DnsAnswer, answer
from alcove.dns.cache import DnsQuestion
from alcove.dns.encode import chained, encode
from alcove.dns.forwarder import Forwarder
from alcove.dns.records import RecordType
from alcove.dns.reply import TCP_BYTES_MAX, Reply, compose, failure, refuse, size_max, takes_turns, turned
from alcove.dns.upstream import Upstream
from alcove.dns.wire import CD, HEADER_BYTES, IN, RA, TC, MalformedMessage, Query, Rcode
from alcove.dns.zone import DnsZone

KEPT_BYTES_MAX = 256 << 10
"""Replies kept for one network, by the bytes of their questions and before; all go when there is no room."""
_ENTRY_BYTES = 300
_TRANSFERS = (RecordType.AXFR, RecordType.IXFR)
_OPT_PLAIN_BYTES = 11


class Counters(Struct):
    """Since the network is served; `hot` are among `answered`."""

    answered: int = 0
    hot: int = 0
    forwarded: int = 0
    failed: int = 0
    malformed: int = 0
    unsent: int = 0
    """Replies that the kernel did not take."""


class HotReply:
    """A whole reply but for id and question. Several addresses take turns at being the first."""

    __slots__ = ("first", "head", "span", "tail")

    def __init__(self, head: bytes, tail: bytes, first: int, span: int) -> None:
        self.head = head
        self.tail = tail
        self.first = first
        self.span = span

    def turn(self) -> None:
        tail, first, span = self.tail, self.first, self.span
        self.tail = tail[first:span] + tail[:first] + tail[span:]


class PendingQuery(Struct, frozen=True):
    """A question that others have to be asked about."""

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
        self._outside: Forwarder | None = None
        self.set_upstream(upstream)

    def set_upstream(self, upstream: Upstream | None) -> None:
        """None: the network has no way out, and other names do not exist for it."""
        self._outside = Forwarder(upstream, self._clock) if upstream is not None else None
        self._flags = RA if upstream is not None else 0
        self._version = -1

    def hot(self, packet: bytes) -> bytes | None:
        """The reply to a datagram like one answered before; None: it has to be looked at."""
        if self._version != self.zone.version:
            self._renew()
            return None
        # Only whole questions were put in as keys, so finding one proves that this is where the name ends.
        end = packet.find(0, HEADER_BYTES) + 1
        known = self._hot.get(packet[2:HEADER_BYTES] + packet[HEADER_BYTES:end].lower() + packet[end:])
        if known is None:
            return None
        self.counters.hot += 1
        self.counters.answered += 1
        if known.first:
            known.turn()
        return packet[:2] + known.head + packet[HEADER_BYTES : end + 4] + known.tail

    def datagram(self, packet: bytes) -> bytes | PendingQuery | None:
        """None: no reply is due."""
        return self._respond(packet, None)

    def message(self, packet: bytes) -> bytes | PendingQuery | None:
        """As `datagram`, with the room that TCP gives."""
        return self._respond(packet, TCP_BYTES_MAX)

    async def finish(self, pending: PendingQuery) -> bytes:
        """The reply to a question for others."""
        if self._outside is None:  # The way out was closed meanwhile.
            return compose(pending.query, failure(Rcode.SERVFAIL), pending.bytes_max)
        self.counters.forwarded += 1
        reply = await self._outside.ask(pending.question)
        if reply.rcode == Rcode.SERVFAIL:
            self.counters.failed += 1
        return self._told(pending, reply)

    def _respond(self, packet: bytes, bytes_max: int | None) -> bytes | PendingQuery | None:
        if self._version != self.zone.version:
            self._renew()
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
        room = bytes_max or size_max(query)
        reply = self._replies.get(query.key) or self._lookup(query, room)
        if isinstance(reply, PendingQuery):
            return self._recall(reply)
        self.counters.answered += 1
        sent = compose(query, reply, room)
        if bytes_max is None:
            self._heat(packet, query, reply, sent)
        if query.key in self._replies and takes_turns(reply, query.type):
            self._replies[query.key] = turned(reply)
        return sent

    def _lookup(self, query: Query, room: int) -> Reply | PendingQuery:
        found = answer(self.zone, query.name, query.type, isolated=self._outside is None)
        if found is None or found.elsewhere is not None:
            dnssec_ok = query.edns is not None and query.edns.dnssec_ok
            name = found.elsewhere if found is not None and found.elsewhere is not None else query.name
            question = DnsQuestion(name, query.type, dnssec_ok, bool(query.flags & CD))
            return PendingQuery(query, question, room, found)
        reply = encode(query.name, query.type, found, self.zone, self._flags)
        if found.negative_of is None and self._make_room(len(reply.tail)):
            self._replies[query.key] = reply
        return reply

    def _recall(self, pending: PendingQuery) -> bytes | PendingQuery:
        reply = self._outside.remembered(pending.question) if self._outside is not None else None
        if reply is None:
            return pending
        self.counters.answered += 1
        return self._told(pending, reply)

    def _told(self, pending: PendingQuery, reply: Reply) -> bytes:
        query = pending.query
        if pending.alias is not None:
            reply = self._chained(pending, pending.alias, reply)
        else:
            flags = reply.flags & ~(wire.AA | TC) | self._flags
            reply = Reply(flags, reply.counts, reply.tail, reply.ends, reply.ttls)
        return compose(query, reply, pending.bytes_max)

    def _chained(self, pending: PendingQuery, alias: DnsAnswer, reply: Reply) -> Reply:
        target = pending.question
        asked = target.name + target.type.to_bytes(2, "big") + IN.to_bytes(2, "big")
        message = compose(Query(b"\0\0", 0, asked, target.name, target.type, IN), reply, TCP_BYTES_MAX)
        name, kind = pending.query.name, pending.query.type
        try:
            return chained(name, kind, alias, message, reply.rcode, self.zone, self._flags)
        except MalformedMessage:
            return failure(Rcode.SERVFAIL, self._flags)

    def _heat(self, packet: bytes, query: Query, reply: Reply, sent: bytes) -> None:
        """Keeps a reply by its bytes, unless it is cut, one of the many that say no, or asked in a rare way."""
        end = HEADER_BYTES + len(query.question)
        rest = packet[end:]
        plain = not rest or (query.edns is not None and len(rest) == _OPT_PLAIN_BYTES)
        cut = int.from_bytes(sent[2:4], "big") & TC
        if cut or not plain or reply.rcode or packet.find(0, HEADER_BYTES) != end - 5:
            return
        if not self._make_room(len(sent)):
            return
        turns = takes_turns(reply, query.type)
        first, span = (reply.ends[0], reply.ends[reply.counts[0] - 1]) if turns else (0, 0)
        key = packet[2:HEADER_BYTES] + query.key + rest
        self._hot[key] = HotReply(sent[2:HEADER_BYTES], sent[end:], first, span)

    def _make_room(self, size: int) -> bool:
        self._kept_bytes += size + _ENTRY_BYTES
        if self._kept_bytes > KEPT_BYTES_MAX:
            self._renew()
            self._kept_bytes = size + _ENTRY_BYTES
        return self._kept_bytes <= KEPT_BYTES_MAX

    def _renew(self) -> None:
        self._hot.clear()
        self._replies.clear()
        self._kept_bytes = 0
        self._version = self.zone.version


def _refusal(query: Query) -> Rcode | None:
    """Why a question is not answered at all; None: it is."""
    if query.opcode:
        return Rcode.NOTIMP
    if query.edns is not None and query.edns.version:
        return Rcode.BADVERS
    if query.qclass != IN or query.type in _TRANSFERS:
        return Rcode.REFUSED
    return None
