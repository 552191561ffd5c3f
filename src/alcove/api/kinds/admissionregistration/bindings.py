"""Bindings of admission policies: the scope, parameters and actions of a policy."""

from alcove.api import names
from alcove.api.fields import FieldError, duplicate, forbidden, invalid, required
from alcove.api.kind import Strategy
from alcove.api.kinds.admissionregistration.rules import (
    default_match_resources,
    mutating_operation_errors,
    validate_match_resources,
)
from alcove.api.kinds.checks import named, named_required, one_of, one_of_required
from alcove.api.kinds.labelselectors import validate_label_selector
from alcove.api.objects import Object

ACTIONS = ("Audit", "Deny", "Warn")
NOT_FOUND_ACTIONS = ("Deny", "Allow")


def default_binding(binding: Object) -> None:
    match = (binding.get("spec") or {}).get("matchResources")
    if match is not None:
        default_match_resources(match)


def _common(spec: Object) -> list[FieldError]:
    errors = named_required(spec.get("policyName", ""), names.dns_subdomain, "spec.policyName")
    if spec.get("paramRef") is not None:
        errors += _param_ref(spec["paramRef"], "spec.paramRef")
    if spec.get("matchResources") is not None:
        errors += validate_match_resources(spec["matchResources"], "spec.matchResources")
    return errors


def _param_ref(reference: Object, path: str) -> list[FieldError]:
    name, selector = reference.get("name", ""), reference.get("selector")
    errors: list[FieldError] = []
    if name:
        errors += named(name, names.path_segment, f"{path}.name")
    if selector is not None:
        errors += validate_label_selector(selector, f"{path}.selector")
    if name and selector is not None:
        message = "name and selector are mutually exclusive"
        errors += [forbidden(f"{path}.{field}", message) for field in ("name", "selector")]
    if not name and selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    action = reference.get("parameterNotFoundAction", "")
    return errors + one_of_required(action, NOT_FOUND_ACTIONS, f"{path}.parameterNotFoundAction")


def validate_validating_binding(binding: Object) -> list[FieldError]:
    spec = binding.get("spec") or {}
    errors, path = _common(spec), "spec.validationActions"
    actions = spec.get("validationActions") or []
    for index, action in enumerate(actions):
        errors += one_of(action, ACTIONS, f"{path}[{index}]")
        if action in actions[:index]:
            errors.append(duplicate(f"{path}[{index}]", action))
    if "Deny" in actions and "Warn" in actions:
        message = (
            "must not contain both Deny and Warn (repeating the same validation failure information "
            "in the API response and headers serves no purpose)"
        )
        errors.append(invalid(path, actions, message))
    if not actions:
        errors.append(required(path, "at least one validation action is required"))
    return errors


def validate_mutating_binding(binding: Object) -> list[FieldError]:
    spec = binding.get("spec") or {}
    return _common(spec) + mutating_operation_errors(spec.get("matchResources") or {}, "spec.matchResources")


STRATEGIES: dict[str, Strategy] = {
    "validatingadmissionpolicybindings": Strategy(
        default=default_binding,
        validate=validate_validating_binding,
        counts_generation=True,
        unconditional_update=False,
    ),
    "mutatingadmissionpolicybindings": Strategy(
        default=default_binding,
        validate=validate_mutating_binding,
        counts_generation=True,
        unconditional_update=False,
    ),
}
