"""Pods by node, over all tenants and planes: an index, and the base class of controllers for the pods of
nodes in some state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from alcove.api import meta
from alcove.api.objects import Object, get
from alcove.client.changes import ObjectChange
from alcove.client.client import Patch
from alcove.client.keys import ObjectKey
from alcove.client.mirror import Mirror
from alcove.client.resources import PODS
from alcove.controllers.controller import Controller, ControllerContext

NODE = "node"


def node_of(pod: Object) -> Iterable[str]:
    """An index of pods, under the name `NODE`."""
    name = get(pod, "spec", "nodeName")
    return [name] if name else []


def on_node(pods: Mirror, node: str) -> Iterator[ObjectKey]:
    """The pods of all tenants on the node, from a mirror with `index_by_node`."""
    return pods.find_keys_of_all(NODE, node)


def index_by_node(pods: Mirror) -> None:
    pods.add_index(NODE, node_of)
    pods.index_tenants(NODE)


class PodsOnNodes(Controller):
    """Keys name pods, so that a tenant with thousands of pods on a lost node does not delay the pods of
    others."""

    resource = PODS
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._nodes = self.nodes()
        self._pods = self.mirror(PODS)
        index_by_node(self._pods)
        self.on(self._nodes, self._of_node)
        self.on(self._pods, self._of_pod)

    def _of_node(self, change: ObjectChange) -> Iterable[ObjectKey]:
        raise NotImplementedError

    def _of_pod(self, change: ObjectChange) -> Iterable[ObjectKey]:
        raise NotImplementedError

    async def _set_condition(self, key: ObjectKey, preconditions: Object, condition: Object) -> None:
        """Sets a condition of the pod, if its metadata has the given uid (and resourceVersion). Raises
        NotFound."""
        now = meta.format_time(self.clock())
        await self.client(key).patch(
            key.tenant,
            PODS,
            key.name,
            {
                "metadata": preconditions,
                "status": {"conditions": [{**condition, "lastTransitionTime": now}]},
            },
            namespace=key.namespace,
            kind=Patch.STRATEGIC,
            subresource="status",
        )
