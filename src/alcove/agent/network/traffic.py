"""Flows and drops of the networks on this node, read from the kernel when somebody asks."""

import asyncio
import time
from collections.abc import Collection, Iterable
from ipaddress import ip_address
from pathlib import Path

from alcove.agent.metering.tenant_meter import NetworkReading
from alcove.agent.network.attachment_records import AttachmentRecord
from alcove.agent.network.flow_reports import FlowReporter, FlowSelection, LocalPod, NetworkSnapshot, within
from alcove.agent.network.reconciler import NetworkReconciler
from alcove.agent.network.view import NetworkView
from alcove.agent.podkey import PodKey
from alcove.agent.server.capture import CapturePlace
from alcove.api import objects
from alcove.api.errors import NotFound, ServiceUnavailable
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.networks import network_of
from alcove.api.node_api import FlowReport, KernelTrace, NodeFlows
from alcove.api.objects import Object
from alcove.client.keys import PlaneId
from alcove.component.fair_slots import FairSlots
from alcove.dataplane.address import Address
from alcove.dataplane.dry_run import MadePacket
from alcove.dataplane.errors import DataPlaneError
from alcove.dataplane.flows import NetworkTraffic, ObservedFlow
from alcove.dataplane.model import Protocol
from alcove.dataplane.namespaces import path_of

REPORTS_MAX = 10_000
"""Most flows in one answer."""
REST_FACTOR = 3
"""How much longer than its last request took a tenant waits for the next one."""


class TrafficReader:
    def __init__(self, reconciler: NetworkReconciler) -> None:
        self._reconciler = reconciler
        self._turns: FairSlots[TenantId] = FairSlots(1, owner_max=1, first_is_free=True)
        """One request of each tenant, and its rest."""
        self._reading = asyncio.Semaphore(1)
        """One at a time: each takes some milliseconds of CPU for each network."""
        self._tracing: FairSlots[TenantId] = FairSlots(1)
        """One at a time, in turns between tenants: the thread that tries the packet also attaches pods."""

    async def flows(self, plane: PlaneId, tenant: TenantId | None, selection: FlowSelection) -> NodeFlows:
        """The flows of the tenant's networks, or of all tenants of the plane."""
        owner, loop = tenant or SYSTEM, asyncio.get_running_loop()
        await self._turns.take(owner)
        seconds = 0.0
        try:
            async with self._reading:
                began = loop.time()
                try:
                    return await self._read(plane, tenant, selection)
                finally:
                    seconds = loop.time() - began
        finally:
            # Not at once: a tenant that asks all the time would keep a core busy that DNS and probes need.
            loop.call_later(seconds * REST_FACTOR, self._turns.release, owner)

    async def _read(self, plane: PlaneId, tenant: TenantId | None, selection: FlowSelection) -> NodeFlows:
        reports: list[FlowReport] = []
        left_out = 0
        full: list[str] = []
        for view in self._views(plane, tenant):
            traffic = await self._reconciler.dataplane.open_traffic(view.backing.vni)
            if traffic is None:
                continue
            snapshot = snapshot_of(view, self._reconciler.records.all())
            found, more, is_full = await asyncio.to_thread(_report, traffic, snapshot, selection)
            reports += found
            left_out += more
            full += [f"{snapshot.tenant}/{snapshot.network}"] if is_full else []
        limit = min(selection.limit, REPORTS_MAX)
        reports.sort(key=lambda each: -each.end)
        return NodeFlows(tuple(reports[:limit]), left_out + max(0, len(reports) - limit), tuple(full))

    async def all_flows(self, since: float) -> list[FlowReport]:
        """The newest flows of all tenants of every plane."""
        planes = {view.tenant.tenant_key.plane for view in self._reconciler.views.views.values()}
        selection = FlowSelection(since=since, limit=REPORTS_MAX)
        found = [await self.flows(plane, None, selection) for plane in sorted(planes)]
        return [flow for each in found for flow in each.flows]

    async def meters(self) -> list[NetworkReading]:
        """The counters of the networks on this node, and of those that have left it since the last call."""
        return [
            NetworkReading(tenant, f"{meter.vni}/{meter.table}", meter.bytes)
            for tenant, meter in await self._reconciler.dataplane.read_meters()
        ]

    async def trace(self, key: PodKey, target: Address, port: int, protocol: Protocol) -> KernelTrace:
        """What the kernel does with the first packet of such a connection. Raises NotFound, ServiceUnavailable."""
        record = self._reconciler.records.get(key)
        if record is None:
            raise NotFound(f'pod "{key.name}" not found on this node')
        veths = [veth.to_veth() for veth in record.plugs]
        ends = [
            (veth, each.ip) for veth in veths for each in veth.addresses if each.version == target.version
        ]
        view = self._reconciler.views.views.get(ends[0][0].vni) if ends else None
        if view is None:
            raise NotFound(f'pod "{key.name}" has no IPv{target.version} address')
        veth, source = ends[0]
        try:
            async with self._tracing.slot(key.tenant):
                verdict = await self._reconciler.dataplane.dry_run(
                    veth, MadePacket(source, target, port, protocol)
                )
        except (DataPlaneError, OSError) as error:
            raise ServiceUnavailable(f"the packet could not be tried: {error}") from error
        names = {address: name for name, address in self._reconciler.views.ring0.nodes().items()}
        node = names.get(verdict.node, str(verdict.node)) if verdict.node is not None else ""
        reporter = FlowReporter(snapshot_of(view, self._reconciler.records.all()))
        return reporter.kernel_trace(verdict, node, time.time())

    def capture_place(self, key: PodKey) -> CapturePlace:
        """Where the pod's packets are read: its first interface. Raises NotFound."""
        record = self._reconciler.records.get(key)
        if record is None or not record.plugs:
            raise NotFound(f'pod "{key.name}" has no network of its own on this node')
        namespace = path_of(record.namespace) if record.namespace else Path(record.attachment.namespace_path)
        return CapturePlace(namespace, record.plugs[0].pod_interface)

    def _views(self, plane: PlaneId, tenant: TenantId | None) -> list[NetworkView]:
        return [
            view
            for view in self._reconciler.views.views.values()
            if view.tenant.tenant_key.plane == plane and tenant in (None, view.backing.owner.tenant)
        ]


def snapshot_of(view: NetworkView, records: Collection[AttachmentRecord]) -> NetworkSnapshot:
    """What this node knows of a network. Must be called on the event loop."""
    owner = view.backing.owner
    return NetworkSnapshot(
        tenant=owner.tenant,
        network=owner.name,
        allocations=view.allocations.all(),
        services=service_addresses(view.tenant.all(view.tenant.services), owner.name),
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


def service_addresses(services: Collection[Object], network: str) -> dict[Address, tuple[str, str]]:
    """Namespace and name of the network's services, by cluster IP."""
    addresses: dict[Address, tuple[str, str]] = {}
    for service in services:
        spec = service.get("spec") or {}
        if network_of(service) != network:
            continue
        for text in spec.get("clusterIPs") or [spec.get("clusterIP")]:
            if text and text != "None":
                addresses[ip_address(text)] = objects.namespace(service), objects.name(service)
    return addresses


def _report(
    traffic: NetworkTraffic, snapshot: NetworkSnapshot, selection: FlowSelection
) -> tuple[list[FlowReport], int, bool]:
    """The reports of a network, how many more there are, and whether older flows are gone."""
    try:
        found = selection.newest(traffic.flows(selection.since), traffic.drops())
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
