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

from alcove.agent.ingress.local_node_ports import LocalNodePorts, LocalService, Step
from alcove.agent.network.apiserver_proxy import Address
from alcove.agent.network.attachment import DOMAIN
from alcove.agent.network.attachment_records import AttachmentRecords
from alcove.agent.network.dataplane_thread import DataplaneThread
from alcove.agent.network.desired_state import DesiredStateBuilder
from alcove.agent.network.gateway_servers import GatewayServers
from alcove.agent.network.network_dialer import NetworkDialer
from alcove.agent.network.view_set import NetworkViewSet
from alcove.client.keys import HOME, PlaneId
from alcove.client.planes import Planes
from alcove.component.tasks import BackgroundTasks
from alcove.dataplane.address import Prefix
from alcove.dataplane.errors import DataPlaneError
from alcove.dataplane.model import DataplaneState, Protocol
from alcove.dataplane.node_dataplane import DataPlane
from alcove.dns.server import DnsServer
from alcove.dns.upstream import Resolver, Upstream
from alcove.network.providers.all import PROVIDERS
from alcove.network.providers.base import Providers

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.01
RESYNC_SECONDS = 60.0
GATEWAYS_AT_ONCE = 4
"""So many are made sure of at a time: pods that start wait meanwhile."""
AGAIN_SECONDS, AGAIN_SECONDS_MAX = 1.0, 30.0
PATIENCE_SECONDS = 30.0
"""So long the first world waits for a tenant's own API server; its pods then open nothing until it is back."""


class ResyncScope(Enum):
    """Whether what the kernel holds is believed."""

    NONE = "none"
    SOME = "some"
    """Now and then: all but most of the gateways, which take their turns."""
    ALL = "all"
    """After a failure."""


class NodeNetworkConfig(Struct, frozen=True, kw_only=True):
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


class NetworkReconciler:
    def __init__(
        self,
        plane: DataPlane,
        planes: Planes,
        config: NodeNetworkConfig,
        api_server: Callable[[PlaneId], Address],
    ) -> None:
        self.plane = plane
        self.config = config
        self.prefix = f"alcove-{plane.settings.instance}-p"
        """Names of pods' namespaces begin so."""
        self.dataplane = DataplaneThread(plane)
        self.records = AttachmentRecords(config.folder)
        self.views = NetworkViewSet(planes, config.node, config.domain, config.providers, self._mark)
        self.dialing = NetworkDialer(plane)
        self.is_running = False
        """Whether pods can be attached."""
        self.ready: frozenset[int] = frozenset()
        """Networks of which the data plane knows everything, and whose gateway and servers are there."""
        self._assembly = DesiredStateBuilder(
            config.node, config.address, config.underlay, plane.settings.node6
        )
        self._dns = DnsServer(Upstream(config.resolvers) if config.resolvers else None)
        self._servers = GatewayServers(plane, self._dns, api_server)
        self._doorsteps = LocalNodePorts(self._dial_service)
        self._changed = asyncio.Event()
        self._news = asyncio.Event()
        """Set, and replaced, whenever something has changed or was done."""
        self._listeners: list[Callable[[], None]] = []
        self._doubt_now = ResyncScope.NONE
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
                await self.views.close()
                self.dataplane.close()

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
            await asyncio.sleep(RESYNC_SECONDS)
            if self._doubt_now is ResyncScope.NONE:
                self._doubt_now = ResyncScope.SOME
            self._changed.set()

    async def _begin(self) -> None:
        """Removes what no record speaks of, and waits until everything is known that attached pods depend on."""
        try:
            await self.dataplane.sweep(self.prefix, {record.namespace for record in self.records.all()})
        except (DataPlaneError, OSError) as error:
            log.warning("namespaces of nobody are left", extra={"error": str(error)})
        await self.views.ring0.synced()
        await self.views.follow(self.records.all())
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while not self._knows_enough(is_late=asyncio.get_running_loop().time() > deadline):
            await self.news(AGAIN_SECONDS)
            await self.views.follow(self.records.all())
        self._changed.set()

    def _knows_enough(self, *, is_late: bool) -> bool:
        """For the first world: what it does not have is removed. The home plane is waited for, however long it takes;
        what a network is made of and a tenant's own API server only for some time."""
        views = self.views.views
        # Of networks that ring0 no longer has a pod of here, nothing will come.
        needed = {plug.vni for record in self.records.all() for plug in record.plugs}
        needed &= self.views.ring0.present().keys()
        waiting = [
            view
            for view in views.values()
            if not view.is_synced() and not self.views.has_lapsed(view.tenant.tenant_key)
        ]
        if is_late:
            return all(view.tenant.tenant_key.plane != HOME for view in waiting)
        return not waiting and needed <= views.keys()

    async def _converge(self) -> None:
        try:
            await self.views.follow(self.records.all())
            views = dict(self.views.views)
            whole = [vni for vni, view in views.items() if view.is_synced()]
            state = self._assembly.world(
                self.views.ring0.nodes(), views, self.views.served(), self.records.all()
            )
            # No pause between the two: whoever is attached in between would be taken for nobody.
            await self._carry_out(state)
            await self._servers.ensure(views)
            await self._doorsteps.set(doorsteps(state, (self.config.address, self.plane.settings.node6)))
            self.is_running = True
            self.ready = frozenset(vni for vni in whole if self._servers.has(vni))
            self._failures = 0
            if len(self.ready) < len(whole):
                self._try_again(AGAIN_SECONDS)
        except (DataPlaneError, OSError) as error:
            log.warning("data plane not as it should be", extra={"error": str(error)})
            self._doubt_now = ResyncScope.ALL
            self._try_again(min(AGAIN_SECONDS * 2**self._failures, AGAIN_SECONDS_MAX))
            self._failures = min(self._failures + 1, 10)
        self._tell()

    def _try_again(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._changed.set)

    def _carry_out(self, state: DataplaneState) -> "asyncio.Future[None]":
        doubt, self._doubt_now = self._doubt_now, ResyncScope.NONE
        match doubt:
            case ResyncScope.NONE:
                return self.dataplane.apply(state)
            case ResyncScope.SOME:
                return self.dataplane.resync(state, GATEWAYS_AT_ONCE)
            case ResyncScope.ALL:
                return self.dataplane.resync(state, None)
            case _:
                assert_never(doubt)

    async def _dial_service(self, vni: int, address: str, port: int) -> socket.socket:
        """A connection to a service, as the world's come."""
        view = self.views.views.get(vni)
        source = view.gateway_address(self.config.node) if view is not None else None
        if source is None or (":" in address) != (source.version == 6):
            raise ConnectionRefusedError(f"network {vni} has no address here for the world to come as")
        return await self.dialing.connect(vni, str(source), address, port)


def doorsteps(state: DataplaneState, own: Collection[object]) -> dict[Step, LocalService]:
    """Node ports, of the node's `own` addresses, that its own programs may come by."""
    return {
        (str(node_port.address), node_port.port): LocalService(
            node_port.vni, str(node_port.service_address), node_port.service_port
        )
        for node_port in state.node_ports
        if node_port.protocol is Protocol.TCP and node_port.address in own
    }
