"""The network part of node agents, each in its own thread, on a lab's nodes and a real API server.

with Lab(2, started=False) as lab, NodeNetworks(server, directory, lab) as nodes:
    nodes[0].attach(key, pod)

There are no containers: a pod is a namespace with a veth, and the test's sockets.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from alcove.agent.cni.server import CniServer
from alcove.agent.ingress import start as ingress
from alcove.agent.network.node_network import NodeNetwork, NodeNetworkConfig
from alcove.agent.podkey import PodKey
from alcove.api.objects import Object
from alcove.client import kubeconfig
from alcove.client.keys import HOME, TenantKey
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.dataplane.namespaces import inside
from alcove.dns.upstream import Resolver
from alcove.testing.agent import node_kubeconfig
from alcove.testing.nodes import UNDERLAY, Lab, LabNode
from alcove.testing.server import LocalServer

SECONDS_MAX = 90.0
INGRESS_PORT = 80
T = TypeVar("T")


class LabNodeNetwork:
    """One node's network. `stop` and `start` simulate an agent's restart."""

    def __init__(
        self, server: LocalServer, directory: Path, node: LabNode, resolvers: tuple[Resolver, ...]
    ) -> None:
        self.node = node
        self.name = f"node-{node.number}"
        self._server = server
        self._folder = directory / self.name
        self._folder.mkdir(parents=True, exist_ok=True)
        self._kubeconfig = node_kubeconfig(server, self.name)
        self._resolvers = resolvers
        self.events: list[tuple[str, str, str]] = []
        """Tenant, object and reason of the events that the node's network records."""
        self.messages: list[str] = []

    def start(self) -> None:
        self.node.start()
        self._begun = threading.Event()
        self.thread = threading.Thread(target=lambda: uvloop.run(self._main()), daemon=True)
        self.thread.start()
        assert self._begun.wait(SECONDS_MAX)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self.thread.join(SECONDS_MAX)
        assert not self.thread.is_alive()
        self.node.plane.close()

    async def _main(self) -> None:
        user = kubeconfig.load(self._kubeconfig)
        transport = HttpPool(user)
        config = NodeNetworkConfig(
            node=self.name,
            address=self.node.address,
            underlay=(UNDERLAY,),
            folder=self._folder / "network",
            resolvers=self._resolvers,
        )
        self._loop = asyncio.get_running_loop()
        try:
            async with Planes(user_agent=self.name) as planes:
                planes.join(HOME, transport)
                self.network = NodeNetwork(
                    self.node.plane, planes, config, lambda _plane: self._server.address, self._note
                )
                self._task = asyncio.create_task(self._run(planes))
                self._begun.set()
                await asyncio.wait([self._task])
                if not self._task.cancelled():
                    self._task.result()
        finally:
            await transport.close()

    async def _run(self, planes: Planes) -> None:
        with inside(self.node.namespace):
            plain = ingress.bind(str(self.node.address), INGRESS_PORT)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.network.run())
            tasks.create_task(CniServer(self.network, planes, self.cni_socket).run())
            tasks.create_task(ingress.serve(planes, self.network, lambda *_: None, plain, []))

    def _note(self, tenant_key: TenantKey, involved: Object, reason: str, message: str) -> None:
        self.messages.append(message)
        self.events.append((tenant_key.tenant, involved["name"], reason))

    def record_of(self, key: PodKey) -> Path:
        """Path of the agent's attachment record of a pod."""
        return self._folder / "network" / f"{key.directory_name}.json"

    @property
    def cni_socket(self) -> Path:
        return self._folder / "cni.sock"

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs the coroutine on the node's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS_MAX)


class NodeNetworks:
    def __init__(
        self, server: LocalServer, directory: Path, lab: Lab, resolvers: tuple[Resolver, ...] = ()
    ) -> None:
        """`resolvers` are the upstream DNS servers."""
        self._server = server
        self.all = [LabNodeNetwork(server, directory, node, resolvers) for node in lab.nodes]

    def __getitem__(self, number: int) -> LabNodeNetwork:
        return self.all[number]

    def __enter__(self) -> NodeNetworks:
        for each in self.all:
            register(self._server, each.name, str(each.node.address))
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.all:
            each.stop()


def register(server: LocalServer, name: str, address: str) -> None:
    """The object of a ready node, as its agent would write it."""
    node: Object = {"metadata": {"name": name}}
    assert server.system.post("/api/v1/nodes", node).status in (201, 409)
    status = {
        "addresses": [{"type": "InternalIP", "address": address}],
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}],
    }
    answer = server.system.patch(f"/api/v1/nodes/{name}/status", {"status": status})
    assert answer.status == 200, answer.body
