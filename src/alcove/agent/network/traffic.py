"""Flows and drops of the networks on this node, read from the kernel when somebody asks."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from alcove.agent.metering.tenant_meter import NetworkReading
from alcove.agent.metrics import NetworkCounts
from alcove.agent.network.attachment_records import AttachmentRecord, VethRecord
from alcove.agent.network.flow_reports import FlowReporter, FlowSelection, LocalPod, NetworkSnapshot, within
from alcove.agent.network.reconciler import NetworkReconciler
from alcove.agent.network.resting_turns import RestingTurns
from alcove.agent.network.view import NetworkView
from alcove.agent.podkey import PodKey
from alcove.agent.server.capture import CapturePlace
from alcove.api.errors import NotFound
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.node_api import FlowReport, NodeFlows
from alcove.client.keys import PlaneId
from alcove.dataplane.flows import NetworkTraffic, ObservedFlow
from alcove.dataplane.namespaces import path_of
from alcove.dataplane.openings import EMPTY, OpeningRing, Openings

REPORTS_MAX = 10_000
"""Most flows in one answer."""


class TrafficReader:
    def __init__(self, reconciler: NetworkReconciler) -> None:
        self._reconciler = reconciler
        self._turns = RestingTurns()

    async def flows(
        self, plane: PlaneId | None, tenant: TenantId | None, selection: FlowSelection
    ) -> NodeFlows:
        """The flows of these networks; see `views`."""
        async with self._turns.turn(tenant or SYSTEM):
            return await self._read(self.views(plane, tenant), selection)

    async def opened(
        self,
        tenant: TenantId | None,
        selection: FlowSelection,
        views: Mapping[int, NetworkView],
        openings: Mapping[int, Openings],
    ) -> NodeFlows:
        """These connections of these networks, by VNI, and what has been dropped."""
        async with self._turns.turn(tenant or SYSTEM):
            return await self._read(views, selection, openings)

    async def _read(
        self,
        views: Mapping[int, NetworkView],
        selection: FlowSelection,
        openings: Mapping[int, Openings] | None = None,
    ) -> NodeFlows:
        """With `openings`, those instead of the flows in the table."""
        reports: list[FlowReport] = []
        left_out = 0
        full: list[str] = []
        for vni, view in views.items():
            traffic = await self._reconciler.dataplane.open_traffic(view.backing.vni)
            if traffic is None:
                continue
            snapshot = snapshot_of(view, self._reconciler.records.all())
            new = None if openings is None else openings.get(vni, EMPTY)
            found, more, is_full = await asyncio.to_thread(report_network, traffic, snapshot, selection, new)
            reports += found
            left_out += more
            full += [f"{snapshot.tenant}/{snapshot.network}"] if is_full else []
        limit = min(selection.limit, REPORTS_MAX)
        reports.sort(key=lambda each: -each.end)
        return NodeFlows(tuple(reports[:limit]), left_out + max(0, len(reports) - limit), tuple(full))

    async def all_flows(self, since: float) -> NodeFlows:
        """The newest flows of all tenants of every plane."""
        return await self.flows(None, None, FlowSelection(since=since, limit=REPORTS_MAX))

    async def meters(self) -> list[NetworkReading]:
        """The counters of the networks on this node, and of those that have left it since the last call."""
        return [
            NetworkReading(tenant, f"{meter.vni}/{meter.table}", meter.bytes)
            for tenant, meter in await self._reconciler.dataplane.read_meters()
        ]

    def capture_place(self, key: PodKey) -> CapturePlace:
        """Where the pod's packets are read: its first interface. Raises NotFound."""
        record = self._reconciler.records.get(key)
        if record is None or not record.plugs:
            raise NotFound(f'pod "{key.name}" has no network of its own on this node')
        return place_of(record, record.plugs[0])

    def views(self, plane: PlaneId | None, tenant: TenantId | None) -> dict[int, NetworkView]:
        """The networks of the tenant, or of all tenants of the plane, or of every plane, by VNI."""
        return {
            vni: view
            for vni, view in self._reconciler.views.views.items()
            if plane in (None, view.tenant.tenant_key.plane) and tenant in (None, view.backing.owner.tenant)
        }

    def counts(self) -> list[NetworkCounts]:
        """Connections and drops of every network on this node."""
        plane = self._reconciler.plane
        opened, dropped = plane.network_openings(), plane.network_drops()
        views = self._reconciler.views.views
        return [
            NetworkCounts(
                views[vni].backing.owner.tenant, views[vni].backing.owner.name, count, dropped.get(vni, 0)
            )
            for vni, count in opened.items()
            if vni in views
        ]

    async def open_rings(
        self, vnis: Sequence[int], held: Mapping[int, OpeningRing]
    ) -> dict[int, OpeningRing]:
        """As `DataPlane.open_rings`."""
        return await self._reconciler.dataplane.open_rings(vnis, held)

    async def network_drops(self) -> dict[int, int]:
        """How many packets of each network were dropped, by VNI."""
        return await self._reconciler.dataplane.network_drops()


def place_of(record: AttachmentRecord, plug: VethRecord) -> CapturePlace:
    namespace = path_of(record.namespace) if record.namespace else Path(record.attachment.namespace_path)
    return CapturePlace(namespace, plug.pod_interface)


def snapshot_of(view: NetworkView, records: Collection[AttachmentRecord]) -> NetworkSnapshot:
    """What this node knows of a network. Must be called on the event loop."""
    owner = view.backing.owner
    return NetworkSnapshot(
        tenant=owner.tenant,
        network=owner.name,
        allocations=view.allocations.all(),
        services=view.tenant.all(view.tenant.services),
        gateways=frozenset(each.ip for each in view.backing.gateways),
        pods=local_pods(records, view),
    )


def local_pods(records: Iterable[AttachmentRecord], view: NetworkView) -> list[LocalPod]:
    """The pods of the network on this node."""
    vni = view.backing.vni
    return [
        LocalPod(
            record.key,
            tuple(each.ip for veth in record.plugs if veth.vni == vni for each in veth.to_veth().addresses),
            view.rules.for_pod(view.backing, record.key),
            view.rules.selecting(record.key),
        )
        for record in records
        if any(veth.vni == vni for veth in record.plugs)
    ]


def report_network(
    traffic: NetworkTraffic,
    snapshot: NetworkSnapshot,
    selection: FlowSelection,
    openings: Openings | None = None,
) -> tuple[list[FlowReport], int, bool]:
    """The reports of a network, how many more there are, and whether older flows are gone."""
    try:
        drops = traffic.drops()
        if openings is None:
            found = selection.newest(traffic.flows(selection.since), drops)
        else:
            # Connections are new, whenever they were opened; drops may be old.
            drops = [each for each in drops if each.end >= selection.since]
            found = replace(selection, since=0.0).newest(traffic.opened(openings), drops)
        is_full = traffic.is_full()
    finally:
        traffic.close()
    reporter = FlowReporter(snapshot)
    reports: list[FlowReport] = []
    left_out = 0
    for each in found:
        if len(reports) >= min(selection.limit, REPORTS_MAX):
            left_out += 1
            continue
        report = reporter.flow(each) if isinstance(each, ObservedFlow) else reporter.drop(each)
        if selection.has(report):
            reports.append(within(report, selection.namespace) if selection.namespace else report)
    return reports, left_out, is_full
