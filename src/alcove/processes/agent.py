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
from pathlib import Path

import typer
import uvloop
from msgspec import Struct

from alcove.agent import hardware
from alcove.agent.network.hollow import HollowNetwork
from alcove.agent.node import NodeFacts, NodeKeeper
from alcove.agent.podkey import PodKey
from alcove.agent.pods.hollow import HollowSite
from alcove.agent.pods.roster import Roster
from alcove.agent.pods.telling import Telling
from alcove.agent.pods.worker import Surroundings
from alcove.agent.runtime.hollow import HollowRuntime
from alcove.agent.sources import PodSource
from alcove.api.ids import TenantId
from alcove.client import kubeconfig
from alcove.client.errors import BadKubeconfig
from alcove.client.keys import HOME, PlaneId
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.controllers.events import Recorder, Told
from alcove.processes.memory import keep_trimmed

log = logging.getLogger(__name__)

USER_AGENT = "alcove-agent"
COMPONENT = "kubelet"
"""As Kubernetes' users know the one who tells of pods on nodes."""
PORT = 10250
STARTS_MAX = 8
WRITES_MAX = 16
SWEEP_SECONDS = 2.0


class Config(Struct, frozen=True, kw_only=True):
    kubeconfig: Path
    name: str
    data: Path
    address: str = "127.0.0.1"
    underlay: str = ""
    port: int = PORT
    is_hollow: bool = False
    count: int = 1
    """So many hollow nodes in this one process, for tests of size: `NAME-0`, `NAME-1`, and so on."""
    instance: str = ""
    planes: Mapping[TenantId, Path] = {}
    """Kubeconfigs of dedicated tenants' planes."""
    drains_on_stop: bool = False
    """Told to stop, it ends its pods first, as a machine that is being turned off does."""

    @property
    def nodes(self) -> list[str]:
        return [self.name] if self.count == 1 else [f"{self.name}-{each}" for each in range(self.count)]


async def run(config: Config, registered: Callable[[], None] = lambda: None) -> None:
    """Runs until cancelled; `registered` is called once the API knows the nodes."""
    home = HttpPool(kubeconfig.load(config.kubeconfig))
    others = {tenant: HttpPool(kubeconfig.load(path)) for tenant, path in config.planes.items()}
    config.data.mkdir(parents=True, exist_ok=True)
    try:
        async with Planes(user_agent=USER_AGENT) as planes, asyncio.TaskGroup() as tasks:
            tasks.create_task(keep_trimmed(), name="memory")
            await _run_hollow(config, planes, tasks, home, others, registered)
    finally:
        for transport in (home, *others.values()):
            await transport.close()


async def _run_hollow(
    config: Config,
    planes: Planes,
    tasks: asyncio.TaskGroup,
    home: HttpPool,
    others: Mapping[TenantId, HttpPool],
    registered: Callable[[], None],
) -> None:
    log.warning("HOLLOW NODE: pods will have states and addresses, but nothing runs")
    recorder = Recorder(planes.client, time.time)
    network = HollowNetwork(planes, config.name if config.count == 1 else "", config.address)
    machine = hardware.read(config.data, None)
    rosters: dict[str, Roster] = {}
    keepers: list[NodeKeeper] = []
    writes = asyncio.Semaphore(WRITES_MAX)
    client = planes.join(HOME, home)
    for name in config.nodes:
        runtime = HollowRuntime()

        def site_of(key: PodKey, _found: object, runtime: HollowRuntime = runtime) -> HollowSite:
            return HollowSite(key, runtime, network)

        around = _surroundings(config, name, recorder, asyncio.Semaphore(STARTS_MAX))
        telling = partial(_telling, planes, writes)
        rosters[name] = Roster(site_of, telling, around, {})
        facts = NodeFacts(
            name=name,
            addresses=(config.address,),
            port=config.port,
            hardware=machine,
            handlers=[{"name": "hollow", "features": {}}],
            runtime="hollow://1",
            is_hollow=True,
        )
        keepers.append(NodeKeeper(facts, client, time.time))
    source = PodSource(planes, {name: roster.offer for name, roster in rosters.items()})
    for tenant, transport in others.items():
        planes.join(PlaneId(tenant), transport)
    tasks.create_task(recorder.run(), name="events")
    for name, roster in rosters.items():
        tasks.create_task(roster.run(), name=f"pods of {name}")
        tasks.create_task(_sweep(roster, source), name=f"leftovers of {name}")
    for keeper in keepers:
        tasks.create_task(_keep(keeper, config.count), name="node")
    for keeper in keepers:
        await keeper.registered.wait()
    registered()


async def _keep(keeper: NodeKeeper, count: int) -> None:
    """Many nodes do not tell of themselves at the same moment."""
    await asyncio.sleep(random.random() * min(10.0, count / 50) if count > 1 else 0.0)
    await keeper.run()


async def _sweep(roster: Roster, source: PodSource) -> None:
    while True:
        await roster.sweep(source.heard)
        await asyncio.sleep(SWEEP_SECONDS)


def _telling(planes: Planes, writes: asyncio.Semaphore, key: PodKey) -> Telling:
    return Telling(key, planes.client, writes)


def _surroundings(config: Config, node: str, recorder: Recorder, starts: asyncio.Semaphore) -> Surroundings:
    def note(key: PodKey, type_: str, reason: str, message: str) -> None:
        involved = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": key.namespace,
            "name": key.name,
            "uid": key.uid,
        }
        recorder.tell(Told(key.plane, key.tenant, involved, type_, reason, message, COMPONENT, node))

    return Surroundings(
        addresses=(config.address,), note=note, starts=starts, wall=time.time, clock=time.monotonic
    )


def main(config: Config) -> str:
    """Runs until a signal; returns what went wrong, or nothing."""

    async def until_signal() -> None:
        working = asyncio.create_task(run(config, lambda: typer.echo(f"registered {config.name}")))
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, working.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await working

    try:
        uvloop.run(until_signal())
    except BadKubeconfig as error:
        return str(error)
    return ""
