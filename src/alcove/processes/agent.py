"""`alcove agent`: one process per node, for the pods of every plane that are bound to it.

Pods keep running when the process stops; the next one adopts them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import signal
import time
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import blake2s
from pathlib import Path
from typing import TYPE_CHECKING

import typer
import uvloop
from msgspec import Struct

from alcove.agent.client_certificate import ClientCertificate
from alcove.agent.metrics import AgentMetrics
from alcove.agent.node import NodeStatusManager
from alcove.agent.pod_source import PodSource
from alcove.agent.podkey import PodKey
from alcove.agent.pods.admission import CachedNode, NodeAdmission
from alcove.agent.pods.pod_workers import Found, PodWorkers, SiteOf
from alcove.agent.pods.reservations import NodeReservations
from alcove.agent.pods.status_writer import StatusWriter
from alcove.agent.pods.worker_context import WARNING, Note, WorkerContext
from alcove.agent.pressure import StorageBounds
from alcove.api.destinations import Network
from alcove.api.ids import TenantId
from alcove.client import kubeconfig
from alcove.client.errors import BadKubeconfig
from alcove.client.events import EventRecorder, PendingEvent
from alcove.client.keys import HOME, PlaneId
from alcove.client.kubeconfig import KubeconfigUser
from alcove.client.plane_joining import PlaneJoining
from alcove.client.planes import Planes
from alcove.client.pool import DEDICATED, HttpPool, RequestLimits
from alcove.component.tasks import BackgroundTasks
from alcove.processes.memory import keep_trimmed
from alcove.processes.open_files import raise_open_files_limit
from alcove.processes.priorities import COMPONENT_RAISED_BY, raise_thread_priority
from alcove.processes.probes import serve_probes

if TYPE_CHECKING:
    from alcove.agent.network.otlp_sender import OtlpCollector

log = logging.getLogger(__name__)

USER_AGENT = "alcove-agent"
COMPONENT = "kubelet"
"""Event source that Kubernetes users expect for pods on nodes."""
PORT = 10250
BPF_ROOT = Path("/sys/fs/bpf")
SWEEP_SECONDS = 2.0


class AgentConfig(Struct, frozen=True, kw_only=True):
    kubeconfig: Path
    name: str
    data: Path
    address: str = "127.0.0.1"
    underlay: str = ""
    port: int = PORT
    is_hollow: bool = False
    has_hollow_tenants: bool = False
    """Make tenants' pods hollow if their runtime fails its trial; otherwise they are refused."""
    count: int = 1
    """Number of hollow nodes in this process, for scale tests: `NAME-0`, `NAME-1`, and so on."""
    sharing: int = 1
    """Number of nodes on this machine: each advertises its fraction of the capacity."""
    instance: str = ""
    bpf_root: Path = BPF_ROOT
    ingress_ports: tuple[int, int] = (80, 443)
    """HTTP and HTTPS ports of tenants' ingresses; 0 disables one."""
    planes: Mapping[TenantId, Path] = {}
    """Kubeconfigs of dedicated tenants' planes."""
    planes_directory: Path | None = None
    """Directory of further planes' kubeconfigs, followed while the process runs."""
    insecure_registries: tuple[str, ...] = ()
    """Registries that are used without TLS, at any address."""
    registry_networks: tuple[Network, ...] = ()
    """Networks that are not public, but in which tenants' registries may be."""
    dns_upstreams: tuple[str, ...] = ()
    """DNS servers for external names in tenants' networks; if empty, those in resolv.conf."""
    routes_ring0: bool = False
    """Give the node routes to the addresses of ring0's default network."""
    storage_bounds: StorageBounds = StorageBounds()
    """What a pod may have on the node's disk without requesting it."""
    flows_file: Path | None = None
    """Where the flows of all tenants are written, as JSON lines; None to write none."""
    flows_collector: OtlpCollector | None = None
    """The OpenTelemetry collector that the flows of all tenants are sent to; None to send none."""
    usage_interval_seconds: int = 60
    """Time between readings of what tenants use."""
    probe_port: int | None = None
    """Loopback port for /metrics, /healthz and /readyz. None to serve nothing."""
    drains_on_stop: bool = False
    """Stop all pods before the process exits, as on a machine shutdown."""

    @property
    def nodes(self) -> list[str]:
        return [self.name] if self.count == 1 else [f"{self.name}-{each}" for each in range(self.count)]


def instance_of(node: str) -> str:
    """Default instance name, four characters from the node's name; it keeps nodes on one machine apart."""
    return blake2s(node.encode(), digest_size=2).hexdigest()


class AgentProcess:
    """Services that hollow and real nodes share: planes, events, pod status writers, background tasks."""

    def __init__(
        self,
        config: AgentConfig,
        planes: Planes,
        tasks: BackgroundTasks,
        users: dict[PlaneId, KubeconfigUser],
        metrics: AgentMetrics,
    ) -> None:
        self.config = config
        self.planes = planes
        self.tasks = tasks
        self.users = users
        # Separate queues: Warning events must not wait behind Normal ones.
        self.warning_events, self._normal_events = (
            EventRecorder(planes.client, time.time),
            EventRecorder(planes.client, time.time),
        )
        self.workers_by_node: dict[str, PodWorkers] = {}
        self.planes_known = asyncio.Event()
        """Set when all planes have been joined that there were at the start."""
        metrics.pods = lambda: sum(len(each) for each in self.workers_by_node.values())
        self.metrics = metrics
        self.on_plane: list[Callable[[PlaneId, KubeconfigUser | None], None]] = [self._add_user]
        """Callbacks for planes that join (with their user) or leave (None) later."""

    def _add_user(self, plane: PlaneId, user: KubeconfigUser | None) -> None:
        if user is not None:
            self.users[plane] = user

    def plane_changed(self, plane: PlaneId, user: KubeconfigUser | None) -> None:
        for each in self.on_plane:
            each(plane, user)

    def add_workers(
        self,
        node: str,
        allocatable: Mapping[str, str],
        executor_for: SiteOf,
        found: Found,
        cached_node: CachedNode | None = None,
        reservations: NodeReservations | None = None,
    ) -> PodWorkers:
        """Without `cached_node`, pods are admitted whatever they select and tolerate; without `reservations`, those of
        dedicated planes are admitted like others."""
        context = WorkerContext(
            addresses=(self.config.address,),
            note=self.note(node),
            admission=NodeAdmission(allocatable, cached_node, reservations),
            wall=time.time,
            clock=time.monotonic,
        )
        workers = PodWorkers(executor_for, self._status_writer, context, found)
        self.workers_by_node[node] = workers
        return workers

    def _status_writer(self, key: PodKey) -> StatusWriter:
        return StatusWriter(key, self.planes.tenant_client)

    def note(self, node: str) -> Note:
        def note(key: PodKey, type_: str, reason: str, message: str) -> None:
            involved = {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": key.namespace,
                "name": key.name,
                "uid": key.uid,
            }
            plane = self.planes.serving(key.tenant)
            event = PendingEvent(plane, key.tenant, involved, type_, reason, message, COMPONENT, node)
            (self.warning_events if type_ == WARNING else self._normal_events).record(event)

        return note

    def start(self, managers: list[NodeStatusManager]) -> PodSource:
        """Starts watching pods and writing node statuses."""
        for recorder in (self.warning_events, self._normal_events):
            self.tasks.restart("event recorder", recorder.run)
        source = PodSource(
            self.planes, {name: workers.offer for name, workers in self.workers_by_node.items()}
        )
        for name, workers in self.workers_by_node.items():
            self.tasks.fatal(f"pods of {name}", workers.run())
            self.tasks.restart(f"leftover pods of {name}", partial(self._clean_up, workers, source))
        for manager in managers:
            self.tasks.restart("node status", partial(_run_status_manager, manager, len(managers)))
        return source

    async def _clean_up(self, workers: PodWorkers, source: PodSource) -> None:
        # The pods of a plane that has not been joined yet would look like those of a plane that has left.
        await self.planes_known.wait()
        while workers.has_left:
            await workers.sweep(source.is_synced)
            await asyncio.sleep(SWEEP_SECONDS)


async def _run_status_manager(manager: NodeStatusManager, count: int) -> None:
    """Runs the manager after a random delay, so that many nodes do not write their status at the same
    time."""
    await asyncio.sleep(random.random() * min(10.0, count / 50) if count > 1 else 0.0)
    await manager.run()


async def run(config: AgentConfig, ready: Callable[[], None] = lambda: None) -> None:
    """Runs until cancelled; `ready` is called once all nodes are registered."""
    from alcove.processes.nodes import hollow, real
    from alcove.processes.plane_follower import (
        DirectoryPlanes,
        PlaneFollower,
        SwappableTransport,
        TenantPlanes,
        follow_file,
    )

    users = {HOME: kubeconfig.load(config.kubeconfig)}
    users |= {PlaneId(tenant): kubeconfig.load(path) for tenant, path in config.planes.items()}
    limits = {plane: RequestLimits() if plane == HOME else DEDICATED for plane in users}
    transports = {plane: SwappableTransport(HttpPool(user, limits[plane])) for plane, user in users.items()}
    config.data.mkdir(parents=True, exist_ok=True, mode=0o711)
    # Container logs are readable by root only.
    (config.data / "logs").mkdir(exist_ok=True, mode=0o700)
    metrics, is_registered = AgentMetrics(), asyncio.Event()
    try:
        async with (
            serve_probes(config.probe_port, metrics.text, is_registered.is_set),
            Planes(user_agent=USER_AGENT) as planes,
            BackgroundTasks() as tasks,
        ):
            joining = PlaneJoining(planes, tasks)
            for plane, transport in transports.items():
                (planes.join if plane == HOME else joining.join)(plane, transport)
                path = config.kubeconfig if plane == HOME else config.planes[TenantId(plane)]
                tasks.restart(f"kubeconfig of {plane}", partial(follow_file, path, transport, limits[plane]))
            tasks.restart("memory trimming", keep_trimmed)
            certificate = ClientCertificate(config.kubeconfig, config.name, planes.client(HOME))
            tasks.restart("client certificate", certificate.keep)
            metrics.certificate_ends = lambda: certificate.ends
            agent = AgentProcess(config, planes, tasks, users, metrics)
            if config.planes_directory is not None:
                source = DirectoryPlanes(config.planes_directory)
                follower = PlaneFollower(source, joining, agent.plane_changed)
                await follower.poll()
                tasks.fatal("planes folder", follower.run())
            # Not awaited: pods are looked after also while ring0's API server cannot be reached.
            served = PlaneFollower(TenantPlanes(planes, config.kubeconfig), joining, agent.plane_changed)
            agent.planes_known = served.polled
            tasks.fatal("planes of tenants", served.run())
            managers = None if config.is_hollow else await real.start(agent)
            for manager in managers if managers is not None else hollow.start(agent):
                await manager.registered.wait()
            is_registered.set()
            ready()
            if config.drains_on_stop:
                await _until_drained(agent)
    finally:
        for transport in transports.values():
            await transport.close()


async def _until_drained(agent: AgentProcess) -> None:
    """Waits for cancellation, then stops all pods before it propagates."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        for workers in agent.workers_by_node.values():
            await workers.drain()
        raise


def run_agent(config: AgentConfig) -> str:
    """Runs until SIGINT or SIGTERM; returns an error message, or an empty string."""

    async def until_signal() -> None:
        task = asyncio.create_task(run(config, lambda: typer.echo("ready")))
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    raise_open_files_limit()
    raise_thread_priority(COMPONENT_RAISED_BY)
    try:
        uvloop.run(until_signal())
    except BadKubeconfig as error:
        return str(error)
    except OSError as error:
        return f"cannot serve probes on port {config.probe_port}: {error.strerror or error}"
    return ""
