"""Reconciles the node's data plane and its gateway servers with the objects of ring0 and the tenants.

One loop does everything: it gathers changes for some milliseconds, builds the whole desired state, and writes
the difference. The first pass waits until everything is synced that attached pods need: until then the kernel
keeps the state that it has.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from ipaddress import IPv4Address
from pathlib import Path
from typing import assert_never

from msgspec import Struct

from alcove.agent.ingress.health_checks import HealthCheck, HealthCheckServer
from alcove.agent.ingress.local_datagrams import LocalDatagrams
from alcove.agent.ingress.local_node_ports import LocalNodePorts, LocalService, Step
from alcove.agent.network import host_ports
from alcove.agent.network.apiserver_proxy import Address
from alcove.agent.network.attachment import DOMAIN
from alcove.agent.network.attachment_records import AttachmentRecords
from alcove.agent.network.dataplane_thread import AppliedState, DataplaneThread
from alcove.agent.network.desired_state import DesiredStateBuilder
from alcove.agent.network.gateway_servers import GatewayServers
from alcove.agent.network.map_shares import FAILED_GATEWAY, NetworkLosses, NetworkNote, note_pod
from alcove.agent.network.network_dialer import NetworkDialer
from alcove.agent.network.view import NetworkView
from alcove.agent.network.view_set import NetworkViewSet
from alcove.agent.podkey import PodKey
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
GATEWAYS_PER_RESYNC = 4
"""Gateways that one periodic resync reads back and repairs: starting pods wait for it."""
RETRY_SECONDS, RETRY_SECONDS_MAX = 1.0, 30.0
TENANT_SYNC_SECONDS_MAX = 30.0
"""How long the first pass waits for a dedicated plane's API server; after that, pods of its tenant can open
no new connections until it is back."""


class ResyncScope(Enum):
    """How much of the kernel's state is read back and repaired."""

    NONE = "none"
    SOME = "some"
    """Every RESYNC_SECONDS: everything except gateways, of which GATEWAYS_PER_RESYNC take turns."""
    ALL = "all"
    """After a failure."""


class NodeNetworkConfig(Struct, frozen=True, kw_only=True):
    """The configuration of this node's network."""

    node: str
    address: IPv4Address
    underlay: tuple[Prefix, ...]
    """Ranges of the underlay, which no pod may reach."""
    folder: Path
    resolvers: tuple[Resolver, ...] = ()
    """Upstream DNS resolvers for external names, for networks with egress."""
    routes_ring0: bool = False
    """Whether processes on the node reach the addresses of ring0's default network."""
    domain: str = DOMAIN
    providers: Providers = PROVIDERS
    """The providers of all network types."""


class NetworkReconciler:
    def __init__(
        self,
        plane: DataPlane,
        planes: Planes,
        config: NodeNetworkConfig,
        api_server: Callable[[PlaneId], Address],
        note: NetworkNote = lambda *_: None,
    ) -> None:
        """`note` records events of objects that have no effect on this node."""
        self.plane = plane
        self._note = note
        self._denied: set[PodKey] = set()
        """Pods whose policy rules are too many."""
        self._losses = NetworkLosses(config.node, note)
        self.config = config
        self.prefix = f"alcove-{plane.settings.instance}-p"
        """Prefix of the names of pods' network namespaces."""
        self.dataplane = DataplaneThread(plane)
        self.records = AttachmentRecords(config.folder)
        self.views = NetworkViewSet(planes, config.node, config.domain, config.providers, self._on_change)
        self.dialer = NetworkDialer(plane)
        self.is_running = False
        """Whether pods can be attached."""
        self.ready: frozenset[int] = frozenset()
        """VNIs of networks that are synced and applied, and whose gateway servers are running."""
        self._state_builder = DesiredStateBuilder(
            config.node,
            config.address,
            config.underlay,
            plane.settings.node6,
            note,
            routes_ring0=config.routes_ring0,
        )
        self.dns = DnsServer(Upstream(config.resolvers) if config.resolvers else None)
        self._servers = GatewayServers(plane, self.dns, api_server)
        self._local_node_ports = LocalNodePorts(self._dial_service)
        self._local_datagrams = LocalDatagrams(self._open_flow)
        self._health_checks = HealthCheckServer()
        self._changed = asyncio.Event()
        self._progress = asyncio.Event()
        """Set, and replaced, whenever something has changed or was applied."""
        self._listeners: list[Callable[[], None]] = []
        self._resync_scope = ResyncScope.NONE
        self._failures = 0

    async def run(self) -> None:
        """Runs until cancelled; the data plane keeps working after that."""
        async with self.dns, BackgroundTasks() as tasks:
            resync = tasks.fatal("data plane resync", self._request_resyncs())
            try:
                await self._wait_until_synced()
                while True:
                    await self._changed.wait()
                    await asyncio.sleep(GATHER_SECONDS)
                    self._changed.clear()
                    await self._reconcile()
            finally:
                resync.cancel()
                self._local_node_ports.close()
                self._local_datagrams.close()
                self._health_checks.close()
                self._servers.close()
                self.views.close()
                self.dataplane.close()

    def touch(self) -> None:
        """Requests a pass of the loop."""
        self._changed.set()

    async def wait_for_change(self, seconds_max: float) -> bool:
        """Waits until something has changed or was applied; False if nothing did within that time."""
        try:
            await asyncio.wait_for(self._progress.wait(), max(0.0, seconds_max))
        except TimeoutError:
            return False
        return True

    def _on_change(self) -> None:
        self._changed.set()
        self._notify()

    def _notify(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()
        for on_change in self._listeners:
            on_change()

    def listen(self, on_change: Callable[[], None]) -> None:
        """Calls `on_change` whenever anything of networks, tenants or services may have changed."""
        self._listeners.append(on_change)

    async def _request_resyncs(self) -> None:
        while True:
            await asyncio.sleep(RESYNC_SECONDS)
            if self._resync_scope is ResyncScope.NONE:
                self._resync_scope = ResyncScope.SOME
            self._changed.set()

    async def _wait_until_synced(self) -> None:
        """Removes namespaces without a record, and waits until everything is synced that attached pods
        need."""
        try:
            await self.dataplane.clean_up(self.prefix, {record.namespace for record in self.records.all()})
        except (DataPlaneError, OSError) as error:
            log.warning("orphaned network namespaces remain", extra={"error": str(error)})
        await self.views.ring0.synced()
        self.views.follow(self.records.all())
        deadline = asyncio.get_running_loop().time() + TENANT_SYNC_SECONDS_MAX
        while not self._is_synced(is_late=asyncio.get_running_loop().time() > deadline):
            await self.wait_for_change(RETRY_SECONDS)
            self.views.follow(self.records.all())
        self._changed.set()

    def _is_synced(self, *, is_late: bool) -> bool:
        """Whether the first pass may begin, which removes everything that is not in its state. The home plane
        is waited for without a limit; provider objects and dedicated planes until `is_late`."""
        views = self.views.views
        # Networks without a pod on this node in ring0 will never be synced.
        needed = {veth.vni for record in self.records.all() for veth in record.plugs}
        needed &= self.views.ring0.present().keys()
        waiting = [
            view
            for view in views.values()
            if not view.is_synced() and not self.views.has_lapsed(view.tenant.tenant_key)
        ]
        if is_late:
            return all(view.tenant.tenant_key.plane != HOME for view in waiting)
        return not waiting and needed <= views.keys()

    async def _reconcile(self) -> None:
        try:
            self.views.follow(self.records.all())
            views = dict(self.views.views)
            synced = [vni for vni, view in views.items() if view.is_synced()]
            state = self._state_builder.build(
                self.views.ring0.nodes(), views, self.views.served(), self.records.all()
            )
            # No await between the two: a pod attached in between would not be in the state, and be removed.
            self._report(await self._apply(state, views), views)
            await self._servers.ensure(views)
            await self._local_node_ports.set(self._local_ports(state, Protocol.TCP))
            self._local_datagrams.set(self._local_ports(state, Protocol.UDP))
            self._health_checks.is_synced = True
            await self._health_checks.set(
                health_checks(views.values(), (self.config.address, self.plane.settings.node6))
            )
            self.is_running = True
            self.ready = frozenset(vni for vni in synced if self._servers.has(vni))
            self._failures = 0
            if len(self.ready) < len(synced):
                self._retry_after(RETRY_SECONDS)
        except (DataPlaneError, OSError) as error:
            log.warning("data plane reconcile failed; retrying", extra={"error": str(error)})
            self._health_checks.is_synced = False
            self._resync_scope = ResyncScope.ALL
            self._retry_after(min(RETRY_SECONDS * 2**self._failures, RETRY_SECONDS_MAX))
            self._failures = min(self._failures + 1, 10)
        self._notify()

    def _retry_after(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._changed.set)

    def _report(self, applied: AppliedState, views: Mapping[int, NetworkView]) -> None:
        """Records what is not in force: events of pods whose rules are too many, entries that the kernel refused."""
        pods = {
            record.key
            for record in self.records.all()
            if any(veth.name in applied.denied for veth in record.plugs)
        }
        pods |= {key for view in views.values() for key in view.rules.excessive}
        for key in pods - self._denied:
            note_pod(self._note, self.config.node, key)
        self._denied = pods
        self._report_gateways(applied.failed_gateways, views)
        for refused in applied.refused:
            fields = {"map": refused.name.value, "entries": len(refused.keys), "error": str(refused.error)}
            log.warning("kernel refused entries; retrying", extra=fields)
            self._retry_after(RETRY_SECONDS_MAX)

    def _report_gateways(self, failed: Mapping[int, str], views: Mapping[int, NetworkView]) -> None:
        for vni, reason in failed.items():
            log.warning("failed to set up gateway; retrying", extra={"vni": vni, "error": reason})
            self._retry_after(RETRY_SECONDS_MAX)
        networks = frozenset(views[vni].backing.owner for vni in failed if vni in views)
        tenants = {view.backing.owner.tenant: view.tenant for view in views.values()}
        self._losses.report(FAILED_GATEWAY, networks, tenants)

    def _apply(
        self, state: DataplaneState, views: Mapping[int, NetworkView]
    ) -> "asyncio.Future[AppliedState]":
        tenants = {vni: view.backing.owner.tenant for vni, view in views.items()}
        scope, self._resync_scope = self._resync_scope, ResyncScope.NONE
        match scope:
            case ResyncScope.NONE:
                return self.dataplane.apply(state, tenants)
            case ResyncScope.SOME:
                return self.dataplane.resync(state, tenants, GATEWAYS_PER_RESYNC)
            case ResyncScope.ALL:
                return self.dataplane.resync(state, tenants, None)
            case _:
                assert_never(scope)

    def _local_ports(self, state: DataplaneState, protocol: Protocol) -> dict[Step, LocalService]:
        """The ports of services and pods that the agent serves to processes on the node."""
        nodes = tuple(each for each in (self.config.address, self.plane.settings.node6) if each is not None)
        return local_node_ports(state, nodes, protocol) | host_ports.local(
            self.records.all(), nodes, protocol
        )

    async def _dial_service(self, service: LocalService) -> socket.socket:
        """Connects to a service or pod from the gateway. Raises OSError."""
        source = self._source_of(service)
        return await self.dialer.connect(service.vni, source, service.address, service.port)

    def _open_flow(self, service: LocalService) -> socket.socket:
        """The same by UDP. Raises OSError."""
        return self.dialer.datagrams(service.vni, self._source_of(service), service.address, service.port)

    def _source_of(self, service: LocalService) -> str:
        """The gateway's address that the service sees, as with connections of external clients. Raises OSError."""
        if service.source:
            return service.source
        view = self.views.views.get(service.vni)
        source = view.gateway_address(self.config.node) if view is not None else None
        if source is None or (":" in service.address) != (source.version == 6):
            raise ConnectionRefusedError(
                f"network {service.vni} has no gateway address for external clients on this node"
            )
        return str(source)


def health_checks(views: Iterable[NetworkView], addresses: Iterable[object]) -> dict[Step, HealthCheck]:
    """The health checks of services at the node's `addresses`; None stands for no address."""
    nodes = [str(each) for each in addresses if each is not None]
    return {(node, each.port): each for view in views for each in view.table.health_checks for node in nodes}


def local_node_ports(
    state: DataplaneState, addresses: Collection[object], protocol: Protocol
) -> dict[Step, LocalService]:
    """Node ports at the node's `addresses`, for which the agent listens on behalf of the node's programs."""
    return {
        (str(node_port.address), node_port.port): LocalService(
            node_port.vni, str(node_port.service_address), node_port.service_port
        )
        for node_port in state.node_ports
        if node_port.protocol is protocol and node_port.address in addresses
    }
