"""Replication controllers: so many pods of one template, the way it was before replica sets."""

from alcove.api.fields import FieldError, forbidden, invalid, not_supported, required
from alcove.api.kind import Strategy
from alcove.api.kinds.core.pods import default_pod_template, validate_pod_template
from alcove.api.objects import Object, get, metadata
from alcove.api.validation import Faults, check_not_negative

_COUNTS = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")


def _default(controller: Object) -> None:
    spec = controller.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    template = spec.get("template")
    if template is None:
        return
    default_pod_template(template)
    if labels := get(template, "metadata", "labels"):
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        meta = metadata(controller)
        if not meta.get("labels"):
            meta["labels"] = dict(labels)


def _validate(controller: Object) -> list[FieldError]:
    faults: list[FieldError] = []
    spec = controller.get("spec", {})
    check_not_negative(spec.get("minReadySeconds", 0), "spec.minReadySeconds", faults)
    selector = spec.get("selector", {})
    if not selector:
        faults.append(required("spec.selector"))
    if "replicas" not in spec:
        faults.append(required("spec.replicas"))
    else:
        check_not_negative(spec["replicas"], "spec.replicas", faults)
    if "template" in spec:
        _check_template(spec["template"], selector, faults)
    else:
        faults.append(required("spec.template"))
    return faults


def _check_template(template: Object, selector: Object, faults: Faults) -> None:
    labels = get(template, "metadata", "labels", default={})
    if any(labels.get(key) != value for key, value in selector.items()):
        message = "`selector` does not match template `labels`"
        faults.append(invalid("spec.template.metadata.labels", labels, message))
    faults += validate_pod_template(template, "spec.template")
    policy = get(template, "spec", "restartPolicy", default="")
    if policy != "Always":
        faults.append(not_supported("spec.template.spec.restartPolicy", policy, ("Always",)))
    if get(template, "spec", "activeDeadlineSeconds") is not None:
        message = "activeDeadlineSeconds in ReplicationController is not Supported"
        faults.append(forbidden("spec.template.spec.activeDeadlineSeconds", message))


def _validate_status(new: Object, _old: Object) -> list[FieldError]:
    faults: list[FieldError] = []
    status = new.get("status", {})
    for field in _COUNTS:
        check_not_negative(status.get(field, 0), f"status.{field}", faults)
    replicas, ready = status.get("replicas", 0), status.get("readyReplicas", 0)
    for field in ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"):
        count = status.get(field, 0)
        if count > replicas:
            faults.append(invalid(f"status.{field}", count, "cannot be greater than status.replicas"))
    available = status.get("availableReplicas", 0)
    if available > ready:
        message = "cannot be greater than readyReplicas"
        faults.append(invalid("status.availableReplicas", available, message))
    return faults


STRATEGY = Strategy(
    default=_default,
    validate=_validate,
    validate_status=_validate_status,
    prepare_create=lambda controller: controller.update(status={"replicas": 0}),
    fields={"status.replicas": lambda controller: str(get(controller, "status", "replicas", default=0))},
    has_status=True,
    counts_generation=True,
)
