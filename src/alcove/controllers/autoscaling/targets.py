"""Finds the resource of an autoscaler's `scaleTargetRef` by its kind: any resource of the tenant."""

from __future__ import annotations

from alcove.api.errors import ApiError
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.client import Client
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


async def find(client: Client, tenant: TenantId, reference: Object) -> Resource:
    """Raises MetricsUnavailable if the tenant has no such kind."""
    version = str(reference.get("apiVersion") or "")
    group, slash, name = version.partition("/")
    group, name, kind = (group if slash else "", name if slash else version, str(reference["kind"]))
    stock = _STOCK.get((group, kind))
    if stock is not None:
        return stock
    try:
        served = await client.request("GET", f"/tenants/{tenant}/apis/{group}/{name}")
    except ApiError as error:
        raise MetricsUnavailable(_no_match(kind, version)) from error
    for each in served.get("resources") or ():
        if each.get("kind") == kind and "/" not in each["name"]:
            return Resource(group, name, each["name"], kind, bool(each.get("namespaced")))
    raise MetricsUnavailable(_no_match(kind, version))


def _no_match(kind: str, version: str) -> str:
    return f'no matches for kind "{kind}" in group "{version}"'
