"""Follows the flows of a tenant's networks on this node: first what the kernel's tables have, then each connection as it is
opened, and each drop as there are more of its kind.

Connections come from the networks' rings (dataplane/openings.py), which are looked at so often that they are not overwritten in the
meantime, whatever the rate. Only those that are sent get names and counters; the others are counted.
"""

import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from alcove.agent.network.drop_events import changed
from alcove.agent.network.flow_reports import DROPPED, FORWARDED, FlowSelection
from alcove.agent.network.traffic import TrafficReader
from alcove.agent.network.view import NetworkView
from alcove.api import objects
from alcove.api.ids import TenantId
from alcove.api.node_api import NodeFlows
from alcove.client.keys import PlaneId
from alcove.dataplane.address import pack
from alcove.dataplane.maps import OPENINGS_MAX
from alcove.dataplane.openings import OpeningRing, Openings, address_word, address_words
from alcove.network.endpoints import EndpointAllocation

POLL_SECONDS_MIN, POLL_SECONDS_MAX = 0.02, 0.1
FILLED_PART = 0.25
"""How much of a ring may be written between two polls."""
OVERLAP_SECONDS = 3.0
"""The kernel's times are exact to about a second."""
READ_MAX = 10_000
"""Flows of the first reading, from the kernel's tables."""


class Backlog(Struct):
    """Connections of a network that wait to be sent."""

    parts: deque[Openings] = field(default_factory=deque)
    size: int = 0

    def add(self, openings: Openings, size_max: int) -> int:
        """Returns how many of the oldest had to be left out."""
        self.parts.append(openings)
        self.size += len(openings)
        left_out = 0
        while self.size > size_max:
            over = self.size - size_max
            first = self.parts.popleft()
            if len(first) > over:
                self.parts.appendleft(first[over:])
            dropped = min(over, len(first))
            self.size -= dropped
            left_out += dropped
        return left_out

    def newest(self, count: int) -> Openings:
        joined = np.concatenate(self.parts)
        return joined[max(0, len(joined) - count) :]


def fair_share(sizes: Collection[int], total: int) -> int:
    """The largest share such that all of these sizes, each cut down to it, are not more than `total`."""
    for number, size in enumerate(sorted(sizes)):
        share = total // (len(sizes) - number)
        if size > share:
            return share
        total -= size
    return max(sizes, default=0)


class RingFollower:
    """One stream. Belongs to the event loop."""

    def __init__(
        self, reader: TrafficReader, plane: PlaneId | None, tenant: TenantId | None, selection: FlowSelection
    ) -> None:
        """Without a tenant, that of all tenants of the plane; without a plane, of every plane."""
        self._reader = reader
        self._plane = plane
        self._tenant = tenant
        self._selection = selection
        self._rings: dict[int, OpeningRing] = {}
        """By VNI."""
        self._wanted: dict[int, NDArray[np.uint64]] = {}
        """The addresses of which flows are asked for, of each network, unless all are."""
        self._backlogs: dict[int, Backlog] = {}
        self._lost = 0
        self._polled = time.monotonic()
        self._has_begun = False
        self._read_at = 0.0
        self._drops: dict[int, int] = {}
        """How many packets each network had dropped, by VNI."""

    def poll(self) -> float:
        """Takes new connections out of the rings. Returns after how many seconds it should be called again."""
        now = time.monotonic()
        elapsed, self._polled = max(now - self._polled, 1e-3), now
        fullest = 0
        for vni, ring in self._rings.items():
            if ring.count == ring.position:
                continue
            openings, lost = ring.read()
            fullest = max(fullest, len(openings) + lost)
            wanted = self._wanted.get(vni)
            if wanted is not None:
                source, target = (
                    np.isin(address_words(openings[end]), wanted) for end in ("source", "target")
                )
                openings = openings[source | target]
            if len(openings):
                backlog = self._backlogs.setdefault(vni, Backlog())
                lost += backlog.add(openings, self._selection.limit)
            self._lost += lost
        seconds = FILLED_PART * OPENINGS_MAX * elapsed / fullest if fullest else POLL_SECONDS_MAX
        return min(max(seconds, POLL_SECONDS_MIN), POLL_SECONDS_MAX)

    async def read(self) -> NodeFlows:
        """What is new since the last call; at first, what the kernel's tables have. `left_out` is what was too much."""
        views = self._reader.views(self._plane, self._tenant)
        drops = await self._changed_drops(views)
        since, self._read_at = self._read_at - OVERLAP_SECONDS, time.time()
        await self._follow(views)
        if not self._has_begun:
            self._has_begun = True
            first = replace(self._selection, limit=READ_MAX)
            return await self._reader.flows(self._plane, self._tenant, first)
        openings, lost = self._take()
        selection = replace(self._selection, since=max(since, self._selection.since))
        news = {vni: view for vni, view in views.items() if vni in openings or vni in drops}
        found = await self._reader.opened(self._tenant, selection, news, openings)
        return replace(found, left_out=found.left_out + lost)

    def _take(self) -> tuple[dict[int, Openings], int]:
        """What is sent of each network, and how many others there were. A network that opens many connections does not take the
        place of others."""
        share = fair_share([each.size for each in self._backlogs.values()], self._selection.limit)
        openings = {vni: each.newest(share) for vni, each in self._backlogs.items()}
        cut = sum(each.size - len(openings[vni]) for vni, each in self._backlogs.items())
        lost, self._lost, self._backlogs = self._lost + cut, 0, {}
        return openings, lost

    async def _changed_drops(self, views: Collection[int]) -> list[int]:
        """The networks that have dropped packets since the last call."""
        if self._selection.verdict == FORWARDED:
            return []
        before, self._drops = self._drops, await self._reader.network_drops()
        return [vni for vni in changed(before, self._drops) if vni in views]

    async def _follow(self, views: Mapping[int, NetworkView]) -> None:
        """Follows the networks that have come, no longer those that are gone."""
        if self._selection.verdict == DROPPED:
            return
        self._rings = await self._reader.open_rings(list(views), self._rings)
        if not self._has_begun:
            for ring in self._rings.values():
                ring.skip()
        self._backlogs = {vni: each for vni, each in self._backlogs.items() if vni in self._rings}
        if self._selection.pod or self._selection.namespace:
            self._wanted = {
                vni: wanted_words(self._selection, views[vni].allocations.all())
                for vni in self._rings
                if not _is_service(views[vni], self._selection.pod)
            }


def _is_service(view: NetworkView, name: str) -> bool:
    """Whether a service has this name: its connections have other addresses in the ring."""
    return bool(name) and any(objects.name(each) == name for each in view.tenant.all(view.tenant.services))


def wanted_words(selection: FlowSelection, allocations: Iterable[EndpointAllocation]) -> NDArray[np.uint64]:
    """The addresses of the pods that are asked for; see `address_words`."""
    found = [
        address_word(pack(each.address))
        for each in allocations
        if each.address is not None
        and each.owner is not None
        and selection.namespace in ("", each.owner.namespace)
        and selection.pod in ("", each.owner.name)
    ]
    return np.array(found, np.uint64)
