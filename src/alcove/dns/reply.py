"""Replies without id and question, which can be combined with any client's query.

Names in a reply are compression pointers into the question, so one reply fits every id and every spelling of
the name (upper and lower case are returned as they were sent).
"""

from bisect import bisect_right
from struct import Struct as Layout

from msgspec import Struct

from alcove.dns import wire
from alcove.dns.records import RecordType
from alcove.dns.wire import (
    AA,
    CD,
    DO,
    HEADER_BYTES,
    OPCODE_MASK,
    QR,
    RCODE_MASK,
    RD,
    TC,
    MalformedMessage,
    Query,
    Rcode,
)

UDP_BYTES_PLAIN = 512
UDP_BYTES_MAX = 1_232
"""The size that is not fragmented on any path; larger replies are truncated, and clients retry over TCP."""
TCP_BYTES_MAX = 65_535

_QUESTION_NAME = b"\xc0\x0c"
"""A compression pointer to the name in the question."""
_HEADER = Layout(">HHHHH")
_OPT = Layout(">BHHBBHH")


class Reply(Struct, frozen=True):
    flags: int
    """AA, RA and the rcode; flags that depend on the query are added by `compose`."""
    counts: tuple[int, int, int] = (0, 0, 0)
    """The number of answer, authority and additional records."""
    tail: bytes = b""
    """Everything after the question, without OPT."""
    ends: tuple[int, ...] = ()
    """The end offset of each record in `tail`."""
    ttls: tuple[int, ...] = ()
    """The offset of each record's TTL in `tail`."""

    @property
    def rcode(self) -> int:
        return self.flags & RCODE_MASK


def failure(rcode: Rcode, flags: int = 0) -> Reply:
    return Reply(flags | rcode)


def read(message: bytes) -> tuple[bytes, Reply]:
    """The question and the reply of a server's message. OPT applies to one hop only: it is removed, with all
    records after it. Raises MalformedMessage."""
    flags, questions, *counts = _HEADER.unpack_from(message, 2) if len(message) >= HEADER_BYTES else (0, 0)
    if not flags & QR or flags & OPCODE_MASK or questions != 1:
        raise MalformedMessage("not a reply to one question")
    start = wire.question_end(message)
    offsets = wire.record_offsets(message, start, sum(counts))
    count = next(
        (index for index, offset in enumerate(offsets) if offset.type == RecordType.OPT), len(offsets)
    )
    if count < counts[0] + counts[1]:
        raise MalformedMessage("OPT where it does not belong")
    offsets = offsets[:count]
    tail = message[start : offsets[-1].end] if offsets else b""
    reply = Reply(
        flags & (AA | TC | RCODE_MASK),
        (counts[0], counts[1], count - counts[0] - counts[1]),
        tail,
        tuple(offset.end - start for offset in offsets),
        tuple(offset.ttl - start for offset in offsets),
    )
    return message[HEADER_BYTES:start], reply


def size_max(query: Query) -> int:
    """The maximum size of a UDP reply to the query."""
    if query.edns is None:
        return UDP_BYTES_PLAIN
    return min(max(query.edns.payload_bytes, UDP_BYTES_PLAIN), UDP_BYTES_MAX)


def compose(query: Query, reply: Reply, bytes_max: int, extended_rcode: int = 0) -> bytes:
    """The message that answers `query`. If not all records fit, it contains as many complete records as
    possible."""
    option = _option(query, extended_rcode)
    bytes_available = bytes_max - HEADER_BYTES - len(query.question) - len(option)
    if len(reply.tail) > bytes_available:
        reply = _truncate(reply, bytes_available)
    flags = QR | reply.flags | query.flags & (OPCODE_MASK | RD | CD)
    answers, authority, extra = reply.counts
    header = _HEADER.pack(flags, bool(query.question), answers, authority, extra + bool(option))
    return b"".join((query.id, header, query.question, reply.tail, option))


def is_rotatable(reply: Reply, kind: int) -> bool:
    """Whether all answers are addresses of the queried name, whose order may change."""
    if reply.counts[0] < 2 or kind not in (RecordType.A, RecordType.AAAA):
        return False
    return reply.tail[:4] == _QUESTION_NAME + kind.to_bytes(2, "big")


def rotated(reply: Reply) -> Reply:
    """Moves the first answer to the end. All answers have the same size, so the offsets do not change."""
    first, span = reply.ends[0], reply.ends[reply.counts[0] - 1]
    tail = reply.tail[first:span] + reply.tail[:first] + reply.tail[span:]
    return Reply(reply.flags, reply.counts, tail, reply.ends, reply.ttls)


def refuse(packet: bytes, rcode: Rcode) -> bytes:
    """The reply to a malformed query: only a header."""
    flags = int.from_bytes(packet[2:4], "big") & (OPCODE_MASK | RD)
    return packet[:2] + _HEADER.pack(QR | flags | rcode, 0, 0, 0, 0)


def _option(query: Query, extended_rcode: int) -> bytes:
    if query.edns is None:
        return b""
    flags = DO if query.edns.dnssec_ok else 0
    return _OPT.pack(0, RecordType.OPT, UDP_BYTES_MAX, extended_rcode, 0, flags, 0)


def _truncate(reply: Reply, bytes_available: int) -> Reply:
    count = bisect_right(reply.ends, bytes_available)
    answers, authority, _ = reply.counts
    # Omitted additional records do not require TC, the others do.
    truncated = TC if count < answers + authority else 0
    counts = (
        min(count, answers),
        max(0, min(count - answers, authority)),
        max(0, count - answers - authority),
    )
    tail = reply.tail[: reply.ends[count - 1]] if count else b""
    return Reply(reply.flags | truncated, counts, tail, reply.ends[:count], reply.ttls[:count])
