"""Completes an object that a tenant's webhook or policy changed, and reverts what it may not change.

A webhook or policy may change only what the client could have written. Types are decoded and defaults are
applied again; fields that only the server writes, or that this subresource does not carry, are reset.
"""

from collections.abc import Callable, Sequence

from alcove.api.errors import BadRequest, Forbidden, Invalid
from alcove.api.fields import FieldError
from alcove.api.kinds.core.pods import subresources
from alcove.api.objects import Object
from alcove.api.schema.decode import decode
from alcove.api.schema.node import SchemaNode, SchemaType
from alcove.apiserver.admission.base import Attributes, Operation

_SERVER_METADATA = (
    "name",
    "namespace",
    "tenant",
    "uid",
    "selfLink",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "managedFields",
)
_STATUS_LIKE = ("status", "approval")
_POD_SUBRESOURCES: dict[
    str, tuple[Callable[[Object, Object], None], Callable[[Object, Object], Sequence[FieldError]]]
] = {
    "ephemeralcontainers": (
        subresources.prepare_ephemeral_containers,
        subresources.validate_ephemeral_containers,
    ),
    "resize": (subresources.prepare_resize, subresources.validate_resize),
}


def is_changeable(attributes: Attributes) -> bool:
    """Whether webhooks and policies may change anything in this write."""
    if attributes.obj is None:
        return False
    if attributes.operation is Operation.CONNECT:
        return True
    return attributes.subresource in ("", "scale", *_STATUS_LIKE, *_POD_SUBRESOURCES)


def complete(attributes: Attributes, new: Object) -> Object:
    """Complete `new`, at the version of `attributes.kind`, to replace `attributes.obj`.

    Raises BadRequest, Forbidden and Invalid.
    """
    before, kind, subresource = attributes.obj, attributes.kind, attributes.subresource
    if before is None or not is_changeable(attributes):
        raise Forbidden.of(attributes.resource, attributes.name, "nothing in this request can be changed")
    if (new.get("apiVersion"), new.get("kind")) != (before["apiVersion"], before["kind"]):
        raise Forbidden.of(attributes.resource, attributes.name, "the kind of an object cannot be changed")
    if attributes.operation is Operation.CONNECT:
        return _complete_connection(new)
    new = decode(kind.schema, new)
    _reset_metadata(new, before)
    if subresource in _STATUS_LIKE:
        return {**before, "status": new["status"]} if "status" in new else before
    if kind.strategy.has_status:
        new.pop("status", None)
        if "status" in before:
            new["status"] = before["status"]
    if subresource in _POD_SUBRESOURCES:
        return _complete_pod(attributes, new)
    kind.strategy.default(new)
    if attributes.operation is Operation.UPDATE and attributes.old is not None:
        kind.strategy.prepare_update(new, attributes.old)
    return new


def _reset_metadata(new: Object, before: Object) -> None:
    metadata = new.setdefault("metadata", {})
    for field in _SERVER_METADATA:
        if field in before["metadata"]:
            metadata[field] = before["metadata"][field]
        else:
            metadata.pop(field, None)


def _complete_pod(attributes: Attributes, new: Object) -> Object:
    prepare, validate = _POD_SUBRESOURCES[attributes.subresource]
    assert attributes.old is not None
    prepare(new, attributes.old)
    attributes.kind.strategy.default(new)
    errors = validate(new, attributes.old)
    if errors:
        raise Invalid.of("", "Pod", attributes.name, errors)
    return new


# The options of a connection (exec, attach, portforward, proxy). Clients send them as a query string and they
# are not resources, so OpenAPI has no schema of them; the types are Kubernetes'.


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
_CONNECT_OPTIONS = {
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


def _complete_connection(options: Object) -> Object:
    """The options, decoded by their schema. Raises BadRequest."""
    node = _CONNECT_OPTIONS.get(options["kind"])
    if node is None:
        raise BadRequest(f"nothing in {options['kind']} can be changed")
    return decode(node, options)
