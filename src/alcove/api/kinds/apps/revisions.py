"""ControllerRevisions: snapshots of a controller's template. Only `revision` may change."""

from alcove.api.fields import FieldError, required
from alcove.api.kind import Strategy
from alcove.api.kinds.checks import not_negative, unchanged
from alcove.api.objects import Object


def validate_revision(obj: Object) -> list[FieldError]:
    return not_negative(obj, "", "revision")


def validate_new_revision(obj: Object) -> list[FieldError]:
    if obj.get("data") is None:
        return [required("data", "data is mandatory")]
    return [] if isinstance(obj["data"], dict) else [required("data", "data must be a valid JSON object")]


def validate_revision_update(new: Object, old: Object) -> list[FieldError]:
    return unchanged(new, old, "", "data")


STRATEGY = Strategy(
    validate=validate_revision,
    validate_create=validate_new_revision,
    validate_update=validate_revision_update,
)
