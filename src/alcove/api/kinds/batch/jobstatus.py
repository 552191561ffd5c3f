"""A job's status. Only what a write changes is validated, so that an older status can still be updated."""

from alcove.api import meta
from alcove.api.fields import FieldError, duplicate, invalid, required
from alcove.api.kinds.batch import indexes
from alcove.api.kinds.checks import IMMUTABLE, not_negative, refused
from alcove.api.objects import Object
from alcove.api.validation import same

_CONDITIONS = "status.conditions"


def is_true(status: Object, kind: str) -> bool:
    return _has(status, kind, "True")


def _has(status: Object, kind: str, value: str) -> bool:
    conditions = status.get("conditions") or ()
    return any(each.get("type") == kind and each.get("status") == value for each in conditions)


def is_finished(status: Object) -> bool:
    return is_true(status, "Complete") or is_true(status, "Failed")


def validate_job_status(new: Object, old: Object) -> list[FieldError]:
    spec, now, before = new.get("spec") or {}, new.get("status") or {}, old.get("status") or {}
    errors = not_negative(now, "status", "active", "succeeded", "failed", "ready", "terminating")
    errors += _uncounted(now.get("uncountedTerminatedPods") or {})
    errors += _exclusive(now, before) + _times(spec, now, before)
    errors += _finished(spec, now, before) + _indexes(spec, now, before)
    return errors + _transitions(spec, now, before)


def _uncounted(uncounted: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for field in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(field) or ()):
            path = f"status.uncountedTerminatedPods.{field}[{index}]"
            if not uid:
                errors.append(invalid(path, uid, "must not be empty"))
            elif uid in seen:
                errors.append(duplicate(path, uid))
            seen.add(uid)
    return errors


def _turned(now: Object, before: Object, *kinds: str) -> bool:
    """Whether a condition became true, or ceased to be true."""
    return any(is_true(now, kind) != is_true(before, kind) for kind in kinds)


def _changed(now: Object, before: Object, *fields: str) -> bool:
    return any(not same({field: now.get(field)}, {field: before.get(field)}) for field in fields)


def _exclusive(now: Object, before: Object) -> list[FieldError]:
    """Check conditions that exclude each other, and conditions that require another one first."""
    complete, failed = is_true(now, "Complete"), is_true(now, "Failed")
    target, met = is_true(now, "FailureTarget"), is_true(now, "SuccessCriteriaMet")
    errors: list[FieldError] = []
    if complete and failed and _turned(now, before, "Complete", "Failed"):
        errors.append(refused(_CONDITIONS, "cannot set Complete=True and Failed=true conditions"))
    if complete and target and _turned(now, before, "Complete", "FailureTarget"):
        errors.append(refused(_CONDITIONS, "cannot set Complete=True and FailureTarget=true conditions"))
    if failed and not target and (_turned(now, before, "Failed") or _changed(now, before, "failedIndexes")):
        message = "cannot set Failed=True condition without the FailureTarget=true condition"
        errors.append(refused(_CONDITIONS, message))
    if complete and not met and _turned(now, before, "Complete", "SuccessCriteriaMet"):
        message = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        errors.append(refused(_CONDITIONS, message))
    if met and failed:
        errors.append(refused(_CONDITIONS, "cannot set SuccessCriteriaMet=True and Failed=true conditions"))
    if met and target:
        message = "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"
        errors.append(refused(_CONDITIONS, message))
    return errors


def _times(spec: Object, now: Object, before: Object) -> list[FieldError]:
    started, ended, path = now.get("startTime"), now.get("completionTime"), "status.completionTime"
    complete = is_true(now, "Complete")
    errors: list[FieldError] = []
    if _turned(now, before, "Complete") or _changed(now, before, "completionTime"):
        if ended and not complete:
            message = "cannot set completionTime when there is no Complete=True condition"
            errors.append(invalid(path, ended, message))
        if complete and not ended:
            errors.append(required(path, "completionTime is required for Complete jobs"))
    if _changed(now, before, "startTime", "completionTime") and started and ended and _before(ended, started):
        errors.append(invalid(path, ended, "must be equal to or after `startTime`"))
    if ended and before.get("completionTime") and ended != before["completionTime"]:
        errors.append(invalid(path, ended, IMMUTABLE))
    resuming = is_true(before, "Suspended") and _has(now, "Suspended", "False")
    if (
        before.get("startTime")
        and started != before["startTime"]
        and not spec.get("suspend")
        and not resuming
    ):
        message = "field is immutable for unsuspended job once set"
        errors.append(invalid("status.startTime", started, message))
    return errors


def _before(one: str, other: str) -> bool:
    try:
        return meta.parse_time(one) < meta.parse_time(other)
    except ValueError:
        return False


def _finished(spec: Object, now: Object, before: Object) -> list[FieldError]:
    """A finished job must not have active or terminating pods."""
    errors: list[FieldError] = []
    ready, active = now.get("ready", 0), now.get("active", 0)
    if ready > active and _changed(now, before, "ready", "active"):
        errors.append(invalid("status.ready", ready, "cannot set more ready pods than active"))
    if not is_finished(now):
        return errors
    just_finished = not is_finished(before)
    if active > 0 and (just_finished or _changed(now, before, "active")):
        errors.append(invalid("status.active", active, "active>0 is invalid for finished job"))
    terminating = now.get("terminating", 0)
    if terminating > 0 and (just_finished or _changed(now, before, "terminating")):
        message = "terminating>0 is invalid for finished job"
        errors.append(invalid("status.terminating", terminating, message))
    never_to_start = spec.get("suspend") and spec.get("completions") == 0
    if (
        not now.get("startTime")
        and not never_to_start
        and (just_finished or _changed(now, before, "startTime"))
    ):
        errors.append(required("status.startTime", "startTime is required for finished job"))
    uncounted = now.get("uncountedTerminatedPods") or {}
    remaining = uncounted.get("succeeded") or uncounted.get("failed")
    if remaining and (just_finished or _changed(now, before, "uncountedTerminatedPods")):
        message = "must be empty for finished job"
        errors.append(invalid("status.uncountedTerminatedPods", uncounted, message))
    return errors


def _indexes(spec: Object, now: Object, before: Object) -> list[FieldError]:
    completions, by_index = spec.get("completions"), "backoffLimitPerIndex" in spec
    done, failed = now.get("completedIndexes", ""), now.get("failedIndexes")
    done_changed, failed_changed = (
        _changed(now, before, field) for field in ("completedIndexes", "failedIndexes")
    )
    errors: list[FieldError] = []
    if done_changed and completions is not None:
        errors += _format(done, completions, "completedIndexes")
    if failed_changed and completions is not None and by_index and failed is not None:
        errors += _format(failed, completions, "failedIndexes")
    if done_changed and done and spec.get("completionMode") != "Indexed":
        message = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(invalid("status.completedIndexes", done, message))
    if failed_changed and failed is not None and not by_index:
        message = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(invalid("status.failedIndexes", failed, message))
    if (done_changed or failed_changed) and completions is not None and failed is not None:
        errors += _overlap(done, failed, completions)
    return errors


def _format(text: str, completions: int, field: str) -> list[FieldError]:
    try:
        indexes.parse(text, completions)
    except indexes.IndexesError as error:
        return [invalid(f"status.{field}", text, f"error parsing {field}: {error}")]
    return []


def _overlap(done: str, failed: str, completions: int) -> list[FieldError]:
    try:
        shared = indexes.overlap(indexes.parse(done, completions), indexes.parse(failed, completions))
    except indexes.IndexesError:
        return []
    if shared is None:
        return []
    message = f"failedIndexes and completedIndexes overlap at index: {shared}"
    return [invalid("status.failedIndexes", failed, message)]


def _transitions(spec: Object, now: Object, before: Object) -> list[FieldError]:
    errors = [
        refused(_CONDITIONS, f"cannot disable the terminal {kind}=True condition")
        for kind in ("Failed", "Complete", "FailureTarget")
        if is_true(before, kind) and not is_true(now, kind)
    ]
    if now.get("failed", 0) < before.get("failed", 0):
        message = "cannot decrease the failed counter"
        errors.append(invalid("status.failed", now.get("failed", 0), message))
    scalable = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    if now.get("succeeded", 0) < before.get("succeeded", 0) and not scalable:
        message = "cannot decrease the succeeded counter"
        errors.append(invalid("status.succeeded", now.get("succeeded", 0), message))
    if is_true(before, "SuccessCriteriaMet") and not is_true(now, "SuccessCriteriaMet"):
        errors.append(refused(_CONDITIONS, "cannot disable the SuccessCriteriaMet=True condition"))
    if (
        is_true(before, "Complete")
        and not is_true(before, "SuccessCriteriaMet")
        and is_true(now, "SuccessCriteriaMet")
    ):
        message = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        errors.append(refused(_CONDITIONS, message))
    return errors
