"""An index of pods by node, over all tenants and planes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from alcove.api.objects import Object, get
from alcove.client.keys import ObjectKey
from alcove.client.mirror import Mirror

NODE = "node"


def node_of(pod: Object) -> Iterable[str]:
    """An index of pods, under the name `NODE`."""
    name = get(pod, "spec", "nodeName")
    return [name] if name else []


def on_node(pods: Mirror, node: str) -> Iterator[ObjectKey]:
    for tenant_key in pods.spaces():
        yield from pods.find_keys(NODE, tenant_key.plane, tenant_key.tenant, node)
