"""The kubelet API of the node itself, for ring0: /healthz, /metrics, /pods and /stats/summary."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import orjson
from msgspec import Struct

from alcove.agent.podkey import PodKey
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
            ("pods",): self._pod_list,
            ("stats", "summary"): self._summary,
        }

    async def respond(self, path: Sequence[str]) -> NodeApiResponse:
        """Raises NotFound."""
        handler = self._paths.get(tuple(path))
        if handler is None:
            raise NotFound.path()
        return await handler()

    async def _healthz(self) -> NodeApiResponse:
        return NodeApiResponse(b"ok", TEXT)

    async def _metrics_text(self) -> NodeApiResponse:
        return NodeApiResponse(self._metrics(), "text/plain; version=0.0.4; charset=utf-8")

    async def _pod_list(self) -> NodeApiResponse:
        """Only pods of the home plane: a dedicated tenant's pods are visible on its dedicated plane alone."""
        items = [each.pod for each in self._pods.all() if self._is_of_home(each.key)]
        pod_list = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
        return NodeApiResponse(orjson.dumps(pod_list), JSON)

    def _is_of_home(self, key: PodKey) -> bool:
        found = self._pods.find(HOME, key.tenant, key.namespace, key.name)
        return found is not None and found.key == key

    async def _summary(self) -> NodeApiResponse:
        body = summary(self._name, await self._meter.summary(HOME))
        return NodeApiResponse(orjson.dumps(body), JSON)


def summary(node: str, usage: NodeSummary) -> Object:
    node_stats: Object = {"nodeName": node}
    if usage.node is not None:
        node_stats |= _usage(usage.node, usage.time)
    return {"node": node_stats, "pods": [_pod(each) for each in usage.pods]}


def _pod(pod: PodUsage) -> Object:
    containers = [{"name": each.name, **_usage(each.usage, pod.time)} for each in pod.containers]
    total = ResourceUsage(
        sum(each.usage.cpu_nanocores for each in pod.containers),
        sum(each.usage.memory_bytes for each in pod.containers),
    )
    # The same namespace name exists in many tenants, so the reference has a field that kubelet's lacks.
    ref = {"tenant": pod.tenant, "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return {"podRef": ref, "containers": containers, **_usage(total, pod.time)}


def _usage(usage: ResourceUsage, time: float) -> Object:
    timestamp = meta.format_time(time)
    return {
        "cpu": {"time": timestamp, "usageNanoCores": usage.cpu_nanocores},
        "memory": {"time": timestamp, "workingSetBytes": usage.memory_bytes},
    }
