"""Schemas of the options of a connection (exec, attach, portforward, proxy), which webhooks may change.

Clients send them as a query string and they are not resources, so OpenAPI has no schema of them; the types
are Kubernetes'.
"""

from __future__ import annotations

from alcove.api.errors import BadRequest
from alcove.api.objects import Object
from alcove.api.schema.decode import decode
from alcove.api.schema.node import SchemaNode, SchemaType


def _schema(
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
        _schema("PodExecOptions", _STREAMS, ("container",), command=SchemaNode(SchemaType.STRING)),
        _schema("PodAttachOptions", _STREAMS, ("container",)),
        _schema("PodPortForwardOptions", ports=SchemaNode(SchemaType.INTEGER, format="int32")),
        _schema("PodProxyOptions", texts=("path",)),
        _schema("ServiceProxyOptions", texts=("path",)),
        _schema("NodeProxyOptions", texts=("path",)),
    )
}


def completed(options: Object) -> Object:
    """The options, decoded by their schema. Raises BadRequest."""
    node = _OPTIONS.get(options["kind"])
    if node is None:
        raise BadRequest(f"nothing in {options['kind']} can be changed")
    return decode(node, options)
