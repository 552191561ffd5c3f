"""A network's services as the data plane has them: virtual addresses, their backends, and node ports.

Pure: no I/O. Cluster IPs are used if they are in the network's ranges for services: they mean nothing in other
networks. Node ports and external addresses are used only if ring0 has granted them. A service's backends come from its EndpointSlices: the ready ones, or, if none is ready, those that still serve while they
terminate.

A node port or external address with backends on this node only (`externalTrafficPolicy: Local`) leads to a
data plane service at that same address: so clients keep their source address, and the cluster IP still has
all backends.

A load balancer's addresses serve only the clients in `loadBalancerSourceRanges`, if the service has any. An address
of a family without a range serves nobody. The ranges bind clients outside the network: its own pods have the cluster IP.
"""

from collections.abc import Iterable
from ipaddress import ip_address, ip_network

from msgspec import Struct

from alcove.agent.ingress.health_checks import HealthCheck
from alcove.agent.network.ring0_objects import NetworkBacking
from alcove.agent.network.service_targets import ServiceTargets, endpoints_by_port, port_key
from alcove.api import objects
from alcove.api.ids import SYSTEM
from alcove.api.kinds.core.services import types
from alcove.api.kinds.mizar import NODE_PORT
from alcove.api.objects import Object
from alcove.dataplane.address import Address, Prefix, host_prefix
from alcove.dataplane.model import DataplaneService, NodePort, Protocol, ServiceBackend
from alcove.network import wellknown
from alcove.network.endpoints import EndpointAllocation

DNS_PORT = 53
"""The gateway's port of the DNS server."""
AFFINITY_SECONDS = 10800
ANY_NODE: dict[int, Address] = {4: ip_address("0.0.0.0"), 6: ip_address("::")}
SAME_NODE = "PreferSameNode"
_NO_TARGETS = ServiceTargets(())
PROTOCOLS = {"TCP": Protocol.TCP, "UDP": Protocol.UDP, "SCTP": Protocol.SCTP}


class ServiceGrant(Struct, frozen=True):
    """What ring0 has granted to one service: node ports and external addresses."""

    node_ports: frozenset[tuple[int, str]] = frozenset()
    """Numbers, each with `TCP`, `UDP` or `SCTP`."""
    outside: frozenset[Address] = frozenset()
    """External addresses."""


def granted(allocations: Iterable[EndpointAllocation]) -> ServiceGrant:
    """`allocations` are those of one service."""
    found = list(allocations)
    return ServiceGrant(
        frozenset(each.node_port for each in found if each.kind == NODE_PORT and each.node_port is not None),
        frozenset(
            each.address
            for each in found
            if each.kind == NODE_PORT and each.node_port is None and each.address is not None
        ),
    )


class NodePerspective(Struct, frozen=True):
    """The node's facts that services depend on."""

    backing: NetworkBacking
    service_ranges: tuple[Prefix, ...]
    """The network's ranges for services."""
    nodes: tuple[Address, ...]
    """The node's addresses, at most one of each family."""
    local_addresses: frozenset[Address]
    """The network's addresses on this node."""
    has_node_address: bool = False
    """Whether the gateway on this node has an address to SNAT external clients to."""


class ServedServices(Struct, frozen=True):
    services: tuple[DataplaneService, ...] = ()
    node_ports: tuple[NodePort, ...] = ()
    prefixes: tuple[Prefix, ...] = ()
    """Service addresses outside the network's ranges."""
    health_check: HealthCheck | None = None


class ServiceDemand(Struct, frozen=True):
    """What a service needs in the kernel's maps, counted without computing it: ports times endpoints of two small objects may be
    more than anybody can have."""

    amounts: tuple[int, int]
    """Entries of services and backends, at most; and of node ports and external addresses with the ranges of their clients. A port for
    health checks counts as one of these."""
    is_local: bool = False
    """Whether it depends on the network's addresses on this node."""
    age: str = ""
    """Sorts by creation; first those that the network itself has."""


def demand(
    perspective: NodePerspective, service: Object, slices: Iterable[Object], grant: ServiceGrant
) -> ServiceDemand:
    """As `served`, which is not called for a service whose tenant has no room for this."""
    facts = _ServiceFacts(perspective, service, grant)
    tallies = endpoints_by_port(slices)
    entries = doors = 0
    spec = service["spec"]
    has_doors = bool(facts.external) or types.has_node_ports(spec)
    for port in facts.ports:
        backends = tallies.get(port_key(port), {})
        addresses: Iterable[Address] = facts.addresses
        if has_doors:
            service_port = _ServicePort(facts, port, _NO_TARGETS)
            addresses = service_port.addresses()
            doors += sum(1 + len(each.clients or ()) for each in service_port.node_ports())
        for address in addresses:
            entries += 1 + (1 if facts.is_wellknown else backends.get(address.version, 0))
    doors += 1 if _has_health_check(spec, grant) else 0
    age = "" if facts.is_wellknown else service["metadata"].get("creationTimestamp") or ""
    return ServiceDemand((entries, doors), is_local(spec), age)


def served(
    perspective: NodePerspective, service: Object, slices: Iterable[Object], grant: ServiceGrant
) -> ServedServices:
    """`service` must be in the network; `slices` are its EndpointSlices."""
    facts = _ServiceFacts(perspective, service, grant)
    targets = ServiceTargets(slices)
    services: list[DataplaneService] = []
    node_ports: list[NodePort] = []
    for port in facts.ports:
        service_port = _ServicePort(facts, port, targets)
        services += service_port.services()
        node_ports += service_port.node_ports()
    extra = dict.fromkeys(
        host_prefix(node_port.service_address) for node_port in node_ports if node_port.keep_client
    )
    return ServedServices(
        tuple(services),
        tuple(node_ports),
        tuple(extra),
        _health_check(perspective, service, targets, grant),
    )


def _has_health_check(spec: Object, grant: ServiceGrant) -> bool:
    return types.has_health_port(spec) and (spec.get("healthCheckNodePort") or 0, "TCP") in grant.node_ports


def _health_check(
    perspective: NodePerspective, service: Object, targets: ServiceTargets, grant: ServiceGrant
) -> HealthCheck | None:
    """The service's health check, if ring0 has granted it the port."""
    spec, metadata = service["spec"], service["metadata"]
    if not _has_health_check(spec, grant):
        return None
    keys = {port_key(port) for port in spec.get("ports") or ()}
    ready = targets.ready_addresses(keys) & perspective.local_addresses
    tenant = perspective.backing.owner.tenant
    number: int = spec["healthCheckNodePort"]
    return HealthCheck(number, tenant, metadata["namespace"], metadata["name"], len(ready))


def is_local(spec: Object) -> bool:
    """Whether the service depends on which backends are on this node."""
    policies = (spec.get("internalTrafficPolicy"), spec.get("externalTrafficPolicy"))
    return "Local" in policies or spec.get("trafficDistribution") == SAME_NODE


def cluster_addresses(service: Object, ranges: Iterable[Prefix]) -> list[Address]:
    """The service's cluster IPs in the network's ranges for services."""
    spec = service["spec"]
    cluster_ips = spec.get("clusterIPs") or [spec.get("clusterIP")]
    addresses = [ip_address(text) for text in cluster_ips if text and text != "None"]
    prefixes = tuple(ranges)
    return [address for address in addresses if any(address in each for each in prefixes)]


class _ServiceFacts:
    """What all ports of a service have in common, read once: each part may be long."""

    def __init__(self, perspective: NodePerspective, service: Object, grant: ServiceGrant) -> None:
        self.perspective = perspective
        self.grant = grant
        self.spec: Object = service["spec"]
        self.addresses = cluster_addresses(service, perspective.service_ranges)
        self.ports: list[Object] = (self.spec.get("ports") or []) if self.addresses else []
        self.is_wellknown = wellknown.is_wellknown(service)
        self.is_dns = wellknown.is_dns(service)
        self.is_local = self.spec.get("externalTrafficPolicy") == "Local"
        self.balanced = frozenset(balanced := _balanced_ips(service))
        self.clients = _clients(service) if balanced else None
        external_ips = [ip_address(text) for text in self.spec.get("externalIPs") or () if text]
        is_trusted = perspective.backing.owner.tenant == SYSTEM
        self.external = [
            address
            for address in dict.fromkeys((*external_ips, *balanced))
            if is_trusted or address in grant.outside
        ]
        """External and load balancer addresses that ring0 has granted; ring0's services need no grant."""


class _ServicePort:
    """One port of a service."""

    def __init__(self, facts: _ServiceFacts, port: Object, targets: ServiceTargets) -> None:
        self._facts = facts
        self._perspective = facts.perspective
        self._spec = facts.spec
        self._key = port_key(port)
        self._targets = targets
        self._number: int = port["port"]
        self._protocol = PROTOCOLS[port.get("protocol") or "TCP"]
        number: int = port.get("nodePort") or 0
        is_granted = (number, self._protocol.name) in facts.grant.node_ports
        self._node_port = number if is_granted and types.has_node_ports(self._spec) else 0
        """The granted node port; 0 if it has none."""

    def services(self) -> Iterable[DataplaneService]:
        addresses = self._facts.addresses
        yield from self._virtual(addresses)
        for address in self._any_nodes():
            yield self._at(address, self._node_port, None)
        for address, number in self._local_addresses():
            yield self._at(address, number, self._perspective.local_addresses)

    def addresses(self) -> Iterable[Address]:
        """Those of `services`, in which there may be one twice."""
        yield from self._facts.addresses
        yield from self._any_nodes()
        for address, _ in self._local_addresses():
            yield address

    def _virtual(self, addresses: Iterable[Address]) -> Iterable[DataplaneService]:
        is_local = self._spec.get("internalTrafficPolicy") == "Local"
        prefers_local = self._spec.get("trafficDistribution") == SAME_NODE
        local = self._perspective.local_addresses
        for address in addresses:
            version = address.version
            prefers = prefers_local and self._targets.has_ready(self._key, version, local)
            yield self._at(address, self._number, local if is_local or prefers else None)

    def _any_nodes(self) -> Iterable[Address]:
        """Node ports as the network's pods see them: at any node's address, with all backends."""
        return [ANY_NODE[address.version] for address in self._facts.addresses] if self._node_port else []

    def _local_addresses(self) -> Iterable[tuple[Address, int]]:
        """The services at node ports and external addresses with `externalTrafficPolicy: Local`."""
        if self._facts.is_local:
            version = self._perspective.backing.prefixes[0].version
            for address, number in self._external_addresses():
                if address.version == version:
                    yield address, number

    def _at(self, address: Address, number: int, only: frozenset[Address] | None) -> DataplaneService:
        version = address.version
        backends = self._gateway_server(version) or self._targets.chosen(self._key, version, only)
        return DataplaneService(
            self._perspective.backing.vni,
            address,
            number,
            self._protocol,
            backends,
            affinity_seconds(self._spec),
        )

    def _gateway_server(self, version: int) -> tuple[ServiceBackend, ...]:
        """The backend of the network's DNS and API services: the gateway on each node. Empty for other
        services."""
        if not self._facts.is_wellknown:
            return ()
        gateway = self._perspective.backing.gateway(version)
        number = DNS_PORT if self._facts.is_dns else wellknown.API_PORT
        return (ServiceBackend(gateway, number),) if gateway is not None else ()

    def node_ports(self) -> Iterable[NodePort]:
        """Node ports and external addresses on this node, each with the service that it leads to."""
        facts = self._facts
        cluster = {each.version: each for each in facts.addresses}
        if not (facts.is_local or self._perspective.has_node_address):
            return
        for address, number in self._external_addresses():
            if address.version in cluster:
                target = (address, number) if facts.is_local else (cluster[address.version], self._number)
                yield NodePort(
                    self._perspective.backing.vni,
                    address,
                    number,
                    self._protocol,
                    *target,
                    keep_client=facts.is_local,
                    clients=facts.clients if address in facts.balanced else None,
                )

    def _external_addresses(self) -> Iterable[tuple[Address, int]]:
        """Addresses and ports at which clients outside the cluster can connect."""
        if self._node_port:
            for address in self._perspective.nodes:
                yield address, self._node_port
        for address in self._facts.external:
            yield address, self._number


def _balanced_ips(service: Object) -> list[Address]:
    """The load balancer's addresses."""
    if not types.is_balanced(service["spec"]):
        return []
    ingress = objects.get(service, "status", "loadBalancer", "ingress", default=[])
    return [
        ip_address(each["ip"]) for each in ingress if each.get("ip") and each.get("ipMode", "VIP") == "VIP"
    ]


def _clients(service: Object) -> tuple[Prefix, ...] | None:
    texts = types.source_ranges(service)
    return tuple(ip_network(text) for text in texts) if texts else None


def affinity_seconds(spec: Object) -> int:
    if spec.get("sessionAffinity") != "ClientIP":
        return 0
    seconds = objects.get(
        spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds", default=AFFINITY_SECONDS
    )
    return int(seconds)
