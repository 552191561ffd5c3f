"""The node's Node object on each dedicated plane: there its API server finds the agent's address, for logs and exec, and
the tenant finds the nodes that its pods are on. Ring0's Node on the home plane is the only one that scheduling and
life cycles depend on."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from alcove.agent.node import NodeStatusManager
from alcove.client.keys import HOME, PlaneId
from alcove.client.kubeconfig import KubeconfigUser
from alcove.processes.agent import AgentProcess


class PlaneNodes:
    def __init__(self, agent: AgentProcess, home: NodeStatusManager) -> None:
        """Follows the agent's planes. `home` has what there is to say of the node."""
        self._agent = agent
        self._home = home
        self._tasks: dict[PlaneId, asyncio.Task[None]] = {}
        for plane, user in agent.users.items():
            self._change(plane, user)
        agent.on_plane.append(self._change)

    def _change(self, plane: PlaneId, user: KubeconfigUser | None) -> None:
        if plane == HOME:
            return
        if user is None:
            if task := self._tasks.pop(plane, None):
                task.cancel()
        elif plane not in self._tasks:
            name = f"node on plane {plane}"
            self._tasks[plane] = self._agent.tasks.restart(name, partial(self._keep, plane))

    async def _keep(self, plane: PlaneId) -> None:
        client = self._agent.planes.client(plane)
        await NodeStatusManager(self._home.facts, client, time.time, has_lease=False).run()
