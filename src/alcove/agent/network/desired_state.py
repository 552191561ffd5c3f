"""Builds the desired state of the node's data plane. A field that has not changed is the same tuple as
before, so that the data plane can skip it by identity."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from msgspec.structs import replace

from alcove.agent.network.attachment_records import AttachmentRecord
from alcove.agent.network.endpoint_index import EndpointIndex
from alcove.agent.network.host_ports import served as host_port_entries
from alcove.agent.network.map_shares import (
    TOO_MANY_ENDPOINTS,
    TOO_MANY_NETWORKS,
    NetworkLosses,
    NetworkNote,
    ServiceShares,
    note_names,
    note_service,
    share_endpoints,
    share_networks,
)
from alcove.agent.network.ring0_objects import NetworkBacking, Nodes
from alcove.agent.network.view import NetworkView
from alcove.api.ids import SYSTEM
from alcove.api.kinds.core.networks import DEFAULT_NETWORK
from alcove.dataplane.address import Address, Prefix, host_prefix
from alcove.dataplane.model import DataplaneNetwork, DataplaneState, Gateway, NodePort, Veth


class DesiredStateBuilder:
    def __init__(
        self,
        node: str,
        address: IPv4Address,
        forbidden: Iterable[Prefix],
        address6: IPv6Address | None = None,
        note: NetworkNote = lambda *_: None,
        *,
        routes_ring0: bool = False,
    ) -> None:
        """`forbidden` are ranges that no pod may reach: the underlay. `note` records events of what is left out
        because a tenant has too much of it. `routes_ring0`: processes on the node reach ring0's default network."""
        self._routes_ring0 = routes_ring0
        self._note = note
        self._services = ServiceShares()
        self._losses = NetworkLosses(node, note)
        self._node = node
        self._address = address
        self._node_addresses: tuple[Address, ...] = (
            (address, address6) if address6 is not None else (address,)
        )
        self._forbidden = tuple(forbidden)
        self._parts: dict[str, Sequence[tuple[Any, ...]]] = {}
        self._joined: dict[str, tuple[Any, ...]] = {}
        self._nodes: Nodes | None = None
        self._other_nodes: tuple[IPv4Address, ...] = ()
        self._forbidden_prefixes: tuple[Prefix, ...] = ()

    def build(
        self,
        nodes: Nodes,
        views: Mapping[int, NetworkView],
        served: Sequence[tuple[NetworkBacking, Sequence[EndpointIndex]]],
        records: Iterable[AttachmentRecord],
    ) -> DataplaneState:
        """`served` are VPCs that this node bounces or divides, with the endpoints of their subnets."""
        self._follow_nodes(nodes)
        served, left_out = share_networks(views, served)
        records = list(records)
        veths = self._veths(views, records)
        host_ports = [
            each for each in host_port_entries(records, self._node_addresses) if each[0].vni in views
        ]
        self._refresh(views, veths)
        for view, service in self._services.share(views.values()):
            note_service(self._note, self._node, view, service)
        for view in views.values():
            note_names(self._note, self._node, view)
        others = [backing for backing, _ in served if backing.vni not in views]
        backings = [*(view.backing for view in views.values()), *others]
        endpoints = [(view.backing.owner, view.endpoints(nodes)) for view in views.values()]
        endpoints += [
            (backing.owner, index.endpoints(nodes)) for backing, indexes in served for index in indexes
        ]
        kept, cut = share_endpoints(endpoints)
        tenants = {view.backing.owner.tenant: view.tenant for view in views.values()}
        self._losses.report(TOO_MANY_NETWORKS, left_out, tenants)
        self._losses.report(TOO_MANY_ENDPOINTS, cut, tenants)
        return DataplaneState(
            nodes=self._other_nodes,
            networks=self._same("networks", _networks(views, [port for _, port in host_ports])),
            vpcs=self._same("vpcs", (each.vpc for each in backings)),
            subnets=self._same("subnets", (subnet for each in backings for subnet in each.subnets)),
            endpoints=self._chained("endpoints", kept),
            veths=self._same("veths", veths),
            services=self._chained(
                "services",
                [
                    *(view.table.services for view in views.values()),
                    self._same("host services", (service for service, _ in host_ports)),
                ],
            ),
            gateways=self._same("gateways", map(self._gateway, views.values())),
            node_ports=self._chained(
                "node_ports",
                [
                    *(view.table.node_ports for view in views.values()),
                    self._same("host ports", (port for _, port in host_ports)),
                ],
            ),
            forbidden=self._forbidden_prefixes,
        )

    def _gateway(self, view: NetworkView) -> Gateway:
        gateway, owner = view.gateway(self._node), view.backing.owner
        is_routed = self._routes_ring0 and (owner.tenant, owner.name) == (SYSTEM, DEFAULT_NETWORK)
        return replace(gateway, is_routed=True) if is_routed else gateway

    def _veths(self, views: Mapping[int, NetworkView], records: Iterable[AttachmentRecord]) -> list[Veth]:
        return [
            with_rules(veth.to_veth(), record, views[veth.vni])
            for record in records
            for veth in record.plugs
            if veth.vni in views
        ]

    def _refresh(self, views: Mapping[int, NetworkView], veths: Iterable[Veth]) -> None:
        local_addresses: dict[int, list[Any]] = {}
        for veth in veths:
            local_addresses.setdefault(veth.vni, []).extend(each.ip for each in veth.addresses)
        for vni, view in views.items():
            view.refresh(self._node_addresses, local_addresses.get(vni, ()), view.gateway_address(self._node))

    def _follow_nodes(self, nodes: Nodes) -> None:
        """Updates what depends on the addresses of all nodes, if `nodes` is not the same object as before."""
        if nodes is self._nodes:
            return
        self._nodes = nodes
        addresses = sorted({*nodes.values(), self._address})
        self._other_nodes = self._same("nodes", (each for each in addresses if each != self._address))
        outside = (
            host_prefix(each)
            for each in (*addresses, *self._node_addresses[1:])
            if not any(each in prefix for prefix in self._forbidden)
        )
        self._forbidden_prefixes = self._same("forbidden", (*self._forbidden, *outside))

    def _same(self, field: str, items: Iterable[Any]) -> tuple[Any, ...]:
        """For short fields: the tuple from before, if it is equal."""
        value = tuple(items)
        if self._joined.get(field) != value:
            self._joined[field] = value
        return self._joined[field]

    def _chained(self, field: str, parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
        """For long fields: the tuple from before, if all parts are identical objects."""
        before = self._parts.get(field, ())
        if (
            field not in self._joined
            or len(before) != len(parts)
            or any(old is not new for old, new in zip(before, parts, strict=True))
        ):
            self._parts[field] = parts
            self._joined[field] = tuple(item for part in parts for item in part)
        return self._joined[field]


def _networks(views: Mapping[int, NetworkView], host_ports: Sequence[NodePort]) -> Iterator[DataplaneNetwork]:
    """The networks; the addresses of their host ports are service addresses outside their ranges."""
    for view in views.values():
        network = view.network()
        addresses = [port.service_address for port in host_ports if port.vni == network.vni]
        prefixes = (*network.service_prefixes, *(host_prefix(each) for each in addresses))
        yield replace(network, service_prefixes=tuple(dict.fromkeys(prefixes)))


def with_rules(veth: Veth, record: AttachmentRecord, view: NetworkView) -> Veth:
    """The veth with the policy rules of its pod."""
    ingress, egress = view.rules.for_pod(view.backing, record.key)
    return replace(veth, ingress=ingress, egress=egress)
