"""Discovers the resources that the server serves to a tenant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.errors import MalformedResponse
from alcove.client.resources import Resource

ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

PATHS = ("/api", "/apis")
_SAME_OBJECTS = frozenset({("events.k8s.io", "events"), ("", "networks")})
"""Resources that are also served under another group or name, and would be listed twice."""


class ServedResource(Struct, frozen=True):
    resource: Resource
    verbs: frozenset[str]


async def served(client: Client, tenant: TenantId) -> list[ServedResource]:
    """Every resource once, at the server's preferred version. Raises ApiError, Unreachable and
    MalformedResponse."""
    return parsed(
        [
            await client.request("GET", f"/tenants/{tenant}{path}", headers={"Accept": ACCEPT})
            for path in PATHS
        ]
    )


def parsed(documents: Iterable[Object]) -> list[ServedResource]:
    """The resources of discovery documents, each once. Raises MalformedResponse."""
    resources: dict[tuple[str, str], ServedResource] = {}
    for document in documents:
        try:
            for each in _resources(document):
                resources.setdefault((each.resource.group, each.resource.resource), each)
        except (KeyError, TypeError) as error:
            raise MalformedResponse("the server's discovery is not a discovery document") from error
    return [each for names, each in resources.items() if names not in _SAME_OBJECTS]


def _resources(document: Object) -> Iterator[ServedResource]:
    for group in document["items"]:
        name = group["metadata"].get("name") or ""
        for version in group["versions"]:
            for each in version.get("resources") or ():  # None of an aggregated API that is not available.
                resource = Resource(
                    name,
                    version["version"],
                    each["resource"],
                    each["responseKind"]["kind"],
                    each["scope"] == "Namespaced",
                )
                yield ServedResource(resource, frozenset(each["verbs"]))
