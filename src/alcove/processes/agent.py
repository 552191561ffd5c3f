"""`alcove agent`: one process per node, for the pods of every plane that are bound to it.

Pods keep running when it stops, and the one that starts next finds them.
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

import typer
import uvloop
from msgspec import Struct

from alcove.agent.client_certificate import ClientCertificate
from alcove.agent.metrics import AgentMetrics
from alcove.agent.node import NodeStatusManager
from alcove.agent.pod_source import PodSource
from alcove.agent.podkey import PodKey
from alcove.agent.pods.admission import NodeAdmission
from alcove.agent.pods.pod_workers import Found, PodWorkers, SiteOf
from alcove.agent.pods.status_writer import StatusWriter
from alcove.agent.pods.worker_context import WARNING, Note, WorkerContext
from alcove.api.ids import TenantId
from alcove.client import kubeconfig
from alcove.client.errors import BadKubeconfig
from alcove.client.events import EventRecorder, PendingEvent
from alcove.client.keys import HOME, PlaneId
from alcove.client.kubeconfig import KubeconfigUser
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.component.tasks import BackgroundTasks
from alcove.processes.memory import keep_trimmed
from alcove.processes.probes import serve_probes

log = logging.getLogger(__name__)

USER_AGENT = "alcove-agent"
COMPONENT = "kubelet"
"""As Kubernetes' users know the one who tells of pods on nodes."""
PORT = 10250
BPF_ROOT = Path("/sys/fs/bpf")
STARTS_MAX = 6
WRITES_MAX = 16
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
    """Where the runtime that tenants get fails its trial, their pods are hollow; otherwise they are refused."""
    count: int = 1
    """So many hollow nodes in this one process, for tests of size: `NAME-0`, `NAME-1`, and so on."""
    sharing: int = 1
    """So many nodes are on this machine: each promises its part of it."""
    instance: str = ""
    bpf_root: Path = BPF_ROOT
    ingress_ports: tuple[int, int] = (80, 443)
    """Where the node serves tenants' ingresses by HTTP and HTTPS; 0: it does not."""
    planes: Mapping[TenantId, Path] = {}
    """Kubeconfigs of dedicated tenants' planes."""
    planes_folder: Path | None = None
    """Where kubeconfigs of further planes come and go."""
    insecure_registries: tuple[str, ...] = ()
    """Registries without TLS."""
    probe_port: int | None = None
    """Serves /metrics, /healthz and /readyz on loopback; None: nothing is served."""
    drains_on_stop: bool = False
    """Told to stop, it ends its pods first, as a machine that is being turned off does."""

    @property
    def nodes(self) -> list[str]:
        return [self.name] if self.count == 1 else [f"{self.name}-{each}" for each in range(self.count)]


def instance_of(node: str) -> str:
    """What tells a node's things from those of others on the machine, when nobody says: four letters from its name."""
    return blake2s(node.encode(), digest_size=2).hexdigest()


class AgentProcess:
    """What hollow and real nodes have in common: planes, events, pods' statuses, and the tasks of the process."""

    def __init__(
        self,
        config: AgentConfig,
        planes: Planes,
        tasks: BackgroundTasks,
        accounts: dict[PlaneId, KubeconfigUser],
        metrics: AgentMetrics,
    ) -> None:
        self.config = config
        self.planes = planes
        self.tasks = tasks
        self.accounts = accounts
        # What goes wrong is told before what went well: each has a queue of its own.
        self.troubles, self._news = (
            EventRecorder(planes.client, time.time),
            EventRecorder(planes.client, time.time),
        )
        self._writes = asyncio.Semaphore(WRITES_MAX)
        self.rosters: dict[str, PodWorkers] = {}
        metrics.pods = lambda: sum(len(each) for each in self.rosters.values())
        self.metrics = metrics
        self.on_plane: list[Callable[[PlaneId, KubeconfigUser | None], None]] = [self._hear]
        """Called with every plane that comes later, or goes."""

    def _hear(self, plane: PlaneId, user: KubeconfigUser | None) -> None:
        if user is not None:
            self.accounts[plane] = user

    def plane_changed(self, plane: PlaneId, user: KubeconfigUser | None) -> None:
        for each in self.on_plane:
            each(plane, user)

    def roster(self, node: str, allocatable: Mapping[str, str], site_of: SiteOf, left: Found) -> PodWorkers:
        around = WorkerContext(
            addresses=(self.config.address,),
            note=self.note(node),
            admission=NodeAdmission(allocatable),
            starts=asyncio.Semaphore(STARTS_MAX),
            wall=time.time,
            clock=time.monotonic,
        )
        workers = PodWorkers(site_of, self._telling, around, left)
        self.rosters[node] = workers
        return workers

    def _telling(self, key: PodKey) -> StatusWriter:
        return StatusWriter(key, self.planes.client, self._writes)

    def note(self, node: str) -> Note:
        def note(key: PodKey, type_: str, reason: str, message: str) -> None:
            involved = {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": key.namespace,
                "name": key.name,
                "uid": key.uid,
            }
            told = PendingEvent(key.plane, key.tenant, involved, type_, reason, message, COMPONENT, node)
            (self.troubles if type_ == WARNING else self._news).record(told)

        return note

    def start(self, keepers: list[NodeStatusManager]) -> PodSource:
        """Pods are heard of, and nodes told of, from now on."""
        for recorder in (self.troubles, self._news):
            self.tasks.restart("event recorder", recorder.run)
        source = PodSource(self.planes, {name: workers.offer for name, workers in self.rosters.items()})
        for name, workers in self.rosters.items():
            self.tasks.fatal(f"pods of {name}", workers.run())
            self.tasks.restart(f"leftover pods of {name}", partial(_sweep, workers, source))
        for keeper in keepers:
            self.tasks.restart("node status", partial(_keep, keeper, len(keepers)))
        return source


async def _keep(keeper: NodeStatusManager, count: int) -> None:
    """Many nodes do not tell of themselves at the same moment."""
    await asyncio.sleep(random.random() * min(10.0, count / 50) if count > 1 else 0.0)
    await keeper.run()


async def _sweep(workers: PodWorkers, source: PodSource) -> None:
    while workers.has_left:
        await workers.sweep(source.is_synced)
        await asyncio.sleep(SWEEP_SECONDS)


async def run(config: AgentConfig, ready: Callable[[], None] = lambda: None) -> None:
    """Runs until cancelled; `ready` is called once the API knows the nodes."""
    from alcove.processes.nodes import hollow, real
    from alcove.processes.plane_follower import PlaneFollower, SwappableTransport, follow_file

    accounts = {HOME: kubeconfig.load(config.kubeconfig)}
    accounts |= {PlaneId(tenant): kubeconfig.load(path) for tenant, path in config.planes.items()}
    ways = {plane: SwappableTransport(HttpPool(user)) for plane, user in accounts.items()}
    config.data.mkdir(parents=True, exist_ok=True, mode=0o711)
    # What tenants' containers say is nobody's business on the machine.
    (config.data / "logs").mkdir(exist_ok=True, mode=0o700)
    metrics, is_registered = AgentMetrics(), asyncio.Event()
    try:
        async with (
            serve_probes(config.probe_port, metrics.text, is_registered.is_set),
            Planes(user_agent=USER_AGENT) as planes,
            BackgroundTasks() as tasks,
        ):
            for plane, way in ways.items():
                planes.join(plane, way)
                path = config.kubeconfig if plane == HOME else config.planes[TenantId(plane)]
                tasks.restart(f"kubeconfig of {plane}", partial(follow_file, path, way))
            tasks.restart("memory trimming", keep_trimmed)
            own = ClientCertificate(config.kubeconfig, config.name, planes.client(HOME))
            tasks.restart("client certificate", own.keep)
            metrics.certificate_ends = lambda: own.ends
            agent = AgentProcess(config, planes, tasks, accounts, metrics)
            if config.planes_folder is not None:
                follower = PlaneFollower(config.planes_folder, planes, agent.plane_changed)
                await follower.look()
                tasks.fatal("planes folder", follower.run())
            keepers = None if config.is_hollow else await real.start(agent)
            for keeper in keepers if keepers is not None else hollow.start(agent):
                await keeper.registered.wait()
            is_registered.set()
            ready()
            if config.drains_on_stop:
                await _until_drained(agent)
    finally:
        for way in ways.values():
            await way.close()


async def _until_drained(agent: AgentProcess) -> None:
    """Waits to be told to stop; then ends all pods before it does."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        for workers in agent.rosters.values():
            await workers.drain()
        raise


def run_agent(config: AgentConfig) -> str:
    """Runs until a signal; returns what went wrong, or nothing."""

    async def until_signal() -> None:
        working = asyncio.create_task(run(config, lambda: typer.echo("ready")))
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, working.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await working

    try:
        uvloop.run(until_signal())
    except BadKubeconfig as error:
        return str(error)
    except OSError as error:
        return f"cannot serve probes on port {config.probe_port}: {error.strerror or error}"
    return ""
