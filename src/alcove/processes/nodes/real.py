"""A real node: runtimes proven by a canary, a data plane, images, volumes; and pods that run in them.

Where the machine lacks what that takes, the node is hollow, and says why.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from alcove.agent import hardware
from alcove.agent.cgroups import Cgroups
from alcove.agent.cni.server import CniServer
from alcove.agent.images.model import ToolMissing
from alcove.agent.images.owners import Owners
from alcove.agent.images.policy import Pulls
from alcove.agent.images.snapshots import Snapshots
from alcove.agent.images.store import ImageStore, told
from alcove.agent.images.tools import Tools
from alcove.agent.ingress import start as ingress
from alcove.agent.logs.rotation import Rotation
from alcove.agent.lookup import Lookup
from alcove.agent.network.network import Network
from alcove.agent.network.start import start as start_network
from alcove.agent.node import NodeFacts, NodeKeeper
from alcove.agent.node import allocatable as allocatable_of
from alcove.agent.podkey import PodKey
from alcove.agent.pods import marks, passing, workshop
from alcove.agent.pods.classes import Classes, is_ring0
from alcove.agent.pods.environment import Environment
from alcove.agent.pods.hollow import HollowSite
from alcove.agent.pods.real import RealSite
from alcove.agent.pods.roster import Found
from alcove.agent.pods.running import RunningPods
from alcove.agent.pods.workshop import Folders, IdRanges, Workshop
from alcove.agent.runtime import seccomp, security
from alcove.agent.runtime.base import Runtime, SpecRefused, Status
from alcove.agent.runtime.canary import Canary
from alcove.agent.runtime.handlers import Handlers, prove_all, prove_more
from alcove.agent.runtime.hollow import HANDLER as HOLLOW_HANDLER
from alcove.agent.runtime.hollow import HollowRuntime
from alcove.agent.runtime.resources import Machine
from alcove.agent.server.callers import Callers
from alcove.agent.server.server import Server
from alcove.agent.serving import ServingCertificate
from alcove.agent.upkeep import Upkeep
from alcove.agent.volumes.volumes import Volumes
from alcove.agent.volumes.wiping import Wiper
from alcove.api.objects import Object
from alcove.client.keys import HOME, PlaneId
from alcove.client.kubeconfig import Account
from alcove.dataplane.errors import DataPlaneError
from alcove.dns import resolvconf
from alcove.processes.agent import Agent
from alcove.processes.nodes import boots, hollow

log = logging.getLogger(__name__)

RESOLV_CONF = Path("/etc/resolv.conf")
CANARY_AGAIN_SECONDS = 15.0
CANARY_AGAIN_SECONDS_MAX = 600.0


class Unable(Exception):
    """This machine cannot run pods; the message says why."""


async def start(agent: Agent) -> list[NodeKeeper]:
    config = agent.config
    try:
        node = await _Node.make(agent)
    except Unable as error:
        return hollow.start(agent, str(error))
    left = await node.found()
    roster = agent.roster(config.name, allocatable_of(node.facts()), node.site, left)
    upkeep = Upkeep(roster, node.shop, node.images)
    client = agent.planes.client(HOME)
    keeper = NodeKeeper(node.facts(), client, time.time, upkeep.pressures, lambda: told(node.images.all()))
    pods = RunningPods(roster, node.shop.folders)
    wiper = Wiper(node.shop.volumes, agent.planes, config.name)
    cni = CniServer(node.network, agent.planes, config.data / "network" / "cni.sock")
    agent.tasks.fatal("network", node.network.run())
    agent.tasks.fatal("CNI server", cni.run())
    agent.tasks.fatal("node API server", _serve(agent, pods))
    agent.tasks.fatal("ingress", _serve_ingress(agent, node.network))
    agent.tasks.restart("log rotation", partial(Rotation().run, pods))
    agent.tasks.restart("eviction and image collection", upkeep.run)
    agent.tasks.restart("volume wiping", wiper.run)
    agent.tasks.restart("image owners", Owners(node.images, agent.planes).run)
    agent.tasks.restart("runtime canaries", partial(node.prove_more, keeper))
    agent.metrics.drops = node.network.drops
    agent.start([keeper])
    return [keeper]


async def _serve_ingress(agent: Agent, network: Network) -> None:
    config = agent.config
    plain = ingress.bind(config.address, config.ingress_ports[0])
    secure = ingress.bind(config.address, config.ingress_ports[1])
    note = ingress.noting(agent.troubles, config.name)
    await ingress.serve(agent.planes, network, note, plain, secure)


async def _serve(agent: Agent, pods: RunningPods) -> None:
    """Logs, exec and the like, for the API servers of all planes, as soon as the node has a certificate."""
    config = agent.config
    serving = ServingCertificate(config.data, config.name, config.address, agent.planes.client(HOME))
    await serving.ready()
    callers = Callers(serving.path)
    for plane, account in agent.accounts.items():
        callers.trust(plane, account.ca_pem)

    def heard(plane: PlaneId, account: Account | None) -> None:
        if account is None:
            callers.distrust(plane)
        else:
            callers.trust(plane, account.ca_pem)

    agent.on_plane.append(heard)
    async with Server(
        pods, callers, config.address, config.port, node=config.name, metrics=agent.metrics.text
    ):
        await serving.keep(callers.reload)


class _Node:
    def __init__(
        self,
        agent: Agent,
        handlers: Handlers,
        shop: Workshop,
        images: ImageStore,
        machine: hardware.Hardware,
        proving: tuple[Path, Cgroups, Canary],
    ) -> None:
        self._proving = proving
        self._agent = agent
        self._handlers = handlers
        self.shop = shop
        self.images = images
        self._hardware = machine
        self._hollow = HollowRuntime()
        self._runtimes: dict[PodKey, Runtime] = {}
        """Of pods that were found running: what is there is not run by another."""

    @property
    def network(self) -> Network:
        network = self.shop.network
        assert isinstance(network, Network)
        return network

    @classmethod
    async def make(cls, agent: Agent) -> _Node:
        config = agent.config
        if os.geteuid() != 0:
            raise Unable("it takes root's rights to run containers")
        cgroups = Cgroups.of_machine()
        machine = hardware.part_of(hardware.read(config.data, cgroups), config.sharing)
        images = ImageStore(config.data / "images", Tools(config.insecure_registries))
        try:
            pause, profile = images.add_builtin(), seccomp.load()
        except (ToolMissing, SpecRefused) as error:
            raise Unable(str(error)) from error
        folder = _own_folder(config.data / "runtimes")
        boots.begin(folder)
        canary = Canary(pause.rootfs, folder / "canary", f"/alcove/{config.instance}/canary")
        handlers = await _proven(folder, cgroups, canary)
        network = _network(agent)
        facts = _facts(agent, machine, handlers)
        allocatable = allocatable_of(facts)
        lookup = Lookup(agent.planes)
        pulls = Pulls(images, lookup)
        shop = Workshop(
            node=config.name,
            folders=Folders(config.data),
            group=f"/alcove/{config.instance}",
            classes=Classes(agent.planes, handlers),
            network=network,
            volumes=Volumes(
                config.data / "volumes",
                lookup,
                time.time,
                node=config.name,
                allocatable=lambda: allocatable,
                image=pulls.ensure,
            ),
            pulls=pulls,
            snapshots=Snapshots(config.data / "snapshots"),
            cgroups=cgroups,
            environment=Environment(lookup, allocatable),
            seccomp=profile,
            machine=Machine(machine.memory_bytes, _oom_score_floor()),
            capabilities=_held_capabilities(),
            pause=pause,
            addresses=(config.address,),
            resolv_conf=_node_resolv_conf(),
            ids=IdRanges(config.data / "pods"),
            note=agent.note(config.name),
        )
        return cls(agent, handlers, shop, images, machine, (folder, cgroups, canary))

    def facts(self) -> NodeFacts:
        return _facts(self._agent, self._hardware, self._handlers)

    async def prove_more(self, keeper: NodeKeeper) -> None:
        """What failed its canary is tried again: the machine may only have been too busy."""
        waits = CANARY_AGAIN_SECONDS
        while self._handlers.failed:
            await asyncio.sleep(waits)
            waits = min(waits * 2, CANARY_AGAIN_SECONDS_MAX)
            if await prove_more(self._handlers, *self._proving):
                keeper.facts = self.facts()

    async def found(self) -> Found:
        """What runs here, by pod; what is left of pods in other ways is swept."""
        left: Found = {}
        for runtime in self._handlers.proven.values():
            for status in await runtime.list():
                mark = marks.read(status.labels)
                if mark is not None:
                    left.setdefault(mark.key, []).append(status)
                    self._runtimes[mark.key] = runtime
        for key in (*self.shop.network.attached(), *self.shop.volumes.ids()):
            left.setdefault(key, [])
        removed = workshop.sweep(self.shop, left.keys())
        log.info("found", extra={"pods": len(left), "swept": len(removed)})
        return left

    def site(self, key: PodKey, found: Sequence[Status]) -> RealSite | HollowSite:
        if not found and not is_ring0(key) and _pretends(self._agent, self._handlers):
            return HollowSite(key, self._hollow, self.network)
        runtime = self._runtimes.pop(key, None)
        default = next(iter(self._handlers.proven.values()))
        return RealSite(key, self.shop, runtime or default, found)


async def _proven(folder: Path, cgroups: Cgroups, canary: Canary) -> Handlers:
    handlers = await prove_all(folder, cgroups, canary)
    if not handlers.proven:
        told = "; ".join(f"{name}: {why}" for name, why in handlers.failed.items())
        raise Unable(f"no container runtime works here: {told or 'none is installed'}")
    return handlers


def _network(agent: Agent) -> Network:
    config = agent.config

    def api_server(plane: PlaneId) -> tuple[str, int]:
        server = urlsplit(agent.accounts[plane].server)
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
        )
    except (DataPlaneError, OSError, ValueError) as error:
        raise Unable(f"the data plane does not work here: {error}") from error


def _facts(agent: Agent, machine: hardware.Hardware, handlers: Handlers) -> NodeFacts:
    config = agent.config
    offered: list[Object] = [
        {"name": name, "features": {"userNamespaces": True} if passing.can_map(name, config.data) else {}}
        for name in handlers.names()
    ]
    runtime = f"alcove://{'+'.join(sorted(handlers.proven))}"
    if pretends := _pretends(agent, handlers):
        offered.append({"name": HOLLOW_HANDLER, "features": {}})
    return NodeFacts(
        name=config.name,
        addresses=(config.address,),
        port=config.port,
        hardware=machine,
        handlers=offered,
        runtime=runtime,
        is_hollow=pretends,
        hollow_because="only tenants' pods: gVisor failed its trial" if pretends else "",
    )


def _pretends(agent: Agent, handlers: Handlers) -> bool:
    """Whether tenants' pods are hollow on this node."""
    return agent.config.has_hollow_tenants and not handlers.runs_tenants()


def _node_resolv_conf() -> resolvconf.ResolvConf:
    return resolvconf.parse(RESOLV_CONF.read_text() if RESOLV_CONF.exists() else "")


def _own_folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def _oom_score_floor() -> int:
    return int(Path("/proc/self/oom_score_adj").read_text())


def _held_capabilities() -> tuple[str, ...]:
    fields = dict(line.split(":\t") for line in Path("/proc/self/status").read_text().splitlines())
    return security.held(int(fields["CapBnd"], 16))
