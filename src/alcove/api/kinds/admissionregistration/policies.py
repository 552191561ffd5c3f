"""Validating and mutating admission policies: their shape. What their expressions mean is CEL's part."""

import re

from alcove.api import names
from alcove.api.cel.reserved_words import KEYWORDS
from alcove.api.fields import FieldError, duplicate, invalid, not_supported, required
from alcove.api.kind import CLIENT_METADATA, Strategy
from alcove.api.kinds.admissionregistration.rules import (
    FAILURE_POLICIES,
    default_match_resources,
    mutating_operation_faults,
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
    """What both kinds of policies have, up to their variables."""
    faults = one_of_required(spec.get("failurePolicy", ""), FAILURE_POLICIES, "spec.failurePolicy")
    if spec.get("paramKind") is not None:
        faults += _param_kind(spec["paramKind"], "spec.paramKind")
    match = spec.get("matchConstraints")
    if match is None:
        faults.append(required("spec.matchConstraints"))
    else:
        faults += validate_match_resources(match, "spec.matchConstraints")
        if not match.get("resourceRules"):
            faults.append(required("spec.matchConstraints.resourceRules"))
    faults += validate_match_conditions(spec.get("matchConditions") or (), "spec.matchConditions")
    for index, variable in enumerate(spec.get("variables") or ()):
        faults += _variable(variable, f"spec.variables[{index}]")
    return faults


def _param_kind(kind: Object, path: str) -> list[FieldError]:
    version, faults = kind.get("apiVersion", ""), []
    where = f"{path}.apiVersion"
    if not version:
        faults.append(required(where))
    elif version.count("/") > 1:
        faults.append(invalid(where, version, f"unexpected GroupVersion string: {version}"))
    else:
        group, _, bare = version.rpartition("/")
        if group and (wrong := names.dns_subdomain(group)):
            faults.append(invalid(where, group, ",".join(wrong)))
        if not bare:
            faults.append(invalid(where, version, "version must be specified"))
        elif wrong := names.dns_1035_label(bare):
            faults.append(invalid(where, bare, ",".join(wrong)))
    given = kind.get("kind", "")
    if not given:
        faults.append(required(f"{path}.kind"))
    elif wrong := names.dns_1035_label(given.lower()):
        message = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        faults.append(invalid(f"{path}.kind", given, message))
    return faults


def _variable(variable: Object, path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    given = variable.get("name", "")
    if not given.strip():
        faults.append(required(f"{path}.name", "name is not specified"))
    elif not _IDENTIFIER.fullmatch(given) or given in KEYWORDS:
        faults.append(invalid(f"{path}.name", given, "must be a valid CEL identifier"))
    if not variable.get("expression", "").strip():
        faults.append(required(f"{path}.expression", _EXPRESSION_MISSING))
    return faults


def validate_validating_policy(policy: Object) -> list[FieldError]:
    spec = policy.get("spec") or {}
    faults = _common(spec)
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or []
    if not validations and not annotations:
        missing = [required(f"spec.{field}", _NOTHING_TO_DO) for field in ("validations", "auditAnnotations")]
        return faults + missing
    for index, validation in enumerate(validations):
        faults += _validation(validation, f"spec.validations[{index}]")
    if len(annotations) > AUDIT_ANNOTATIONS_MAX:
        message = f"must not have more than {AUDIT_ANNOTATIONS_MAX} auditAnnotations"
        faults.append(invalid("spec.auditAnnotations", annotations, message))
    seen: set[str] = set()
    for index, annotation in enumerate(annotations):
        path, key = f"spec.auditAnnotations[{index}]", annotation.get("key", "")
        faults += _audit_annotation(annotation, name(policy), path)
        if key in seen:
            faults.append(duplicate(f"{path}.key", key))
        seen.add(key)
    return faults


def _validation(validation: Object, path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    if not validation.get("expression", "").strip():
        faults.append(required(f"{path}.expression", _EXPRESSION_MISSING))
    for field in ("messageExpression", "message"):
        text = validation.get(field, "")
        if text and not text.strip():
            faults.append(invalid(f"{path}.{field}", text, "must be non-empty if specified"))
    message = validation.get("message", "")
    if re.search(r"[\n\r]", message.strip()):
        faults.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    if "reason" in validation:
        faults += one_of(validation["reason"], REASONS, f"{path}.reason")
    return faults


def _audit_annotation(annotation: Object, policy: str, path: str) -> list[FieldError]:
    key, expression = annotation.get("key", ""), annotation.get("valueExpression", "").strip()
    if policy:
        faults = named(f"{policy}/{key}", names.qualified_name, f"{path}.key")
    else:
        faults = [invalid(f"{path}.key", key, "requires metadata.name be non-empty")]
    where = f"{path}.valueExpression"
    if not expression:
        faults.append(required(where, "valueExpression is not specified"))
    elif len(expression.encode()) > VALUE_EXPRESSION_LENGTH_MAX_BYTES:
        message = f"must not exceed {VALUE_EXPRESSION_LENGTH_MAX_BYTES} bytes in length"
        faults.append(required(where, message))
    return faults


def validate_validating_policy_status(new: Object, _old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    faults: list[FieldError] = []
    checking = status.get("typeChecking") or {}
    for index, warning in enumerate(checking.get("expressionWarnings") or ()):
        path = f"status.typeChecking.expressionWarnings[{index}]"
        faults += [required(f"{path}.{field}") for field in ("warning", "fieldRef") if not warning.get(field)]
    return faults + conditions(status.get("conditions") or (), "status.conditions")


def validate_mutating_policy(policy: Object) -> list[FieldError]:
    spec = policy.get("spec") or {}
    faults = _common(spec)
    faults += mutating_operation_faults(spec.get("matchConstraints") or {}, "spec.matchConstraints")
    mutations = spec.get("mutations") or ()
    if not mutations:
        faults.append(required("spec.mutations", "mutations must contain at least one item"))
    for index, mutation in enumerate(mutations):
        faults += _mutation(mutation, f"spec.mutations[{index}]")
    policy_given = spec.get("reinvocationPolicy", "")
    return faults + one_of_required(policy_given, REINVOCATION_POLICIES, "spec.reinvocationPolicy")


_PATCHES = {"JSONPatch": "jsonPatch", "ApplyConfiguration": "applyConfiguration"}


def _mutation(mutation: Object, path: str) -> list[FieldError]:
    kind = mutation.get("patchType", "")
    if not kind:
        return [required(f"{path}.patchType")]
    if kind not in _PATCHES:
        return [not_supported(f"{path}.patchType", kind, sorted(_PATCHES))]
    faults: list[FieldError] = []
    own = _PATCHES[kind]
    if mutation.get(own) is None:
        faults.append(required(f"{path}.{own}", f"must be specified when patchType is {kind}"))
    elif not mutation[own].get("expression", "").strip():
        faults.append(required(f"{path}.{own}.expression"))
    for other in _PATCHES.values():
        if other != own and mutation.get(other) is not None:
            message = f"must not be specified when patchType is {kind}"
            faults.append(invalid(f"{path}.{other}", f"{{{other}}}", message))
    return faults


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
