"""Namespaces and tenants: finalizers in the spec, a phase in the status, deletion of the content first."""

from alcove.api import names
from alcove.api.fields import FieldError, invalid
from alcove.api.objects import Object, get
from alcove.api.validation import FieldErrors, check_value

_STANDARD_FINALIZERS = ("kubernetes", "arktos", "orphan", "foregroundDeletion")


def activate(obj: Object, finalizer: str) -> None:
    """Prepare a new object: its finalizer in the spec, and the phase Active."""
    finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)
    obj["status"] = {"phase": "Active"}


def phase(obj: Object) -> str:
    return str(get(obj, "status", "phase", default=""))


def keep_finalizers(new: Object, old: Object) -> None:
    """Restore finalizers, which change only through `/finalize`."""
    finalizers_before = get(old, "spec", "finalizers")
    spec = new.setdefault("spec", {})
    if finalizers_before:
        spec["finalizers"] = list(finalizers_before)
    else:
        spec.pop("finalizers", None)


def check_finalizers(obj: Object, errors: FieldErrors, *, indexed: bool = False) -> None:
    for index, finalizer in enumerate(get(obj, "spec", "finalizers", default=())):
        field = f"spec.finalizers[{index}]" if indexed else "spec.finalizers"
        check_value(finalizer, names.qualified_name, field, errors)
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            message = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid(field, finalizer, message))


def validate_finalize(new: Object, _old: Object) -> list[FieldError]:
    """Check a write to `/finalize`."""
    errors: list[FieldError] = []
    check_finalizers(new, errors, indexed=True)
    return errors


def default_phase(obj: Object) -> None:
    if "status" in obj and not obj["status"].get("phase"):
        obj["status"]["phase"] = "Active"


def validate_phase(new: Object, _old: Object) -> list[FieldError]:
    """The phase is Terminating if and only if the object has a deletion timestamp."""
    new_phase = phase(new)
    if not get(new, "metadata", "deletionTimestamp"):
        if new_phase != "Active":
            message = "may only be 'Active' if `deletionTimestamp` is empty"
            return [invalid("status.Phase", new_phase, message)]
    elif new_phase != "Terminating":
        message = "may only be 'Terminating' if `deletionTimestamp` is not empty"
        return [invalid("status.Phase", new_phase, message)]
    return []
