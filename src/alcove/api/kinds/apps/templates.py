"""What workload controllers share: a selector, a template whose pods it selects, and defaults of rollouts."""

from alcove.api import selectors
from alcove.api.errors import BadRequest
from alcove.api.fields import FieldError, forbidden, invalid, not_supported, required
from alcove.api.kinds.checks import child, fill, unchanged
from alcove.api.kinds.core.pods import validate_pod_template
from alcove.api.kinds.labelselectors import validate_label_selector
from alcove.api.objects import Object, get

_ROLLING_UPDATE = "RollingUpdate"
_MISMATCH = "`selector` does not match template `labels`"


def default_rolling_update(strategy: Object, max_unavailable: int | str, max_surge: int | str) -> None:
    """Set the default type of an update strategy, and the limits of a rolling update."""
    fill(strategy, "type", _ROLLING_UPDATE)
    if strategy["type"] == _ROLLING_UPDATE:
        rolling = child(strategy, "rollingUpdate")
        fill(rolling, "maxUnavailable", max_unavailable)
        fill(rolling, "maxSurge", max_surge)


def validate_selector_unchanged(new: Object, old: Object) -> list[FieldError]:
    return unchanged(new.get("spec") or {}, old.get("spec") or {}, "spec", "selector")


def validate_selector(spec: Object, empty: str) -> list[FieldError]:
    """Check a required, non-empty selector. `empty` is Kubernetes' message for an empty one."""
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    errors = validate_label_selector(selector, "spec.selector")
    if is_empty(selector):
        errors.append(invalid("spec.selector", selector, f"empty selector is invalid for {empty}"))
    return errors


def is_empty(selector: Object) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def read_selector(spec: Object) -> selectors.LabelSelector | None:
    """Return the spec's selector; None if it is invalid. A missing one selects nothing."""
    try:
        return selectors.from_object(spec.get("selector"))
    except BadRequest:
        return None


def template_of(spec: Object) -> Object:
    return spec.get("template") or {}


def mismatch_errors(spec: Object, selector: selectors.LabelSelector) -> list[FieldError]:
    """The selector must select the template's pods."""
    labels = get(template_of(spec), "metadata", "labels")
    if selector.matches(labels or {}):
        return []
    return [invalid("spec.template.metadata.labels", labels, _MISMATCH)]


def validate_long_running(spec: Object, kind: str) -> list[FieldError]:
    """Pods must always be restarted and have no deadline. `kind` is the kind's name in the message."""
    pod, path = template_of(spec).get("spec") or {}, "spec.template.spec"
    errors: list[FieldError] = []
    if pod.get("restartPolicy") != "Always":
        errors.append(not_supported(f"{path}.restartPolicy", pod.get("restartPolicy", ""), ["Always"]))
    if "activeDeadlineSeconds" in pod:
        message = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden(f"{path}.activeDeadlineSeconds", message))
    return errors


def validate_template(spec: Object) -> list[FieldError]:
    """Check selector and template of a ReplicaSet or Deployment, in Kubernetes' order of errors."""
    errors = validate_selector(spec, "deployment")
    selector = read_selector(spec)
    if selector is None:
        return [*errors, invalid("spec.selector", spec["selector"], "invalid label selector")]
    errors += mismatch_errors(spec, selector)
    errors += validate_pod_template(template_of(spec), "spec.template")
    return errors + validate_long_running(spec, "ReplicaSet")
