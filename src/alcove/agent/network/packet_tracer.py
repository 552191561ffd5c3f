"""What this node's kernel does with packets that a pod would send, or receive from another node. Nothing is sent, unless that is asked
for."""

import asyncio
import time

from msgspec.structs import replace

from alcove.agent.network import live_packet
from alcove.agent.network.attachment_records import AttachmentRecord, VethRecord
from alcove.agent.network.flow_reports import FlowReporter, NetworkSnapshot
from alcove.agent.network.reconciler import NetworkReconciler
from alcove.agent.network.resting_turns import RestingTurns
from alcove.agent.network.traffic import place_of, snapshot_of
from alcove.agent.network.view import NetworkView
from alcove.agent.server.capture import CapturePlace
from alcove.agent.server.traces import TracedPacket
from alcove.api.errors import NotFound, ServiceUnavailable
from alcove.api.ids import TenantId
from alcove.api.node_api import KernelTrace, LiveReply
from alcove.component.fair_slots import FairSlots
from alcove.dataplane.address import Address
from alcove.dataplane.dry_run import KernelVerdict, MadePacket
from alcove.dataplane.errors import DataPlaneError
from alcove.dataplane.model import Veth

LIVE_MAX = 8
"""Real packets whose replies are waited for at the same time; a tenant alone gets half."""


class PacketTracer:
    def __init__(self, reconciler: NetworkReconciler) -> None:
        self._reconciler = reconciler
        self._turns = RestingTurns()
        """The thread that tries the packets also attaches pods."""
        self._sending: FairSlots[TenantId] = FairSlots(LIVE_MAX)

    async def trace(self, packet: TracedPacket) -> KernelTrace:
        """Raises NotFound, ServiceUnavailable."""
        record, plug, own = self._end(packet)
        veth = plug.to_veth()
        view = self._reconciler.views.views.get(veth.vni)
        if view is None:
            raise NotFound(f'pod "{packet.pod.name}" has no network on this node')
        try:
            async with self._turns.turn(packet.pod.tenant):
                verdict = await self._tried(packet, veth, own)
                reported = await self._reported(view, verdict)
            live = await self._sent(packet, place_of(record, plug), veth, own)
        except (DataPlaneError, OSError) as error:
            raise ServiceUnavailable(f"the packet could not be tried: {error}") from error
        return replace(reported, live=live)

    async def _reported(self, view: NetworkView, verdict: KernelVerdict) -> KernelTrace:
        names = {address: name for name, address in self._reconciler.views.ring0.nodes().items()}
        node = names.get(verdict.node, str(verdict.node)) if verdict.node is not None else ""
        snapshot = snapshot_of(view, self._reconciler.records.all())
        return await asyncio.to_thread(_report, snapshot, verdict, node)

    async def _sent(
        self, packet: TracedPacket, place: CapturePlace, veth: Veth, own: Address
    ) -> LiveReply | None:
        if not packet.is_live:
            return None
        made = MadePacket(own, packet.address, packet.port, packet.protocol)
        async with self._sending.slot(packet.pod.tenant):
            return await live_packet.send(place, veth.mac, made)

    def _end(self, packet: TracedPacket) -> tuple[AttachmentRecord, VethRecord, Address]:
        """The pod's veth that the packet would pass, and the pod's address. Raises NotFound."""
        record = self._reconciler.records.get(packet.pod)
        if record is None:
            raise NotFound(f'pod "{packet.pod.name}" not found on this node')
        arrives, version = packet.source is not None, packet.address.version
        for plug in record.plugs:
            for each in plug.to_veth().addresses:
                if each.ip == packet.address if arrives else each.version == version:
                    return record, plug, each.ip
        what = f"the address {packet.address}" if arrives else f"an IPv{version} address"
        raise NotFound(f'pod "{packet.pod.name}" does not have {what}')

    async def _tried(self, packet: TracedPacket, veth: Veth, own: Address) -> KernelVerdict:
        dataplane = self._reconciler.dataplane
        if packet.source is None:
            return await dataplane.dry_run(
                veth, MadePacket(own, packet.address, packet.port, packet.protocol)
            )
        sender = self._reconciler.views.ring0.nodes().get(packet.sender)
        if sender is None:
            raise NotFound(f'node "{packet.sender}" not found')
        arriving = MadePacket(packet.source, own, packet.port, packet.protocol)
        return await dataplane.dry_run_arrival(veth.vni, arriving, sender)


def _report(snapshot: NetworkSnapshot, verdict: KernelVerdict, node: str) -> KernelTrace:
    return FlowReporter(snapshot).kernel_trace(verdict, node, time.time())
