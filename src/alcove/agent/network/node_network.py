"""Networks on this node, as the agent's other parts use them: attaches pods to their networks, connects to
them, and detaches them.

network = NodeNetwork(plane, planes, NodeNetworkConfig(node=…, address=…, …), api_server)
async with asyncio.TaskGroup() as tasks:
    tasks.create_task(network.run())
    attachment = await network.attach(key, pod)
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec.structs import replace

from alcove.agent.ingress.gateway_dialer import GatewaySource
from alcove.agent.network import host_ports
from alcove.agent.network.apiserver_proxy import Address
from alcove.agent.network.attachment import Attachment, NetworkNotReady
from alcove.agent.network.attachment_records import AttachmentRecord, VethRecord
from alcove.agent.network.desired_state import with_rules
from alcove.agent.network.drop_events import DropEvents
from alcove.agent.network.environment import environment
from alcove.agent.network.flood_events import FloodEvents
from alcove.agent.network.map_shares import NetworkNote
from alcove.agent.network.name_resolver import NameResolver
from alcove.agent.network.network_dialer import INNER_DEVICE, OUTER_DEVICE
from alcove.agent.network.packet_tracer import PacketTracer
from alcove.agent.network.reconciler import NetworkReconciler, NodeNetworkConfig
from alcove.agent.network.services import cluster_addresses
from alcove.agent.network.tenant_view import TenantNetworkView
from alcove.agent.network.traffic import TrafficReader
from alcove.agent.network.view import NetworkView
from alcove.agent.podkey import PodKey
from alcove.agent.trusted_tenants import is_ring0
from alcove.api import objects, quantity
from alcove.api.destinations import Address as IPAddress
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object
from alcove.api.quantity import QuantityError
from alcove.client.keys import PlaneId, TenantKey
from alcove.client.planes import Planes
from alcove.component.tasks import BackgroundTasks
from alcove.dataplane.drops import DropCount, DropReason
from alcove.dataplane.errors import DataPlaneError
from alcove.dataplane.model import TrafficClass, Veth
from alcove.dataplane.namespaces import path_of
from alcove.dataplane.node_dataplane import DataPlane
from alcove.dataplane.veths import port_name
from alcove.network import wellknown
from alcove.network.endpoints import PodNic
from alcove.network.owners import OwnerRef

ATTACH_SECONDS_MAX = 10.0
BANDWIDTH = ("mizar.com/egress-bandwidth", "kubernetes.io/egress-bandwidth")
CLASS = "mizar.com/network-class"
"""Annotations of a pod: its egress bandwidth in bits per second, and its traffic class."""
INTERFACE_LENGTH_MAX = 15
RULES_SECONDS_MAX = 3.0
"""How long a pod's start waits for its policy rules. They take long if its tenant has many, or if others' are computed before."""
_TRAFFIC_CLASSES = {
    "premium": TrafficClass.PREMIUM,
    "expedited": TrafficClass.EXPEDITED,
    "besteffort": TrafficClass.BEST_EFFORT,
}

__all__ = ["NodeNetwork", "NodeNetworkConfig", "class_of", "in_namespace", "rate_of", "veths_of"]


class NodeNetwork:
    def __init__(
        self,
        plane: DataPlane,
        planes: Planes,
        config: NodeNetworkConfig,
        api_server: Callable[[PlaneId], Address],
        note: NetworkNote = lambda *_: None,
        is_trusted: Callable[[PodKey], bool] = is_ring0,
    ) -> None:
        """`api_server` returns the address of a plane's API server, as seen from this node; `note` records
        events; `is_trusted` says whether a pod may have the node's network and ports."""
        self._is_trusted = is_trusted
        self._reconciler = NetworkReconciler(plane, planes, config, api_server, note)
        self.traffic = TrafficReader(self._reconciler)
        self.tracer = PacketTracer(self._reconciler)
        self.names = NameResolver(self._reconciler, self.tracer)
        self._drop_events = DropEvents(self._reconciler, note)
        self._flood_events = FloodEvents(self._reconciler, note)

    async def run(self) -> None:
        """Runs until cancelled; the data plane keeps working after that."""
        async with BackgroundTasks() as tasks:
            events = (
                tasks.restart("events of drops", self._drop_events.run),
                tasks.restart("events of floods", self._flood_events.run),
            )
            try:
                await self._reconciler.run()
            finally:
                for each in events:
                    each.cancel()

    def listen(self, on_change: Callable[[], None]) -> None:
        """Calls `on_change` whenever anything in `present` may have changed."""
        self._reconciler.listen(on_change)

    async def attach(
        self,
        key: PodKey,
        pod: Object,
        namespace: Path | None = None,
        *,
        interface: str = "",
        container: str = "",
    ) -> Attachment:
        """Attaches the pod to its network. Safe to repeat. `namespace` is the path of a network namespace
        that a container runtime created, with its names of the first interface and of the container; without
        it, the pod gets a new namespace.

        Raises NetworkNotReady.
        """
        if objects.get(pod, "spec", "hostNetwork"):
            return self._attach_to_host(key)
        result = await self._wait_until_ready(key, pod)
        record = result if isinstance(result, AttachmentRecord) else self._record(key, pod, *result)
        if namespace is not None:
            record = in_namespace(record, namespace, interface, container)
        target = record.namespace or Path(record.attachment.namespace_path)
        view = self._reconciler.views.views[record.plugs[0].vni]
        self._reconciler.records.put(record)
        self._reconciler.touch()
        await self._wait_for_rules(view, key)
        try:
            await self._reconciler.dataplane.attach_veths(
                target, tuple(with_rules(veth.to_veth(), record, view) for veth in record.plugs)
            )
        except (DataPlaneError, OSError) as error:
            raise NetworkNotReady(f"failed to create veth: {error}") from error
        return record.attachment

    async def _wait_for_rules(self, view: NetworkView, key: PodKey) -> None:
        """Waits for the pod's policy rules if they take long: its first packets would be lost. After a while it is
        attached without them, and denied everything until it has them."""
        deadline = asyncio.get_running_loop().time() + RULES_SECONDS_MAX
        while not view.rules.has_rules(view.backing, key):
            if not await self._reconciler.wait_for_change(deadline - asyncio.get_running_loop().time()):
                return

    def _attach_to_host(self, key: PodKey) -> Attachment:
        if not self._is_trusted(key):
            raise NetworkNotReady("hostNetwork is not allowed for pods of tenants")
        return Attachment("", (str(self._reconciler.config.address),))

    async def _wait_until_ready(
        self, key: PodKey, pod: Object
    ) -> "AttachmentRecord | tuple[list[PodNic], NetworkView]":
        """The existing record, or what a new one is made from. Raises NetworkNotReady, which says what is
        missing."""
        deadline = asyncio.get_running_loop().time() + ATTACH_SECONDS_MAX
        while True:
            result = self._check(key, pod)
            if not isinstance(result, str):
                return result
            if not await self._reconciler.wait_for_change(deadline - asyncio.get_running_loop().time()):
                raise NetworkNotReady(result)

    def _check(self, key: PodKey, pod: Object) -> "AttachmentRecord | tuple[list[PodNic], NetworkView] | str":
        """As `_wait_until_ready`, without waiting; the message if something is missing."""
        record = self._reconciler.records.get(key)
        if record is not None and all(veth.vni in self._reconciler.ready for veth in record.plugs):
            return record
        name = network_of(pod)
        nics = self._reconciler.views.ring0.nics(key.uid, OwnerRef(key.tenant, key.namespace, key.name))
        if not nics or len(nics) < self._nic_count(pod, nics[0].vpc):
            return f'waiting for an address in network "{name}"'
        vnis = {nic.vni for nic in nics}
        view = self._reconciler.views.views.get(nics[0].vni)
        if view is None or len(vnis) != 1 or view.backing.owner.name != name:
            return f'waiting for the VPC of network "{name}"'
        if view.backing.owner.tenant != key.tenant:
            return f'network "{name}" belongs to another tenant'
        if not vnis <= self._reconciler.ready:
            missing = "gateway" if view.is_synced() else "services and policies"
            return f'waiting for the {missing} of network "{name}"'
        return nics, view

    def _nic_count(self, pod: Object, vpc: str) -> int:
        """The number of NICs that the pod gets in a network of the VPC."""
        return len(self._reconciler.config.providers.of_vpc(vpc).interfaces(pod))

    def _record(self, key: PodKey, pod: Object, nics: list[PodNic], view: NetworkView) -> AttachmentRecord:
        veths = veths_of(self._reconciler.plane.settings.instance, key.directory_name, pod, nics)
        name = f"{self._reconciler.prefix}{key.directory_name}"
        attachment = Attachment(
            str(path_of(name)),
            tuple(str(address.ip) for veth in veths for address in veth.addresses),
            self._nameservers(view),
            self._reconciler.config.domain,
            self._reconciler.plane.mtu,
        )
        veth_records = tuple(VethRecord.from_veth(veth) for veth in veths)
        ports = host_ports.wanted(pod, is_trusted=self._is_trusted(key))
        return AttachmentRecord(
            key, view.backing.owner, name, nics[0].vpc, attachment, veth_records, host_ports=ports
        )

    def _nameservers(self, view: NetworkView) -> tuple[str, ...]:
        """The DNS service's address; before it has one, the gateway's, where the server listens."""
        name = wellknown.dns_name(view.backing.owner.name)
        service = view.tenant.service((wellknown.DNS_NAMESPACE, name))
        addresses = cluster_addresses(service, view.service_ranges()) if service is not None else []
        return tuple(str(each) for each in addresses or [gateway.ip for gateway in view.backing.gateways[:1]])

    async def detach(self, key: PodKey) -> None:
        """Detaches the pod and removes its veths and namespace. Idempotent."""
        record = self._reconciler.records.get(key)
        if record is None:
            return
        # The record is removed last: if the agent is killed before that, it detaches the pod again.
        self._reconciler.records.forget(key)
        try:
            await self._reconciler.dataplane.remove_veths(
                record.namespace, tuple(veth.name for veth in record.plugs)
            )
        except BaseException:
            self._reconciler.records.put(record)
            raise
        self._reconciler.records.drop(key)
        for veth in record.plugs:
            if (view := self._reconciler.views.views.get(veth.vni)) is not None:
                view.rules.forget(key)
        self._reconciler.touch()

    async def restore_addresses(self, key: PodKey) -> None:
        """Sets the addresses and routes in the pod's namespace again: gVisor removes them when it starts, and
        another sandbox in the same namespace needs them."""
        record = self._reconciler.records.get(key)
        if record is not None:
            target = record.namespace or Path(record.attachment.namespace_path)
            await self._reconciler.dataplane.configure_veths(
                target, tuple(veth.to_veth() for veth in record.plugs)
            )

    async def is_attached(self, key: PodKey) -> bool:
        """Whether the pod has a record, and its namespace and veths exist."""
        record = self._reconciler.records.get(key)
        if record is None:
            return False
        target = record.namespace or Path(record.attachment.namespace_path)
        veths = tuple(veth.to_veth() for veth in record.plugs)
        return await self._reconciler.dataplane.has_veths(target, veths)

    def drops(self) -> dict[DropReason, DropCount]:
        """Packets that the data plane has dropped since it was created, by reason."""
        return self._reconciler.plane.drops()

    def is_running(self) -> bool:
        """Whether pods can be attached."""
        return self._reconciler.is_running

    def records(self) -> list[AttachmentRecord]:
        return self._reconciler.records.all()

    def attached(self) -> list[PodKey]:
        """The agent's attached pods, without those of container runtimes, which detach theirs through CNI."""
        return [record.key for record in self._reconciler.records.all() if not record.container]

    def open_gateway(self, vni: int) -> int:
        """A descriptor of the network's gateway namespace, for the caller to close. Raises DataPlaneError."""
        return self._reconciler.plane.gateways.open(vni)

    async def dial(self, key: PodKey, port: int) -> socket.socket:
        """Connects to a port of the pod from its network's gateway, which policies always allow. Raises
        OSError."""
        record = self._reconciler.records.get(key)
        if record is None:
            raise ConnectionRefusedError(f"{key} is not attached")
        veth = record.plugs[0].to_veth()
        return await self._reconciler.dialer.connect(
            veth.vni, str(veth.gateways[0]), str(veth.addresses[0].ip), port
        )

    async def dial_from(
        self, tenant_key: TenantKey, network: str, target: IPAddress, port: int
    ) -> socket.socket:
        """Connects to an address as a pod of the network could: inside the network, or outside if its pods may
        connect there. Raises OSError."""
        view = self._ready_view(tenant_key, network)
        if view is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "the network is not on this node")
        node = self._reconciler.config.node
        if view.contains(target):
            own = view.gateway_address(node)
            source = own if own is not None and own.version == target.version else None
            source = source or view.backing.gateway(target.version)
            if source is None:
                raise OSError(errno.ENETUNREACH, "the network has no address of this family")
            return await self._reconciler.dialer.connect(
                view.backing.vni, str(source), str(target), port, INNER_DEVICE
            )
        # The gateway's rules drop what is not allowed. This check is for an error without a timeout.
        if not view.gateway(node).may_leave(target) or target in self.node_addresses():
            raise OSError(errno.ENETUNREACH, "pods of the network may not connect there")
        return await self._reconciler.dialer.connect(view.backing.vni, "", str(target), port, OUTER_DEVICE)

    def _ready_view(self, tenant_key: TenantKey, network: str) -> NetworkView | None:
        for vni, view in self._reconciler.views.views.items():
            is_named = view.tenant.tenant_key == tenant_key and view.backing.owner.name == network
            if is_named and vni in self._reconciler.ready:
                return view
        return None

    def present(self) -> dict[TenantKey, TenantNetworkView]:
        """The tenants that have networks on this node."""
        return self._reconciler.views.present()

    def node_addresses(self) -> set[IPAddress]:
        """The addresses of all nodes that are known, this one's included."""
        config, settings = self._reconciler.config, self._reconciler.plane.settings
        addresses: set[IPAddress] = {config.address, *self._reconciler.views.ring0.nodes().values()}
        return addresses | ({settings.node6} if settings.node6 is not None else set())

    def exit_of(self, tenant_key: TenantKey, network: str) -> GatewaySource | None:
        """The source for the node's servers (ingress) to connect into the network from; None if the network
        is not on this node, or its gateway has no address yet."""
        view = self._ready_view(tenant_key, network)
        address = view.gateway_address(self._reconciler.config.node) if view is not None else None
        if view is None or address is None:
            return None
        vni = view.backing.vni
        is_six = address.version == 6
        return GatewaySource(vni, source6=str(address)) if is_six else GatewaySource(vni, source=str(address))

    def environment(self, key: PodKey, pod: Object) -> dict[str, str]:
        """The pod's environment variables for services."""
        tenant = self._reconciler.views.tenant(key.tenant)
        return environment(pod, tenant.all(tenant.services) if tenant is not None else ())


def in_namespace(
    record: AttachmentRecord, namespace: Path, interface: str, container: str
) -> AttachmentRecord:
    """The record for a namespace that a container runtime created."""
    veths = record.plugs
    if interface:
        veths = (replace(veths[0], pod_interface=interface), *veths[1:])
    attachment = replace(record.attachment, namespace_path=str(namespace))
    return replace(record, namespace="", attachment=attachment, plugs=veths, container=container)


def veths_of(instance: str, uid: str, pod: Object, nics: Iterable[PodNic]) -> tuple[Veth, ...]:
    """One veth for each of the pod's NICs, in order; the first has the default route."""
    ordered = sorted(nics, key=lambda nic: nic.interface)
    return tuple(
        Veth(
            name=port_name(instance, f"{uid}/{nic.interface}"),
            vni=nic.vni,
            mac=nic.mac,
            addresses=(nic.address,),
            gateways=(nic.gateway,) if nic.gateway is not None and nic is ordered[0] else (),
            rate_bytes_per_second=rate_of(pod),
            traffic_class=class_of(pod),
            pod_interface=nic.interface[:INTERFACE_LENGTH_MAX],
        )
        for nic in ordered
    )


def rate_of(pod: Object) -> int:
    """The requested egress bandwidth in bytes per second; 0 for none or an invalid one."""
    annotations = objects.annotations(pod)
    for name in BANDWIDTH:
        if text := annotations.get(name):
            try:
                return max(0, quantity.whole(text)) // 8
            except QuantityError:
                return 0
    return 0


def class_of(pod: Object) -> TrafficClass:
    name = objects.annotations(pod).get(CLASS, "").lower().replace("-", "").replace("_", "")
    return _TRAFFIC_CLASSES.get(name, TrafficClass.EXPEDITED)
