"""What scheduling sees of a node: read once from the object, compared to tell whether anything changed."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from alcove.api.objects import Object, annotations, get
from alcove.scheduler import amounts
from alcove.scheduler.amounts import Amounts
from alcove.scheduler.taints import Taint, read_taints

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


_HELD = ".held.scheduling.alcove.io/amounts"


class NodeFacts(Struct, frozen=True):
    name: str
    labels: Mapping[str, str] = {}
    allocatable: Mapping[str, int] = {}
    taints: tuple[Taint, ...] = ()
    is_unschedulable: bool = False
    images: Mapping[str, int] = {}
    """Size in bytes of each image the node has, by each of its names."""
    handlers: frozenset[str] = frozenset()
    """Runtime handlers that the node has proven it can start pods with."""
    held: Mapping[str, Mapping[str, int]] = {}
    """Per dedicated plane the most that its pods may have on the node, as noted there (`escrow`)."""


def read_node(node: Object) -> NodeFacts:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    return NodeFacts(
        name=node["metadata"]["name"],
        labels=dict(get(node, "metadata", "labels", default={})),
        allocatable=_allocatable(status),
        taints=read_taints(spec.get("taints") or ()),
        is_unschedulable=bool(spec.get("unschedulable")),
        images=_images(status.get("images") or ()),
        handlers=frozenset(each.get("name", "") for each in status.get("runtimeHandlers") or ()),
        held=_held(annotations(node)),
    )


def held_key(plane: str) -> str:
    """The annotation in which a node notes what a plane may have on it."""
    return f"{plane}{_HELD}"


def _held(noted: Mapping[str, str]) -> dict[str, Amounts]:
    found: dict[str, Amounts] = {}
    for key, text in noted.items():
        if key.endswith(_HELD):
            try:
                found[key.removesuffix(_HELD)] = msgspec.json.decode(text, type=dict[str, int])
            except msgspec.DecodeError:
                continue
    return found


def _allocatable(status: Object) -> Amounts:
    """A node that says nothing of what is allocatable gives all it has."""
    given: Mapping[str, Any] | None = status.get("allocatable")
    return amounts.read_valid(status.get("capacity") if given is None else given)


def _images(images: list[Object] | tuple[()]) -> dict[str, int]:
    return {name: _bytes(each.get("sizeBytes")) for each in images for name in each.get("names") or ()}


def _bytes(size: int | None) -> int:
    return max(0, min(size or 0, amounts.AMOUNT_MAX))
