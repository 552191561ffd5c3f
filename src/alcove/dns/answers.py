"""A zone's answer to a query, before it is encoded. Pure: no I/O.

A name that exists without records of the queried type is answered with NOERROR and no records, a name that
does not exist with NXDOMAIN; both carry the zone's SOA.
"""

from msgspec import Struct

from alcove.dns.names import ROOT, Name
from alcove.dns.records import DnsRecord, RecordType
from alcove.dns.wire import Rcode
from alcove.dns.zone import DnsZone
from alcove.dns.zone_parts import RecordSets

EXTRA_TARGETS_MAX = 64
"""Targets of SRV records whose addresses are in the same answer."""
ALIASES_FOLLOWED_MAX = 8
_SRV_NUMBERS_BYTES = 6


class DnsAnswer(Struct, frozen=True):
    rcode: Rcode = Rcode.NOERROR
    answers: tuple[DnsRecord, ...] = ()
    extra: tuple[DnsRecord, ...] = ()
    negative_of: Name | None = None
    """The zone of a negative answer; None if there are answers."""
    elsewhere: Name | None = None
    """The target of the last CNAME if it is outside the zone; it must be queried upstream."""


def answer(zone: DnsZone, name: Name, kind: int, *, isolated: bool) -> DnsAnswer | None:
    """None if the query must be forwarded. In an isolated network nothing is forwarded, and other names do
    not exist."""
    apex = zone.apex_of(name)
    if apex is None:
        if not isolated:
            return None
        apex = ROOT
    sets = zone.find(name)
    if sets is None:
        return DnsAnswer(Rcode.NXDOMAIN, negative_of=apex)
    if kind == RecordType.SOA and name == zone.domain:
        return DnsAnswer(answers=(DnsRecord(name, RecordType.SOA, zone.soa()),))
    if RecordType.CNAME in sets and kind not in (RecordType.CNAME, RecordType.ANY):
        return _follow(zone, sets, kind, isolated)
    records = _of_type(sets, kind)
    if not records:
        return DnsAnswer(negative_of=apex)
    return DnsAnswer(answers=records, extra=_extra(zone, records))


def _of_type(sets: RecordSets, kind: int) -> tuple[DnsRecord, ...]:
    if kind == RecordType.ANY:
        # One record set is a valid answer to ANY (RFC 8482), and cannot be used for amplification.
        return sets[min(sets)] if sets else ()
    return sets.get(kind, ())


def _follow(zone: DnsZone, sets: RecordSets, kind: int, isolated: bool) -> DnsAnswer:
    """A CNAME, followed as far as the zone has its targets."""
    chain: tuple[DnsRecord, ...] = ()
    for _ in range(ALIASES_FOLLOWED_MAX):
        [alias] = sets[RecordType.CNAME][:1]
        chain = (*chain, alias)
        target = Name(alias.data)
        if zone.apex_of(target) is None:
            return DnsAnswer(answers=chain, elsewhere=None if isolated else target)
        target_sets = zone.find(target)
        if target_sets is None:
            return DnsAnswer(Rcode.NXDOMAIN, answers=chain)
        if RecordType.CNAME not in target_sets:
            return DnsAnswer(answers=chain + target_sets.get(kind, ()))
        sets = target_sets
    return DnsAnswer(Rcode.SERVFAIL)


def _extra(zone: DnsZone, records: tuple[DnsRecord, ...]) -> tuple[DnsRecord, ...]:
    """Addresses of the targets of SRV records, which saves the client further queries."""
    addresses: dict[DnsRecord, None] = {}
    for record in records[:EXTRA_TARGETS_MAX]:
        if record.type == RecordType.SRV:
            sets = zone.find(Name(record.data[_SRV_NUMBERS_BYTES:])) or {}
            for kind in (RecordType.A, RecordType.AAAA):
                addresses.update(dict.fromkeys(sets.get(kind, ())))
    return tuple(addresses)
