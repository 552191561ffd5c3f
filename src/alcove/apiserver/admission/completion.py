"""What a tenant's webhook or policy made of an object, brought back to what such a write can be.

Whoever changes an object on its way may change what its client could have: no less is checked, nothing
more is let through. Types are read again, defaults filled in again, and all that the server alone says,
or that this subresource does not carry, is as it was.
"""

from collections.abc import Callable, Sequence

from alcove.api.errors import Forbidden, Invalid
from alcove.api.fields import FieldError
from alcove.api.kinds.core.pods import subresources
from alcove.api.objects import Object
from alcove.api.schema.decode import decode
from alcove.apiserver.admission import connections
from alcove.apiserver.admission.base import Attributes, Operation

_KEPT_METADATA = (
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
_OF_PODS: dict[
    str, tuple[Callable[[Object, Object], None], Callable[[Object, Object], Sequence[FieldError]]]
] = {
    "ephemeralcontainers": (
        subresources.prepare_ephemeral_containers,
        subresources.validate_ephemeral_containers,
    ),
    "resize": (subresources.prepare_resize, subresources.validate_resize),
}


def is_changeable(attributes: Attributes) -> bool:
    """Whether there is anything in this write that may be changed on its way."""
    if attributes.obj is None:
        return False
    if attributes.operation is Operation.CONNECT:
        return True
    return attributes.subresource in ("", "scale", *_STATUS_LIKE, *_OF_PODS)


def complete(attributes: Attributes, new: Object) -> Object:
    """`new`, at the version of `attributes.kind`, in place of `attributes.obj`. Raises BadRequest, Forbidden, Invalid."""
    before, kind, subresource = attributes.obj, attributes.kind, attributes.subresource
    if before is None or not is_changeable(attributes):
        raise Forbidden.of(attributes.resource, attributes.name, "nothing in this request can be changed")
    if (new.get("apiVersion"), new.get("kind")) != (before["apiVersion"], before["kind"]):
        raise Forbidden.of(attributes.resource, attributes.name, "the kind of an object cannot be changed")
    if attributes.operation is Operation.CONNECT:
        return connections.completed(new)
    new = decode(kind.schema, new)
    _keep_metadata(new, before)
    if subresource in _STATUS_LIKE:
        return {**before, "status": new["status"]} if "status" in new else before
    if kind.strategy.has_status:
        new.pop("status", None)
        if "status" in before:
            new["status"] = before["status"]
    if subresource in _OF_PODS:
        return _complete_pod(attributes, new)
    kind.strategy.default(new)
    if attributes.operation is Operation.UPDATE and attributes.old is not None:
        kind.strategy.prepare_update(new, attributes.old)
    return new


def _keep_metadata(new: Object, before: Object) -> None:
    metadata = new.setdefault("metadata", {})
    for field in _KEPT_METADATA:
        if field in before["metadata"]:
            metadata[field] = before["metadata"][field]
        else:
            metadata.pop(field, None)


def _complete_pod(attributes: Attributes, new: Object) -> Object:
    prepare, validate = _OF_PODS[attributes.subresource]
    assert attributes.old is not None
    prepare(new, attributes.old)
    attributes.kind.strategy.default(new)
    faults = validate(new, attributes.old)
    if faults:
        raise Invalid.of("", "Pod", attributes.name, faults)
    return new
