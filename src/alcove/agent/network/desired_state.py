"""Everything that this node has to know, put together. What has not changed since is the same tuple as before, so that
the data plane sees at once what it need not look at."""

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from msgspec.structs import replace

from alcove.agent.network.attachment_records import AttachmentRecord
from alcove.agent.network.endpoint_index import EndpointIndex
from alcove.agent.network.ring0_objects import NetworkBacking, Nodes
from alcove.agent.network.view import NetworkView
from alcove.dataplane.address import Address, Prefix, host_prefix
from alcove.dataplane.model import DataplaneState, Veth


class DesiredStateBuilder:
    def __init__(
        self,
        node: str,
        address: IPv4Address,
        forbidden: Iterable[Prefix],
        address6: IPv6Address | None = None,
    ) -> None:
        """`forbidden` is what no pod may reach: the nodes' own network."""
        self._node = node
        self._address = address
        self._own: tuple[Address, ...] = (address, address6) if address6 is not None else (address,)
        self._forbidden = tuple(forbidden)
        self._parts: dict[str, Sequence[tuple[Any, ...]]] = {}
        self._joined: dict[str, tuple[Any, ...]] = {}

    def world(
        self,
        nodes: Nodes,
        views: Mapping[int, NetworkView],
        served: Sequence[tuple[NetworkBacking, Sequence[EndpointIndex]]],
        records: Iterable[AttachmentRecord],
    ) -> DataplaneState:
        """`served` are VPCs that this node bounces or divides for others, with what is in their subnets."""
        veths = self._ports(views, records)
        self._refresh(views, veths)
        others = [backing for backing, _ in served if backing.vni not in views]
        backings = [*(view.backing for view in views.values()), *others]
        places = [view.endpoints(nodes) for view in views.values()]
        places += [one.endpoints(nodes) for _, holdings in served for one in holdings]
        return DataplaneState(
            nodes=self._same("nodes", sorted(each for each in set(nodes.values()) if each != self._address)),
            networks=self._same("networks", (view.network() for view in views.values())),
            vpcs=self._same("vpcs", (each.vpc for each in backings)),
            subnets=self._same("subnets", (subnet for each in backings for subnet in each.subnets)),
            endpoints=self._chained("endpoints", places),
            veths=self._same("ports", veths),
            services=self._chained("services", [view.table.services for view in views.values()]),
            gateways=self._same("gateways", (view.gateway(self._node) for view in views.values())),
            node_ports=self._chained("doors", [view.table.node_ports for view in views.values()]),
            forbidden=self._same("forbidden", self._kept_away(nodes)),
        )

    def _ports(self, views: Mapping[int, NetworkView], records: Iterable[AttachmentRecord]) -> list[Veth]:
        found: list[Veth] = []
        for record in records:
            for plug in record.plugs:
                if plug.vni in views:
                    found.append(ruled(plug.port(), record, views[plug.vni]))
        return found

    def _refresh(self, views: Mapping[int, NetworkView], ports: Iterable[Veth]) -> None:
        here: dict[int, list[Any]] = {}
        for veth in ports:
            here.setdefault(veth.vni, []).extend(one.ip for one in veth.addresses)
        for vni, view in views.items():
            view.refresh(self._own, here.get(vni, ()), view.gateway_address(self._node))

    def _kept_away(self, nodes: Nodes) -> Iterable[Prefix]:
        alone = (
            host_prefix(each)
            for each in (*sorted({*nodes.values(), self._address}), *self._own[1:])
            if not any(each in prefix for prefix in self._forbidden)
        )
        return (*self._forbidden, *alone)

    def _same(self, field: str, items: Iterable[Any]) -> tuple[Any, ...]:
        """For what is short: as before, if it is equal."""
        found = tuple(items)
        if self._joined.get(field) != found:
            self._joined[field] = found
        return self._joined[field]

    def _chained(self, field: str, parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
        """For what is long: as before, if all parts are the very same."""
        before = self._parts.get(field, ())
        if (
            field not in self._joined
            or len(before) != len(parts)
            or any(one is not other for one, other in zip(before, parts, strict=True))
        ):
            self._parts[field] = parts
            self._joined[field] = tuple(item for part in parts for item in part)
        return self._joined[field]


def ruled(veth: Veth, record: AttachmentRecord, view: NetworkView) -> Veth:
    """The port with what its pod may do."""
    ingress, egress = view.rules.of(view.backing, record.key)
    return replace(veth, ingress=ingress, egress=egress)
