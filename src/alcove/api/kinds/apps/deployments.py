"""Deployments: rollouts of ReplicaSets."""

from alcove.api.errors import BadRequest
from alcove.api.fields import FieldError, forbidden, invalid, not_supported, required
from alcove.api.kind import Strategy
from alcove.api.kinds.apps.templates import (
    default_rolling_update,
    template_of,
    validate_selector_unchanged,
    validate_template,
)
from alcove.api.kinds.checks import (
    at_most_100_percent,
    child,
    fill,
    int_or_percent_value,
    not_decremented,
    not_negative,
    positive_int_or_percent,
    replica_counters,
)
from alcove.api.kinds.core.networks import NETWORK_LABEL, network_of
from alcove.api.kinds.core.pods import default_pod_template
from alcove.api.objects import Object, labels

STRATEGIES_OF_ROLLOUT = ("Recreate", "RollingUpdate")


def default_deployment(obj: Object) -> None:
    spec = child(obj, "spec")
    fill(spec, "replicas", 1)
    default_rolling_update(child(spec, "strategy"), max_unavailable="25%", max_surge="25%")
    fill(spec, "revisionHistoryLimit", 10)
    fill(spec, "progressDeadlineSeconds", 600)
    default_pod_template(child(spec, "template"))


def refuse_other_network(obj: Object) -> None:
    """Raise BadRequest if a labelled deployment's pods would join another network than the deployment."""
    label = labels(obj).get(NETWORK_LABEL)
    if not label:
        return
    pods = network_of(template_of(obj.get("spec") or {}))
    if pods != label:
        raise BadRequest(
            f'the label {NETWORK_LABEL} of the deployment is "{label}" but its pods would join the network '
            f'"{pods}": name the same network in spec.template'
        )


def validate_deployment(obj: Object) -> list[FieldError]:
    refuse_other_network(obj)
    spec = obj.get("spec") or {}
    errors = not_negative(spec, "spec", "replicas") + validate_template(spec)
    errors += _strategy(spec.get("strategy") or {})
    errors += not_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        message = "must be greater than minReadySeconds"
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, message))
    return errors


def _strategy(strategy: Object) -> list[FieldError]:
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.strategy"
    if kind == "Recreate":
        if rolling is None:
            return []
        return [forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")]
    if kind != "RollingUpdate":
        return [not_supported(path, strategy, STRATEGIES_OF_ROLLOUT)]
    if rolling is None:
        return [required(f"{path}.rollingUpdate", "this should be defaulted and never be nil")]
    return _rolling(rolling, f"{path}.rollingUpdate")


def _rolling(rolling: Object, path: str) -> list[FieldError]:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = positive_int_or_percent(unavailable, f"{path}.maxUnavailable")
    errors += positive_int_or_percent(surge, f"{path}.maxSurge")
    if int_or_percent_value(unavailable) == 0 and int_or_percent_value(surge) == 0:
        message = "may not be 0 when `maxSurge` is 0"
        errors.append(invalid(f"{path}.maxUnavailable", unavailable, message))
    return errors + at_most_100_percent(unavailable, f"{path}.maxUnavailable")


def validate_deployment_status(new: Object, old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    counters = (
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    )
    errors = not_negative(status, "status", *counters)
    errors += replica_counters(status, "updatedReplicas", "readyReplicas", "availableReplicas")
    return errors + not_decremented(status, old.get("status") or {}, "status", "collisionCount")


STRATEGY = Strategy(
    default=default_deployment,
    validate=validate_deployment,
    validate_update=validate_selector_unchanged,
    validate_status=validate_deployment_status,
    status_leaves=("labels",),
    has_status=True,
    counts_generation=True,
)
