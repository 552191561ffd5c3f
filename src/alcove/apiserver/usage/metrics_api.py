"""get and list of metrics.k8s.io: usage of the pods in the caller's scope, and of nodes for ring0."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from alcove.api import meta
from alcove.api.encode import encode
from alcove.api.errors import NotFound
from alcove.api.ids import SYSTEM, Key
from alcove.api.node_api import NodeSummary, PodUsage, ResourceUsage
from alcove.api.objects import Object
from alcove.api.resources import NODES, PODS
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.render import render, render_list
from alcove.apiserver.resources.listing import selected
from alcove.apiserver.resources.options import list_options
from alcove.apiserver.services import ApiServerServices
from alcove.apiserver.usage.usage_collector import UsageCollector
from alcove.http.messages import HttpResponse

GROUP = "metrics.k8s.io"
AT_ONCE_MAX = 256
"""Pods that are processed in one iteration of the event loop."""


class MetricsApi:
    def __init__(self, services: ApiServerServices, collector: UsageCollector) -> None:
        self._services = services
        self._collector = collector

    async def answer(self, call: ApiCall) -> HttpResponse:
        is_pods = call.kind.resource == "pods"
        entries = await (self._pods(call) if is_pods else self._nodes(call))
        if call.verb == "list":
            body = render_list(call.view, entries, self._services.cache.revision, {})
            return HttpResponse(200, body, call.view.content_type)
        if not entries:
            raise NotFound.of(call.kind.group_resource, call.target.name)
        return HttpResponse(200, render(call.view, entries[0]), call.view.content_type)

    def _entries(self, call: ApiCall) -> list[CacheEntry]:
        """The pods or nodes whose usage is requested."""
        cache = self._services.cache
        resource = PODS if call.kind.resource == "pods" else NODES
        if call.target.name:
            entry = cache.entry(Key(resource, call.tenant, call.namespace, call.target.name))
            return [] if entry is None else [entry]
        tenant = call.list_tenant if resource == PODS else SYSTEM
        matches = selected(call, list_options(call))
        entries = cache.entries(tenant, resource, call.list_namespace)
        return [entry for entry in entries if matches is None or matches(entry)]

    async def _pods(self, call: ApiCall) -> list[CacheEntry]:
        entries = [entry for entry in self._entries(call) if entry.node]
        summaries = await self._collector.of(entry.node for entry in entries)
        usage_by_pod = _by_pod(summaries)
        metrics: list[CacheEntry] = []
        for index, entry in enumerate(entries):
            if index % AT_ONCE_MAX == AT_ONCE_MAX - 1:
                await asyncio.sleep(0)
            key = entry.key
            usage = usage_by_pod.get((entry.node, key.tenant, key.namespace, key.name))
            # The usage may be of an earlier pod of the same name.
            if usage is not None and entry.decode()["metadata"]["uid"] == usage.uid:
                metrics.append(self._entry(call, entry, _pod_metrics(entry, usage)))
        return metrics

    async def _nodes(self, call: ApiCall) -> list[CacheEntry]:
        entries = self._entries(call)
        summaries = await self._collector.of(entry.key.name for entry in entries)
        return [
            self._entry(call, entry, _node_metrics(entry, summary, summary.node))
            for entry in entries
            if (summary := summaries.get(entry.key.name)) is not None and summary.node is not None
        ]

    def _entry(self, call: ApiCall, source: CacheEntry, obj: Object) -> CacheEntry:
        key = Key(call.kind.group_resource, source.key.tenant, source.key.namespace, source.key.name)
        metrics = {"apiVersion": call.kind.api_version, "kind": call.kind.kind, **obj}
        return CacheEntry(key, self._services.cache.revision, encode(metrics))


def _by_pod(summaries: Mapping[str, NodeSummary]) -> dict[tuple[str, str, str, str], PodUsage]:
    return {
        (node, pod.tenant, pod.namespace, pod.name): pod
        for node, summary in summaries.items()
        for pod in summary.pods
    }


def _pod_metrics(entry: CacheEntry, usage: PodUsage) -> Object:
    containers = [{"name": each.name, "usage": _quantities(each.usage)} for each in usage.containers]
    return {**_measured(entry, usage.time, usage.window_seconds), "containers": containers}


def _node_metrics(entry: CacheEntry, summary: NodeSummary, usage: ResourceUsage) -> Object:
    return {**_measured(entry, summary.time, summary.window_seconds), "usage": _quantities(usage)}


def _measured(entry: CacheEntry, at: float, window_seconds: float) -> Object:
    key, when = entry.key, meta.format_time(at)
    metadata: Object = {"name": key.name, "tenant": key.tenant, "creationTimestamp": when}
    if key.namespace:
        metadata["namespace"] = key.namespace
    if entry.labels:
        metadata["labels"] = dict(entry.labels)
    return {"metadata": metadata, "timestamp": when, "window": f"{window_seconds:.3f}s"}


def _quantities(usage: ResourceUsage) -> Object:
    return {"cpu": f"{usage.cpu_nanocores}n", "memory": f"{usage.memory_bytes >> 10}Ki"}
