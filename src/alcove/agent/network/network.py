"""Networks on this node: pods are attached to theirs, and the data plane is kept to what ring0 and tenants say.

    network = Network(plane, planes, Place(node, address, …))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(network.run())
        attachment = await network.attach(key, pod)

One loop carries out everything: changes are gathered for some milliseconds, then the whole is put together and the
difference written. The first time waits until all is known that attached pods need: until then the kernel goes on
with what it has.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from enum import Enum
from ipaddress import IPv4Address
from pathlib import Path
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from alcove.agent.ingress.dialing import Exit
from alcove.agent.ingress.doorsteps import Doorsteps, Service, Step
from alcove.agent.network.assembly import Assembly, ruled
from alcove.agent.network.attachment import DOMAIN, Attachment, NetworkNotReady
from alcove.agent.network.environment import environment
from alcove.agent.network.fabric import Nic
from alcove.agent.network.kernel import Kernel
from alcove.agent.network.ports import ports_of
from alcove.agent.network.proxy import Address
from alcove.agent.network.records import Plug, Record, Records
from alcove.agent.network.servers import Servers
from alcove.agent.network.services import cluster_addresses
from alcove.agent.network.sight import Sight
from alcove.agent.network.tenant import Tenant
from alcove.agent.network.view import View
from alcove.agent.podkey import PodKey
from alcove.api import objects
from alcove.api.ids import SYSTEM
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object
from alcove.client.keys import HOME, PlaneId, Space
from alcove.client.planes import Planes
from alcove.controllers.network import nics as nic_names
from alcove.controllers.network import wellknown
from alcove.controllers.network.owners import OwnerRef
from alcove.dataplane.address import Prefix
from alcove.dataplane.errors import DataPlaneError
from alcove.dataplane.model import Protocol, World
from alcove.dataplane.namespaces import inside, path_of
from alcove.dataplane.plane import Plane
from alcove.dns.server import DnsServer
from alcove.dns.upstream import Resolver, Upstream
from alcove.vpc.defaults import DEFAULT_VPC

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.01
MEND_SECONDS = 60.0
GATEWAYS_AT_ONCE = 4
"""So many are made sure of at a time: pods that start wait meanwhile."""
AGAIN_SECONDS = 1.0
ATTACH_SECONDS_MAX = 10.0
STRANGE_PLANE_SECONDS = 30.0
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


class Network:
    def __init__(
        self, plane: Plane, planes: Planes, place: Place, api_server: Callable[[PlaneId], Address]
    ) -> None:
        """`api_server` tells where a plane's API server is, as this node reaches it."""
        self._plane = plane
        self._place = place
        self._api_server = api_server
        self._prefix = f"alcove-{plane.settings.instance}-p"
        self._kernel = Kernel(plane)
        self._records = Records(place.folder)
        self._assembly = Assembly(place.node, place.address, place.underlay)
        self._changed = asyncio.Event()
        self._news = asyncio.Event()
        """Set, and replaced, whenever something has changed or was done."""
        self._listeners: list[Callable[[], None]] = []
        self._doubt_now = Doubt.NONE
        self._is_running = False
        self._ready: frozenset[int] = frozenset()
        """Networks of which the data plane knows everything, and whose gateway and servers are there."""
        self._sight = Sight(planes, place.node, place.domain, self._mark)
        self._doorsteps = Doorsteps(self._dial_service)
        self._dns = DnsServer(Upstream(place.resolvers) if place.resolvers else None)

    # Keeping the data plane true

    async def run(self) -> None:
        """Until cancelled; what was made stays at work."""
        async with self._dns, asyncio.TaskGroup() as tasks:
            self._servers = Servers(self._plane, self._dns, self._api_server)
            mending = tasks.create_task(self._doubt(), name="mend the data plane")
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
                await self._sight.close()
                self._kernel.close()

    def _mark(self) -> None:
        self._changed.set()
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
        for told in self._listeners:
            told()

    def listen(self, told: Callable[[], None]) -> None:
        """Calls it whenever networks, services or anything else of `present` may have changed."""
        self._listeners.append(told)

    async def _doubt(self) -> None:
        while True:
            await asyncio.sleep(MEND_SECONDS)
            if self._doubt_now is Doubt.NONE:
                self._doubt_now = Doubt.SOME
            self._changed.set()

    async def _begin(self) -> None:
        """Removes what no record speaks of, and waits until everything is known that attached pods depend on."""
        await self._kernel.sweep(self._prefix, {record.namespace for record in self._records.all()})
        await self._sight.ring0.synced()
        await self._sight.follow(self._records.all())
        deadline = asyncio.get_running_loop().time() + STRANGE_PLANE_SECONDS
        while True:
            waiting = [view for view in self._sight.views.values() if not view.is_synced()]
            late = asyncio.get_running_loop().time() > deadline
            if all(late and view.tenant.space.plane != HOME for view in waiting):
                break
            news = self._news
            try:
                await asyncio.wait_for(news.wait(), AGAIN_SECONDS)
            except TimeoutError:
                pass
            await self._sight.follow(self._records.all())
        self._changed.set()

    async def _converge(self) -> None:
        try:
            await self._sight.follow(self._records.all())
            views = dict(self._sight.views)
            whole = [vni for vni, view in views.items() if view.is_synced()]
            world = self._assembly.world(
                self._sight.ring0.nodes(), views, self._sight.served(), self._records.all()
            )
            # No pause between the two: whoever is attached in between would be taken for nobody.
            await self._carry_out(world)
            await self._servers.ensure(views)
            await self._doorsteps.set(doorsteps(world, self._place.address))
            self._is_running = True
            self._ready = frozenset(vni for vni in whole if self._servers.has(vni))
            if len(self._ready) < len(whole):
                asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._changed.set)
        except (DataPlaneError, OSError) as error:
            log.warning("data plane not as it should be", extra={"error": str(error)})
            self._doubt_now = Doubt.ALL
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._changed.set)
        self._tell()

    def _carry_out(self, world: World) -> "asyncio.Future[None]":
        doubt, self._doubt_now = self._doubt_now, Doubt.NONE
        match doubt:
            case Doubt.NONE:
                return self._kernel.apply(world)
            case Doubt.SOME:
                return self._kernel.mend(world, GATEWAYS_AT_ONCE)
            case Doubt.ALL:
                return self._kernel.mend(world, None)
            case _:
                assert_never(doubt)

    # Pods

    async def attach(
        self,
        key: PodKey,
        pod: Object,
        namespace: Path | None = None,
        *,
        interface: str = "",
        container: str = "",
    ) -> Attachment:
        """The pod on its network. Safe to repeat. `namespace`: one that a container runtime has made, with its names
        for the first interface and for the container; else the pod gets one.

        Raises NetworkNotReady.
        """
        if objects.get(pod, "spec", "hostNetwork"):
            return self._on_host(key)
        found = await self._until_ready(key, pod)
        record = found if isinstance(found, Record) else self._record(key, pod, *found)
        if namespace is not None:
            record = elsewhere(record, namespace, interface, container)
        place = record.namespace or Path(record.attachment.namespace_path)
        view = self._sight.views[record.plugs[0].vni]
        self._records.put(record)
        self._changed.set()
        try:
            await self._kernel.plug(place, tuple(ruled(plug.port(), record, view) for plug in record.plugs))
        except (DataPlaneError, OSError) as error:
            raise NetworkNotReady(f"its port cannot be made: {error}") from error
        return record.attachment

    def _on_host(self, key: PodKey) -> Attachment:
        if key.tenant != SYSTEM:
            raise NetworkNotReady("only ring0's pods may be on the node's own network")
        return Attachment("", (str(self._place.address),))

    async def _until_ready(self, key: PodKey, pod: Object) -> "Record | tuple[list[Nic], View]":
        """What the pod is to be attached by. Raises NetworkNotReady, which tells what it waited for."""
        deadline = asyncio.get_running_loop().time() + ATTACH_SECONDS_MAX
        while True:
            news = self._news
            found = self._look(key, pod)
            if not isinstance(found, str):
                return found
            left = deadline - asyncio.get_running_loop().time()
            try:
                await asyncio.wait_for(news.wait(), max(0.0, left))
            except TimeoutError:
                raise NetworkNotReady(found) from None

    def _look(self, key: PodKey, pod: Object) -> "Record | tuple[list[Nic], View] | str":
        record = self._records.get(key)
        if record is not None and all(plug.vni in self._ready for plug in record.plugs):
            return record
        name = network_of(pod)
        nics = self._sight.ring0.nics(key.uid, OwnerRef(key.tenant, key.namespace, key.name))
        wanted = 1 if nics and nics[0].vpc == DEFAULT_VPC else len(nic_names.names(pod))
        if len(nics) < wanted:
            return f'waiting for an address in network "{name}"'
        vnis = {nic.vni for nic in nics}
        view = self._sight.views.get(nics[0].vni)
        if view is None or len(vnis) != 1 or view.backing.owner.name != name:
            return f'waiting for what network "{name}" is made of'
        if view.tenant.space.plane != key.plane or view.backing.owner.tenant != key.tenant:
            return f'network "{name}" is not the tenant\'s'
        if not vnis <= self._ready:
            missing = "gateway" if view.is_synced() else "services and policies"
            return f'waiting for the {missing} of network "{name}"'
        return nics, view

    def _record(self, key: PodKey, pod: Object, nics: list[Nic], view: View) -> Record:
        ports = ports_of(self._plane.settings.instance, key.place, pod, nics)
        name = f"{self._prefix}{key.place}"
        attachment = Attachment(
            str(path_of(name)),
            tuple(str(one.ip) for port in ports for one in port.addresses),
            self._nameservers(view),
            self._place.domain,
            self._plane.mtu,
        )
        plugs = tuple(Plug.of(port) for port in ports)
        return Record(key, view.backing.owner, name, nics[0].vpc, attachment, plugs)

    def _nameservers(self, view: View) -> tuple[str, ...]:
        """The DNS service's address; while it has none, the gateway's, where it is anyway."""
        name = wellknown.dns_name(view.backing.owner.name)
        service = view.tenant.service((wellknown.DNS_NAMESPACE, name))
        addresses = cluster_addresses(service, view.grant(service)) if service is not None else []
        return tuple(str(each) for each in addresses or [one.ip for one in view.backing.gateways[:1]])

    async def detach(self, key: PodKey) -> None:
        """Takes the pod off its network, with all that was made for it. Idempotent."""
        record = self._records.get(key)
        if record is None:
            return
        # The record last: killed before, the agent finds it and is asked again.
        self._records.forget(key)
        try:
            await self._kernel.unplug(record.namespace, tuple(plug.name for plug in record.plugs))
        except BaseException:
            self._records.put(record)
            raise
        self._records.drop(key)
        for plug in record.plugs:
            if (view := self._sight.views.get(plug.vni)) is not None:
                view.rules.forget(key)
        self._changed.set()

    async def equip(self, key: PodKey) -> None:
        """Gives the pod's namespace its addresses and routes again: gVisor takes them out when it starts, and a sandbox
        that starts again in the same namespace needs them."""
        record = self._records.get(key)
        if record is not None:
            place = record.namespace or Path(record.attachment.namespace_path)
            await self._kernel.equip(place, tuple(plug.port() for plug in record.plugs))

    async def is_plugged(self, key: PodKey) -> bool:
        """Whether all that was made for the pod is there."""
        record = self._records.get(key)
        if record is None:
            return False
        place = record.namespace or Path(record.attachment.namespace_path)
        return await self._kernel.is_plugged(place, tuple(plug.port() for plug in record.plugs))

    def is_running(self) -> bool:
        """Whether pods can be attached."""
        return self._is_running

    def records(self) -> list[Record]:
        return self._records.all()

    def attached(self) -> list[PodKey]:
        return [record.key for record in self._records.all()]

    async def dial(self, key: PodKey, port: int) -> socket.socket:
        """A connection to a port of the pod, as its network's gateway: no policy keeps it out. Raises OSError."""
        record = self._records.get(key)
        if record is None:
            raise ConnectionRefusedError(f"{key} is not attached")
        plug = record.plugs[0].port()
        return await self._connect(plug.vni, str(plug.gateways[0]), str(plug.addresses[0].ip), port)

    async def _dial_service(self, vni: int, address: str, port: int) -> socket.socket:
        """A connection to a service, as the world's come."""
        view = self._sight.views.get(vni)
        source = view.gateway_address(self._place.node) if view is not None else None
        if source is None:
            raise ConnectionRefusedError(f"network {vni} has no address here for the world to come as")
        return await self._connect(vni, str(source), address, port)

    async def _connect(self, vni: int, source: str, address: str, port: int) -> socket.socket:
        sock = self._open_socket(vni, socket.AF_INET6 if ":" in address else socket.AF_INET)
        try:
            sock.bind((source, 0))
            await asyncio.get_running_loop().sock_connect(sock, (address, port))
        except BaseException:
            sock.close()
            raise
        return sock

    def _open_socket(self, vni: int, family: int) -> socket.socket:
        """In the network's gateway."""
        try:
            namespace = self._plane.gateways.open(vni)
        except DataPlaneError as error:
            raise ConnectionRefusedError(str(error)) from error
        try:
            with inside(namespace):
                return socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        finally:
            os.close(namespace)

    def present(self) -> dict[Space, Tenant]:
        """The tenants whose networks are here."""
        return self._sight.present()

    def exit_of(self, space: Space, network: str) -> Exit | None:
        """Where connections of the node's own servers into the network begin, as clients of the world do; None: it is
        not here, or has no address for that (yet)."""
        for vni, view in self._sight.views.items():
            if vni in self._ready and view.tenant.space == space and view.backing.owner.name == network:
                own = view.gateway_address(self._place.node)
                return Exit(vni, str(own)) if own is not None else None
        return None

    def environment(self, key: PodKey, pod: Object) -> dict[str, str]:
        """Variables that tell the pod of services."""
        tenant = self._sight.tenant(key.plane, key.tenant)
        return environment(pod, tenant.all(tenant.services) if tenant is not None else ())


def elsewhere(record: Record, namespace: Path, interface: str, container: str) -> Record:
    """The same in a namespace that somebody else has made."""
    plugs = record.plugs
    if interface:
        plugs = (replace(plugs[0], pod_interface=interface), *plugs[1:])
    attachment = replace(record.attachment, namespace_path=str(namespace))
    return replace(record, namespace="", attachment=attachment, plugs=plugs, container=container)


def doorsteps(world: World, node: IPv4Address) -> dict[Step, Service]:
    """Node ports that the node's own programs may come by."""
    return {
        (str(door.address), door.port): Service(door.vni, str(door.service_address), door.service_port)
        for door in world.doors
        if door.protocol is Protocol.TCP and door.address == node
    }
