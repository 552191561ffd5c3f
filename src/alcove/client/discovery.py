"""Which resources a tenant is served, as the server tells."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.errors import MalformedResponse
from alcove.client.resources import Resource

_ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_SAME_OBJECTS = frozenset({("events.k8s.io", "events"), ("", "networks")})
"""Other names of resources that are served under a first one too."""


class ServedResource(Struct, frozen=True):
    resource: Resource
    verbs: frozenset[str]


async def served(client: Client, tenant: TenantId) -> list[ServedResource]:
    """Every resource once, at the version that the server prefers."""
    found: dict[tuple[str, str], ServedResource] = {}
    for path in ("/api", "/apis"):
        document = await client.request("GET", f"/tenants/{tenant}{path}", headers={"Accept": _ACCEPT})
        try:
            for each in _parsed(document):
                found.setdefault((each.resource.group, each.resource.resource), each)
        except (KeyError, TypeError) as error:
            raise MalformedResponse(f"{path} is no discovery document") from error
    return [each for names, each in found.items() if names not in _SAME_OBJECTS]


def _parsed(document: Object) -> Iterator[ServedResource]:
    for group in document["items"]:
        name = group["metadata"].get("name") or ""
        for version in group["versions"]:
            for each in version["resources"]:
                resource = Resource(
                    name,
                    version["version"],
                    each["resource"],
                    each["responseKind"]["kind"],
                    each["scope"] == "Namespaced",
                )
                yield ServedResource(resource, frozenset(each["verbs"]))
