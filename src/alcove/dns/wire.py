"""Parses queries from wire format, and finds the records of a message.

Parsing is strict and bounded: the outcome for any input is a `Query`, MalformedMessage, or None for messages
that must not be answered (answering a reply could start a loop between two servers).
"""

from enum import IntEnum
from struct import Struct as Layout
from struct import error as StructError

from msgspec import Struct

from alcove.dns.names import NAME_LENGTH_MAX, Name
from alcove.dns.records import RecordType

HEADER_BYTES = 12
IN = 1
QR, AA, TC, RD, RA, CD = 0x8000, 0x0400, 0x0200, 0x0100, 0x0080, 0x0010
OPCODE_MASK = 0x7800
RCODE_MASK = 0x000F
DO = 0x8000
RECORDS_MAX = 1_000
"""Messages with more records are rejected."""
_POINTER = 0xC0

_HEADER = Layout(">HHHHHH")
_QUESTION = Layout(">HH")
_RECORD = Layout(">HHIH")


class Rcode(IntEnum):
    NOERROR = 0
    FORMERR = 1
    SERVFAIL = 2
    NXDOMAIN = 3
    NOTIMP = 4
    REFUSED = 5
    BADVERS = 16


class MalformedMessage(ValueError):
    pass


class Edns(Struct, frozen=True, gc=False):
    payload_bytes: int
    version: int
    dnssec_ok: bool


class Query(Struct, frozen=True):
    id: bytes
    flags: int
    question: bytes
    """Name, type and class as they were sent, with the case of the name preserved."""
    name: Name
    type: int
    qclass: int
    edns: Edns | None = None

    @property
    def key(self) -> bytes:
        """The question with its name in lower case."""
        return self.name + self.question[-4:]

    @property
    def opcode(self) -> int:
        return (self.flags & OPCODE_MASK) >> 11


class RecordOffset(Struct, frozen=True, gc=False):
    """The offsets of a record in its message; `ttl` and `end` are offsets too."""

    start: int
    type: int
    qclass: int
    ttl: int
    end: int


def parse_query(packet: bytes) -> Query | None:
    if len(packet) < HEADER_BYTES:
        return None
    _, flags, questions, *counts = _HEADER.unpack_from(packet)
    if flags & QR:
        return None
    if flags & OPCODE_MASK:
        return Query(packet[:2], flags, b"", Name(b"\0"), 0, IN)
    if questions != 1:
        raise MalformedMessage("not one question")
    end = question_end(packet)
    kind, qclass = _QUESTION.unpack_from(packet, end - 4)
    name = Name(packet[HEADER_BYTES : end - 4].lower())
    edns = _edns(packet, end, counts) if any(counts) else None
    return Query(packet[:2], flags, packet[HEADER_BYTES:end], name, kind, qclass, edns)


def question_end(message: bytes) -> int:
    """The end offset of the question. Raises MalformedMessage, also for a compressed name."""
    at = HEADER_BYTES
    try:
        while length := message[at]:
            if length & _POINTER:
                raise MalformedMessage("compressed question")
            at += length + 1
    except IndexError:
        raise MalformedMessage("name without end") from None
    at += 1
    if at - HEADER_BYTES > NAME_LENGTH_MAX or at + 4 > len(message):
        raise MalformedMessage("overlong name or no type")
    return at + 4


def record_offsets(message: bytes, at: int, count: int) -> list[RecordOffset]:
    """The offsets of the `count` records from `at` on. Raises MalformedMessage."""
    if count > RECORDS_MAX:
        raise MalformedMessage("too many records")
    offsets = []
    for _ in range(count):
        start = at
        at = _skip_name(message, at)
        try:
            kind, qclass, _, length = _RECORD.unpack_from(message, at)
        except StructError:
            raise MalformedMessage("record without end") from None
        end = at + _RECORD.size + length
        if end > len(message):
            raise MalformedMessage("record without end")
        offsets.append(RecordOffset(start, kind, qclass, at + 4, end))
        at = end
    return offsets


def _skip_name(message: bytes, at: int) -> int:
    try:
        while length := message[at]:
            if length >= _POINTER:
                return at + 2
            if length & _POINTER:
                raise MalformedMessage("unknown kind of label")
            at += length + 1
    except IndexError:
        raise MalformedMessage("name without end") from None
    return at + 1


def _edns(packet: bytes, at: int, counts: list[int]) -> Edns | None:
    offsets = record_offsets(packet, at, sum(counts))
    options = [offset for offset in offsets if offset.type == RecordType.OPT]
    if not options:
        return None
    [option, *more] = options
    if more or option not in offsets[counts[0] + counts[1] :] or packet[option.start] != 0:
        raise MalformedMessage("more than one OPT, or not where it belongs")
    flags = int.from_bytes(packet[option.ttl + 2 : option.ttl + 4], "big")
    return Edns(option.qclass, packet[option.ttl + 1], bool(flags & DO))
