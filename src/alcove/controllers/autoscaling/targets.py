"""What an autoscaler scales: any resource of its tenant that has a `scale`, found by kind."""

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
    """Raises Unknown: there is no such kind, or it cannot be scaled."""
    version = str(reference.get("apiVersion") or "")
    group, slash, name = version.partition("/")
    group, name, kind = (group if slash else "", name if slash else version, str(reference["kind"]))
    stock = _STOCK.get((group, kind))
    if stock is not None:
        return stock
    try:
        served = await client.request("GET", f"/tenants/{tenant}/apis/{group}/{name}")
    except ApiError as error:
        raise MetricsUnavailable(_missing(kind, version)) from error
    for each in served.get("resources") or ():
        if each.get("kind") == kind and "/" not in each["name"]:
            return Resource(group, name, each["name"], kind, bool(each.get("namespaced")))
    raise MetricsUnavailable(_missing(kind, version))


def _missing(kind: str, version: str) -> str:
    return f'no matches for kind "{kind}" in group "{version}"'
