"""What a zone answers to a question: pure, before anything is encoded.

A name that is there without records of the asked type is not the same as a name that is not there: the
first is NOERROR without answers, the second NXDOMAIN; both carry the zone's SOA.
"""

from msgspec import Struct

from alcove.dns.names import ROOT, Name
from alcove.dns.records import DnsRecord, RecordType
from alcove.dns.wire import Rcode
from alcove.dns.zone import DnsZone, RecordSets

ALIASES_FOLLOWED_MAX = 8
_SRV_NUMBERS_BYTES = 6


class DnsAnswer(Struct, frozen=True):
    rcode: Rcode = Rcode.NOERROR
    answers: tuple[DnsRecord, ...] = ()
    extra: tuple[DnsRecord, ...] = ()
    negative_of: Name | None = None
    """The zone that says no; None: there are answers."""
    elsewhere: Name | None = None
    """The answers end in an alias of this name, which others have to be asked about."""


def answer(zone: DnsZone, name: Name, kind: int, *, isolated: bool) -> DnsAnswer | None:
    """None: the question is for others. In an isolated network there are no others, and nothing else exists."""
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
        # One set is a whole answer to "any" (RFC 8482), and no lever for an attack.
        return sets[min(sets)] if sets else ()
    return sets.get(kind, ())


def _follow(zone: DnsZone, sets: RecordSets, kind: int, isolated: bool) -> DnsAnswer:
    """An alias, and what it leads to as far as this zone knows."""
    chain: tuple[DnsRecord, ...] = ()
    for _ in range(ALIASES_FOLLOWED_MAX):
        [alias] = sets[RecordType.CNAME][:1]
        chain = (*chain, alias)
        target = Name(alias.data)
        if zone.apex_of(target) is None:
            return DnsAnswer(answers=chain, elsewhere=None if isolated else target)
        found = zone.find(target)
        if found is None:
            return DnsAnswer(Rcode.NXDOMAIN, answers=chain)
        if RecordType.CNAME not in found:
            return DnsAnswer(answers=chain + found.get(kind, ()))
        sets = found
    return DnsAnswer(Rcode.SERVFAIL)


def _extra(zone: DnsZone, records: tuple[DnsRecord, ...]) -> tuple[DnsRecord, ...]:
    """Addresses of the names that SRV records point to, so that nobody has to ask again."""
    found: dict[DnsRecord, None] = {}
    for record in records:
        if record.type == RecordType.SRV:
            sets = zone.find(Name(record.data[_SRV_NUMBERS_BYTES:])) or {}
            for kind in (RecordType.A, RecordType.AAAA):
                found.update(dict.fromkeys(sets.get(kind, ())))
    return tuple(found)
