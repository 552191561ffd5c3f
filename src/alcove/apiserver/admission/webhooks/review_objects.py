"""The objects that a webhook is sent for a write: the object at the version of its rules, or the body that
was posted to a subresource; and how its changes are applied.

Kubernetes sends the body of the request: a Scale, a Binding, an Eviction. Here such a request is processed as
a write of the changed object, so the body is reconstructed from that object.
"""

from __future__ import annotations

import copy

from msgspec import Struct
from msgspec.structs import replace

from alcove.api.ids import GroupVersionKind
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.apiserver.admission import versions
from alcove.apiserver.admission.base import Attributes, Operation

SCALE = GroupVersionKind("autoscaling", "v1", "Scale")
BINDING = GroupVersionKind("", "v1", "Binding")
EVICTION = GroupVersionKind("policy", "v1", "Eviction")

_POSTED = frozenset(("binding", "eviction"))
_METADATA = ("name", "namespace", "tenant", "uid")


class ReviewObjects(Struct, frozen=True):
    kind: GroupVersionKind
    obj: Object | None
    old: Object | None


def as_requested(attributes: Attributes) -> Attributes:
    """The write with the operation that the client requested: a binding or eviction is a CREATE."""
    if attributes.subresource in _POSTED:
        return replace(attributes, operation=Operation.CREATE)
    return attributes


async def show(attributes: Attributes, kind: Kind) -> ReviewObjects:
    """The objects at the version of `kind`, which the webhook's rules matched."""
    if attributes.operation is Operation.CONNECT:
        return ReviewObjects(_kind_of(attributes.obj or {}), attributes.obj, None)
    match attributes.subresource:
        case "scale":
            obj, old = (_scale(attributes, each) for each in (attributes.obj, attributes.old))
            return ReviewObjects(SCALE, obj, old)
        case "binding":
            return ReviewObjects(BINDING, _binding(attributes), None)
        case "eviction":
            return ReviewObjects(EVICTION, _eviction(attributes), None)
    obj, old = [await versions.at(attributes, kind, each) for each in (attributes.obj, attributes.old)]
    return ReviewObjects(kind.gvk, obj, old)


async def take_back(attributes: Attributes, kind: Kind, changed: Object) -> Object:
    """The object at the processed version, with the changes that a webhook made to the object it was sent."""
    assert attributes.obj is not None
    if attributes.operation is Operation.CONNECT:
        return changed
    if attributes.subresource != "scale":
        return await versions.back(attributes.kind, kind, changed)
    from alcove.apiserver.resources import scale

    obj = copy.deepcopy(attributes.obj)
    holder, path = obj, scale.paths(attributes.kind)[0]
    for step in path[:-1]:
        holder = holder.setdefault(step, {})
    holder[path[-1]] = (changed.get("spec") or {}).get("replicas", 0)
    return obj


def _kind_of(obj: Object) -> GroupVersionKind:
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    return GroupVersionKind(group, version, str(obj.get("kind", "")))


def _scale(attributes: Attributes, obj: Object | None) -> Object | None:
    from alcove.apiserver.resources import scale

    return scale.of(attributes.kind, obj) if obj is not None else None


def _binding(attributes: Attributes) -> Object:
    pod = attributes.obj or {}
    target = {"kind": "Node", "name": pod["spec"].get("nodeName", "")}
    return {**_head(BINDING, pod), "target": target}


def _eviction(attributes: Attributes) -> Object:
    options = {"deleteOptions": attributes.options} if attributes.options else {}
    return {**_head(EVICTION, attributes.old or {}), **options}


def _head(kind: GroupVersionKind, pod: Object) -> Object:
    metadata = {field: pod["metadata"][field] for field in _METADATA if field in pod["metadata"]}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
