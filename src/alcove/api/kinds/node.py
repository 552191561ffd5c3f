"""node.k8s.io: RuntimeClasses, which select the handler of a pod's sandbox."""

from alcove.api import names
from alcove.api.fields import FieldError, duplicate
from alcove.api.kind import Strategy
from alcove.api.kinds.checks import named_required, unchanged
from alcove.api.kinds.core.pods.affinity import check_tolerations
from alcove.api.kinds.core.resources import check_requirements, default_resource_list
from alcove.api.kinds.metadata import validate_labels
from alcove.api.objects import Object


def default_runtime_class(obj: Object) -> None:
    fixed = (obj.get("overhead") or {}).get("podFixed")
    if fixed:
        default_resource_list(fixed)


def validate_runtime_class(obj: Object) -> list[FieldError]:
    errors = named_required(obj.get("handler", ""), names.dns_label, "handler")
    if obj.get("overhead") is not None:
        check_requirements({"limits": obj["overhead"].get("podFixed") or {}}, "overhead", errors)
    scheduling = obj.get("scheduling") or {}
    if scheduling.get("nodeSelector"):
        errors += validate_labels(scheduling["nodeSelector"], "scheduling.nodeSelector")
    return errors + _tolerations(scheduling.get("tolerations") or [])


def _tolerations(tolerations: list[Object]) -> list[FieldError]:
    errors: list[FieldError] = []
    check_tolerations(tolerations, "scheduling.tolerations", errors)
    seen: set[tuple[str, ...]] = set()
    for index, toleration in enumerate(tolerations):
        key = tuple(toleration.get(field, "") for field in ("key", "operator", "value", "effect"))
        if key in seen:
            errors.append(duplicate(f"scheduling.tolerations[{index}]", toleration))
        seen.add(key)
    return errors


def validate_runtime_class_update(new: Object, old: Object) -> list[FieldError]:
    return unchanged(new, old, "", "handler")


STRATEGIES: dict[str, Strategy] = {
    "runtimeclasses": Strategy(
        default=default_runtime_class,
        validate=validate_runtime_class,
        validate_update=validate_runtime_class_update,
        create_on_update=True,
        unconditional_update=False,
    ),
}
