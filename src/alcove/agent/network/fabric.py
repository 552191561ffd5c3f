"""Ring0's objects read into what the data plane knows: who has which address, and what each network is made of.

Pure. Only ring0 writes these objects, so they are believed; an endpoint is a pod's if its label says the pod's
uid and its spec the pod's name, and a VPC or number is a network's if its mark says so.
"""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, ip_address, ip_interface

from msgspec import Struct

from alcove.api import objects
from alcove.api.ids import TenantId
from alcove.api.kinds.ranges import read_number
from alcove.api.objects import Object
from alcove.dataplane.address import Address, Prefix
from alcove.dataplane.model import Endpoint, Interface, Subnet, Vpc
from alcove.network import portnames
from alcove.network.owners import NetworkId, OwnerRef, owner_of
from alcove.network.policy import NamedPort
from alcove.vpc import ranges
from alcove.vpc.addressing import GATEWAY, SIMPLE
from alcove.vpc.claims import claimed_port
from alcove.vpc.states import is_provisioned
from alcove.vpc.world import OWNER_LABEL, spec_of

Nodes = Mapping[str, IPv4Address]
"""Addresses of droplets by name."""


class Holding(Struct, frozen=True):
    """What one of ring0's endpoints holds: an address, or a port of the nodes, and for whom."""

    name: str
    kind: str
    owner_uid: str
    owner: OwnerRef | None
    """The pod or service; None for what is no tenant's."""
    vni: int
    address: Address | None
    droplet: str = ""
    node_port: tuple[int, str] | None = None
    ports: tuple[NamedPort, ...] = ()
    """Names that the pod has for its ports."""


class Nic(Struct, frozen=True):
    """One address of a pod, with all that its interface needs."""

    pod: OwnerRef
    interface: str
    vpc: str
    vni: int
    address: Interface
    mac: str
    gateway: Address | None


class Backing(Struct, frozen=True):
    """What a network is made of."""

    owner: NetworkId
    vpc: Vpc
    subnets: tuple[Subnet, ...]
    gateways: tuple[Interface, ...]

    @property
    def vni(self) -> int:
        return self.vpc.vni

    @property
    def prefixes(self) -> tuple[Prefix, ...]:
        return self.vpc.prefixes

    def gateway(self, version: int) -> Address | None:
        """Where its node's own servers are."""
        return next((one.ip for one in self.gateways if one.version == version), None)


def vni_of(obj: Object) -> int:
    """0: it has none."""
    return read_number(objects.get(obj, "spec", "vni")) or 0


def holding_of(endpoint: Object) -> Holding:
    text = spec_of(endpoint, "ip")
    return Holding(
        name=objects.name(endpoint),
        kind=spec_of(endpoint, "type"),
        owner_uid=objects.labels(endpoint).get(OWNER_LABEL, ""),
        owner=OwnerRef.parse(spec_of(endpoint, "pod")),
        vni=vni_of(endpoint),
        address=ip_address(text) if text else None,
        droplet=spec_of(endpoint, "droplet"),
        node_port=claimed_port(objects.name(endpoint)),
        ports=portnames.read(endpoint),
    )


def nic_of(endpoint: Object) -> Nic | None:
    """None: it is no pod's, or not placed yet."""
    pod, vni = OwnerRef.parse(spec_of(endpoint, "pod")), vni_of(endpoint)
    if spec_of(endpoint, "type") != SIMPLE or not is_provisioned(endpoint) or pod is None or not vni:
        return None
    gateway = spec_of(endpoint, "gw")
    return Nic(
        pod=pod,
        interface=spec_of(endpoint, "itf") or "eth0",
        vpc=spec_of(endpoint, "vpc"),
        vni=vni,
        address=ip_interface(f"{spec_of(endpoint, 'ip')}/{spec_of(endpoint, 'prefix')}"),
        mac=spec_of(endpoint, "mac"),
        gateway=ip_address(gateway) if gateway else None,
    )


def located(holding: Holding, nodes: Nodes) -> Endpoint | None:
    """Where an address is; None: on no node that is known, or everywhere."""
    node = nodes.get(holding.droplet)
    if node is None or holding.address is None or holding.kind not in (SIMPLE, GATEWAY):
        return None
    return Endpoint(holding.vni, holding.address, node)


def nodes_of(droplets: Iterable[Object]) -> dict[str, IPv4Address]:
    found: dict[str, IPv4Address] = {}
    for droplet in droplets:
        address = ip_address(spec_of(droplet, "ip") or "::")
        if isinstance(address, IPv4Address):
            found[objects.name(droplet)] = address
    return found


def homes(duties: Iterable[Object], nodes: Nodes) -> tuple[IPv4Address, ...]:
    """Where bouncers or dividers are, in an order of their own."""
    found = sorted(duties, key=objects.name)
    return tuple(
        dict.fromkeys(nodes[spec_of(each, "droplet")] for each in found if spec_of(each, "droplet") in nodes)
    )


def backing_of_vpc(
    vpc: Object,
    subnets: Iterable[Object],
    bouncers: Iterable[Object],
    dividers: Iterable[Object],
    nodes: Nodes,
) -> Backing | None:
    """A VPC that is some network's (or, for duties alone, nobody's); None: it is not whole yet."""
    whole, vni = ranges.range_of(vpc), vni_of(vpc)
    if whole is None or not vni or not is_provisioned(vpc):
        return None
    by_subnet: dict[str, list[Object]] = {}
    for bouncer in bouncers:
        by_subnet.setdefault(spec_of(bouncer, "net"), []).append(bouncer)
    own = [each for each in dividers if vni_of(each) == vni]
    parts: list[Subnet] = []
    gateways: list[Interface] = []
    for subnet in sorted(subnets, key=objects.name):
        prefix = ranges.range_of(subnet)
        if prefix is not None and is_provisioned(subnet):
            parts.append(Subnet(vni, prefix, homes(by_subnet.get(objects.name(subnet), ()), nodes)))
            gateways.append(_gateway(prefix))
    owner = owner_of(vpc) or NetworkId(TenantId(""), "")
    return Backing(owner, Vpc(vni, (whole,), homes(own, nodes)), tuple(parts), tuple(gateways))


def backing_of_flat(divider: Object, subnet: Object) -> Backing | None:
    """A flat network: a number of its own in the range that all flat networks share.

    It has no bouncers: every node that has the network knows all its endpoints, and none those of others.
    """
    owner, vni, prefix = owner_of(divider), vni_of(divider), ranges.range_of(subnet)
    if owner is None or not vni or prefix is None or not is_provisioned(subnet):
        return None
    return Backing(owner, Vpc(vni, (prefix,)), (Subnet(vni, prefix),), (_gateway(prefix),))


def _gateway(prefix: Prefix) -> Interface:
    return ip_interface(f"{ranges.gateway(prefix)}/{prefix.prefixlen}")
