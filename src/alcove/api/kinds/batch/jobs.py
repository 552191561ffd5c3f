"""Jobs: pods that run to completion, identified by labels that the server generates."""

from typing import Any

from alcove.api import names, selectors
from alcove.api.errors import BadRequest
from alcove.api.fields import FieldError, invalid, required
from alcove.api.kind import Strategy
from alcove.api.kinds.batch.jobspecs import is_indexed, validate_job_spec
from alcove.api.kinds.batch.jobstatus import is_true, validate_job_status
from alcove.api.kinds.batch.policies import default_failure_policy
from alcove.api.kinds.checks import IMMUTABLE, child, fill, unchanged
from alcove.api.kinds.core.pods import default_pod_template
from alcove.api.kinds.labelselectors import validate_label_selector
from alcove.api.objects import Object, get, labels, metadata, name
from alcove.api.validation import INT32_MAX, same

UID_LABEL = "batch.kubernetes.io/controller-uid"
NAME_LABEL = "batch.kubernetes.io/job-name"
_UID_LABELS = ("controller-uid", UID_LABEL)
_NAME_LABELS = ("job-name", NAME_LABEL)
BACKOFF_LIMIT_DEFAULT = 6


def default_job(job: Object) -> None:
    spec = child(job, "spec")
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    fill(spec, "parallelism", 1)
    fill(spec, "backoffLimit", INT32_MAX if "backoffLimitPerIndex" in spec else BACKOFF_LIMIT_DEFAULT)
    template = child(spec, "template")
    template_labels = get(template, "metadata", "labels")
    if template_labels and not labels(job):
        metadata(job)["labels"] = dict(template_labels)
    fill(spec, "completionMode", "NonIndexed")
    fill(spec, "suspend", False)
    with_failures = spec.get("podFailurePolicy") is not None
    fill(spec, "podReplacementPolicy", "Failed" if with_failures else "TerminatingOrFailed")
    fill(spec, "manualSelector", False)
    default_failure_policy(spec)
    default_pod_template(template)


def _generated_labels(job: Object) -> dict[str, str]:
    uid = get(job, "metadata", "uid", default="")
    return {**dict.fromkeys(_UID_LABELS, uid), **dict.fromkeys(_NAME_LABELS, name(job))}


def prepare_create(job: Object) -> None:
    """Generate the selector from the job's uid, which must be set. Values set by a client fail validation."""
    spec = child(job, "spec")
    if spec.get("manualSelector"):
        return
    meta = child(child(spec, "template"), "metadata")
    meta["labels"] = {**_generated_labels(job), **(meta.get("labels") or {})}
    selector = child(spec, "selector")
    uid = get(job, "metadata", "uid", default="")
    selector["matchLabels"] = {UID_LABEL: uid, **(selector.get("matchLabels") or {})}


def validate_job(job: Object) -> list[FieldError]:
    spec = job.get("spec") or {}
    errors = _generated_selector(job, spec) + validate_job_spec(spec, "spec") + _selector(spec)
    completions = spec.get("completions") or 0
    if is_indexed(spec) and completions > 0:
        hostname = f"{name(job)}-{completions - 1}"
        if names.dns_label(hostname):
            message = f"will not able to create pod with invalid DNS label: {hostname}"
            errors.append(invalid("metadata.name", name(job), message))
    return errors


def _compiled(spec: Object) -> selectors.LabelSelector | None:
    try:
        return selectors.from_object(spec.get("selector"))
    except BadRequest:
        return None


def _generated_selector(job: Object, spec: Object) -> list[FieldError]:
    """The generated selector and labels must not differ from what the server generated."""
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    errors: list[FieldError] = []
    if not get(job, "metadata", "uid"):
        errors.append(required("metadata.uid"))
    expected, pod_labels = _generated_labels(job), get(spec, "template", "metadata", "labels", default={})
    for key in ("controller-uid", "job-name", UID_LABEL, NAME_LABEL):
        path, message = f"spec.template.metadata.labels[{key}]", f"must be '{expected[key]}'"
        if key not in pod_labels:
            errors.append(required(path, message))
        elif pod_labels[key] != expected[key]:
            errors.append(invalid(path, pod_labels, message))
    selector = _compiled(spec)
    if selector is not None and not selector.matches(expected):
        errors.append(invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return errors


def _selector(spec: Object) -> list[FieldError]:
    if spec.get("selector") is None:
        errors = [required("spec.selector")]
    else:
        errors = validate_label_selector(spec["selector"], "spec.selector")
    selector, pod_labels = _compiled(spec), get(spec, "template", "metadata", "labels")
    if selector is not None and not selector.matches(pod_labels or {}):
        message = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", pod_labels, message))
    return errors


def validate_job_update(new: Object, old: Object) -> list[FieldError]:
    now, before = new.get("spec") or {}, old.get("spec") or {}
    errors = _completions(now, before) + unchanged(now, before, "spec", "selector")
    errors += _template(now, before, _may_change_template(old))
    fixed = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
    return errors + unchanged(now, before, "spec", *fixed)


def _completions(now: Object, before: Object) -> list[FieldError]:
    """Completions of indexed jobs can change only together with parallelism, to the same value."""
    if not is_indexed(now):
        return unchanged(now, before, "spec", "completions")
    completions = now.get("completions")
    if completions in (None, before.get("completions"), now.get("parallelism")):
        return []
    message = "can only be modified in tandem with spec.parallelism"
    return [invalid("spec.completions", completions, message)]


def _may_change_template(old: Object) -> bool:
    """Whether the job is suspended and has no active pods."""
    status = old.get("status") or {}
    if not get(old, "spec", "suspend") or status.get("active"):
        return False
    return not status.get("startTime") or is_true(status, "Suspended")


_PLACEMENT = ("nodeSelector", "tolerations", "schedulingGates")


def _template(now: Object, before: Object, may_change: bool) -> list[FieldError]:
    """A suspended job's scheduling fields and resources may change; the rest of the template is immutable."""
    new, old = now.get("template") or {}, before.get("template") or {}
    if not may_change:
        return [] if same(new, old) else [invalid("spec.template", new, IMMUTABLE)]
    if same(_fixed_pod(new), _fixed_pod(old)):
        return []
    return [invalid("spec.template.spec", new.get("spec"), IMMUTABLE)]


def _fixed_pod(template: Object) -> Object:
    """Return the immutable part of a suspended job's pod spec."""
    spec = template.get("spec") or {}
    fixed: dict[str, Any] = {field: value for field, value in spec.items() if field not in _PLACEMENT}
    affinity = {
        field: value for field, value in (spec.get("affinity") or {}).items() if field != "nodeAffinity"
    }
    fixed["affinity"] = affinity
    for field in ("containers", "initContainers"):
        fixed[field] = [
            {key: value for key, value in container.items() if key != "resources"}
            for container in spec.get(field) or ()
        ]
    return fixed


STRATEGY = Strategy(
    default=default_job,
    validate=validate_job,
    validate_update=validate_job_update,
    validate_status=validate_job_status,
    prepare_create=prepare_create,
    fields={"status.successful": lambda job: str(get(job, "status", "succeeded", default=0))},
    has_status=True,
    counts_generation=True,
)
