"""Networks on this node, as the agent's other parts use them: pods are attached to theirs, dialled, and taken off.

network = Network(plane, planes, Place(node=…, address=…, …), api_server)
async with asyncio.TaskGroup() as tasks:
    tasks.create_task(network.run())
    attachment = await network.attach(key, pod)
"""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from alcove.agent.ingress.gateway_dialer import GatewaySource
from alcove.agent.network.apiserver_proxy import Address
from alcove.agent.network.attachment import Attachment, NetworkNotReady
from alcove.agent.network.attachment_records import AttachmentRecord, VethRecord
from alcove.agent.network.desired_state import ruled
from alcove.agent.network.environment import environment
from alcove.agent.network.reconciler import NetworkReconciler, NodeNetworkConfig
from alcove.agent.network.services import cluster_addresses
from alcove.agent.network.tenant_view import TenantNetworkView
from alcove.agent.network.veths import ports_of
from alcove.agent.network.view import NetworkView
from alcove.agent.podkey import PodKey
from alcove.api import objects
from alcove.api.ids import SYSTEM
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object
from alcove.client.keys import PlaneId, TenantKey
from alcove.client.planes import Planes
from alcove.dataplane.drops import DropCount, DropReason
from alcove.dataplane.errors import DataPlaneError
from alcove.dataplane.namespaces import path_of
from alcove.dataplane.node_dataplane import DataPlane
from alcove.network import wellknown
from alcove.network.endpoints import PodNic
from alcove.network.owners import OwnerRef

ATTACH_SECONDS_MAX = 10.0

__all__ = ["NodeNetwork", "NodeNetworkConfig", "elsewhere"]


class NodeNetwork:
    def __init__(
        self,
        plane: DataPlane,
        planes: Planes,
        config: NodeNetworkConfig,
        api_server: Callable[[PlaneId], Address],
    ) -> None:
        """`api_server` tells where a plane's API server is, as this node reaches it."""
        self._reconciler = NetworkReconciler(plane, planes, config, api_server)

    async def run(self) -> None:
        """Until cancelled; what was made stays at work."""
        await self._reconciler.run()

    def listen(self, told: Callable[[], None]) -> None:
        """Calls it whenever anything of `present` may have changed."""
        self._reconciler.listen(told)

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
        record = found if isinstance(found, AttachmentRecord) else self._record(key, pod, *found)
        if namespace is not None:
            record = elsewhere(record, namespace, interface, container)
        place = record.namespace or Path(record.attachment.namespace_path)
        view = self._reconciler.views.views[record.plugs[0].vni]
        self._reconciler.records.put(record)
        self._reconciler.touch()
        try:
            await self._reconciler.dataplane.attach_veths(
                place, tuple(ruled(plug.port(), record, view) for plug in record.plugs)
            )
        except (DataPlaneError, OSError) as error:
            raise NetworkNotReady(f"its port cannot be made: {error}") from error
        return record.attachment

    def _on_host(self, key: PodKey) -> Attachment:
        if key.tenant != SYSTEM:
            raise NetworkNotReady("only ring0's pods may be on the node's own network")
        return Attachment("", (str(self._reconciler.config.address),))

    async def _until_ready(
        self, key: PodKey, pod: Object
    ) -> "AttachmentRecord | tuple[list[PodNic], NetworkView]":
        """What the pod is to be attached by. Raises NetworkNotReady, which tells what it waited for."""
        deadline = asyncio.get_running_loop().time() + ATTACH_SECONDS_MAX
        while True:
            found = self._look(key, pod)
            if not isinstance(found, str):
                return found
            if not await self._reconciler.news(deadline - asyncio.get_running_loop().time()):
                raise NetworkNotReady(found)

    def _look(self, key: PodKey, pod: Object) -> "AttachmentRecord | tuple[list[PodNic], NetworkView] | str":
        record = self._reconciler.records.get(key)
        if record is not None and all(plug.vni in self._reconciler.ready for plug in record.plugs):
            return record
        name = network_of(pod)
        nics = self._reconciler.views.ring0.nics(key.uid, OwnerRef(key.tenant, key.namespace, key.name))
        if not nics or len(nics) < self._wanted(pod, nics[0].vpc):
            return f'waiting for an address in network "{name}"'
        vnis = {nic.vni for nic in nics}
        view = self._reconciler.views.views.get(nics[0].vni)
        if view is None or len(vnis) != 1 or view.backing.owner.name != name:
            return f'waiting for what network "{name}" is made of'
        if view.tenant.tenant_key.plane != key.plane or view.backing.owner.tenant != key.tenant:
            return f'network "{name}" is not the tenant\'s'
        if not vnis <= self._reconciler.ready:
            missing = "gateway" if view.is_synced() else "services and policies"
            return f'waiting for the {missing} of network "{name}"'
        return nics, view

    def _wanted(self, pod: Object, vpc: str) -> int:
        """How many addresses the pod gets in a network of the VPC."""
        return len(self._reconciler.config.providers.of_vpc(vpc).interfaces(pod))

    def _record(self, key: PodKey, pod: Object, nics: list[PodNic], view: NetworkView) -> AttachmentRecord:
        veths = ports_of(self._reconciler.plane.settings.instance, key.directory_name, pod, nics)
        name = f"{self._reconciler.prefix}{key.directory_name}"
        attachment = Attachment(
            str(path_of(name)),
            tuple(str(one.ip) for veth in veths for one in veth.addresses),
            self._nameservers(view),
            self._reconciler.config.domain,
            self._reconciler.plane.mtu,
        )
        plugs = tuple(VethRecord.of(veth) for veth in veths)
        return AttachmentRecord(key, view.backing.owner, name, nics[0].vpc, attachment, plugs)

    def _nameservers(self, view: NetworkView) -> tuple[str, ...]:
        """The DNS service's address; while it has none, the gateway's, where it is anyway."""
        name = wellknown.dns_name(view.backing.owner.name)
        service = view.tenant.service((wellknown.DNS_NAMESPACE, name))
        addresses = cluster_addresses(service, view.grant(service)) if service is not None else []
        return tuple(str(each) for each in addresses or [one.ip for one in view.backing.gateways[:1]])

    async def detach(self, key: PodKey) -> None:
        """Takes the pod off its network, with all that was made for it. Idempotent."""
        record = self._reconciler.records.get(key)
        if record is None:
            return
        # The record last: killed before, the agent finds it and is asked again.
        self._reconciler.records.forget(key)
        try:
            await self._reconciler.dataplane.remove_veths(
                record.namespace, tuple(plug.name for plug in record.plugs)
            )
        except BaseException:
            self._reconciler.records.put(record)
            raise
        self._reconciler.records.drop(key)
        for plug in record.plugs:
            if (view := self._reconciler.views.views.get(plug.vni)) is not None:
                view.rules.forget(key)
        self._reconciler.touch()

    async def restore_addresses(self, key: PodKey) -> None:
        """Gives the pod's namespace its addresses and routes again: gVisor takes them out when it starts, and a sandbox
        that starts again in the same namespace needs them."""
        record = self._reconciler.records.get(key)
        if record is not None:
            place = record.namespace or Path(record.attachment.namespace_path)
            await self._reconciler.dataplane.configure_veths(
                place, tuple(plug.port() for plug in record.plugs)
            )

    async def is_attached(self, key: PodKey) -> bool:
        """Whether all that was made for the pod is there."""
        record = self._reconciler.records.get(key)
        if record is None:
            return False
        place = record.namespace or Path(record.attachment.namespace_path)
        return await self._reconciler.dataplane.has_veths(place, tuple(plug.port() for plug in record.plugs))

    def drops(self) -> dict[DropReason, DropCount]:
        """What the data plane dropped since it was made, by reason."""
        return self._reconciler.plane.drops()

    def is_running(self) -> bool:
        """Whether pods can be attached."""
        return self._reconciler.is_running

    def records(self) -> list[AttachmentRecord]:
        return self._reconciler.records.all()

    def attached(self) -> list[PodKey]:
        """The agent's own pods; those of container runtimes are theirs to detach."""
        return [record.key for record in self._reconciler.records.all() if not record.container]

    def open_gateway(self, vni: int) -> int:
        """A descriptor of the network's gateway namespace, for the caller to close. Raises DataPlaneError."""
        return self._reconciler.plane.gateways.open(vni)

    async def dial(self, key: PodKey, port: int) -> socket.socket:
        """A connection to a port of the pod, as its network's gateway: no policy keeps it out. Raises OSError."""
        record = self._reconciler.records.get(key)
        if record is None:
            raise ConnectionRefusedError(f"{key} is not attached")
        plug = record.plugs[0].port()
        return await self._reconciler.dialing.connect(
            plug.vni, str(plug.gateways[0]), str(plug.addresses[0].ip), port
        )

    def present(self) -> dict[TenantKey, TenantNetworkView]:
        """The tenants whose networks are here."""
        return self._reconciler.views.present()

    def exit_of(self, tenant_key: TenantKey, network: str) -> GatewaySource | None:
        """Where connections of the node's own servers into the network begin, as clients of the world do; None: it is
        not here, or has no address for that (yet)."""
        for vni, view in self._reconciler.views.views.items():
            if (
                vni in self._reconciler.ready
                and view.tenant.tenant_key == tenant_key
                and view.backing.owner.name == network
            ):
                own = view.gateway_address(self._reconciler.config.node)
                if own is None:
                    return None
                return (
                    GatewaySource(vni, source6=str(own))
                    if own.version == 6
                    else GatewaySource(vni, source=str(own))
                )
        return None

    def environment(self, key: PodKey, pod: Object) -> dict[str, str]:
        """Variables that tell the pod of services."""
        tenant = self._reconciler.views.tenant(key.plane, key.tenant)
        return environment(pod, tenant.all(tenant.services) if tenant is not None else ())


def elsewhere(record: AttachmentRecord, namespace: Path, interface: str, container: str) -> AttachmentRecord:
    """The same in a namespace that somebody else has made."""
    plugs = record.plugs
    if interface:
        plugs = (replace(plugs[0], pod_interface=interface), *plugs[1:])
    attachment = replace(record.attachment, namespace_path=str(namespace))
    return replace(record, namespace="", attachment=attachment, plugs=plugs, container=container)
