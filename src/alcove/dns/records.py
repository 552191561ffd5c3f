"""Which records a service or a pod has: pure functions, after the Kubernetes DNS specification 1.1.

S.N.svc.D                 A/AAAA   cluster IPs, or every ready endpoint of a headless service
S.N.svc.D                 CNAME    what an ExternalName service points to
_P._tcp.S.N.svc.D         SRV      a named port, one per endpoint if headless (and at S.N.svc.D, all ports)
H.S.N.svc.D               A/AAAA   an endpoint of a headless service, by hostname or dashed address
1-2-3-4.N.pod.D           A/AAAA   a pod
4.3.2.1.in-addr.arpa      PTR      back to S.N.svc.D or H.S.N.svc.D
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from struct import pack

from msgspec import Struct

from alcove.dns.model import Address, Endpoint, EndpointSlice, ObjectId, Pod, Port, Service
from alcove.dns.names import BadName, Name, dashed, name_of, reverse_name, under

SRV_WEIGHT_TOTAL = 100


class Type(IntEnum):
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


class Record(Struct, frozen=True, gc=False):
    name: Name
    type: int
    data: bytes
    """As on the wire, names in it not compressed."""


class _Target(Struct, frozen=True):
    """Where a port of a service is: a name and a number."""

    port: Port
    name: Name


def service_records(
    domain: Name, published: ObjectId, service: Service, slices: Sequence[EndpointSlice]
) -> frozenset[Record]:
    """Records of `service` under the name `published`: its own, or the alias of a network's service."""
    try:
        own = name_of(f"{published.name}.{published.namespace}.svc")
        name = Name(own[:-1] + domain)
        if service.external_name:
            return frozenset([Record(name, Type.CNAME, name_of(service.external_name))])
    except (BadName, UnicodeEncodeError):
        return frozenset()
    if service.headless:
        return frozenset(_headless(name, service, slices))
    targets = [_Target(port, name) for port in service.ports]
    addresses = (_address(name, address) for address in service.addresses)
    pointers = (Record(reverse_name(address), Type.PTR, name) for address in service.addresses)
    return frozenset([*addresses, *pointers, *_services(name, targets)])


def pod_records(domain: Name, pod: Pod) -> frozenset[Record]:
    own = Name(name_of(f"{pod.id.namespace}.pod")[:-1] + domain)
    return frozenset(_address(under(dashed(address), own), address) for address in pod.addresses)


def apex_records(domain: Name, server: Name) -> frozenset[Record]:
    """What the zone says of itself. Its SOA is not here: it changes with every change."""
    version = b"1.1.0"
    about = Record(under("dns-version", domain), Type.TXT, bytes((len(version),)) + version)
    return frozenset([Record(domain, Type.NS, server), about])


def _headless(name: Name, service: Service, slices: Iterable[EndpointSlice]) -> Iterator[Record]:
    targets: list[_Target] = []
    for part in slices:
        for endpoint in part.endpoints:
            if not (endpoint.ready or service.publish_not_ready):
                continue
            for address in endpoint.addresses:
                own = _endpoint_name(name, endpoint, address)
                yield from (_address(name, address), _address(own, address))
                yield Record(reverse_name(address), Type.PTR, own)
                targets += (_Target(port, own) for port in part.ports)
    yield from _services(name, targets)


def _endpoint_name(name: Name, endpoint: Endpoint, address: Address) -> Name:
    try:
        return under(endpoint.hostname, name)
    except (BadName, UnicodeEncodeError):
        return under(dashed(address), name)


def _services(name: Name, targets: Sequence[_Target]) -> Iterator[Record]:
    """SRV records: every port at the service's own name, named ones at `_port._protocol` too."""
    by_owner: dict[Name, dict[_Target, None]] = {name: dict.fromkeys(targets)}
    for target in targets:
        if not target.port.name:
            continue
        try:
            protocol = under(f"_{target.port.protocol}", name)
            by_owner.setdefault(under(f"_{target.port.name}", protocol), {})[target] = None
        except (BadName, UnicodeEncodeError):
            continue  # A slice's port may have a name as long as a label: the underscore is too much then.
    for owner, told in by_owner.items():
        for target in told:
            weight = max(1, SRV_WEIGHT_TOTAL // len(told))
            yield Record(owner, Type.SRV, pack(">HHH", 0, weight, target.port.number) + target.name)


def _address(name: Name, address: Address) -> Record:
    return Record(name, Type.A if address.version == 4 else Type.AAAA, address.packed)
