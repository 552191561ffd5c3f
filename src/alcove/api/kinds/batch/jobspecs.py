"""The spec of a job, in a Job or in a CronJob's template."""

from alcove.api import names
from alcove.api.fields import FieldError, invalid, not_supported, required, too_long
from alcove.api.kinds.batch.policies import validate_failure_policy, validate_success_policy
from alcove.api.kinds.checks import named, not_negative, one_of
from alcove.api.kinds.core.pods import validate_pod_template
from alcove.api.objects import Object

PARALLELISM_MAX = 100_000
FAILED_INDEXES_MAX = 100_000
COMPLETIONS_HIGH = 100_000
"""With more completions than this and a backoff limit per index, other limits are lower."""
PARALLELISM_OF_HIGH_MAX = 10_000
FAILED_INDEXES_OF_HIGH_MAX = 10_000
MANAGED_BY_LENGTH_MAX_BYTES = 63

_NEEDS_INDEXED = "requires indexed completion mode"
_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)


def is_indexed(spec: Object) -> bool:
    return spec.get("completionMode") == "Indexed"


def validate_job_spec(spec: Object, path: str) -> list[FieldError]:
    """Check everything except the selector."""
    errors = not_negative(spec, path, *_COUNTS)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        errors.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if "managedBy" in spec:
        errors += _managed_by(spec["managedBy"], f"{path}.managedBy")
    if "completionMode" in spec:
        errors += one_of(spec["completionMode"], ("NonIndexed", "Indexed"), f"{path}.completionMode")
    errors += _indexed(spec, path) if is_indexed(spec) else _not_indexed(spec, path)
    if spec.get("podFailurePolicy") is not None:
        errors += validate_failure_policy(spec, f"{path}.podFailurePolicy")
    if spec.get("successPolicy") is not None:
        if is_indexed(spec):
            errors += validate_success_policy(spec, f"{path}.successPolicy")
        else:
            errors.append(invalid(f"{path}.successPolicy", spec["successPolicy"], _NEEDS_INDEXED))
    errors += _replacement(spec, f"{path}.podReplacementPolicy")
    template = spec.get("template") or {}
    errors += validate_pod_template(template, f"{path}.template")
    return errors + _restart_policy(spec, template.get("spec") or {}, f"{path}.template.spec.restartPolicy")


def _managed_by(value: str, path: str) -> list[FieldError]:
    if not value:
        return [required(path)]
    host, _, rest = value.partition("/")
    if not host or not rest:
        errors = [invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    else:
        errors = named(host, names.dns_subdomain, path) + named(rest, names.http_path, path)
    if len(value.encode()) > MANAGED_BY_LENGTH_MAX_BYTES:
        errors.append(too_long(path, MANAGED_BY_LENGTH_MAX_BYTES))
    return errors


def _check_maximum(spec: Object, field: str, maximum: int, message: str, path: str) -> list[FieldError]:
    over = spec.get(field, 0) > maximum
    return (
        [invalid(f"{path}.{field}", spec[field], f"must be less than or equal to {message}")] if over else []
    )


def _indexed(spec: Object, path: str) -> list[FieldError]:
    completions = spec.get("completions")
    errors: list[FieldError] = []
    if completions is None:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    message = f"{PARALLELISM_MAX} when completion mode is Indexed"
    errors += _check_maximum(spec, "parallelism", PARALLELISM_MAX, message, path)
    if completions is not None:
        errors += _check_maximum(spec, "maxFailedIndexes", completions, "completions", path)
    errors += _check_maximum(spec, "maxFailedIndexes", FAILED_INDEXES_MAX, str(FAILED_INDEXES_MAX), path)
    if (completions or 0) > COMPLETIONS_HIGH and "backoffLimitPerIndex" in spec:
        errors += _many_indexes(spec, path)
    return errors


def _many_indexes(spec: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if "maxFailedIndexes" not in spec:
        message = f"must be specified when completions is above {COMPLETIONS_HIGH}"
        errors.append(required(f"{path}.maxFailedIndexes", message))
    when = f"when completions are above {COMPLETIONS_HIGH} and used with backoff limit per index"
    message = f"{PARALLELISM_OF_HIGH_MAX} {when}"
    errors += _check_maximum(spec, "parallelism", PARALLELISM_OF_HIGH_MAX, message, path)
    message = f"{FAILED_INDEXES_OF_HIGH_MAX} {when}"
    return errors + _check_maximum(spec, "maxFailedIndexes", FAILED_INDEXES_OF_HIGH_MAX, message, path)


def _not_indexed(spec: Object, path: str) -> list[FieldError]:
    return [
        invalid(f"{path}.{field}", spec[field], _NEEDS_INDEXED)
        for field in ("backoffLimitPerIndex", "maxFailedIndexes")
        if field in spec
    ]


def _replacement(spec: Object, path: str) -> list[FieldError]:
    if "podReplacementPolicy" not in spec:
        return []
    with_failures = spec.get("podFailurePolicy") is not None
    supported = ("Failed",) if with_failures else ("Failed", "TerminatingOrFailed")
    return one_of(spec["podReplacementPolicy"], supported, path)


def _restart_policy(spec: Object, pod: Object, path: str) -> list[FieldError]:
    policy = pod.get("restartPolicy", "")
    if policy in ("", "Always"):
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [not_supported(path, policy, ("OnFailure", "Never"))]
    if spec.get("podFailurePolicy") is not None and policy != "Never":
        message = 'only "Never" is supported when podFailurePolicy is specified'
        return [invalid(path, policy, message)]
    return []
