"""authorization.k8s.io: access reviews. Evaluated, never stored."""

from alcove.api import names
from alcove.api.errors import BadRequest
from alcove.api.fields import FieldError, forbidden, invalid, required
from alcove.api.kind import Strategy
from alcove.api.kinds.checks import named
from alcove.api.objects import Object, namespace

_SERVER_OWNED = frozenset(["managedFields", "tenant", "selfLink", "creationTimestamp"])


def _attributes(spec: Object) -> list[FieldError]:
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and other is not None:
        message = "cannot be specified in combination with resourceAttributes"
        return [invalid("spec.nonResourceAttributes", other, message)]
    if resource is None and other is None:
        message = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid("spec.resourceAttributes", None, message)]
    return []


def _selectors(spec: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    attributes = spec.get("resourceAttributes") or {}
    for kind in ("fieldSelector", "labelSelector"):
        selector, path = attributes.get(kind), f"spec.resourceAttributes.{kind}"
        if selector is None:
            continue
        raw, requirements = selector.get("rawSelector"), selector.get("requirements")
        if raw and requirements:
            message = "may not specified at the same time as requirements"
            errors.append(invalid(f"{path}.rawSelector", raw, message))
        if not raw and not requirements:
            message = f"when {path} is specified, requirements or rawSelector is required"
            errors.append(required(f"{path}.requirements", message))
        for index, requirement in enumerate(requirements or ()):
            errors += _requirement(requirement, kind == "labelSelector", f"{path}.requirements[{index}]")
    return errors


def _requirement(requirement: Object, of_labels: bool, path: str) -> list[FieldError]:
    """Unknown operators are accepted: a newer client may use them, and they only narrow the request."""
    errors: list[FieldError] = []
    key, operator = requirement.get("key", ""), requirement.get("operator", "")
    values = requirement.get("values") or ()
    if not of_labels and not key:
        errors.append(required(f"{path}.key", "must be specified"))
    if operator in ("In", "NotIn") and not values:
        message = "must be specified when `operator` is 'In' or 'NotIn'"
        errors.append(required(f"{path}.values", message))
    if operator in ("Exists", "DoesNotExist") and values:
        message = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(forbidden(f"{path}.values", message))
    if of_labels:
        errors += named(key, names.label_key, f"{path}.key")
        for index, value in enumerate(values):
            errors += named(value, names.label_value, f"{path}.values[{index}]")
    return errors


def _metadata(review: Object, message: str, *allowed: str) -> list[FieldError]:
    meta = review.get("metadata") or {}
    rest = {field for field, value in meta.items() if value is not None} - _SERVER_OWNED - set(allowed)
    return [invalid("metadata", meta, message)] if rest else []


def _subject(spec: Object) -> list[FieldError]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [invalid("spec.user", spec.get("user", ""), "at least one of user or group must be specified")]


def validate_access_review(review: Object) -> list[FieldError]:
    spec = review.get("spec") or {}
    errors = _attributes(spec) + _subject(spec) + _selectors(spec)
    return errors + _metadata(review, "must be empty")


def validate_self_access_review(review: Object) -> list[FieldError]:
    spec = review.get("spec") or {}
    return _attributes(spec) + _selectors(spec) + _metadata(review, "must be empty")


def validate_local_access_review(review: Object) -> list[FieldError]:
    spec = review.get("spec") or {}
    errors = _attributes(spec) + _subject(spec) + _selectors(spec)
    errors += _metadata(review, "must be empty except for namespace", "namespace")
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and resource.get("namespace", "") != namespace(review):
        path, requested = "spec.resourceAttributes.namespace", resource.get("namespace", "")
        errors.append(invalid(path, requested, "must match metadata.namespace"))
    if other is not None:
        message = "disallowed on this kind of request"
        errors.append(invalid("spec.nonResourceAttributes", other, message))
    return errors


def validate_rules_review(review: Object) -> list[FieldError]:
    if not (review.get("spec") or {}).get("namespace"):
        raise BadRequest("no namespace on request")
    return []


STRATEGIES: dict[str, Strategy] = {
    "subjectaccessreviews": Strategy(validate=validate_access_review),
    "selfsubjectaccessreviews": Strategy(validate=validate_self_access_review),
    "localsubjectaccessreviews": Strategy(validate=validate_local_access_review),
    "selfsubjectrulesreviews": Strategy(validate=validate_rules_review),
}
