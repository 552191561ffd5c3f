"""Questions for addresses, and the addresses in replies. Pure: no I/O."""

from collections.abc import Iterator
from ipaddress import ip_address

from alcove.dns import wire
from alcove.dns.model import Address
from alcove.dns.names import Name
from alcove.dns.records import RecordType
from alcove.dns.wire import IN, RCODE_MASK, RD, TC, Rcode

ADDRESS_TYPES = (RecordType.A, RecordType.AAAA)
NDOTS = 5
"""As `options ndots:5` of pods: names with fewer dots are searched first."""
_DATA_OFFSET = 6
"""Of a record, from its TTL."""


def encode(name: Name, kind: RecordType) -> bytes:
    """A query as resolvers send it."""
    header = b"\0\0" + RD.to_bytes(2, "big") + (1).to_bytes(2, "big") + bytes(6)
    return header + name + kind.to_bytes(2, "big") + IN.to_bytes(2, "big")


def is_truncated(reply: bytes) -> bool:
    return bool(int.from_bytes(reply[2:4], "big") & TC)


def rcode_name(reply: bytes) -> str:
    number = int.from_bytes(reply[2:4], "big") & RCODE_MASK
    return Rcode(number).name if number in list(Rcode) else f"RCODE{number}"


def addresses(reply: bytes) -> Iterator[Address]:
    """Those of the answer, in its order. Raises MalformedMessage."""
    count = int.from_bytes(reply[6:8], "big")
    for record in wire.record_offsets(reply, wire.question_end(reply), count):
        if record.type in ADDRESS_TYPES:
            yield ip_address(reply[record.ttl + _DATA_OFFSET : record.end])


def searched(name: str, domains: tuple[str, ...]) -> list[str]:
    """The full names that a pod's resolver tries for a name, in this order."""
    if name.endswith("."):
        return [name]
    below = [f"{name}.{domain}." for domain in domains]
    return [*below, f"{name}."] if name.count(".") < NDOTS else [f"{name}.", *below]
