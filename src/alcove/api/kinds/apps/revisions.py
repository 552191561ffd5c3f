"""ControllerRevisions: what a controller's template was. Only the number of a revision may change."""

from alcove.api.fields import FieldError, required
from alcove.api.kind import Strategy
from alcove.api.kinds.checks import not_negative, unchanged
from alcove.api.objects import Object


def validate_revision(obj: Object) -> list[FieldError]:
    faults = not_negative(obj, "", "revision")
    if obj.get("data") is None:
        faults.append(required("data", "data is mandatory"))
    elif not isinstance(obj["data"], dict):
        faults.append(required("data", "data must be a valid JSON object"))
    return faults


def validate_revision_update(new: Object, old: Object) -> list[FieldError]:
    return unchanged(new, old, "", "data")


STRATEGY = Strategy(validate=validate_revision, validate_update=validate_revision_update)
