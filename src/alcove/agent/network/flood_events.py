"""Events on pods that open more connections than the node remembers of their network: older ones are forgotten then, and
connections through services may break.

Only counters are read every POLL_SECONDS; the ring of a network is looked at for an event, of which a network has one in
an hour.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

import numpy as np

from alcove.agent.network.map_shares import NetworkNote, pod_reference
from alcove.agent.network.reconciler import NetworkReconciler
from alcove.agent.network.view import NetworkView
from alcove.agent.podkey import PodKey
from alcove.dataplane.address import pack
from alcove.dataplane.errors import DataPlaneError
from alcove.dataplane.node_dataplane import MEMORY_ENTRIES
from alcove.dataplane.openings import Openings, address_word, opener_words

log = logging.getLogger(__name__)

POLL_SECONDS = 10.0
HOUR_SECONDS = 3600.0
EVENT_REASON = "TooManyConnections"


class FloodLimit:
    """Which networks have been flooded, and have had no event for an hour."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counts: Mapping[int, int] = {}
        self._told: dict[int, float] = {}

    def flooded(self, counts: Mapping[int, int]) -> dict[int, int]:
        """How many connections those networks have opened since the last call, by VNI. `counts` are of all networks."""
        before, self._counts, now = self._counts, counts, self._clock()
        self._told = {vni: at for vni, at in self._told.items() if vni in counts and now - at < HOUR_SECONDS}
        found = {
            vni: count - before[vni]
            for vni, count in counts.items()
            if vni in before and count - before[vni] > MEMORY_ENTRIES and vni not in self._told
        }
        self._told |= dict.fromkeys(found, now)
        return found


class FloodEvents:
    def __init__(self, reconciler: NetworkReconciler, note: NetworkNote) -> None:
        self._reconciler = reconciler
        self._note = note
        self._limit = FloodLimit(lambda: asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self.check()
            except (DataPlaneError, OSError) as error:
                log.warning("failed to read opened connections; retrying", extra={"error": str(error)})

    async def check(self) -> None:
        """Reports what has been flooded since the last call."""
        dataplane = self._reconciler.dataplane
        for vni, count in self._limit.flooded(await dataplane.network_openings()).items():
            view = self._reconciler.views.views.get(vni)
            ring = (await dataplane.open_rings([vni], {})).get(vni)
            if view is None or ring is None:
                continue
            ring.rewind()
            pod = busiest(ring.read()[0], self._pods(vni))
            if pod is not None:
                self._report(view, pod, count)

    def _pods(self, vni: int) -> dict[int, PodKey]:
        """The network's pods on this node, by their addresses' words."""
        return {
            address_word(pack(each.ip)): record.key
            for record in self._reconciler.records.all()
            for plug in record.plugs
            if plug.vni == vni
            for each in plug.to_veth().addresses
        }

    def _report(self, view: NetworkView, pod: PodKey, count: int) -> None:
        message = (
            f'{count} connections were opened in network "{view.backing.owner.name}" within {POLL_SECONDS:.0f} s, most of '
            f"them by this pod; the node remembers {MEMORY_ENTRIES}, older ones are forgotten"
        )
        self._note(pod.tenant_key, pod_reference(pod), EVENT_REASON, message)


def busiest(openings: Openings, pods: Mapping[int, PodKey]) -> PodKey | None:
    """The pod that has opened the most of these connections; None if others than these pods have."""
    words, counts = np.unique(opener_words(openings), return_counts=True)
    return pods.get(int(words[np.argmax(counts)])) if len(words) else None
