"""Reads custom and external metrics: aggregated APIs of the autoscaler's own tenant (custom.metrics.k8s.io and
external.metrics.k8s.io). What their servers answer is only as good as the tenant makes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from alcove.api import meta, selectors
from alcove.api.errors import ApiError, BadRequest, NotFound
from alcove.api.objects import Object, get
from alcove.client import paths
from alcove.client.client import Client
from alcove.client.errors import MalformedResponse, Unreachable
from alcove.client.keys import ObjectKey
from alcove.controllers.autoscaling import samples, targets
from alcove.controllers.autoscaling.samples import MetricSample, MetricsUnavailable, Samples

CUSTOM, EXTERNAL = "custom.metrics.k8s.io", "external.metrics.k8s.io"
_VERSIONS = {CUSTOM: ("v1beta2", "v1beta1"), EXTERNAL: ("v1beta1",)}
_NAMES = {CUSTOM: "custom", EXTERNAL: "external"}
SECONDS_MAX = 10.0
"""For one metric; then it counts as unavailable."""
VALUES_MAX = 10_000
"""Values of one metric; with more, it counts as unavailable."""


async def of_pods(client: Client, key: ObjectKey, source: Object, selector: str) -> Samples:
    """The metric of each pod that the target's selector matches. Raises MetricsUnavailable."""
    metric = source["metric"]
    query = {"labelSelector": selector, **_selection(metric, "metricLabelSelector")}
    path = f"namespaces/{quote(key.namespace)}/pods/*/{quote(metric['name'], safe='')}"
    items = await _values(client, key, CUSTOM, path, query)
    return {
        str(item["describedObject"]["name"]): MetricSample(
            samples.to_milli(item["value"]), meta.parse_time(item["timestamp"]), _window_seconds(item)
        )
        for item in items
    }


async def of_object(client: Client, key: ObjectKey, source: Object) -> int:
    """The metric of one object, in milli-units. Raises MetricsUnavailable."""
    reference, metric = source["describedObject"], source["metric"]
    name = quote(metric["name"], safe="")
    if reference["kind"] == "Namespace" and not reference.get("apiVersion", "").count("/"):
        path = f"namespaces/{quote(reference['name'])}/metrics/{name}"
    else:
        resource = await targets.find(client, key.tenant, reference)
        where = f"namespaces/{quote(key.namespace)}/" if resource.namespaced else ""
        path = f"{where}{resource.group_resource}/{quote(reference['name'], safe='')}/{name}"
    items = await _values(client, key, CUSTOM, path, _selection(metric, "metricLabelSelector"))
    return samples.to_milli(items[0]["value"])


async def external(client: Client, key: ObjectKey, source: Object) -> int:
    """The sum of the values of a metric, in milli-units. Raises MetricsUnavailable."""
    metric = source["metric"]
    path = f"namespaces/{quote(key.namespace)}/{quote(metric['name'], safe='')}"
    items = await _values(client, key, EXTERNAL, path, _selection(metric, "labelSelector"))
    return sum(samples.to_milli(item["value"]) for item in items)


def _selection(metric: Object, parameter: str) -> dict[str, str]:
    if not metric.get("selector"):
        return {}
    try:
        return {parameter: str(selectors.from_object(metric["selector"]))}
    except BadRequest as error:
        raise MetricsUnavailable(error.message) from error


async def _values(
    client: Client, key: ObjectKey, group: str, path: str, query: Mapping[str, str]
) -> Sequence[Any]:
    """At least one value; every item has a valid `value`. Raises MetricsUnavailable."""
    api = f"unable to fetch metrics from {_NAMES[group]} metrics API"

    async def ask() -> Sequence[Any]:
        version = await _version(client, key, group)
        target = f"/tenants/{key.tenant}/apis/{group}/{version}/{path}"
        body = await client.request("GET", paths.with_query(target, query))
        return body.get("items") or ()

    items = await _asked(ask, api)
    if not items:
        raise MetricsUnavailable(f"no metrics returned from {_NAMES[group]} metrics API")
    try:
        for item in items[:VALUES_MAX]:
            samples.to_milli(item["value"])
            meta.parse_time(item["timestamp"])
            if group == CUSTOM:
                get(item["describedObject"], "name")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MetricsUnavailable(f"{api}: a value is not valid") from error
    if len(items) > VALUES_MAX:
        raise MetricsUnavailable(f"{api}: more than {VALUES_MAX} values")
    return items


async def _asked(ask: Callable[[], Any], api: str) -> Sequence[Any]:
    try:
        async with asyncio.timeout(SECONDS_MAX):
            items: Sequence[Any] = await ask()
    except ApiError as error:
        raise MetricsUnavailable(f"{api}: {error.message}") from error
    except TimeoutError as error:
        raise MetricsUnavailable(f"{api}: context deadline exceeded") from error
    except (Unreachable, MalformedResponse) as error:
        if isinstance(error, Unreachable) and not error.sent:
            raise  # The API server itself cannot be reached.
        raise MetricsUnavailable(f"{api}: the server's answer is not valid") from error
    if not isinstance(items, list):
        raise MetricsUnavailable(f"no metrics returned from {api.rpartition(' from ')[2]}")
    return items


async def _version(client: Client, key: ObjectKey, group: str) -> str:
    """The preferred version of the group that this controller knows. Raises NotFound."""
    try:
        document = await client.request("GET", f"/tenants/{key.tenant}/apis/{group}")
    except NotFound as error:
        raise NotFound(f"no {_NAMES[group]} metrics API ({group}) registered") from error
    served = {each["version"] for each in document["versions"]}
    known = [version for version in _VERSIONS[group] if version in served]
    if not known:
        raise NotFound(f"no {_NAMES[group]} metrics API ({group}) registered")
    return known[0]


def _window_seconds(item: Object) -> float:
    seconds = item.get("windowSeconds")
    if isinstance(seconds, int) and not isinstance(seconds, bool):
        return float(min(max(seconds, 0), 86_400))
    return samples.seconds(str(item.get("window") or ""))
