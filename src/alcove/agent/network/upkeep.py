"""Keeps the data plane to what ring0 and the tenants say, and the node's own servers in its gateways.

One loop carries out everything: changes are gathered for some milliseconds, then the whole is put together and the
difference written. The first time waits until all is known that attached pods need: until then the kernel goes on
with what it has.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Collection
from enum import Enum
from ipaddress import IPv4Address
from pathlib import Path
from typing import assert_never

from msgspec import Struct

from alcove.agent.ingress.doorsteps import Doorsteps, Service, Step
from alcove.agent.network.assembly import Assembly
from alcove.agent.network.attachment import DOMAIN
from alcove.agent.network.dialing import Dialing
from alcove.agent.network.kernel import Kernel
from alcove.agent.network.proxy import Address
from alcove.agent.network.records import Records
from alcove.agent.network.servers import Servers
from alcove.agent.network.sight import Sight
from alcove.client.keys import HOME, PlaneId
from alcove.client.planes import Planes
from alcove.component.tasks import BackgroundTasks
from alcove.dataplane.address import Prefix
from alcove.dataplane.errors import DataPlaneError
from alcove.dataplane.model import Protocol, World
from alcove.dataplane.plane import Plane
from alcove.dns.server import DnsServer
from alcove.dns.upstream import Resolver, Upstream
from alcove.network.providers.all import PROVIDERS
from alcove.network.providers.base import Providers

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.01
MEND_SECONDS = 60.0
GATEWAYS_AT_ONCE = 4
"""So many are made sure of at a time: pods that start wait meanwhile."""
AGAIN_SECONDS, AGAIN_SECONDS_MAX = 1.0, 30.0
PATIENCE_SECONDS = 30.0
"""So long the first world waits for a tenant's own API server; its pods then open nothing until it is back."""


class Doubt(Enum):
    """Whether what the kernel holds is believed."""

    NONE = "none"
    SOME = "some"
    """Now and then: all but most of the gateways, which take their turns."""
    ALL = "all"
    """After a failure."""


class Place(Struct, frozen=True, kw_only=True):
    """The node that this is."""

    node: str
    address: IPv4Address
    underlay: tuple[Prefix, ...]
    """Ranges of the nodes' own network, which no pod may reach."""
    folder: Path
    resolvers: tuple[Resolver, ...] = ()
    """Whom names of the world are asked from, for networks that have a way out."""
    domain: str = DOMAIN
    providers: Providers = PROVIDERS
    """Of the types of networks there are."""


class Upkeep:
    def __init__(
        self, plane: Plane, planes: Planes, place: Place, api_server: Callable[[PlaneId], Address]
    ) -> None:
        self.plane = plane
        self.place = place
        self.prefix = f"alcove-{plane.settings.instance}-p"
        """Names of pods' namespaces begin so."""
        self.kernel = Kernel(plane)
        self.records = Records(place.folder)
        self.sight = Sight(planes, place.node, place.domain, place.providers, self._mark)
        self.dialing = Dialing(plane)
        self.is_running = False
        """Whether pods can be attached."""
        self.ready: frozenset[int] = frozenset()
        """Networks of which the data plane knows everything, and whose gateway and servers are there."""
        self._assembly = Assembly(place.node, place.address, place.underlay, plane.settings.node6)
        self._dns = DnsServer(Upstream(place.resolvers) if place.resolvers else None)
        self._servers = Servers(plane, self._dns, api_server)
        self._doorsteps = Doorsteps(self._dial_service)
        self._changed = asyncio.Event()
        self._news = asyncio.Event()
        """Set, and replaced, whenever something has changed or was done."""
        self._listeners: list[Callable[[], None]] = []
        self._doubt_now = Doubt.NONE
        self._failures = 0

    async def run(self) -> None:
        """Until cancelled; what was made stays at work."""
        async with self._dns, BackgroundTasks() as tasks:
            mending = tasks.fatal("data plane repair", self._doubt())
            try:
                await self._begin()
                while True:
                    await self._changed.wait()
                    await asyncio.sleep(GATHER_SECONDS)
                    self._changed.clear()
                    await self._converge()
            finally:
                mending.cancel()
                self._doorsteps.close()
                self._servers.close()
                await self.sight.close()
                self.kernel.close()

    def touch(self) -> None:
        """Something is to be carried out."""
        self._changed.set()

    async def news(self, seconds_max: float) -> bool:
        """Waits until something has changed or was done; False: nothing within that time."""
        try:
            await asyncio.wait_for(self._news.wait(), max(0.0, seconds_max))
        except TimeoutError:
            return False
        return True

    def _mark(self) -> None:
        self._changed.set()
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
        for told in self._listeners:
            told()

    def listen(self, told: Callable[[], None]) -> None:
        """Calls it whenever anything of networks, tenants or services may have changed."""
        self._listeners.append(told)

    async def _doubt(self) -> None:
        while True:
            await asyncio.sleep(MEND_SECONDS)
            if self._doubt_now is Doubt.NONE:
                self._doubt_now = Doubt.SOME
            self._changed.set()

    async def _begin(self) -> None:
        """Removes what no record speaks of, and waits until everything is known that attached pods depend on."""
        try:
            await self.kernel.sweep(self.prefix, {record.namespace for record in self.records.all()})
        except (DataPlaneError, OSError) as error:
            log.warning("namespaces of nobody are left", extra={"error": str(error)})
        await self.sight.ring0.synced()
        await self.sight.follow(self.records.all())
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while not self._knows_enough(is_late=asyncio.get_running_loop().time() > deadline):
            await self.news(AGAIN_SECONDS)
            await self.sight.follow(self.records.all())
        self._changed.set()

    def _knows_enough(self, *, is_late: bool) -> bool:
        """For the first world: what it does not have is removed. The home plane is waited for, however long it takes;
        what a network is made of and a tenant's own API server only for some time."""
        views = self.sight.views
        # Of networks that ring0 no longer has a pod of here, nothing will come.
        needed = {plug.vni for record in self.records.all() for plug in record.plugs}
        needed &= self.sight.ring0.present().keys()
        waiting = [
            view
            for view in views.values()
            if not view.is_synced() and not self.sight.has_lapsed(view.tenant.space)
        ]
        if is_late:
            return all(view.tenant.space.plane != HOME for view in waiting)
        return not waiting and needed <= views.keys()

    async def _converge(self) -> None:
        try:
            await self.sight.follow(self.records.all())
            views = dict(self.sight.views)
            whole = [vni for vni, view in views.items() if view.is_synced()]
            world = self._assembly.world(
                self.sight.ring0.nodes(), views, self.sight.served(), self.records.all()
            )
            # No pause between the two: whoever is attached in between would be taken for nobody.
            await self._carry_out(world)
            await self._servers.ensure(views)
            await self._doorsteps.set(doorsteps(world, (self.place.address, self.plane.settings.node6)))
            self.is_running = True
            self.ready = frozenset(vni for vni in whole if self._servers.has(vni))
            self._failures = 0
            if len(self.ready) < len(whole):
                self._try_again(AGAIN_SECONDS)
        except (DataPlaneError, OSError) as error:
            log.warning("data plane not as it should be", extra={"error": str(error)})
            self._doubt_now = Doubt.ALL
            self._try_again(min(AGAIN_SECONDS * 2**self._failures, AGAIN_SECONDS_MAX))
            self._failures = min(self._failures + 1, 10)
        self._tell()

    def _try_again(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._changed.set)

    def _carry_out(self, world: World) -> "asyncio.Future[None]":
        doubt, self._doubt_now = self._doubt_now, Doubt.NONE
        match doubt:
            case Doubt.NONE:
                return self.kernel.apply(world)
            case Doubt.SOME:
                return self.kernel.mend(world, GATEWAYS_AT_ONCE)
            case Doubt.ALL:
                return self.kernel.mend(world, None)
            case _:
                assert_never(doubt)

    async def _dial_service(self, vni: int, address: str, port: int) -> socket.socket:
        """A connection to a service, as the world's come."""
        view = self.sight.views.get(vni)
        source = view.gateway_address(self.place.node) if view is not None else None
        if source is None or (":" in address) != (source.version == 6):
            raise ConnectionRefusedError(f"network {vni} has no address here for the world to come as")
        return await self.dialing.connect(vni, str(source), address, port)


def doorsteps(world: World, own: Collection[object]) -> dict[Step, Service]:
    """Node ports, of the node's `own` addresses, that its own programs may come by."""
    return {
        (str(door.address), door.port): Service(door.vni, str(door.service_address), door.service_port)
        for door in world.doors
        if door.protocol is Protocol.TCP and door.address in own
    }
