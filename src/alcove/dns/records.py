"""The DNS records of services and pods, by the Kubernetes DNS specification 1.1. Pure functions.

S.N.svc.D                 A/AAAA   cluster IPs, or every ready endpoint of a headless service
S.N.svc.D                 CNAME    the target of an ExternalName service
_P._tcp.S.N.svc.D         SRV      a named port, one per endpoint if headless (and at S.N.svc.D, all ports)
H.S.N.svc.D               A/AAAA   an endpoint of a headless service, by hostname or dashed address
1-2-3-4.N.pod.D           A/AAAA   a pod
4.3.2.1.in-addr.arpa      PTR      S.N.svc.D or H.S.N.svc.D
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import islice
from struct import pack

from msgspec import Struct

from alcove.dns.model import Address, DnsEndpoint, DnsPod, DnsPort, DnsService, EndpointSlice, ObjectId
from alcove.dns.names import BadName, Name, dashed, name_of, reverse_name, under

SRV_WEIGHT_TOTAL = 100
ADDRESSES_MAX = 4_096
"""Addresses of a headless service that have names: as many as fit into an answer. Others are not published."""
SRV_TARGETS_MAX = 8_192
"""Pairs of an endpoint and a port of a service that have SRV records. Two small objects may have billions of them; an answer has room for two
thousand."""


class RecordType(IntEnum):
    A = 1
    NS = 2
    CNAME = 5
    SOA = 6
    PTR = 12
    TXT = 16
    AAAA = 28
    SRV = 33
    OPT = 41
    IXFR = 251
    AXFR = 252
    ANY = 255


class DnsRecord(Struct, frozen=True, gc=False):
    name: Name
    type: int
    data: bytes
    """In wire format, without compressed names."""


class _Target(Struct, frozen=True):
    """A port of a service and the name of its host."""

    port: DnsPort
    name: Name


def service_records(
    domain: Name, published: ObjectId, service: DnsService, slices: Sequence[EndpointSlice]
) -> frozenset[DnsRecord]:
    """The records of `service` under the name `published`, which is its name or its alias."""
    try:
        relative_name = name_of(f"{published.name}.{published.namespace}.svc")
        name = Name(relative_name[:-1] + domain)
        if service.external_name:
            return frozenset([DnsRecord(name, RecordType.CNAME, name_of(service.external_name))])
    except (BadName, UnicodeEncodeError):
        return frozenset()
    if service.headless:
        return frozenset(_headless_records(name, service, slices))
    targets = [_Target(port, name) for port in service.ports[:SRV_TARGETS_MAX]]
    addresses = (_address(name, address) for address in service.addresses)
    pointers = (DnsRecord(reverse_name(address), RecordType.PTR, name) for address in service.addresses)
    return frozenset([*addresses, *pointers, *_srv_records(name, targets)])


def pod_records(domain: Name, pod: DnsPod) -> frozenset[DnsRecord]:
    pods_domain = Name(name_of(f"{pod.id.namespace}.pod")[:-1] + domain)
    return frozenset(_address(under(dashed(address), pods_domain), address) for address in pod.addresses)


def apex_records(domain: Name, server: Name) -> frozenset[DnsRecord]:
    """The records of the zone itself, except its SOA, which changes with every update."""
    version = b"1.1.0"
    about = DnsRecord(under("dns-version", domain), RecordType.TXT, bytes((len(version),)) + version)
    return frozenset([DnsRecord(domain, RecordType.NS, server), about])


def _headless_records(
    name: Name, service: DnsService, slices: Iterable[EndpointSlice]
) -> Iterator[DnsRecord]:
    targets: list[_Target] = []
    for endpoint_slice, endpoint, address in islice(_published(service, slices), ADDRESSES_MAX):
        endpoint_name = _endpoint_name(name, endpoint, address)
        yield from (_address(name, address), _address(endpoint_name, address))
        yield DnsRecord(reverse_name(address), RecordType.PTR, endpoint_name)
        room = SRV_TARGETS_MAX - len(targets)
        targets += (_Target(port, endpoint_name) for port in endpoint_slice.ports[:room])
    yield from _srv_records(name, targets)


def _published(
    service: DnsService, slices: Iterable[EndpointSlice]
) -> Iterator[tuple[EndpointSlice, DnsEndpoint, Address]]:
    for endpoint_slice in slices:
        for endpoint in endpoint_slice.endpoints:
            if endpoint.ready or service.publish_not_ready:
                yield from ((endpoint_slice, endpoint, address) for address in endpoint.addresses)


def _endpoint_name(name: Name, endpoint: DnsEndpoint, address: Address) -> Name:
    try:
        return under(endpoint.hostname, name)
    except (BadName, UnicodeEncodeError):
        return under(dashed(address), name)


def _srv_records(name: Name, targets: Sequence[_Target]) -> Iterator[DnsRecord]:
    """SRV records: all ports at the service's name, and named ports also at `_port._protocol`."""
    by_owner: dict[Name, dict[_Target, None]] = {name: dict.fromkeys(targets)}
    for target in targets:
        if not target.port.name:
            continue
        try:
            protocol = under(f"_{target.port.protocol}", name)
            by_owner.setdefault(under(f"_{target.port.name}", protocol), {})[target] = None
        except (BadName, UnicodeEncodeError):
            continue  # A port name may have 63 characters, so that the label with the underscore is too long.
    for owner, owner_targets in by_owner.items():
        for target in owner_targets:
            weight = max(1, SRV_WEIGHT_TOTAL // len(owner_targets))
            yield DnsRecord(owner, RecordType.SRV, pack(">HHH", 0, weight, target.port.number) + target.name)


def _address(name: Name, address: Address) -> DnsRecord:
    return DnsRecord(name, RecordType.A if address.version == 4 else RecordType.AAAA, address.packed)
