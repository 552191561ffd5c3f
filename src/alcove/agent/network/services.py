"""A network's services as the data plane has them: virtual addresses, their backends, and ways in.

Pure. A service has what ring0 has granted it (`grants.py`). Its backends are what its EndpointSlices tell: those
that are ready, or, if none is, those that still serve while they end.

A way in that wants backends on this node only (`externalTrafficPolicy: Local`) leads to a service of its own,
with the way's own address: so clients keep theirs, and the cluster's address goes on leading everywhere.
"""

from collections.abc import Iterable
from ipaddress import ip_address

from msgspec import Struct

from alcove.agent.network.grants import ServiceGrant
from alcove.agent.network.ring0_objects import NetworkBacking
from alcove.api import objects
from alcove.api.ids import SYSTEM
from alcove.api.kinds.core.services import types
from alcove.api.objects import Object
from alcove.dataplane.address import Address, Prefix, host_prefix
from alcove.dataplane.model import DataplaneService, NodePort, Protocol, ServiceBackend
from alcove.network import wellknown

API_PORT = 6443
DNS_PORT = 53
"""Where the gateway's servers are, in every network."""
AFFINITY_SECONDS = 10800
ANY_NODE: dict[int, Address] = {4: ip_address("0.0.0.0"), 6: ip_address("::")}
PROTOCOLS = {"TCP": Protocol.TCP, "UDP": Protocol.UDP, "SCTP": Protocol.SCTP}


class NodePerspective(Struct, frozen=True):
    """Where services are looked at from."""

    backing: NetworkBacking
    nodes: tuple[Address, ...]
    """The node's own addresses, at most one of each family."""
    local_addresses: frozenset[Address]
    """The network's addresses on this node."""
    has_node_address: bool = False
    """Whether the gateway has an address of its own that clients of the world can come as."""


class ServedServices(Struct, frozen=True):
    services: tuple[DataplaneService, ...] = ()
    node_ports: tuple[NodePort, ...] = ()
    prefixes: tuple[Prefix, ...] = ()
    """Addresses beyond the network's own ranges that are services here."""
    is_local: bool = False
    """Depends on what is on this node."""


class _Target(Struct, frozen=True):
    backend: ServiceBackend
    is_ready: bool
    is_serving: bool


def served(
    standpoint: NodePerspective, service: Object, slices: Iterable[Object], grant: ServiceGrant
) -> ServedServices:
    """`service` joins the network, and `slices` are its own."""
    addresses = cluster_addresses(service, grant)
    parts = list(slices)
    services: list[DataplaneService] = []
    node_ports: list[NodePort] = []
    for port in (service["spec"].get("ports") or ()) if addresses else ():
        part = _Part(standpoint, service, port, _targets(parts, port))
        services += [*part.virtual(addresses), *part.at_any_node(addresses, grant), *part.at_doors(grant)]
        node_ports += part.doors(addresses, grant)
    extra = dict.fromkeys(
        host_prefix(node_port.service_address) for node_port in node_ports if node_port.keep_client
    )
    return ServedServices(tuple(services), tuple(node_ports), tuple(extra), is_local(service["spec"]))


def is_local(spec: Object) -> bool:
    """Whether what is on this node matters to the service."""
    return "Local" in (spec.get("internalTrafficPolicy"), spec.get("externalTrafficPolicy"))


def cluster_addresses(service: Object, grant: ServiceGrant) -> list[Address]:
    """The addresses that the service says it has, and has."""
    spec = service["spec"]
    told = spec.get("clusterIPs") or [spec.get("clusterIP")]
    found = [ip_address(text) for text in told if text and text != "None"]
    return [address for address in found if address in grant.addresses]


def _targets(slices: Iterable[Object], port: Object) -> list[_Target]:
    """What is behind a service's port, in all its slices."""
    found: dict[ServiceBackend, _Target] = {}
    name, protocol = port.get("name") or "", port.get("protocol") or "TCP"
    for each in slices:
        numbers = [
            one["port"]
            for one in each.get("ports") or ()
            if (one.get("name") or "") == name
            and (one.get("protocol") or "TCP") == protocol
            and one.get("port")
        ]
        for number in numbers if each.get("addressType") in ("IPv4", "IPv6") else ():
            for endpoint in each.get("endpoints") or ():
                for target in _read(endpoint, number):
                    found[target.backend] = target
    return list(found.values())


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
    targets: Iterable[_Target], version: int, here: frozenset[Address] | None
) -> tuple[ServiceBackend, ...]:
    """`here`: only backends with these addresses."""
    found = [
        each
        for each in targets
        if each.backend.address.version == version and (here is None or each.backend.address in here)
    ]
    ready = [each for each in found if each.is_ready]
    return tuple(sorted(each.backend for each in ready or [each for each in found if each.is_serving]))


class _Part:
    """One port of a service."""

    def __init__(
        self, standpoint: NodePerspective, service: Object, port: Object, targets: list[_Target]
    ) -> None:
        self._standpoint = standpoint
        self._service = service
        self._spec = service["spec"]
        self._port = port
        self._targets = targets
        self._number: int = port["port"]
        self._protocol = PROTOCOLS[port.get("protocol") or "TCP"]
        self._is_local = self._spec.get("externalTrafficPolicy") == "Local"

    def virtual(self, addresses: Iterable[Address]) -> Iterable[DataplaneService]:
        is_local = self._spec.get("internalTrafficPolicy") == "Local"
        for address in addresses:
            yield self._at(address, self._number, self._standpoint.local_addresses if is_local else None)

    def at_any_node(self, addresses: Iterable[Address], grant: ServiceGrant) -> Iterable[DataplaneService]:
        """Node ports as the network's own pods see them: at any node's address, to any backend."""
        if number := self._node_port(grant):
            for address in addresses:
                yield self._at(ANY_NODE[address.version], number, None)

    def _node_port(self, grant: ServiceGrant) -> int:
        """0: it has none."""
        number: int = self._port.get("nodePort") or 0
        is_granted = (number, self._protocol.name) in grant.node_ports
        return number if is_granted and types.has_node_ports(self._spec) else 0

    def _at(self, address: Address, number: int, here: frozenset[Address] | None) -> DataplaneService:
        backends = self._own_server(address.version) or _chosen(self._targets, address.version, here)
        return DataplaneService(
            self._standpoint.backing.vni,
            address,
            number,
            self._protocol,
            backends,
            affinity_seconds(self._spec),
        )

    def _own_server(self, version: int) -> tuple[ServiceBackend, ...]:
        """The network's own two services are served by the gateway of each node."""
        if not wellknown.is_wellknown(self._service):
            return ()
        gateway = self._standpoint.backing.gateway(version)
        number = DNS_PORT if wellknown.is_dns(self._service) else API_PORT
        return (ServiceBackend(gateway, number),) if gateway is not None else ()

    def at_doors(self, grant: ServiceGrant) -> Iterable[DataplaneService]:
        """The services that ways in with local backends lead to."""
        if self._is_local:
            for address, number in self._ways(grant):
                if address.version == self._standpoint.backing.prefixes[0].version:
                    yield self._at(address, number, self._standpoint.local_addresses)

    def doors(self, addresses: Iterable[Address], grant: ServiceGrant) -> Iterable[NodePort]:
        cluster = {each.version: each for each in addresses}
        if not (self._is_local or self._standpoint.has_node_address):
            return
        for address, number in self._ways(grant):
            if address.version in cluster:
                own = (address, number) if self._is_local else (cluster[address.version], self._number)
                yield NodePort(
                    self._standpoint.backing.vni,
                    address,
                    number,
                    self._protocol,
                    *own,
                    keep_client=self._is_local,
                )

    def _ways(self, grant: ServiceGrant) -> Iterable[tuple[Address, int]]:
        """Addresses and ports that the world may come to."""
        if number := self._node_port(grant):
            for address in self._standpoint.nodes:
                yield address, number
        for address in self._outside(grant.outside):
            yield address, self._number

    def _outside(self, has: frozenset[Address]) -> Iterable[Address]:
        told = list(self._spec.get("externalIPs") or ())
        if types.is_balanced(self._spec):
            ingress = objects.get(self._service, "status", "loadBalancer", "ingress", default=[])
            told += [each.get("ip") for each in ingress if each.get("ipMode", "VIP") == "VIP"]
        is_trusted = self._standpoint.backing.owner.tenant == SYSTEM
        for text in dict.fromkeys(told):
            if text and (is_trusted or ip_address(text) in has):
                yield ip_address(text)


def affinity_seconds(spec: Object) -> int:
    if spec.get("sessionAffinity") != "ClientIP":
        return 0
    seconds = objects.get(
        spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds", default=AFFINITY_SECONDS
    )
    return int(seconds)
