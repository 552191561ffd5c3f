"""Addresses of a network's services: which ranges they are from, and the IPAddress objects that claim them.

The name of an IPAddress states the address, so creating the object either claims the address or fails. In the
default network the name is the address, as in Kubernetes. Ranges of networks may overlap, so in another network
the network's name follows: `10.96.1.7.blue`.
"""

import ipaddress
from collections.abc import Iterable
from itertools import islice

import orjson

from alcove.api import addresses
from alcove.api.addresses import Network
from alcove.api.ids import TenantId
from alcove.api.kinds.core.networks import DEFAULT_NETWORK
from alcove.api.kinds.ranges import read_number
from alcove.api.objects import Object, get
from alcove.api.short_cache import cache_short

SERVICE_RANGES: tuple[Network, ...] = (
    ipaddress.ip_network("10.96.0.0/16"),
    ipaddress.ip_network("172.31.0.0/16"),
    ipaddress.ip_network("192.168.0.0/16"),
)
"""Defaults: the first that does not overlap the pods' range is used. Different networks may use the same
range."""
SERVICE_RANGES6: tuple[Network, ...] = (
    ipaddress.ip_network("fd96::/108"),
    ipaddress.ip_network("fdac::/108"),
)
SERVICE_RANGES_MAX = 8
"""Ranges of the services of a network. Each is a route on the nodes, whose map all networks share."""
EXTERNAL = "External"
"""`spec.service.ipam` of a network whose service addresses are chosen by an external component."""
FAMILY_LABEL = "ipaddress.kubernetes.io/ip-family"
MANAGED_LABEL = "ipaddress.kubernetes.io/managed-by"
MANAGED_BY = "ipallocator.k8s.io"


def known_ranges(network: Object) -> tuple[Network, ...]:
    """The ranges of the network's service addresses, as far as they are certain from the network alone.

    Before a network is provisioned they follow from its spec, unless it may be attached to a VPC of unknown
    range: then they are empty until its status has them.
    """
    spec, status = network.get("spec") or {}, network.get("status") or {}
    configured = get(spec, "service", "cidrs") or status.get("serviceCIDRs")
    if configured:
        # The status is what a client has written to it.
        few = islice(configured, SERVICE_RANGES_MAX)
        return tuple(parsed for text in few if (parsed := _parse(text)) is not None)
    pods = _pod_range(spec)
    if pods is None and spec.get("type") != "flat":
        return ()
    chosen = default_range([pods] if pods is not None else [])
    return (chosen,) if chosen is not None else ()


def default_range(pod_ranges: Iterable[Network]) -> Network | None:
    """The first default of the pods' IP family that overlaps none of their ranges."""
    occupied = tuple(pod_ranges)
    defaults = SERVICE_RANGES6 if occupied and occupied[0].version == 6 else SERVICE_RANGES
    return next((each for each in defaults if not any(_overlaps(each, other) for other in occupied)), None)


def _overlaps(one: Network, other: Network) -> bool:
    return one.version == other.version and one.overlaps(other)


def _pod_range(spec: Object) -> Network | None:
    """The range of a network that has its own; pods of flat networks are in none of the defaults."""
    prefix = read_number(spec.get("prefix"))
    if spec.get("type") == "flat" or not spec.get("ip") or prefix is None:
        return None
    return _parse(f"{spec['ip']}/{prefix}")


@cache_short(4096)
def _parse(text: str) -> Network | None:
    """None for text that is no range: a status may have been written by anybody in the tenant."""
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None


def is_external(network: Object) -> bool:
    return bool(get(network, "spec", "service", "ipam") == EXTERNAL)


def claim_name(network: str, address: str) -> str:
    canonical = address if addresses.is_ipv4(address) else addresses.canonical_text(address)
    return canonical_claim_name(network, canonical)


def canonical_claim_name(network: str, canonical: str) -> str:
    """As `claim_name`, of an address in canonical form."""
    return canonical if network == DEFAULT_NETWORK else f"{canonical}.{network}"


def claimed_address(name: str) -> str:
    """The address in the name of an IPAddress; empty if it has none in canonical form."""
    address = name.partition(".")[0] if ":" in name else ".".join(name.split(".")[:4])
    if not addresses.ip_family(address) or addresses.canonical_ip_errors("", address):
        return ""
    return address


def encoded_claim(tenant: TenantId, name: str, service: Object, uid: str, created: str) -> bytes:
    """The IPAddress of this name that claims its address for a service, as it is stored: its fields are in the order of
    `encode`, and nothing of it has to be copied or removed first, since every service that is created has one."""
    metadata = service["metadata"]
    return orjson.dumps(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "IPAddress",
            "metadata": {
                "name": name,
                "labels": {FAMILY_LABEL: "IPv6" if ":" in name else "IPv4", MANAGED_LABEL: MANAGED_BY},
                "tenant": tenant,
                "uid": uid,
                "creationTimestamp": created,
                "selfLink": f"/apis/networking.k8s.io/v1/tenants/{tenant}/ipaddresses/{name}",
            },
            "spec": {
                "parentRef": {
                    "resource": "services",
                    "namespace": metadata["namespace"],
                    "name": metadata["name"],
                }
            },
        }
    )


def is_claimed_by(claimed: Object, service: Object) -> bool:
    """Whether the IPAddress claims its address for the service."""
    parent, metadata = claimed["spec"].get("parentRef") or {}, service["metadata"]
    return (
        not parent.get("group")
        and parent.get("resource") == "services"
        and parent.get("namespace") == metadata["namespace"]
        and parent.get("name") == metadata["name"]
    )
