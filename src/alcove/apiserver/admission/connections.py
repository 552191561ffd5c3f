"""The options of a connection (exec, attach, portforward, proxy), as webhooks may leave them.

They come as a query string and are no resource, so OpenAPI has no schema of them; these are Kubernetes' types.
"""

from __future__ import annotations

from alcove.api.errors import BadRequest
from alcove.api.objects import Object
from alcove.api.schema.decode import decode
from alcove.api.schema.node import SchemaNode, SchemaType


def _of(
    kind: str, flags: tuple[str, ...] = (), texts: tuple[str, ...] = (), **lists: SchemaNode
) -> SchemaNode:
    node = SchemaNode(SchemaType.OBJECT, kind)
    for name in ("apiVersion", "kind", *texts):
        node.properties[name] = SchemaNode(SchemaType.STRING)
    for name in flags:
        node.properties[name] = SchemaNode(SchemaType.BOOLEAN)
    for name, items in lists.items():
        node.properties[name] = SchemaNode(SchemaType.LIST)
        node.properties[name].items = items
    return node


_STREAMS = ("stdin", "stdout", "stderr", "tty")
_OPTIONS = {
    node.name: node
    for node in (
        _of("PodExecOptions", _STREAMS, ("container",), command=SchemaNode(SchemaType.STRING)),
        _of("PodAttachOptions", _STREAMS, ("container",)),
        _of("PodPortForwardOptions", ports=SchemaNode(SchemaType.INTEGER, format="int32")),
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
