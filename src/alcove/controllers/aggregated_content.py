"""A terminating namespace's objects in aggregated APIs, which the metadata cache does not have: their servers are asked.

A group version whose server does not answer may have objects: the namespace waits for it, as in Kubernetes, and says so
in its condition NamespaceDeletionDiscoveryFailure. In a terminating tenant nothing is asked: extension servers are pods
of the tenant, and end with it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from msgspec import Struct

from alcove.api import objects
from alcove.api.errors import ApiError, NotFound
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.errors import MalformedResponse, Unreachable
from alcove.client.keys import ObjectKey
from alcove.controllers import conditions

SECONDS_MAX = 20.0
"""For all servers of a tenant together, each time that a namespace is looked at."""
GROUP_VERSION_SECONDS_MAX = 8.0
DELETED_AT_ONCE_MAX = 100


class AggregatedContent(Struct):
    undiscovered: list[str]
    """What is wrong with group versions whose resources are not known."""
    failures: list[str]
    remaining: Counter[str]
    """Numbers of objects, by resource and group."""

    @property
    def is_empty(self) -> bool:
        return not (self.undiscovered or self.failures or self.remaining)


class _ServedResource(Struct, frozen=True):
    name: str
    verbs: frozenset[str]


async def delete(client: Client, namespace: ObjectKey, api_services: Sequence[Object]) -> AggregatedContent:
    """Deletes the namespace's objects in the APIs of these APIServices; returns what is left."""
    content = AggregatedContent([], [], Counter())
    registered = [each["spec"] for each in api_services if objects.get(each, "spec", "service") is not None]
    available = [each["spec"] for each in api_services if conditions.is_true(each, "Available")]
    for spec in registered:
        if spec not in available:
            content.undiscovered.append(f"{_name(spec)}: stale GroupVersion discovery: {_name(spec)}")
    try:
        async with asyncio.timeout(SECONDS_MAX), asyncio.TaskGroup() as tasks:
            for spec in registered:
                if spec in available:
                    tasks.create_task(_delete_version(client, namespace, spec, content))
    except TimeoutError:
        content.failures.append("aggregated APIs have not answered in time")
    return content


async def _delete_version(
    client: Client, namespace: ObjectKey, spec: Object, content: AggregatedContent
) -> None:
    root = f"/tenants/{namespace.tenant}/apis/{_name(spec)}"
    try:
        async with asyncio.timeout(GROUP_VERSION_SECONDS_MAX):
            served = list(_deletable(await client.request("GET", root)))
    except (ApiError, Unreachable, MalformedResponse, TimeoutError, TypeError, AttributeError) as error:
        content.undiscovered.append(f"{_name(spec)}: {_message(error)}")
        return
    for resource in served:
        try:
            async with asyncio.timeout(GROUP_VERSION_SECONDS_MAX):
                path = f"{root}/namespaces/{quote(namespace.name)}/{quote(resource.name)}"
                count = await _delete_resource(client, path, resource)
        except (ApiError, Unreachable, MalformedResponse, TimeoutError, TypeError, AttributeError) as error:
            content.failures.append(f"{resource.name}.{spec['group']}: {_message(error)}")
        else:
            if count:
                content.remaining[f"{resource.name}.{spec['group']}"] = count


async def _delete_resource(client: Client, path: str, resource: _ServedResource) -> int:
    """The number of objects that are left."""
    items = (await client.request("GET", path)).get("items") or []
    if not items:
        return 0
    if "deletecollection" in resource.verbs:
        await client.request("DELETE", path)
    else:
        names = [str(objects.name(each)) for each in items if not _is_terminating(each)]
        for name in names[:DELETED_AT_ONCE_MAX]:
            try:
                await client.request("DELETE", f"{path}/{quote(name, safe='')}")
            except NotFound:
                continue
    return len((await client.request("GET", path)).get("items") or [])


def _deletable(document: Object) -> Iterator[_ServedResource]:
    for each in document.get("resources") or ():
        verbs = frozenset(each.get("verbs") or ())
        if each.get("namespaced") and "/" not in each["name"] and {"list", "delete"} <= verbs:
            yield _ServedResource(str(each["name"]), verbs)


def _is_terminating(obj: Object) -> bool:
    return objects.get(obj, "metadata", "deletionTimestamp") is not None


def _name(spec: Object) -> str:
    return f"{spec['group']}/{spec['version']}"


def _message(error: Exception) -> str:
    match error:
        case ApiError():
            return error.message
        case TimeoutError():
            return "context deadline exceeded"
    return "the server's answer is not valid"
