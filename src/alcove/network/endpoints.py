"""Ring0's endpoints as values: which address or node port is allocated to which owner.

Pure: no I/O. Only ring0 writes endpoints, so they are trusted; an endpoint belongs to a pod if its label has
the pod's uid and its spec the pod's name.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Interface, IPv6Interface, ip_address, ip_interface

from msgspec import Struct

from alcove.api import objects
from alcove.api.addresses import Address
from alcove.api.kinds.mizar import OWNER_LABEL, SIMPLE
from alcove.api.kinds.ranges import read_number
from alcove.api.node_ports import claimed_port
from alcove.api.objects import Object
from alcove.network import portnames
from alcove.network.owners import OwnerRef
from alcove.network.policy import NamedPort
from alcove.vpc.states import is_provisioned
from alcove.vpc.vpc_cache import spec_of


class EndpointAllocation(Struct, frozen=True):
    """What one of ring0's endpoints allocates: an address or a node port, and its owner."""

    name: str
    kind: str
    owner_uid: str
    owner: OwnerRef | None
    """The pod or service; None if the endpoint belongs to no tenant."""
    vni: int
    address: Address | None
    droplet: str = ""
    node_port: tuple[int, str] | None = None
    ports: tuple[NamedPort, ...] = ()
    """The pod's named ports."""
    created: str = ""
    """When, in RFC 3339: addresses are used again."""


class PodNic(Struct, frozen=True):
    """One address of a pod, with everything that its interface needs."""

    pod: OwnerRef
    interface: str
    vpc: str
    vni: int
    address: IPv4Interface | IPv6Interface
    mac: str
    gateway: Address | None


def by_owner(endpoint: Object) -> Iterable[str]:
    """An index by the uid of the endpoint's owner."""
    owner = objects.labels(endpoint).get(OWNER_LABEL)
    return (owner,) if owner else ()


def vni_of(obj: Object) -> int:
    """The VNI in the object's spec; 0 if it has none."""
    return read_number(objects.get(obj, "spec", "vni")) or 0


def allocation_of(endpoint: Object) -> EndpointAllocation:
    text = spec_of(endpoint, "ip")
    return EndpointAllocation(
        name=objects.name(endpoint),
        kind=spec_of(endpoint, "type"),
        owner_uid=objects.labels(endpoint).get(OWNER_LABEL, ""),
        owner=OwnerRef.parse(spec_of(endpoint, "pod")),
        vni=vni_of(endpoint),
        address=ip_address(text) if text else None,
        droplet=spec_of(endpoint, "droplet"),
        node_port=claimed_port(objects.name(endpoint)),
        ports=portnames.read(endpoint),
        created=objects.get(endpoint, "metadata", "creationTimestamp", default=""),
    )


def nic_of(endpoint: Object) -> PodNic | None:
    """The interface that the endpoint describes; None if it is no pod's or not provisioned yet."""
    pod, vni = OwnerRef.parse(spec_of(endpoint, "pod")), vni_of(endpoint)
    if spec_of(endpoint, "type") != SIMPLE or not is_provisioned(endpoint) or pod is None or not vni:
        return None
    gateway = spec_of(endpoint, "gw")
    return PodNic(
        pod=pod,
        interface=spec_of(endpoint, "itf") or "eth0",
        vpc=spec_of(endpoint, "vpc"),
        vni=vni,
        address=ip_interface(f"{spec_of(endpoint, 'ip')}/{spec_of(endpoint, 'prefix')}"),
        mac=spec_of(endpoint, "mac"),
        gateway=ip_address(gateway) if gateway else None,
    )
