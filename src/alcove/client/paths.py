"""URLs of objects and collections, in the full form that names the tenant."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from alcove.api.ids import TenantId
from alcove.client.resources import Resource

RING0 = ""
_TENANTS = "/tenants/"


def collection(tenant: TenantId, resource: Resource, namespace: str = "") -> str:
    """`/apis/apps/v1/tenants/T/namespaces/N/deployments`; Tenants themselves are at `/api/v1/tenants`."""
    if resource.resource == "tenants" and not resource.group:
        return "/api/v1/tenants"
    within = f"/namespaces/{quote(namespace)}" if namespace else ""
    return f"{resource.root}/tenants/{quote(tenant)}{within}/{resource.resource}"


def one(tenant: TenantId, resource: Resource, namespace: str, name: str, subresource: str = "") -> str:
    path = f"{collection(tenant, resource, namespace)}/{quote(name, safe=':')}"
    return f"{path}/{subresource}" if subresource else path


def with_query(path: str, query: Mapping[str, str]) -> str:
    present = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(present)}" if present else path


def tenant_of(path: str) -> str:
    """The tenant of a request, from its path; RING0 for requests of ring0."""
    start = path.find(_TENANTS)
    if start < 0:
        return RING0
    start += len(_TENANTS)
    end = path.find("/", start)
    tenant = path[start:end] if end >= 0 else path[start:].partition("?")[0]
    return RING0 if tenant in ("system", "all") else tenant
