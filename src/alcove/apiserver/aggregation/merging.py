"""Adds the group versions of extension servers to this server's discovery and OpenAPI documents. Pure: no I/O.

Of a server's documents only what belongs to its own group version is used, and only in the form that it must have:
a malformed document, and one of more than VALUES_MAX values, counts as missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import orjson
from msgspec import Struct

from alcove.api.errors import BadRequest, TooLarge
from alcove.api.objects import Object
from alcove.api.schema.body import check_values
from alcove.apiserver.aggregation.registrations import Registration
from alcove.apiserver.crds.compiled import preference

RESOURCES_MAX = 512
"""Resources and subresources of one group version; a server that lists more counts as not available."""
_DEFINITIONS = "#/definitions/"

GroupPriority = Callable[[str], int]
"""The priority of a group that this server serves."""
Found = Sequence[tuple[Registration, bytes | None]]
"""Registrations with a document of their server, None if there is none."""


class _Resource(Struct, frozen=True, rename="camel"):
    name: str
    kind: str
    namespaced: bool = False
    verbs: tuple[str, ...] = ()
    singular_name: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    group: str = ""
    version: str = ""


class _ResourceList(Struct, frozen=True):
    resources: tuple[_Resource, ...] = ()


class _OpenApiPath(Struct, frozen=True):
    server_relative_url: str = msgspec.field(default="", name="serverRelativeURL")


class _OpenApiIndex(Struct, frozen=True):
    paths: dict[str, _OpenApiPath] = {}


# Discovery


def by_preference(registrations: Iterable[Registration]) -> list[Registration]:
    """The preferred version of each group first."""
    return sorted(registrations, key=lambda each: (-each.version_priority, preference(each.version)))


def add_groups(document: Object, registrations: Iterable[Registration], priority: GroupPriority) -> Object:
    """An APIGroupList with the registered groups."""
    groups: dict[str, Object] = {each["name"]: each for each in document["groups"]}
    for registration in by_preference(registrations):
        groups[registration.group] = add_version(groups.get(registration.group), registration)
    return {**document, "groups": _sorted(groups, registrations, priority)}


def add_version(group: Object | None, registration: Registration) -> Object:
    """An APIGroup with the registered version; a new one if `group` is None."""
    version = {
        "groupVersion": f"{registration.group}/{registration.version}",
        "version": registration.version,
    }
    if group is None:
        return {"name": registration.group, "versions": [version], "preferredVersion": version}
    return {**group, "versions": [*group["versions"], version]}


def add_discovered(document: Object, found: Found, priority: GroupPriority) -> Object:
    """An APIGroupDiscoveryList with the registered group versions; `found` has their APIResourceLists."""
    bodies = dict(found)
    groups: dict[str, Object] = {each["metadata"]["name"]: each for each in document["items"]}
    for registration in by_preference(bodies):
        version = _discovered(registration, bodies[registration])
        before = groups.get(registration.group)
        if before is None:
            metadata = {"name": registration.group, "creationTimestamp": None}
            groups[registration.group] = {"metadata": metadata, "versions": [version]}
        else:
            groups[registration.group] = {**before, "versions": [*before["versions"], version]}
    return {**document, "items": _sorted(groups, bodies, priority)}


def _sorted(
    groups: Mapping[str, Object], registrations: Iterable[Registration], priority: GroupPriority
) -> list[Object]:
    """By priority; groups that have versions here have the priority that they have here."""
    priorities: dict[str, int] = {}
    for each in registrations:
        priorities[each.group] = max(priorities.get(each.group, 0), each.group_priority)
    local = {name: priority(name) for name in groups}
    return [
        groups[name] for name in sorted(groups, key=lambda name: -(local[name] or priorities.get(name, 0)))
    ]


def _discovered(registration: Registration, body: bytes | None) -> Object:
    resources = _resources(body) if body is not None and registration.is_available else None
    if resources is None:
        return {"version": registration.version, "freshness": "Stale"}
    entries: dict[str, Object] = {}
    for each in resources:
        name, _, subresource = each.name.partition("/")
        if not subresource:
            entries[name] = {**entries.get(name, {}), **_entry(registration, each)}
            continue
        parent = entries.setdefault(name, {"resource": name})
        parent.setdefault("subresources", []).append(
            {
                "subresource": subresource,
                "responseKind": _kind(registration, each),
                "verbs": list(each.verbs),
            }
        )
    shown = [entry for entry in entries.values() if "responseKind" in entry]
    return {"version": registration.version, "freshness": "Current", "resources": shown}


def _resources(body: bytes) -> tuple[_Resource, ...] | None:
    try:
        check_values(body)
        resources = msgspec.json.decode(body, type=_ResourceList).resources
    except (BadRequest, TooLarge, msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return resources if len(resources) <= RESOURCES_MAX else None


def _entry(registration: Registration, resource: _Resource) -> Object:
    entry: Object = {
        "resource": resource.name,
        "responseKind": _kind(registration, resource),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular_name,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return entry


def _kind(registration: Registration, resource: _Resource) -> Object:
    return {
        "group": resource.group or registration.group,
        "version": resource.version or registration.version,
        "kind": resource.kind,
    }


# OpenAPI


def openapi_paths(found: Found, prefix: str) -> dict[str, Object]:
    """The entries of the index of OpenAPI v3 for registered group versions; `found` has the servers' own indexes."""
    entries: dict[str, Object] = {}
    for registration, body in found:
        path = registration.path.removeprefix("/")
        try:
            check_values(body or b"")
            index = msgspec.json.decode(body, type=_OpenApiIndex) if body is not None else _OpenApiIndex()
        except (BadRequest, TooLarge, msgspec.MsgspecError, ValueError, RecursionError):
            continue
        own = index.paths.get(path)
        if own is not None:
            # The server's hash: a client that has the document asks for it again when this changes.
            _, _, query = own.server_relative_url.partition("?")
            url = f"{prefix}/openapi/v3/{path}" + (f"?{query}" if query else "")
            entries[path] = {"serverRelativeURL": url}
    return entries


def merge_v2(document: Object, found: Found) -> Object:
    """An OpenAPI v2 document with the paths of registered group versions and the definitions that they refer to. A
    definition that exists here stays as it is here. Takes long: call it in a thread."""
    for registration, body in found:
        try:
            check_values(body or b"")
            paths, definitions = _own_part(registration, orjson.loads(body or b""))
        except (BadRequest, TooLarge, orjson.JSONDecodeError, AttributeError, TypeError, RecursionError):
            continue
        document = {
            **document,
            "paths": {**document["paths"], **paths},
            "definitions": {**definitions, **document["definitions"]},
        }
    return document


def _own_part(registration: Registration, document: Any) -> tuple[Object, Object]:
    paths = {
        path: item
        for path, item in document.get("paths", {}).items()
        if path.startswith(f"{registration.path}/")
    }
    all_definitions = document.get("definitions", {})
    definitions: Object = {}
    pending = list(_references(paths))
    pending += [name for name, each in all_definitions.items() if _is_own(registration, each)]
    while pending:
        name = pending.pop()
        if name in all_definitions and name not in definitions:
            definitions[name] = all_definitions[name]
            pending += _references(all_definitions[name])
    return paths, definitions


def _is_own(registration: Registration, definition: Object) -> bool:
    kinds = definition.get("x-kubernetes-group-version-kind") or ()
    return any(
        (each.get("group"), each.get("version")) == (registration.group, registration.version)
        for each in kinds
    )


def _references(root: Any) -> list[str]:
    """The names of definitions that a part of a document refers to."""
    names: list[str] = []
    pending = [root]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            target = value.get("$ref")
            if isinstance(target, str) and target.startswith(_DEFINITIONS):
                names.append(target.removeprefix(_DEFINITIONS))
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return names
