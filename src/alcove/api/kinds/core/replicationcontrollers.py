"""ReplicationControllers: the predecessor of ReplicaSets."""

from alcove.api.fields import FieldError, forbidden, invalid, not_supported, required
from alcove.api.kind import Strategy
from alcove.api.kinds.checks import not_negative, replica_counters
from alcove.api.kinds.core.pods import default_pod_template, validate_pod_template
from alcove.api.objects import Object, get, metadata
from alcove.api.validation import FieldErrors, check_not_negative

_COUNTERS = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")


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
    errors: list[FieldError] = []
    spec = controller.get("spec", {})
    check_not_negative(spec.get("minReadySeconds", 0), "spec.minReadySeconds", errors)
    selector = spec.get("selector", {})
    if not selector:
        errors.append(required("spec.selector"))
    if "replicas" not in spec:
        errors.append(required("spec.replicas"))
    else:
        check_not_negative(spec["replicas"], "spec.replicas", errors)
    if "template" in spec:
        _check_template(spec["template"], selector, errors)
    else:
        errors.append(required("spec.template"))
    return errors


def _check_template(template: Object, selector: Object, errors: FieldErrors) -> None:
    labels = get(template, "metadata", "labels", default={})
    if any(labels.get(key) != value for key, value in selector.items()):
        message = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", labels, message))
    errors += validate_pod_template(template, "spec.template")
    policy = get(template, "spec", "restartPolicy", default="")
    if policy != "Always":
        errors.append(not_supported("spec.template.spec.restartPolicy", policy, ("Always",)))
    if get(template, "spec", "activeDeadlineSeconds") is not None:
        message = "activeDeadlineSeconds in ReplicationController is not Supported"
        errors.append(forbidden("spec.template.spec.activeDeadlineSeconds", message))


def _validate_status(new: Object, _old: Object) -> list[FieldError]:
    status = new.get("status", {})
    errors = not_negative(status, "status", *_COUNTERS)
    return errors + replica_counters(status, "fullyLabeledReplicas", "readyReplicas", "availableReplicas")


STRATEGY = Strategy(
    default=_default,
    validate=_validate,
    validate_status=_validate_status,
    prepare_create=lambda controller: controller.update(status={"replicas": 0}),
    fields={"status.replicas": lambda controller: str(get(controller, "status", "replicas", default=0))},
    has_status=True,
    counts_generation=True,
)
