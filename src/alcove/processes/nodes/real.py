"""A real node: wires proven runtimes, the data plane, images and volumes to the pod workers.

If the machine lacks a requirement, the node is hollow and its status says why.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from alcove.agent import hardware
from alcove.agent.cgroups import Cgroups
from alcove.agent.cni.server import CniServer
from alcove.agent.housekeeping import NodeHousekeeping
from alcove.agent.images.model import ToolMissing
from alcove.agent.images.owners import ImageOwners
from alcove.agent.images.pull_policy import ImagePuller
from alcove.agent.images.snapshots import OverlaySnapshots
from alcove.agent.images.store import ImageStore, node_status_images
from alcove.agent.images.tools import ImageTools
from alcove.agent.ingress import start as ingress
from alcove.agent.ingress.traffic import IngressTraffic
from alcove.agent.logs.rotation import LogRotation
from alcove.agent.lookup import ObjectLookup
from alcove.agent.metering.charges import NodeCharges, boot_id
from alcove.agent.metering.tenant_meter import MeterSources, TenantMeter
from alcove.agent.metering.usage_reporter import UsageReporter
from alcove.agent.network.flow_follower import RingFollower
from alcove.agent.network.map_shares import NetworkNote
from alcove.agent.network.node_network import NodeNetwork
from alcove.agent.network.start import start_network
from alcove.agent.node import NodeDescription, NodeStatusManager
from alcove.agent.node import allocatable as allocatable_of
from alcove.agent.pod_storage import PodStorageMeter
from alcove.agent.podkey import PodKey
from alcove.agent.pods import container_labels, node_services, user_namespaces
from alcove.agent.pods.admission import CachedNode
from alcove.agent.pods.environment import ContainerEnvironment
from alcove.agent.pods.hollow_executor import HollowPodExecutor
from alcove.agent.pods.node_services import IdRanges, NodeServices, PodDirectories
from alcove.agent.pods.pod_workers import Found
from alcove.agent.pods.real_executor import RealPodExecutor
from alcove.agent.pods.reservations import NodeReservations
from alcove.agent.pods.running_pods import RunningPods
from alcove.agent.pods.runtime_classes import RuntimeClasses
from alcove.agent.runtime import seccomp, security
from alcove.agent.runtime.base import ContainerRuntime, ContainerStatus, SpecRefused
from alcove.agent.runtime.canary import Canary
from alcove.agent.runtime.handlers import RuntimeHandlers, prove_all, prove_more
from alcove.agent.runtime.hollow import HANDLER as HOLLOW_HANDLER
from alcove.agent.runtime.hollow import HollowRuntime
from alcove.agent.runtime.resources import NodeCapacity
from alcove.agent.server.callers import AuthorizedCallers
from alcove.agent.server.server import AgentServer
from alcove.agent.serving_certificate import ServingCertificate
from alcove.agent.tenant_threads import TenantThreads
from alcove.agent.trusted_tenants import TrustedTenants
from alcove.agent.volumes.volumes import PodVolumes
from alcove.agent.volumes.wiper import VolumeWiper
from alcove.api.objects import Object
from alcove.client.events import WARNING, PendingEvent
from alcove.client.keys import HOME, PlaneId, TenantKey
from alcove.client.kubeconfig import KubeconfigUser
from alcove.dataplane.errors import DataPlaneError
from alcove.dns import resolvconf
from alcove.processes.agent import COMPONENT, AgentProcess
from alcove.processes.nodes import flow_exports, hollow, reboots
from alcove.processes.nodes.plane_nodes import PlaneNodes
from alcove.processes.open_files import open_files_max

log = logging.getLogger(__name__)

RESOLV_CONF = Path("/etc/resolv.conf")
CHARGES_FILE = "usage.json"
CANARY_AGAIN_SECONDS = 15.0
CANARY_AGAIN_SECONDS_MAX = 600.0


class NodeUnable(Exception):
    """This machine cannot run pods; the message says why."""


async def start(agent: AgentProcess) -> list[NodeStatusManager]:
    config = agent.config
    try:
        node = await _Node.make(agent)
    except NodeUnable as error:
        return hollow.start(agent, str(error))
    found = await node.found()
    client = agent.planes.client(HOME)
    cached_node = CachedNode(client, config.name)
    reservations = NodeReservations(client, config.name, agent.planes.serving)
    workers = agent.add_workers(
        config.name, allocatable_of(node.facts()), node.executor, found, cached_node, reservations
    )
    services = node.services
    storage = PodStorageMeter(services.folders, services.volumes, services.snapshots)
    housekeeping = NodeHousekeeping(workers, services, node.images, storage, config.storage_bounds)
    manager = NodeStatusManager(
        node.facts(), client, time.time, housekeeping.pressures, lambda: node_status_images(node.images.all())
    )
    pods = RunningPods(workers, node.services.folders)
    wiper = VolumeWiper(node.services.volumes, agent.planes, config.name)
    cni = CniServer(node.network, agent.planes, config.data / "network" / "cni.sock")
    agent.tasks.fatal("network", node.network.run())
    agent.tasks.fatal("CNI server", cni.run())
    agent.tasks.fatal("node API server", _serve(agent, pods, node.network, manager.registered))
    agent.tasks.fatal("ingress", _serve_ingress(agent, node.network, node.relayed))
    flow_exports.start(agent, node.network.traffic)
    reporter = UsageReporter(services.meter, client, config.name, config.data / CHARGES_FILE)
    reporter.interval_seconds = config.usage_interval_seconds
    agent.tasks.restart("usage of tenants", reporter.run)
    agent.tasks.restart("log rotation", partial(LogRotation().run, pods))
    agent.tasks.restart("eviction and image collection", housekeeping.run)
    agent.tasks.restart("volume wiping", wiper.run)
    agent.tasks.restart("image owners", ImageOwners(node.images, agent.planes).run)
    agent.tasks.restart("runtime canaries", partial(node.prove_more, manager))
    agent.metrics.drops = node.network.drops
    agent.metrics.networks = node.network.traffic.counts
    agent.start([manager])
    PlaneNodes(agent, manager)
    return [manager]


async def _serve_ingress(agent: AgentProcess, network: NodeNetwork, relayed: IngressTraffic) -> None:
    config = agent.config
    plain = ingress.bind(config.address, config.ingress_ports[0])
    secure = ingress.bind(config.address, config.ingress_ports[1])
    note = ingress.noting(agent.warning_events, config.name)
    await ingress.serve(agent.planes, network, note, plain, secure, traffic=relayed)


async def _serve(
    agent: AgentProcess, pods: RunningPods, network: NodeNetwork, registered: asyncio.Event
) -> None:
    """Serves logs, exec, tunnels and metrics to the API servers of all planes, once the node has a serving
    certificate, which it gets for the addresses in its Node object."""
    config = agent.config
    await registered.wait()
    serving = ServingCertificate(config.data, config.name, config.address, agent.planes.client(HOME))
    await serving.ready()
    callers = AuthorizedCallers(serving.path)

    def on_plane_change(plane: PlaneId, user: KubeconfigUser | None) -> None:
        authority = b"" if user is None else user.ca_pem if user.caller_ca_pem is None else user.caller_ca_pem
        if user is None or not authority:
            callers.distrust(plane)
            return
        try:
            callers.trust(plane, authority, user.caller_name)
        except (ValueError, ssl.SSLError) as error:
            log.warning("invalid authority of a plane's callers", extra={"plane": plane, "error": str(error)})

    for plane, user in agent.users.items():
        on_plane_change(plane, user)

    agent.on_plane.append(on_plane_change)
    async with AgentServer(
        pods,
        callers,
        config.address,
        config.port,
        node=config.name,
        metrics=agent.metrics.text,
        dial_network=network.dial_from,
        flows=network.traffic.flows,
        follow_flows=partial(RingFollower, network.traffic),
        trace=network.tracer.trace,
        look_up=network.names.look_up,
        find_capture=network.traffic.capture_place,
    ):
        await serving.keep(callers.reload)


class _Node:
    def __init__(
        self,
        agent: AgentProcess,
        handlers: RuntimeHandlers,
        services: NodeServices,
        images: ImageStore,
        machine: hardware.Hardware,
        proving: tuple[Path, Cgroups, Canary],
        relayed: IngressTraffic,
    ) -> None:
        """`relayed` counts what ingresses relay."""
        self._proving = proving
        self.relayed = relayed
        self._agent = agent
        self._handlers = handlers
        self.services = services
        self.images = images
        self._hardware = machine
        self._hollow = HollowRuntime()
        self._runtimes: dict[PodKey, ContainerRuntime] = {}
        """Runtimes of adopted pods: a running pod stays with the runtime that started it."""

    @property
    def network(self) -> NodeNetwork:
        network = self.services.network
        assert isinstance(network, NodeNetwork)
        return network

    @classmethod
    async def make(cls, agent: AgentProcess) -> _Node:
        config = agent.config
        if os.geteuid() != 0:
            raise NodeUnable("running containers requires root")
        cgroups = Cgroups.of_machine()
        machine = hardware.part_of(hardware.read(config.data, cgroups), config.sharing)
        tools = ImageTools(config.insecure_registries, config.registry_networks)
        images = ImageStore(config.data / "images", tools)
        try:
            pause, profile = images.add_builtin(), seccomp.load()
        except (ToolMissing, SpecRefused) as error:
            raise NodeUnable(str(error)) from error
        folder = _private_directory(config.data / "runtimes")
        reboots.begin(folder)
        canary = Canary(pause.rootfs, folder / "canary", f"/alcove/{config.instance}/canary")
        handlers = await _proven(folder, cgroups, canary)
        trusted = TrustedTenants(agent.planes)
        network = _network(agent, trusted)
        tools.dialer.cluster_addresses = network.node_addresses
        facts = _facts(agent, machine, handlers)
        allocatable = allocatable_of(facts)
        lookup = ObjectLookup(agent.planes)
        pulls, threads = ImagePuller(images, lookup), TenantThreads()
        group, relayed = f"/alcove/{config.instance}", IngressTraffic()
        volumes = PodVolumes(
            config.data / "volumes",
            lookup,
            time.time,
            node=config.name,
            allocatable=lambda: allocatable,
            image=pulls.ensure,
            threads=threads,
            is_trusted=trusted.includes,
        )
        services = NodeServices(
            node=config.name,
            folders=PodDirectories(config.data),
            group=group,
            classes=RuntimeClasses(agent.planes, handlers, is_trusted=trusted.includes),
            trusted=trusted,
            network=network,
            volumes=volumes,
            threads=threads,
            pulls=pulls,
            snapshots=OverlaySnapshots(config.data / "snapshots"),
            cgroups=cgroups,
            meter=_meter(config.data / CHARGES_FILE, cgroups, group, network, volumes, relayed),
            environment=ContainerEnvironment(lookup, allocatable),
            seccomp=profile,
            has_apparmor=hardware.has_apparmor(),
            machine=NodeCapacity(machine.memory_bytes, _oom_score_floor(), open_files_max()),
            capabilities=_held_capabilities(),
            pause=pause,
            addresses=(config.address,),
            resolv_conf=_node_resolv_conf(),
            ids=IdRanges(config.data / "pods"),
            note=agent.note(config.name),
        )
        return cls(agent, handlers, services, images, machine, (folder, cgroups, canary), relayed)

    def facts(self) -> NodeDescription:
        return _facts(self._agent, self._hardware, self._handlers)

    async def prove_more(self, manager: NodeStatusManager) -> None:
        """Retries runtimes whose canary failed: the machine may have been too busy."""
        delay = CANARY_AGAIN_SECONDS
        while self._handlers.failed:
            await asyncio.sleep(delay)
            delay = min(delay * 2, CANARY_AGAIN_SECONDS_MAX)
            if await prove_more(self._handlers, *self._proving):
                manager.facts = self.facts()

    async def found(self) -> Found:
        """Running containers by pod. Other leftovers of pods are removed."""
        found: Found = {}
        for runtime in self._handlers.proven.values():
            for status in await runtime.list():
                labels = container_labels.read(status.labels)
                if labels is not None:
                    found.setdefault(labels.key, []).append(status)
                    self._runtimes[labels.key] = runtime
        for key in (*self.services.network.attached(), *self.services.volumes.ids()):
            found.setdefault(key, [])
        removed = node_services.sweep(self.services, found.keys())
        self.services.meter.keep_pods(found)
        log.info("adopted running pods", extra={"pods": len(found), "swept": len(removed)})
        return found

    def executor(self, key: PodKey, found: Sequence[ContainerStatus]) -> RealPodExecutor | HollowPodExecutor:
        if (
            not found
            and not self.services.trusted.includes(key)
            and _has_hollow_tenants(self._agent, self._handlers)
        ):
            return HollowPodExecutor(key, self._hollow, self.network)
        runtime = self._runtimes.pop(key, None)
        default = next(iter(self._handlers.proven.values()))
        return RealPodExecutor(key, self.services, runtime or default, found)


def _meter(
    path: Path,
    cgroups: Cgroups,
    group: str,
    network: NodeNetwork,
    volumes: PodVolumes,
    relayed: IngressTraffic,
) -> TenantMeter:
    def volume_bytes() -> dict[str, int]:
        sizes: dict[str, int] = {}
        for volume in volumes.local.all():
            sizes[volume.tenant] = sizes.get(volume.tenant, 0) + volume.size_bytes
        return sizes

    sources = MeterSources(
        cgroups=cgroups,
        tenant_group=lambda key: f"{group}/{key.tenant_directory_name}",
        networks=network.traffic.meters,
        volumes=partial(asyncio.to_thread, volume_bytes),
        ingress=relayed.take,
    )
    return TenantMeter(NodeCharges.open(path, boot_id()), sources)


async def _proven(folder: Path, cgroups: Cgroups, canary: Canary) -> RuntimeHandlers:
    handlers = await prove_all(folder, cgroups, canary)
    if not handlers.proven:
        message = "; ".join(f"{name}: {reason}" for name, reason in handlers.failed.items())
        raise NodeUnable(f"no container runtime works on this machine: {message or 'none is installed'}")
    return handlers


def _network(agent: AgentProcess, trusted: TrustedTenants) -> NodeNetwork:
    config = agent.config

    def api_server(plane: PlaneId) -> tuple[str, int]:
        server = urlsplit(agent.users[plane].server)
        return server.hostname or "", server.port or 443

    try:
        return start_network(
            agent.planes,
            node=config.name,
            address=config.address,
            underlay=config.underlay,
            folder=config.data / "network",
            instance=config.instance,
            api_server=api_server,
            bpf_root=config.bpf_root,
            upstreams=config.dns_upstreams,
            note=_network_note(agent),
            is_trusted=trusted.includes,
            routes_ring0=config.routes_ring0,
        )
    except (DataPlaneError, OSError, ValueError) as error:
        raise NodeUnable(f"the data plane does not work on this machine: {error}") from error


def _network_note(agent: AgentProcess) -> NetworkNote:
    """A callback that records warning events of objects that have no effect on this node."""

    def note(tenant_key: TenantKey, involved: Object, reason: str, message: str) -> None:
        plane, tenant = tenant_key.plane, tenant_key.tenant
        agent.warning_events.record(
            PendingEvent(plane, tenant, involved, WARNING, reason, message, COMPONENT, agent.config.name)
        )

    return note


def _facts(agent: AgentProcess, machine: hardware.Hardware, handlers: RuntimeHandlers) -> NodeDescription:
    config = agent.config
    offered: list[Object] = [
        {
            "name": name,
            "features": {"userNamespaces": True} if user_namespaces.can_map(name, config.data) else {},
        }
        for name in handlers.names()
    ]
    runtime = f"alcove://{'+'.join(sorted(handlers.proven))}"
    if is_hollow_for_tenants := _has_hollow_tenants(agent, handlers):
        offered.append({"name": HOLLOW_HANDLER, "features": {}})
    return NodeDescription(
        name=config.name,
        addresses=(config.address,),
        port=config.port,
        hardware=machine,
        handlers=offered,
        runtime=runtime,
        is_hollow=is_hollow_for_tenants,
        hollow_because="only tenants' pods: gVisor failed its trial" if is_hollow_for_tenants else "",
    )


def _has_hollow_tenants(agent: AgentProcess, handlers: RuntimeHandlers) -> bool:
    """Whether tenants' pods are hollow on this node."""
    return agent.config.has_hollow_tenants and not handlers.runs_tenants()


def _node_resolv_conf() -> resolvconf.ResolvConf:
    return resolvconf.parse(RESOLV_CONF.read_text() if RESOLV_CONF.exists() else "")


def _private_directory(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def _oom_score_floor() -> int:
    return int(Path("/proc/self/oom_score_adj").read_text())


def _held_capabilities() -> tuple[str, ...]:
    fields = dict(line.split(":\t") for line in Path("/proc/self/status").read_text().splitlines())
    return security.held(int(fields["CapBnd"], 16))
