"""DaemonSets: one pod of a template on every matching node."""

from alcove.api.fields import FieldError, invalid, not_supported, required
from alcove.api.kind import Strategy
from alcove.api.kinds.apps.templates import (
    default_rolling_update,
    is_empty,
    mismatch_errors,
    read_selector,
    template_of,
    validate_long_running,
    validate_selector_unchanged,
)
from alcove.api.kinds.checks import (
    at_most_100_percent,
    child,
    fill,
    int_or_percent_value,
    not_decremented,
    not_negative,
    positive_int_or_percent,
)
from alcove.api.kinds.core.pods import default_pod_template, validate_pod_template
from alcove.api.kinds.labelselectors import validate_label_selector
from alcove.api.objects import Object, annotations, metadata
from alcove.api.validation import same

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
"""An annotation that counts changes of the template; clients cannot set it."""
UPDATE_STRATEGIES = ("RollingUpdate", "OnDelete")


def default_daemon_set(obj: Object) -> None:
    spec = child(obj, "spec")
    default_rolling_update(child(spec, "updateStrategy"), max_unavailable=1, max_surge=0)
    fill(spec, "revisionHistoryLimit", 10)
    default_pod_template(child(spec, "template"))


def _generation(obj: Object) -> int:
    text = annotations(obj).get(TEMPLATE_GENERATION, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _set_generation(obj: Object, generation: int) -> None:
    existing = annotations(obj)
    metadata(obj)["annotations"] = {**existing, TEMPLATE_GENERATION: str(generation)}


def prepare_create(obj: Object) -> None:
    _set_generation(obj, max(1, _generation(obj)))


def prepare_update(new: Object, old: Object) -> None:
    now, before = (template_of(each.get("spec") or {}) for each in (new, old))
    _set_generation(new, _generation(old) + (0 if same(now, before) else 1))


def validate_daemon_set(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    selector = spec.get("selector")
    errors = validate_label_selector(selector, "spec.selector")
    compiled = read_selector(spec)
    if compiled is not None:
        errors += mismatch_errors(spec, compiled)
    if selector is not None and is_empty(selector):
        errors.append(invalid("spec.selector", selector, "empty selector is invalid for daemonset"))
    errors += validate_pod_template(template_of(spec), "spec.template")
    errors += validate_long_running(spec, "DaemonSet")
    errors += not_negative(spec, "spec", "minReadySeconds")
    errors += _update_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    return errors + not_negative(spec, "spec", "revisionHistoryLimit")


def _update_strategy(strategy: Object, path: str) -> list[FieldError]:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        return [not_supported(path, strategy, UPDATE_STRATEGIES)]
    if rolling is None:
        return [required(f"{path}.rollingUpdate")]
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors: list[FieldError] = []
    for check in (positive_int_or_percent, at_most_100_percent):
        errors += check(unavailable, f"{path}.rollingUpdate.maxUnavailable")
        errors += check(surge, f"{path}.rollingUpdate.maxSurge")
    some, more = int_or_percent_value(unavailable) != 0, int_or_percent_value(surge) != 0
    if some and more:
        message = "may not be set when maxUnavailable is non-zero"
        errors.append(invalid(f"{path}.rollingUpdate.maxSurge", surge, message))
    if not some and not more:
        message = "cannot be 0 when maxSurge is 0"
        errors.append(required(f"{path}.rollingUpdate.maxUnavailable", message))
    return errors


def validate_daemon_set_status(new: Object, old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    counters = (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    )
    errors = not_negative(status, "status", *counters)
    return errors + not_decremented(status, old.get("status") or {}, "status", "collisionCount")


STRATEGY = Strategy(
    default=default_daemon_set,
    validate=validate_daemon_set,
    validate_update=validate_selector_unchanged,
    validate_status=validate_daemon_set_status,
    prepare_create=prepare_create,
    prepare_update=prepare_update,
    has_status=True,
    counts_generation=True,
)
