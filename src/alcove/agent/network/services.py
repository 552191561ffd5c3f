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
    is_local: bool = False
    """Whether it depends on the network's addresses on this node."""
    age: str = ""
    """Sorts by creation; first those that the network itself has."""

    @property
    def amounts(self) -> tuple[int, int]:
        """Entries in the kernel's maps: of services and backends, and of node ports and external addresses with
        the ranges of their clients. A port for health checks counts as one of these."""
        node_ports = sum(1 + len(each.clients or ()) for each in self.node_ports)
        node_ports += 1 if self.health_check is not None else 0
        return sum(1 + len(each.backends) for each in self.services), node_ports


class _Target(Struct, frozen=True):
    backend: ServiceBackend
    is_ready: bool
    is_serving: bool


def served(
    perspective: NodePerspective, service: Object, slices: Iterable[Object], grant: ServiceGrant
) -> ServedServices:
    """`service` must be in the network; `slices` are its EndpointSlices."""
    addresses = cluster_addresses(service, perspective.service_ranges)
    endpoint_slices = list(slices)
    services: list[DataplaneService] = []
    node_ports: list[NodePort] = []
    for port in (service["spec"].get("ports") or ()) if addresses else ():
        service_port = _ServicePort(perspective, service, port, _targets(endpoint_slices, port))
        services += service_port.virtual(addresses)
        services += service_port.at_any_node(addresses, grant)
        services += service_port.local_services(grant)
        node_ports += service_port.node_ports(addresses, grant)
    extra = dict.fromkeys(
        host_prefix(node_port.service_address) for node_port in node_ports if node_port.keep_client
    )
    age = "" if wellknown.is_wellknown(service) else service["metadata"].get("creationTimestamp") or ""
    return ServedServices(
        tuple(services),
        tuple(node_ports),
        tuple(extra),
        _health_check(perspective, service, endpoint_slices, grant),
        is_local(service["spec"]),
        age,
    )


def _health_check(
    perspective: NodePerspective, service: Object, slices: list[Object], grant: ServiceGrant
) -> HealthCheck | None:
    """The service's health check, if ring0 has granted it the port."""
    spec, metadata = service["spec"], service["metadata"]
    number: int = spec.get("healthCheckNodePort") or 0
    if not types.has_health_port(spec) or (number, "TCP") not in grant.node_ports:
        return None
    ready = {
        target.backend.address
        for port in spec.get("ports") or ()
        for target in _targets(slices, port)
        if target.is_ready and target.backend.address in perspective.local_addresses
    }
    tenant = perspective.backing.owner.tenant
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


def _targets(slices: Iterable[Object], port: Object) -> list[_Target]:
    """The endpoints of a service's port, of all its slices."""
    targets: dict[ServiceBackend, _Target] = {}
    name, protocol = port.get("name") or "", port.get("protocol") or "TCP"
    for each in slices:
        numbers = [
            slice_port["port"]
            for slice_port in each.get("ports") or ()
            if (slice_port.get("name") or "") == name
            and (slice_port.get("protocol") or "TCP") == protocol
            and slice_port.get("port")
        ]
        for number in numbers if each.get("addressType") in ("IPv4", "IPv6") else ():
            for endpoint in each.get("endpoints") or ():
                for target in _read(endpoint, number):
                    targets[target.backend] = target
    return list(targets.values())


def _read(endpoint: Object, number: int) -> Iterable[_Target]:
    conditions = endpoint.get("conditions") or {}
    is_ready = conditions.get("ready") is not False
    is_serving = conditions.get("serving", is_ready) is not False
    for text in endpoint.get("addresses") or ():
        yield _Target(
            ServiceBackend(ip_address(text), number),
            is_ready,
            is_serving and bool(conditions.get("terminating")),
        )


def _chosen(
    targets: Iterable[_Target], version: int, only: frozenset[Address] | None
) -> tuple[ServiceBackend, ...]:
    """The backends to use. `only` restricts them to those addresses; None for all."""
    candidates = [
        each
        for each in targets
        if each.backend.address.version == version and (only is None or each.backend.address in only)
    ]
    ready = [each for each in candidates if each.is_ready]
    return tuple(sorted(each.backend for each in ready or [each for each in candidates if each.is_serving]))


class _ServicePort:
    """One port of a service."""

    def __init__(
        self, perspective: NodePerspective, service: Object, port: Object, targets: list[_Target]
    ) -> None:
        self._perspective = perspective
        self._service = service
        self._spec = service["spec"]
        self._port = port
        self._targets = targets
        self._number: int = port["port"]
        self._protocol = PROTOCOLS[port.get("protocol") or "TCP"]
        self._is_local = self._spec.get("externalTrafficPolicy") == "Local"
        self._balanced = _balanced_ips(service)

    def virtual(self, addresses: Iterable[Address]) -> Iterable[DataplaneService]:
        is_local = self._spec.get("internalTrafficPolicy") == "Local"
        prefers_local = self._spec.get("trafficDistribution") == SAME_NODE
        local = self._perspective.local_addresses
        for address in addresses:
            version = address.version
            only = local if is_local or (prefers_local and self._has_ready(local, version)) else None
            yield self._at(address, self._number, only)

    def _has_ready(self, addresses: frozenset[Address], version: int) -> bool:
        return any(
            each.is_ready and each.backend.address in addresses
            for each in self._targets
            if each.backend.address.version == version
        )

    def at_any_node(self, addresses: Iterable[Address], grant: ServiceGrant) -> Iterable[DataplaneService]:
        """Node ports as the network's pods see them: at any node's address, with all backends."""
        if number := self._node_port(grant):
            for address in addresses:
                yield self._at(ANY_NODE[address.version], number, None)

    def _node_port(self, grant: ServiceGrant) -> int:
        """The granted node port; 0 if it has none."""
        number: int = self._port.get("nodePort") or 0
        is_granted = (number, self._protocol.name) in grant.node_ports
        return number if is_granted and types.has_node_ports(self._spec) else 0

    def _at(self, address: Address, number: int, only: frozenset[Address] | None) -> DataplaneService:
        backends = self._gateway_server(address.version) or _chosen(self._targets, address.version, only)
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
        if not wellknown.is_wellknown(self._service):
            return ()
        gateway = self._perspective.backing.gateway(version)
        number = DNS_PORT if wellknown.is_dns(self._service) else wellknown.API_PORT
        return (ServiceBackend(gateway, number),) if gateway is not None else ()

    def local_services(self, grant: ServiceGrant) -> Iterable[DataplaneService]:
        """The services at node ports and external addresses with `externalTrafficPolicy: Local`."""
        if self._is_local:
            for address, number in self._external_addresses(grant):
                if address.version == self._perspective.backing.prefixes[0].version:
                    yield self._at(address, number, self._perspective.local_addresses)

    def node_ports(self, addresses: Iterable[Address], grant: ServiceGrant) -> Iterable[NodePort]:
        """Node ports and external addresses on this node, each with the service that it leads to."""
        cluster = {each.version: each for each in addresses}
        if not (self._is_local or self._perspective.has_node_address):
            return
        for address, number in self._external_addresses(grant):
            if address.version in cluster:
                target = (address, number) if self._is_local else (cluster[address.version], self._number)
                yield NodePort(
                    self._perspective.backing.vni,
                    address,
                    number,
                    self._protocol,
                    *target,
                    keep_client=self._is_local,
                    clients=_clients(self._service) if address in self._balanced else None,
                )

    def _external_addresses(self, grant: ServiceGrant) -> Iterable[tuple[Address, int]]:
        """Addresses and ports at which clients outside the cluster can connect."""
        if number := self._node_port(grant):
            for address in self._perspective.nodes:
                yield address, number
        for address in self._external_ips(grant.outside):
            yield address, self._number

    def _external_ips(self, granted: frozenset[Address]) -> Iterable[Address]:
        """External and load balancer addresses that ring0 has granted; ring0's services need no grant."""
        external_ips = [ip_address(text) for text in self._spec.get("externalIPs") or () if text]
        is_trusted = self._perspective.backing.owner.tenant == SYSTEM
        for address in dict.fromkeys((*external_ips, *self._balanced)):
            if is_trusted or address in granted:
                yield address


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
