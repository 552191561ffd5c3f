"""Validating and mutating admission policies: everything except the meaning of their CEL expressions."""

import re

from alcove.api import names
from alcove.api.cel.reserved_words import KEYWORDS
from alcove.api.fields import FieldError, duplicate, invalid, not_supported, required
from alcove.api.kind import CLIENT_METADATA, Strategy
from alcove.api.kinds.admissionregistration.rules import (
    FAILURE_POLICIES,
    default_match_resources,
    mutating_operation_errors,
    validate_match_conditions,
    validate_match_resources,
)
from alcove.api.kinds.checks import child, conditions, fill, named, one_of, one_of_required
from alcove.api.objects import Object, name

AUDIT_ANNOTATIONS_MAX = 20
VALUE_EXPRESSION_LENGTH_MAX_BYTES = 5 * 1024
REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
REINVOCATION_POLICIES = ("IfNeeded", "Never")
_EXPRESSION_MISSING = "expression is not specified"
_NOTHING_TO_DO = "validations or auditAnnotations must contain at least one item"
_IDENTIFIER = re.compile("[_a-zA-Z][_a-zA-Z0-9]*")


def default_policy(policy: Object) -> None:
    spec = child(policy, "spec")
    fill(spec, "failurePolicy", "Fail")
    if spec.get("matchConstraints") is not None:
        default_match_resources(spec["matchConstraints"])


def _common(spec: Object) -> list[FieldError]:
    """Check the fields that both kinds of policies have, up to their variables."""
    errors = one_of_required(spec.get("failurePolicy", ""), FAILURE_POLICIES, "spec.failurePolicy")
    if spec.get("paramKind") is not None:
        errors += _param_kind(spec["paramKind"], "spec.paramKind")
    match = spec.get("matchConstraints")
    if match is None:
        errors.append(required("spec.matchConstraints"))
    else:
        errors += validate_match_resources(match, "spec.matchConstraints")
        if not match.get("resourceRules"):
            errors.append(required("spec.matchConstraints.resourceRules"))
    errors += validate_match_conditions(spec.get("matchConditions") or (), "spec.matchConditions")
    for index, variable in enumerate(spec.get("variables") or ()):
        errors += _variable(variable, f"spec.variables[{index}]")
    return errors


def _param_kind(kind: Object, path: str) -> list[FieldError]:
    version, errors = kind.get("apiVersion", ""), []
    where = f"{path}.apiVersion"
    if not version:
        errors.append(required(where))
    elif version.count("/") > 1:
        errors.append(invalid(where, version, f"unexpected GroupVersion string: {version}"))
    else:
        group, _, bare = version.rpartition("/")
        if group and (wrong := names.dns_subdomain(group)):
            errors.append(invalid(where, group, ",".join(wrong)))
        if not bare:
            errors.append(invalid(where, version, "version must be specified"))
        elif wrong := names.dns_1035_label(bare):
            errors.append(invalid(where, bare, ",".join(wrong)))
    kind_name = kind.get("kind", "")
    if not kind_name:
        errors.append(required(f"{path}.kind"))
    elif wrong := names.dns_1035_label(kind_name.lower()):
        message = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        errors.append(invalid(f"{path}.kind", kind_name, message))
    return errors


def _variable(variable: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    variable_name = variable.get("name", "")
    if not variable_name.strip():
        errors.append(required(f"{path}.name", "name is not specified"))
    elif not _IDENTIFIER.fullmatch(variable_name) or variable_name in KEYWORDS:
        errors.append(invalid(f"{path}.name", variable_name, "must be a valid CEL identifier"))
    if not variable.get("expression", "").strip():
        errors.append(required(f"{path}.expression", _EXPRESSION_MISSING))
    return errors


def validate_validating_policy(policy: Object) -> list[FieldError]:
    spec = policy.get("spec") or {}
    errors = _common(spec)
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or []
    if not validations and not annotations:
        missing = [required(f"spec.{field}", _NOTHING_TO_DO) for field in ("validations", "auditAnnotations")]
        return errors + missing
    for index, validation in enumerate(validations):
        errors += _validation(validation, f"spec.validations[{index}]")
    if len(annotations) > AUDIT_ANNOTATIONS_MAX:
        message = f"must not have more than {AUDIT_ANNOTATIONS_MAX} auditAnnotations"
        errors.append(invalid("spec.auditAnnotations", annotations, message))
    seen: set[str] = set()
    for index, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{index}]", annotation.get("key", "")
        errors += _audit_annotation(annotation, name(policy), path)
        if key in seen:
            errors.append(duplicate(f"{path}.key", key))
        seen.add(key)
    return errors


def _validation(validation: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not validation.get("expression", "").strip():
        errors.append(required(f"{path}.expression", _EXPRESSION_MISSING))
    for field in ("messageExpression", "message"):
        text = validation.get(field, "")
        if text and not text.strip():
            errors.append(invalid(f"{path}.{field}", text, "must be non-empty if specified"))
    message = validation.get("message", "")
    if re.search(r"[\n\r]", message.strip()):
        errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    if "reason" in validation:
        errors += one_of(validation["reason"], REASONS, f"{path}.reason")
    return errors


def _audit_annotation(annotation: Object, policy: str, path: str) -> list[FieldError]:
    key, expression = annotation.get("key", ""), annotation.get("valueExpression", "").strip()
    if policy:
        errors = named(f"{policy}/{key}", names.qualified_name, f"{path}.key")
    else:
        errors = [invalid(f"{path}.key", key, "requires metadata.name be non-empty")]
    where = f"{path}.valueExpression"
    if not expression:
        errors.append(required(where, "valueExpression is not specified"))
    elif len(expression.encode()) > VALUE_EXPRESSION_LENGTH_MAX_BYTES:
        message = f"must not exceed {VALUE_EXPRESSION_LENGTH_MAX_BYTES} bytes in length"
        errors.append(required(where, message))
    return errors


def validate_validating_policy_status(new: Object, _old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    errors: list[FieldError] = []
    checking = status.get("typeChecking") or {}
    for index, warning in enumerate(checking.get("expressionWarnings") or ()):
        path = f"status.typeChecking.expressionWarnings[{index}]"
        errors += [required(f"{path}.{field}") for field in ("warning", "fieldRef") if not warning.get(field)]
    return errors + conditions(status.get("conditions") or (), "status.conditions")


def validate_mutating_policy(policy: Object) -> list[FieldError]:
    spec = policy.get("spec") or {}
    errors = _common(spec)
    errors += mutating_operation_errors(spec.get("matchConstraints") or {}, "spec.matchConstraints")
    mutations = spec.get("mutations") or ()
    if not mutations:
        errors.append(required("spec.mutations", "mutations must contain at least one item"))
    for index, mutation in enumerate(mutations):
        errors += _mutation(mutation, f"spec.mutations[{index}]")
    reinvocation = spec.get("reinvocationPolicy", "")
    return errors + one_of_required(reinvocation, REINVOCATION_POLICIES, "spec.reinvocationPolicy")


_PATCHES = {"JSONPatch": "jsonPatch", "ApplyConfiguration": "applyConfiguration"}


def _mutation(mutation: Object, path: str) -> list[FieldError]:
    kind = mutation.get("patchType", "")
    if not kind:
        return [required(f"{path}.patchType")]
    if kind not in _PATCHES:
        return [not_supported(f"{path}.patchType", kind, sorted(_PATCHES))]
    errors: list[FieldError] = []
    patch_field = _PATCHES[kind]
    if mutation.get(patch_field) is None:
        errors.append(required(f"{path}.{patch_field}", f"must be specified when patchType is {kind}"))
    elif not mutation[patch_field].get("expression", "").strip():
        errors.append(required(f"{path}.{patch_field}.expression"))
    for other in _PATCHES.values():
        if other != patch_field and mutation.get(other) is not None:
            message = f"must not be specified when patchType is {kind}"
            errors.append(invalid(f"{path}.{other}", f"{{{other}}}", message))
    return errors


STRATEGIES: dict[str, Strategy] = {
    "validatingadmissionpolicies": Strategy(
        default=default_policy,
        validate=validate_validating_policy,
        validate_status=validate_validating_policy_status,
        status_leaves=CLIENT_METADATA,
        has_status=True,
        counts_generation=True,
        unconditional_update=False,
    ),
    "mutatingadmissionpolicies": Strategy(
        default=default_policy,
        validate=validate_mutating_policy,
        counts_generation=True,
        unconditional_update=False,
    ),
}
