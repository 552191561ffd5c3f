"""What a webhook is shown of a write: the object at the version its rules name, or what was posted to a
subresource; and how its changes come back.

Kubernetes shows what a request carried: a Scale, a Binding, an Eviction. Here such a request is a write of
the object it changes, so what it carried is made out of that again.
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
    """The write with the operation that the client asked for: who binds or evicts, creates something."""
    if attributes.subresource in _POSTED:
        return replace(attributes, operation=Operation.CREATE)
    return attributes


async def show(attributes: Attributes, kind: Kind) -> ReviewObjects:
    """The objects as `kind`, which the webhook's rules matched."""
    if attributes.operation is Operation.CONNECT:
        return ReviewObjects(_own_kind(attributes.obj or {}), attributes.obj, None)
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
    """The object as it is worked on, with what a webhook made of what it was shown."""
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


def _own_kind(obj: Object) -> GroupVersionKind:
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
