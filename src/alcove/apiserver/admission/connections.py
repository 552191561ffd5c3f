"""The options of a connection (exec, attach, portforward, proxy), as webhooks may leave them.

They come as a query string and are no resource, so OpenAPI has no schema of them; these are Kubernetes' types.
"""

from __future__ import annotations

from alcove.api.errors import BadRequest
from alcove.api.objects import Object
from alcove.api.schema.decode import decode
from alcove.api.schema.node import Node, Type


def _of(kind: str, flags: tuple[str, ...] = (), texts: tuple[str, ...] = (), **lists: Node) -> Node:
    node = Node(Type.OBJECT, kind)
    for name in ("apiVersion", "kind", *texts):
        node.properties[name] = Node(Type.STRING)
    for name in flags:
        node.properties[name] = Node(Type.BOOLEAN)
    for name, items in lists.items():
        node.properties[name] = Node(Type.LIST)
        node.properties[name].items = items
    return node


_STREAMS = ("stdin", "stdout", "stderr", "tty")
_OPTIONS = {
    node.name: node
    for node in (
        _of("PodExecOptions", _STREAMS, ("container",), command=Node(Type.STRING)),
        _of("PodAttachOptions", _STREAMS, ("container",)),
        _of("PodPortForwardOptions", ports=Node(Type.INTEGER, format="int32")),
        _of("PodProxyOptions", texts=("path",)),
        _of("ServiceProxyOptions", texts=("path",)),
        _of("NodeProxyOptions", texts=("path",)),
    )
}


def completed(options: Object) -> Object:
    """The options with what they may have, and nothing else. Raises BadRequest."""
    node = _OPTIONS.get(options["kind"])
    if node is None:
        raise BadRequest(f"nothing in {options['kind']} can be changed")
    return decode(node, options)
