"""DeviceClasses."""

from alcove.api.fields import FieldError, invalid
from alcove.api.kind import Strategy
from alcove.api.kinds.core.resources import is_extended
from alcove.api.kinds.resource.devices import CONFIGS_MAX, each, validate_config, validate_selectors
from alcove.api.objects import Object


def validate_class(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = validate_selectors(spec.get("selectors") or (), "spec.selectors")
    errors += each(spec.get("config") or (), CONFIGS_MAX, validate_config, "spec.config")
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        message = "must be a valid extended resource name"
        errors.append(invalid("spec.extendedResourceName", name, message))
    return errors


STRATEGIES: dict[str, Strategy] = {
    "deviceclasses": Strategy(validate=validate_class, counts_generation=True),
}
