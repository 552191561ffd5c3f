"""Replies before they are sent: everything after the question, ready to be joined to any asker's question.

Names in a reply point back into the question, so one reply serves every spelling of the name (upper and
lower case come back as they were asked) and every id.
"""

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
"""What passes every path without fragments; larger answers are truncated, and asked for again over TCP."""
TCP_BYTES_MAX = 65_535

_OF_QUESTION = b"\xc0\x0c"
"""The name of the question, as a pointer to it."""
_HEADER = Layout(">HHHHH")
_OPT = Layout(">BHHBBHH")


class Reply(Struct, frozen=True):
    flags: int
    """AA, RA and the code; what depends on the asker is added later."""
    counts: tuple[int, int, int] = (0, 0, 0)
    """Records that answer, tell the authority, and are extra."""
    tail: bytes = b""
    """Everything after the question, without OPT."""
    ends: tuple[int, ...] = ()
    """Where each record ends in `tail`."""
    ttls: tuple[int, ...] = ()
    """Where each record's time to live is in `tail`."""

    @property
    def rcode(self) -> int:
        return self.flags & RCODE_MASK


def failure(rcode: Rcode, flags: int = 0) -> Reply:
    return Reply(flags | rcode)


def read(message: bytes) -> tuple[bytes, Reply]:
    """Question and reply of a server's message. OPT is between two servers: it is cut out, with what follows."""
    flags, questions, *counts = _HEADER.unpack_from(message, 2) if len(message) >= HEADER_BYTES else (0, 0)
    if not flags & QR or flags & OPCODE_MASK or questions != 1:
        raise MalformedMessage("not a reply to one question")
    start = wire.question_end(message)
    found = wire.record_offsets(message, start, sum(counts))
    kept = next((at for at, offset in enumerate(found) if offset.type == RecordType.OPT), len(found))
    if kept < counts[0] + counts[1]:
        raise MalformedMessage("OPT where it does not belong")
    found = found[:kept]
    tail = message[start : found[-1].end] if found else b""
    reply = Reply(
        flags & (AA | TC | RCODE_MASK),
        (counts[0], counts[1], kept - counts[0] - counts[1]),
        tail,
        tuple(offset.end - start for offset in found),
        tuple(offset.ttl - start for offset in found),
    )
    return message[HEADER_BYTES:start], reply


def size_max(query: Query) -> int:
    """How much the asker takes in one datagram."""
    if query.edns is None:
        return UDP_BYTES_PLAIN
    return min(max(query.edns.payload_bytes, UDP_BYTES_PLAIN), UDP_BYTES_MAX)


def compose(query: Query, reply: Reply, bytes_max: int, extended_rcode: int = 0) -> bytes:
    """The datagram that answers `query`; with as many whole records as fit if not all do."""
    option = _option(query, extended_rcode)
    room = bytes_max - HEADER_BYTES - len(query.question) - len(option)
    if len(reply.tail) > room:
        reply = _cut(reply, room)
    flags = QR | reply.flags | query.flags & (OPCODE_MASK | RD | CD)
    answers, authority, extra = reply.counts
    header = _HEADER.pack(flags, bool(query.question), answers, authority, extra + bool(option))
    return b"".join((query.id, header, query.question, reply.tail, option))


def takes_turns(reply: Reply, kind: int) -> bool:
    """Whether all answers are addresses of the name asked for: then another may be the first each time."""
    if reply.counts[0] < 2 or kind not in (RecordType.A, RecordType.AAAA):
        return False
    return reply.tail[:4] == _OF_QUESTION + kind.to_bytes(2, "big")


def turned(reply: Reply) -> Reply:
    """The first answer last. All are of one size, so every record stays where a record was."""
    first, span = reply.ends[0], reply.ends[reply.counts[0] - 1]
    tail = reply.tail[first:span] + reply.tail[:first] + reply.tail[span:]
    return Reply(reply.flags, reply.counts, tail, reply.ends, reply.ttls)


def refuse(packet: bytes, rcode: Rcode) -> bytes:
    """The reply to what could not be read: a header only."""
    flags = int.from_bytes(packet[2:4], "big") & (OPCODE_MASK | RD)
    return packet[:2] + _HEADER.pack(QR | flags | rcode, 0, 0, 0, 0)


def _option(query: Query, extended_rcode: int) -> bytes:
    if query.edns is None:
        return b""
    flags = DO if query.edns.dnssec_ok else 0
    return _OPT.pack(0, RecordType.OPT, UDP_BYTES_MAX, extended_rcode, 0, flags, 0)


def _cut(reply: Reply, room: int) -> Reply:
    kept = sum(end <= room for end in reply.ends)
    answers, authority, _ = reply.counts
    # Extra records may be missing without a word, the others not.
    truncated = TC if kept < answers + authority else 0
    counts = (min(kept, answers), max(0, min(kept - answers, authority)), max(0, kept - answers - authority))
    tail = reply.tail[: reply.ends[kept - 1]] if kept else b""
    return Reply(reply.flags | truncated, counts, tail, reply.ends[:kept], reply.ttls[:kept])
