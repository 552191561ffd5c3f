"""Pods whose ports are this machine's, behind a real node's server: for tests of what reaches pods, without
containers.

async with LoopbackRig(server, ContainerLab(HollowRuntime(), folder), "worker") as rig:
    pod = rig.place("acme", "web", [])
    pod.dialled                       # the ports that were connected to
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Self

from alcove.agent.podkey import PodKey
from alcove.agent.runtime.base import ContainerId
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.testing.nodeserver import LabPod, NodeRig


class LoopbackPod(LabPod, kw_only=True):
    dialled: list[int]

    async def reach(self, port: int) -> socket.socket:
        self.dialled.append(port)
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
        except BaseException:
            made.close()
            raise
        return made


class LoopbackRig(NodeRig):
    async def __aenter__(self) -> Self:
        await self.start()
        return self

    def place(self, tenant: str, name: str, ports: Sequence[Object], ip: str = "10.0.0.5") -> LoopbackPod:
        path = f"/api/v1/tenants/{tenant}/namespaces/default/pods"
        container = {"name": "main", "image": "x", "ports": list(ports)}
        spec = {"nodeName": self.name, "containers": [container]}
        answer = self.server.system.post(path, {"metadata": {"name": name}, "spec": spec})
        assert answer.status == 201, answer.body
        status = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]}
        assert self.server.system.patch(f"{path}/{name}/status", {"status": status}).status == 200
        key = PodKey(HOME, TenantId(tenant), "default", name, answer.json["metadata"]["uid"])
        made = LoopbackPod(key, answer.json, self.lab.runtime, ContainerId("none"), dialled=[])
        self.pods.add(made)
        return made
