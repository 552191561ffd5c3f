"""Events on pods whose packets are dropped: the first of a kind, and not more than EVENTS_PER_POD_MAX in an hour.

The node's counters are read every POLL_SECONDS; the table of a network only if packets of that network were dropped, and
the names of what is in it only for an event: whoever lets packets be dropped all the time costs others nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from alcove.agent.network.flow_reports import FlowReporter, NetworkSnapshot
from alcove.agent.network.map_shares import NetworkNote, pod_reference
from alcove.agent.network.reconciler import NetworkReconciler
from alcove.agent.network.traffic import snapshot_of
from alcove.agent.network.view import NetworkView
from alcove.agent.podkey import PodKey
from alcove.dataplane.address import Address
from alcove.dataplane.drops import DropCount, DropReason
from alcove.dataplane.errors import DataPlaneError
from alcove.dataplane.flows import ObservedDrop

log = logging.getLogger(__name__)

POLL_SECONDS = 5.0
HOUR_SECONDS = 3600.0
EVENTS_PER_POD_MAX = 6
EVENT_REASON = "PacketsDropped"
EXPLAINED = frozenset(
    {
        DropReason.POLICY_EGRESS,
        DropReason.POLICY_INGRESS,
        DropReason.NO_BACKEND,
        DropReason.RATE_LIMIT,
        DropReason.SPOOFED_ADDRESS,
        DropReason.UNDERLAY,
    }
)
"""Reasons that a pod's owner can do something about."""


class EventLimit:
    """Which drops are new, and how many events a pod may still have."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._reported: dict[PodKey, dict[tuple[object, ...], float]] = {}

    def admits(self, pod: PodKey, drop: ObservedDrop) -> bool:
        """Whether the pod gets an event for the drop; counts it."""
        now = self._clock()
        kinds = self._reported.setdefault(pod, {})
        for kind in [kind for kind, at in kinds.items() if now - at >= HOUR_SECONDS]:
            del kinds[kind]
        peer = drop.source if drop.reason is DropReason.POLICY_INGRESS else drop.target
        kind = (drop.reason, peer, drop.target_port, drop.protocol)
        if kind in kinds or len(kinds) >= EVENTS_PER_POD_MAX:
            return False
        kinds[kind] = now
        return True

    def forget_others(self, pods: set[PodKey]) -> None:
        for pod in self._reported.keys() - pods:
            del self._reported[pod]


class DropEvents:
    def __init__(self, reconciler: NetworkReconciler, note: NetworkNote) -> None:
        self._reconciler = reconciler
        self._note = note
        self._limit = EventLimit(lambda: asyncio.get_running_loop().time())
        self._counts: Mapping[DropReason, DropCount] = {}
        self._noted: dict[int, int] = {}
        """How many drops of each network there were when its table was read, by VNI."""
        self._last_seen: dict[int, float] = {}
        """End of the newest drop that was read, by VNI."""

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self._check()
            except (DataPlaneError, OSError) as error:
                log.warning("failed to read dropped packets; retrying", extra={"error": str(error)})

    async def _check(self) -> None:
        counts = self._reconciler.plane.drops()
        explained = {reason: count for reason, count in counts.items() if reason in EXPLAINED}
        if explained == self._counts:
            return
        self._limit.forget_others({record.key for record in self._reconciler.records.all()})
        noted = await self._reconciler.dataplane.network_drops()
        self._noted = {vni: count for vni, count in self._noted.items() if vni in noted}
        self._last_seen = {vni: end for vni, end in self._last_seen.items() if vni in noted}
        for vni in changed(self._noted, noted):
            if (view := self._reconciler.views.views.get(vni)) is not None:
                await self._read(vni, view)
            self._noted[vni] = noted[vni]
        self._counts = explained

    async def _read(self, vni: int, view: NetworkView) -> None:
        traffic = await self._reconciler.dataplane.open_traffic(vni)
        if traffic is None:
            return
        try:
            drops = await asyncio.to_thread(traffic.drops)
        finally:
            traffic.close()
        since = self._last_seen.get(vni, 0.0)
        fresh = [drop for drop in drops if drop.reason in EXPLAINED and drop.end > since]
        if fresh:
            self._last_seen[vni] = max(drop.end for drop in fresh)
            await self._report(vni, view, fresh)

    async def _report(self, vni: int, view: NetworkView, drops: Iterable[ObservedDrop]) -> None:
        records = self._reconciler.records.all()
        pods = {
            each.ip: record.key
            for record in records
            for veth in record.plugs
            if veth.vni == vni
            for each in veth.to_veth().addresses
        }
        told = [(pod, drop) for drop in drops if (pod := explained_to(drop, pods)) is not None]
        admitted = [(pod, drop) for pod, drop in told if self._limit.admits(pod, drop)]
        if not admitted:
            return  # Without the names of everything in the network, which take time to find.
        snapshot = snapshot_of(view, records)
        messages = await asyncio.to_thread(_messages, snapshot, [drop for _, drop in admitted])
        for (pod, _), message in zip(admitted, messages, strict=True):
            self._note(pod.tenant_key, pod_reference(pod), EVENT_REASON, message)


def _messages(snapshot: NetworkSnapshot, drops: Iterable[ObservedDrop]) -> list[str]:
    reporter = FlowReporter(snapshot)
    return [reporter.drop(drop).message for drop in drops]


def changed(before: Mapping[int, int], now: Mapping[int, int]) -> list[int]:
    """The networks with drops since their tables were read."""
    return [vni for vni, count in now.items() if count != before.get(vni, 0)]


def explained_to(drop: ObservedDrop, pods: Mapping[Address, PodKey]) -> PodKey | None:
    """The pod on this node that a drop is to be explained to: the one whose policy or packet it was."""
    source = pods.get(drop.source) if drop.source is not None else None
    target = pods.get(drop.target) if drop.target is not None else None
    return (target or source) if drop.reason is DropReason.POLICY_INGRESS else (source or target)
