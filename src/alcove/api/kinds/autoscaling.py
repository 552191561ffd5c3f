"""autoscaling: horizontal pod autoscalers of v1 and v2, and the Scale of scale subresources.

A v1 object has one target, CPU utilization; it is checked, and reported, as the equivalent v2 metric.
"""

from collections.abc import Callable
from typing import Any

from alcove.api import names, quantity
from alcove.api.fields import FieldError, forbidden, invalid, not_supported, required
from alcove.api.kind import Strategy
from alcove.api.kinds.checks import ABOVE_ZERO, child, fill, named, named_required, not_negative, one_of
from alcove.api.kinds.core.resources import check_container_resource_name
from alcove.api.objects import Object
from alcove.api.quantity import QuantityError
from alcove.api.validation import NOT_NEGATIVE, NOT_POSITIVE

CPU_UTILIZATION_DEFAULT = 80
PERIOD_SECONDS_MAX = 1800
STABILIZATION_SECONDS_MAX = 3600
SELECT_POLICIES = ("Disabled", "Max", "Min")
POLICY_TYPES = ("Percent", "Pods")
METRIC_FIELDS = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
TARGET_TYPES = ("Utilization", "Value", "AverageValue")


def _is_v1(hpa: Object) -> bool:
    return bool(hpa.get("apiVersion") == "autoscaling/v1")


def _cpu_metric(percentage: int) -> Object:
    target = {"type": "Utilization", "averageUtilization": percentage}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def default_autoscaler(hpa: Object) -> None:
    spec = child(hpa, "spec")
    fill(spec, "minReplicas", 1)
    if _is_v1(hpa):
        return
    if not spec.get("metrics"):
        spec["metrics"] = [_cpu_metric(CPU_UTILIZATION_DEFAULT)]
    if spec.get("behavior") is not None:
        _default_rules(child(spec["behavior"], "scaleUp"), window=0, pods=True)
        _default_rules(child(spec["behavior"], "scaleDown"), window=None, pods=False)


def _default_rules(rules: Object, window: int | None, pods: bool) -> None:
    if window is not None:
        fill(rules, "stabilizationWindowSeconds", window)
    fill(rules, "selectPolicy", "Max")
    if rules.get("policies") is None:
        percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
        some = [{"type": "Pods", "value": 4, "periodSeconds": 15}] if pods else []
        rules["policies"] = [*some, percent]


def validate_autoscaler(hpa: Object) -> list[FieldError]:
    spec = hpa.get("spec") or {}
    minimum, maximum = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    errors: list[FieldError] = []
    if minimum is not None and minimum < 1:
        errors.append(invalid("spec.minReplicas", minimum, "must be greater than or equal to 1"))
    if maximum == 0:
        errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif maximum < 0:
        errors.append(invalid("spec.maxReplicas", maximum, "must be greater than or equal to 1"))
    if minimum is not None and maximum < minimum:
        message = "must be greater than or equal to `minReplicas`"
        errors.append(invalid("spec.maxReplicas", maximum, message))
    errors += _reference(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef", needs_group=True)
    for index, metric in enumerate(_metrics(hpa, spec)):
        errors += _metric(metric, f"spec.metrics[{index}]")
    behavior = spec.get("behavior") or {}
    for direction in ("scaleUp", "scaleDown"):
        if behavior.get(direction) is not None:
            errors += _rules(behavior[direction], f"spec.behavior.{direction}")
    return errors


def _metrics(hpa: Object, spec: Object) -> list[Object]:
    if not _is_v1(hpa):
        return spec.get("metrics") or []
    percentage = spec.get("targetCPUUtilizationPercentage")
    return [] if percentage is None else [_cpu_metric(percentage)]


def _reference(reference: Object, path: str, needs_group: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("kind", "name"):
        errors += named_required(reference.get(field, ""), names.path_segment, f"{path}.{field}")
    version = reference.get("apiVersion", "")
    if version.count("/") > 1:
        message = f"unexpected GroupVersion string: {version}"
        errors.append(invalid(f"{path}.apiVersion", version, message))
    # ReplicationControllers are the only scalable kind of the core group.
    elif needs_group and "/" not in version and reference.get("kind") != "ReplicationController":
        message = "apiVersion must specify API group"
        errors.append(invalid(f"{path}.apiVersion", version, message))
    return errors


def _metric(metric: Object, path: str) -> list[FieldError]:
    kind = metric.get("type", "")
    errors: list[FieldError] = []
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric source type"))
    if kind not in METRIC_FIELDS:
        errors.append(not_supported(f"{path}.type", kind, sorted(METRIC_FIELDS)))
    set_fields = [field for field in METRIC_FIELDS.values() if metric.get(field) is not None]
    if set_fields:
        errors += _SOURCES[set_fields[0]](metric[set_fields[0]], f"{path}.{set_fields[0]}")
    expected = METRIC_FIELDS.get(kind, "")
    if expected and expected not in set_fields:
        message = "must populate information for the given metric source"
        errors.append(required(f"{path}.{expected}", message))
    if len(set_fields) > 1:
        message = "must populate the given metric source only"
        errors += [forbidden(f"{path}.{field}", message) for field in set_fields if field != expected]
    return errors


def _identifier(source: Object, path: str) -> list[FieldError]:
    metric_name = (source.get("metric") or {}).get("name", "")
    if not metric_name:
        return [required(f"{path}.metric.name", "must specify a metric name")]
    return named(metric_name, names.path_segment, f"{path}.metric.name")


def _target(source: Object, path: str) -> list[FieldError]:
    target, path = source.get("target") or {}, f"{path}.target"
    kind = target.get("type", "")
    errors: list[FieldError] = []
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric target type"))
    if kind not in TARGET_TYPES:
        message = "must be either Utilization, Value, or AverageValue"
        errors.append(invalid(f"{path}.type", kind, message))
    for field in ("value", "averageValue"):
        if field in target and not _is_positive(target[field]):
            errors.append(invalid(f"{path}.{field}", target[field], "must be positive"))
    if target.get("averageUtilization", 1) < 1:
        errors.append(invalid(f"{path}.averageUtilization", target["averageUtilization"], ABOVE_ZERO))
    return errors


def _is_positive(amount: Any) -> bool:
    try:
        return quantity.of(amount).nano > 0
    except QuantityError:
        return False


def _set(source: Object) -> set[str]:
    """Return the names of the targets that are set."""
    return set(source.get("target") or {}) & {"value", "averageValue", "averageUtilization"}


def _object(source: Object, path: str) -> list[FieldError]:
    errors = _reference(source.get("describedObject") or {}, f"{path}.describedObject", needs_group=False)
    errors += _identifier(source, path) + _target(source, path)
    if not _set(source) & {"value", "averageValue"}:
        message = "must set either a target value or averageValue"
        errors.append(required(f"{path}.target.averageValue", message))
    return errors


def _external(source: Object, path: str) -> list[FieldError]:
    errors = _identifier(source, path) + _target(source, path)
    set_fields = _set(source) & {"value", "averageValue"}
    if not set_fields:
        message = "must set either a target value for metric or a per-pod target"
        errors.append(required(f"{path}.target.averageValue", message))
    if len(set_fields) == 2:
        message = "may not set both a target value for metric and a per-pod target"
        errors.append(forbidden(f"{path}.target.value", message))
    return errors


def _pods(source: Object, path: str) -> list[FieldError]:
    errors = _identifier(source, path) + _target(source, path)
    if "averageValue" not in _set(source):
        message = "must specify a positive target averageValue"
        errors.append(required(f"{path}.target.averageValue", message))
    return errors


def _resource(source: Object, path: str) -> list[FieldError]:
    errors = [] if source.get("name") else [required(f"{path}.name", "must specify a resource name")]
    return errors + _resource_target(source, path)


def _resource_target(source: Object, path: str) -> list[FieldError]:
    errors = _target(source, path)
    set_fields = _set(source) & {"averageUtilization", "averageValue"}
    if not set_fields:
        message = "must set either a target raw value or a target utilization"
        errors.append(required(f"{path}.target.averageUtilization", message))
    if len(set_fields) == 2:
        message = "may not set both a target raw value and a target utilization"
        errors.append(forbidden(f"{path}.target.averageValue", message))
    return errors


def _container_resource(source: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not source.get("name"):
        errors.append(required(f"{path}.name", "must specify a resource name"))
    else:
        check_container_resource_name(source["name"], f"{path}.name", errors)
    if not source.get("container"):
        errors.append(required(f"{path}.container", "must specify a container"))
    else:
        errors += named(source["container"], names.dns_label, f"{path}.container")
    return errors + _resource_target(source, path)


_SOURCES: dict[str, Callable[[Object, str], list[FieldError]]] = {
    "object": _object,
    "external": _external,
    "pods": _pods,
    "resource": _resource,
    "containerResource": _container_resource,
}


def _rules(rules: Object, path: str) -> list[FieldError]:
    window = rules.get("stabilizationWindowSeconds", 0)
    errors: list[FieldError] = []
    if window < 0:
        message = "must be greater than or equal to zero"
        errors.append(invalid(f"{path}.stabilizationWindowSeconds", window, message))
    if window > STABILIZATION_SECONDS_MAX:
        message = f"must be less than or equal to {STABILIZATION_SECONDS_MAX}"
        errors.append(invalid(f"{path}.stabilizationWindowSeconds", window, message))
    if "selectPolicy" in rules:
        errors += one_of(rules["selectPolicy"], SELECT_POLICIES, f"{path}.selectPolicy")
    if not rules.get("policies"):
        errors.append(required(f"{path}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(rules.get("policies") or ()):
        errors += _policy(policy, f"{path}.policies[{index}]")
    if "tolerance" in rules and quantity.of(rules["tolerance"]).nano < 0:
        errors.append(invalid(f"{path}.tolerance", rules["tolerance"], NOT_NEGATIVE))
    return errors


def _policy(policy: Object, path: str) -> list[FieldError]:
    errors = one_of(policy.get("type", ""), POLICY_TYPES, f"{path}.type")
    for field in ("value", "periodSeconds"):
        if policy.get(field, 0) <= 0:
            errors.append(invalid(f"{path}.{field}", policy.get(field, 0), NOT_POSITIVE))
    if policy.get("periodSeconds", 0) > PERIOD_SECONDS_MAX:
        message = f"must be less than or equal to {PERIOD_SECONDS_MAX}"
        errors.append(invalid(f"{path}.periodSeconds", policy["periodSeconds"], message))
    return errors


def validate_autoscaler_status(new: Object, _old: Object) -> list[FieldError]:
    return not_negative(new.get("status") or {}, "status", "currentReplicas", "desiredReplicas")


STRATEGIES: dict[str, Strategy] = {
    "horizontalpodautoscalers": Strategy(
        default=default_autoscaler,
        validate=validate_autoscaler,
        validate_status=validate_autoscaler_status,
        has_status=True,
    ),
}
