"""Encodes answers into wire format, and decodes upstream replies that follow a CNAME (with dnslib)."""

from struct import pack

from dnslib import RR, DNSRecord
from dnslib.buffer import BufferError as DNSBufferError
from dnslib.dns import DNSError
from dnslib.label import DNSBuffer, DNSLabelError

from alcove.dns.answers import DnsAnswer
from alcove.dns.names import ROOT, Name, parent
from alcove.dns.records import DnsRecord, RecordType
from alcove.dns.reply import TCP_BYTES_MAX, Reply
from alcove.dns.wire import AA, HEADER_BYTES, IN, MalformedMessage, Rcode
from alcove.dns.zone import NEGATIVE_SECONDS, DnsZone

ANSWER_SECONDS = 5
_POINTER = 0xC000


def encode(
    name: Name, kind: int, answer: DnsAnswer, zone: DnsZone, flags: int, bytes_max: int = TCP_BYTES_MAX
) -> Reply:
    """The reply to a query for `name`. `flags` are those that the server sets on all replies. It has no more records than are
    needed to fill `bytes_max`: thousands may have the name. Encoded without dnslib, for which these take 0.1 s."""
    if answer.negative_of is not None:
        return _negative(name, answer.rcode, answer.negative_of, zone, flags)
    places = _places(name)
    tail, counts = bytearray(), [0, 0]
    ends: list[int] = []
    ttls: list[int] = []
    for section, records in enumerate((answer.answers, answer.extra)):
        for record in records:
            if len(tail) > bytes_max:
                break
            tail += _owner(record.name, places)
            ttls.append(len(tail) + 4)
            tail += pack(">HHIH", record.type, IN, ANSWER_SECONDS, len(record.data)) + record.data
            ends.append(len(tail))
            counts[section] += 1
    return Reply(flags | AA | answer.rcode, (counts[0], 0, counts[1]), bytes(tail), tuple(ends), tuple(ttls))


def _places(name: Name) -> dict[Name, bytes]:
    """Pointers to the question's name and all names above it."""
    places: dict[Name, bytes] = {}
    at = HEADER_BYTES
    while name != ROOT:
        places[name] = pack(">H", _POINTER | at)
        at += 1 + name[0]
        name = parent(name)
    return places


def _owner(name: Name, places: dict[Name, bytes]) -> bytes:
    """The name in wire format, as short as the question allows."""
    rest = name
    while rest != ROOT:
        place = places.get(rest)
        if place is not None:
            return name[: len(name) - len(rest)] + place
        rest = parent(rest)
    return name


def _negative(name: Name, rcode: Rcode, apex: Name, zone: DnsZone, flags: int) -> Reply:
    """There are too many missing names to cache these replies, so they must be cheap."""
    owner = b"\0" if apex == ROOT else pack(">H", _POINTER | HEADER_BYTES + len(name) - len(apex))
    soa = zone.soa()
    tail = owner + pack(">HHIH", RecordType.SOA, IN, NEGATIVE_SECONDS, len(soa)) + soa
    return Reply(flags | AA | rcode, (0, 1, 0), tail, (len(tail),), (len(owner) + 4,))


def chained(
    name: Name, kind: int, alias: DnsAnswer, message: bytes, rcode: int, zone: DnsZone, flags: int
) -> Reply:
    """The CNAMEs of `alias` followed by the answers of an upstream reply. Raises MalformedMessage."""
    try:
        upstream = DNSRecord.parse(message)
    except (DNSError, DNSBufferError, DNSLabelError, ValueError, IndexError, RecursionError) as error:
        raise MalformedMessage("unreadable reply") from error
    records = tuple(_read(record) for record in upstream.rr)
    joined = DnsAnswer(
        Rcode(rcode) if rcode in set(Rcode) else Rcode.SERVFAIL, answers=alias.answers + records
    )
    return encode(name, kind, joined, zone, flags)


def _read(record: RR) -> DnsRecord:
    buffer = DNSBuffer()
    record.rdata.pack(buffer)
    owner = b"".join(bytes((len(label),)) + label for label in record.rname.label) + b"\0"
    return DnsRecord(Name(owner.lower()), record.rtype, bytes(buffer.data))
