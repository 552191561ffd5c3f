"""What a node tells ring0 of itself, at the paths and in the shapes that kubelet's users know."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import orjson
from msgspec import Struct

from alcove.agent.server.running_containers import RunningContainers
from alcove.agent.server.usage import UsageMeter
from alcove.api import meta
from alcove.api.errors import NotFound
from alcove.api.node_api import NodeSummary, PodUsage, ResourceUsage
from alcove.api.objects import Object
from alcove.client.keys import HOME

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


class NodeApiResponse(Struct, frozen=True):
    body: bytes
    content_type: str


class NodeApi:
    def __init__(
        self, name: str, pods: RunningContainers, meter: UsageMeter, metrics: Callable[[], bytes]
    ) -> None:
        self._name = name
        self._pods = pods
        self._meter = meter
        self._metrics = metrics
        self._paths: dict[tuple[str, ...], Callable[[], Awaitable[NodeApiResponse]]] = {
            ("healthz",): self._healthz,
            ("metrics",): self._metrics_text,
            ("pods",): self._list,
            ("stats", "summary"): self._summary,
        }

    async def answer(self, path: Sequence[str]) -> NodeApiResponse:
        """Raises NotFound."""
        known = self._paths.get(tuple(path))
        if known is None:
            raise NotFound.path()
        return await known()

    async def _healthz(self) -> NodeApiResponse:
        return NodeApiResponse(b"ok", TEXT)

    async def _metrics_text(self) -> NodeApiResponse:
        return NodeApiResponse(self._metrics(), "text/plain; version=0.0.4; charset=utf-8")

    async def _list(self) -> NodeApiResponse:
        """Pods of the home plane: a dedicated tenant's are its own plane's to show."""
        items = [each.pod for each in self._pods.all() if each.key.plane == HOME]
        listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
        return NodeApiResponse(orjson.dumps(listed), JSON)

    async def _summary(self) -> NodeApiResponse:
        told = summary(self._name, await self._meter.summary(HOME))
        return NodeApiResponse(orjson.dumps(told), JSON)


def summary(node: str, found: NodeSummary) -> Object:
    own: Object = {"nodeName": node}
    if found.node is not None:
        own |= _usage(found.node, found.time)
    return {"node": own, "pods": [_pod(each) for each in found.pods]}


def _pod(found: PodUsage) -> Object:
    containers = [{"name": each.name, **_usage(each.usage, found.time)} for each in found.containers]
    whole = ResourceUsage(
        sum(each.usage.cpu_nanocores for each in found.containers),
        sum(each.usage.memory_bytes for each in found.containers),
    )
    # Namespaces of one name are many here: kubelet's reference has no word for whose.
    ref = {"tenant": found.tenant, "namespace": found.namespace, "name": found.name, "uid": found.uid}
    return {"podRef": ref, "containers": containers, **_usage(whole, found.time)}


def _usage(used: ResourceUsage, time: float) -> Object:
    when = meta.format_time(time)
    return {
        "cpu": {"time": when, "usageNanoCores": used.cpu_nanocores},
        "memory": {"time": when, "workingSetBytes": used.memory_bytes},
    }
