"""The scheduling-relevant state of a node, parsed once, and comparable to detect changes."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from alcove.api.objects import Object, get
from alcove.api.tolerations import NodeTaint, read_taints
from alcove.scheduler import resource_amounts
from alcove.scheduler.resource_amounts import Amounts

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


class NodeFacts(Struct, frozen=True):
    name: str
    labels: Mapping[str, str] = {}
    allocatable: Mapping[str, int] = {}
    taints: tuple[NodeTaint, ...] = ()
    is_unschedulable: bool = False
    images: Mapping[str, int] = {}
    """Size in bytes of each image the node has, by each of its names."""
    handlers: frozenset[str] = frozenset()
    """Proven runtime handlers of the node."""


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
    )


def _allocatable(status: Object) -> Amounts:
    """Allocatable resources; the capacity if the node does not report them."""
    allocatable: Mapping[str, Any] | None = status.get("allocatable")
    return resource_amounts.read_valid(status.get("capacity") if allocatable is None else allocatable)


def _images(images: list[Object] | tuple[()]) -> dict[str, int]:
    return {name: _bytes(each.get("sizeBytes")) for each in images for name in each.get("names") or ()}


def _bytes(size: int | None) -> int:
    return max(0, min(size or 0, resource_amounts.AMOUNT_MAX))
