"""What an autoscaler scales: the resource of its `scaleTargetRef`, any of the tenant's, found by its kind; and
which other autoscalers select the same pods, so that they would scale against each other."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.errors import ApiError
from alcove.api.ids import TenantId
from alcove.api.objects import Object, labels
from alcove.api.selectors import LabelSelector
from alcove.client.client import Client
from alcove.client.keys import ObjectKey, PlaneId
from alcove.client.resources import (
    DEPLOYMENTS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)
from alcove.controllers.autoscaling.samples import MetricsUnavailable

_STOCK = {
    (each.group, each.kind): each
    for each in (DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS)
}
_NamespaceKey = tuple[PlaneId, TenantId, str]


async def find(client: Client, tenant: TenantId, reference: Object) -> Resource:
    """Raises MetricsUnavailable if the tenant has no such kind."""
    version = str(reference.get("apiVersion") or "")
    group, slash, name = version.partition("/")
    group, name, kind = (group if slash else "", name if slash else version, str(reference["kind"]))
    stock = _STOCK.get((group, kind))
    if stock is not None:
        return stock
    try:
        root = f"apis/{group}/{name}" if group else f"api/{name}"
        served = await client.request("GET", f"/tenants/{tenant}/{root}")
    except ApiError as error:
        raise MetricsUnavailable(_no_match(kind, version)) from error
    for each in served.get("resources") or ():
        if each.get("kind") == kind and "/" not in each["name"]:
            return Resource(group, name, each["name"], kind, bool(each.get("namespaced")))
    raise MetricsUnavailable(_no_match(kind, version))


def _no_match(kind: str, version: str) -> str:
    return f'no matches for kind "{kind}" in group "{version}"'


class CompetingAutoscalers:
    """The last known pod selector of each autoscaler."""

    def __init__(self) -> None:
        self._selectors: dict[_NamespaceKey, dict[str, LabelSelector]] = {}

    def note(self, key: ObjectKey, selector: LabelSelector) -> None:
        self._selectors.setdefault((key.plane, key.tenant, key.namespace), {})[key.name] = selector

    def forget(self, key: ObjectKey) -> None:
        namespace = (key.plane, key.tenant, key.namespace)
        names = self._selectors.get(namespace, {})
        names.pop(key.name, None)
        if not names:
            self._selectors.pop(namespace, None)

    def of(self, key: ObjectKey, pods: Iterable[Object]) -> list[str]:
        """Names of other autoscalers in the same tenant and namespace that select one of these pods."""
        names = self._selectors.get((key.plane, key.tenant, key.namespace), {})
        others = {name: selector for name, selector in names.items() if name != key.name}
        if not others:
            return []
        pod_labels = [labels(pod) for pod in pods]
        return sorted(name for name, selector in others.items() if any(map(selector.matches, pod_labels)))
