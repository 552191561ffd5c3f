"""Encodes answers into wire format, and decodes upstream replies that follow a CNAME, with dnslib."""

from struct import pack

from dnslib import RD, RR, DNSHeader, DNSLabel, DNSQuestion, DNSRecord
from dnslib.buffer import BufferError as DNSBufferError
from dnslib.dns import DNSError
from dnslib.label import DNSBuffer, DNSLabelError

from alcove.dns import reply as replies
from alcove.dns.answers import DnsAnswer
from alcove.dns.names import ROOT, Name, labels
from alcove.dns.records import DnsRecord, RecordType
from alcove.dns.reply import Reply
from alcove.dns.wire import AA, HEADER_BYTES, IN, QR, MalformedMessage, Rcode
from alcove.dns.zone import NEGATIVE_SECONDS, DnsZone

ANSWER_SECONDS = 5
_POINTER = 0xC000


def encode(name: Name, kind: int, answer: DnsAnswer, zone: DnsZone, flags: int) -> Reply:
    """The reply to a query for `name`. `flags` are those that the server sets on all replies."""
    if answer.negative_of is not None:
        return _negative(name, answer.rcode, answer.negative_of, zone, flags)
    message = DNSRecord(
        DNSHeader(id=0, bitmap=QR),
        questions=[DNSQuestion(_label(name), kind)],
        rr=[_record(record) for record in answer.answers],
        ar=[_record(record) for record in answer.extra],
    )
    _, reply = replies.read(message.pack())
    return Reply(flags | AA | answer.rcode, reply.counts, reply.tail, reply.ends, reply.ttls)


def _negative(name: Name, rcode: Rcode, apex: Name, zone: DnsZone, flags: int) -> Reply:
    """Encoded without dnslib: there are too many missing names to cache these replies, so they must be
    cheap."""
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


def _label(name: Name) -> DNSLabel:
    return DNSLabel(labels(name))


def _record(record: DnsRecord) -> RR:
    return RR(_label(record.name), record.type, IN, ANSWER_SECONDS, RD(record.data))


def _read(record: RR) -> DnsRecord:
    buffer = DNSBuffer()
    record.rdata.pack(buffer)
    owner = b"".join(bytes((len(label),)) + label for label in record.rname.label) + b"\0"
    return DnsRecord(Name(owner.lower()), record.rtype, bytes(buffer.data))
