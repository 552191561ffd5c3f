"""What controllers of pods share: a selector, and a template whose pods it selects."""

from alcove.api import selectors
from alcove.api.errors import BadRequest
from alcove.api.fields import FieldError, forbidden, invalid, not_supported, required
from alcove.api.kinds.core.pods import validate_pod_template
from alcove.api.kinds.labelselectors import validate_label_selector
from alcove.api.objects import Object, get

_MISMATCH = "`selector` does not match template `labels`"


def validate_selector(spec: Object, empty: str) -> list[FieldError]:
    """A required selector that selects something. `empty` says whose it is, as Kubernetes does."""
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    faults = validate_label_selector(selector, "spec.selector")
    if is_empty(selector):
        faults.append(invalid("spec.selector", selector, f"empty selector is invalid for {empty}"))
    return faults


def is_empty(selector: Object) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def read_selector(spec: Object) -> selectors.LabelSelector | None:
    """The spec's selector; None where it is none. A missing one selects nothing."""
    try:
        return selectors.from_object(spec.get("selector"))
    except BadRequest:
        return None


def template_of(spec: Object) -> Object:
    return spec.get("template") or {}


def mismatch_faults(spec: Object, selector: selectors.LabelSelector) -> list[FieldError]:
    """The template's pods must be among those selected."""
    labels = get(template_of(spec), "metadata", "labels")
    if selector.matches(labels or {}):
        return []
    return [invalid("spec.template.metadata.labels", labels, _MISMATCH)]


def validate_long_running(spec: Object, told: str) -> list[FieldError]:
    """Pods that are kept running: always restarted, without a deadline. `told` names the kind."""
    pod, path = template_of(spec).get("spec") or {}, "spec.template.spec"
    faults: list[FieldError] = []
    if pod.get("restartPolicy") != "Always":
        faults.append(not_supported(f"{path}.restartPolicy", pod.get("restartPolicy", ""), ["Always"]))
    if "activeDeadlineSeconds" in pod:
        message = f"activeDeadlineSeconds in {told} is not Supported"
        faults.append(forbidden(f"{path}.activeDeadlineSeconds", message))
    return faults


def validate_template(spec: Object) -> list[FieldError]:
    """Selector and template of a ReplicaSet or Deployment, in the order Kubernetes tells faults."""
    faults = validate_selector(spec, "deployment")
    selector = read_selector(spec)
    if selector is None:
        return [*faults, invalid("spec.selector", spec["selector"], "invalid label selector")]
    faults += mismatch_faults(spec, selector)
    faults += validate_pod_template(template_of(spec), "spec.template")
    return faults + validate_long_running(spec, "ReplicaSet")
