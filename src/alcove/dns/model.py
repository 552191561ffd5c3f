"""The inputs of a network's zone: services, endpoint slices and pods, as plain values.

The agent selects the objects of each network.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from msgspec import Struct

from alcove.api.ids import TenantId

Address = IPv4Address | IPv6Address
Prefix = IPv4Network | IPv6Network


class NetworkId(Struct, frozen=True, order=True):
    """A tenant's network; `name` is unique within the tenant only."""

    tenant: TenantId
    name: str


class ObjectId(Struct, frozen=True, order=True):
    namespace: str
    name: str


class DnsPort(Struct, frozen=True):
    name: str
    protocol: str
    """`TCP`, `UDP` or `SCTP`."""
    number: int


class DnsService(Struct, frozen=True):
    id: ObjectId
    addresses: tuple[Address, ...] = ()
    """Cluster IPs; empty for headless and external services."""
    ports: tuple[DnsPort, ...] = ()
    external_name: str = ""
    """The target of an ExternalName service."""
    publish_not_ready: bool = False

    @property
    def headless(self) -> bool:
        return not self.addresses and not self.external_name


class DnsEndpoint(Struct, frozen=True):
    addresses: tuple[Address, ...]
    hostname: str = ""
    ready: bool = True


class EndpointSlice(Struct, frozen=True):
    id: ObjectId
    service: str
    """Name of the service it belongs to, in the same namespace."""
    ports: tuple[DnsPort, ...] = ()
    endpoints: tuple[DnsEndpoint, ...] = ()


class DnsPod(Struct, frozen=True):
    id: ObjectId
    addresses: tuple[Address, ...]
