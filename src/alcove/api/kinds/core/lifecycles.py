"""Spaces that empty before they go (namespaces, tenants): finalizers in the spec, a phase in the status."""

from alcove.api import names
from alcove.api.fields import FieldError, invalid
from alcove.api.objects import Object, get
from alcove.api.validation import Faults, check_value

_STANDARD_FINALIZERS = ("kubernetes", "arktos", "orphan", "foregroundDeletion")


def add_finalizer(space: Object, finalizer: str) -> None:
    finalizers = space.setdefault("spec", {}).setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)


def keep_finalizers(new: Object, old: Object) -> None:
    """Finalizers change through `/finalize` only."""
    kept = get(old, "spec", "finalizers")
    spec = new.setdefault("spec", {})
    if kept:
        spec["finalizers"] = list(kept)
    else:
        spec.pop("finalizers", None)


def check_finalizers(space: Object, faults: Faults, *, indexed: bool = False) -> None:
    for index, finalizer in enumerate(get(space, "spec", "finalizers", default=())):
        field = f"spec.finalizers[{index}]" if indexed else "spec.finalizers"
        check_value(finalizer, names.qualified_name, field, faults)
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            message = "name is neither a standard finalizer name nor is it fully qualified"
            faults.append(invalid(field, finalizer, message))


def validate_finalize(new: Object, _old: Object) -> list[FieldError]:
    """A write to `/finalize`."""
    faults: list[FieldError] = []
    check_finalizers(new, faults, indexed=True)
    return faults


def default_phase(space: Object) -> None:
    if "status" in space and not space["status"].get("phase"):
        space["status"]["phase"] = "Active"


def validate_phase(new: Object, _old: Object) -> list[FieldError]:
    """A space is terminating exactly when it was deleted."""
    phase = get(new, "status", "phase", default="")
    if not get(new, "metadata", "deletionTimestamp"):
        if phase != "Active":
            message = "may only be 'Active' if `deletionTimestamp` is empty"
            return [invalid("status.Phase", phase, message)]
    elif phase != "Terminating":
        message = "may only be 'Terminating' if `deletionTimestamp` is not empty"
        return [invalid("status.Phase", phase, message)]
    return []
