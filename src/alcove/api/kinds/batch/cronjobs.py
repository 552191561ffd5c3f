"""CronJobs: jobs on a schedule."""

from alcove.api import cron
from alcove.api.fields import FieldError, invalid, not_supported, required
from alcove.api.kind import Strategy
from alcove.api.kinds.batch.jobspecs import validate_job_spec
from alcove.api.kinds.batch.policies import default_failure_policy
from alcove.api.kinds.checks import child, fill, not_negative, one_of_required
from alcove.api.kinds.core.pods import default_pod_template
from alcove.api.kinds.timezones import check_time_zone
from alcove.api.objects import Object, name

CONCURRENCY_POLICIES = ("Allow", "Forbid", "Replace")
NAME_LENGTH_MAX_BYTES = 52
"""A job's name adds eleven characters to it and must be a DNS label."""


def default_cron_job(obj: Object) -> None:
    spec = child(obj, "spec")
    fill(spec, "concurrencyPolicy", "Allow")
    fill(spec, "suspend", False)
    fill(spec, "successfulJobsHistoryLimit", 3)
    fill(spec, "failedJobsHistoryLimit", 1)
    job = child(child(spec, "jobTemplate"), "spec")
    default_failure_policy(job)
    default_pod_template(child(job, "template"))


def validate_cron_job(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = _schedule(spec.get("schedule", ""), "spec.schedule")
    errors += not_negative(spec, "spec", "startingDeadlineSeconds")
    if "timeZone" in spec:
        errors += check_time_zone(spec["timeZone"], "spec.timeZone")
    policy = spec.get("concurrencyPolicy", "")
    errors += one_of_required(policy, CONCURRENCY_POLICIES, "spec.concurrencyPolicy")
    errors += _job_template((spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec")
    return errors + not_negative(spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")


def validate_new_cron_job(obj: Object) -> list[FieldError]:
    if len(name(obj).encode()) <= NAME_LENGTH_MAX_BYTES:
        return []
    return [invalid("metadata.name", name(obj), f"must be no more than {NAME_LENGTH_MAX_BYTES} characters")]


def _schedule(schedule: str, path: str) -> list[FieldError]:
    if not schedule:
        return [required(path)]
    if "TZ" in schedule:
        message = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        return [invalid(path, schedule, message)]
    try:
        cron.parse(schedule)
    except cron.CronError as error:
        return [invalid(path, schedule, str(error))]
    return []


def _job_template(spec: Object, path: str) -> list[FieldError]:
    errors = validate_job_spec(spec, path)
    if spec.get("selector") is not None:
        errors.append(invalid(f"{path}.selector", spec["selector"], "`selector` will be auto-generated"))
    if spec.get("manualSelector"):
        errors.append(not_supported(f"{path}.manualSelector", True, ("nil", "false")))
    return errors


STRATEGY = Strategy(
    default=default_cron_job,
    validate=validate_cron_job,
    validate_create=validate_new_cron_job,
    has_status=True,
    counts_generation=True,
)
