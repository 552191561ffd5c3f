"""Hollow nodes: they report all node and pod states to the API server, but run no processes."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from alcove.agent import hardware
from alcove.agent.lookup import ObjectLookup
from alcove.agent.network.hollow import HollowNetwork
from alcove.agent.node import NodeDescription, NodeStatusManager, allocatable
from alcove.agent.podkey import PodKey
from alcove.agent.pods.hollow_executor import HollowPodExecutor
from alcove.agent.runtime.base import ContainerStatus
from alcove.agent.runtime.hollow import HANDLER, HollowRuntime
from alcove.agent.volumes.volumes import PodVolumes
from alcove.agent.volumes.wiper import VolumeWiper
from alcove.client.keys import HOME
from alcove.processes.agent import AgentProcess

log = logging.getLogger(__name__)


def start(agent: AgentProcess, reason: str = "") -> list[NodeStatusManager]:
    """Registers hollow nodes. `why` is the reason if hollow nodes were not requested."""
    config = agent.config
    log.warning(
        "hollow node: pods have states and addresses, but no processes",
        extra={"reason": reason or "requested"},
    )
    network = HollowNetwork(agent.planes, config.name if config.count == 1 else "", config.address)
    machine = hardware.read(config.data, None)
    managers = []
    for name in config.nodes:
        runtime = HollowRuntime()

        def executor_for(
            key: PodKey, _found: Sequence[ContainerStatus], runtime: HollowRuntime = runtime
        ) -> HollowPodExecutor:
            return HollowPodExecutor(key, runtime, network)

        facts = NodeDescription(
            name=name,
            addresses=(config.address,),
            port=config.port,
            hardware=machine,
            handlers=[{"name": HANDLER, "features": {}}],
            runtime="hollow://1",
            is_hollow=True,
            hollow_because=reason,
        )
        agent.add_workers(name, allocatable(facts), executor_for, {})
        managers.append(NodeStatusManager(facts, agent.planes.client(HOME), time.time))
    if config.count == 1:
        volumes = PodVolumes(config.data / "volumes", ObjectLookup(agent.planes), time.time, node=config.name)
        # There is no data to wipe, but volumes wait for their node to release them.
        agent.tasks.restart("volume wiping", VolumeWiper(volumes, agent.planes, config.name).run)
    agent.start(managers)
    return managers
