"""ReplicaSets: a number of pods of one template."""

from alcove.api.fields import FieldError
from alcove.api.kind import Strategy
from alcove.api.kinds.apps.templates import validate_template
from alcove.api.kinds.checks import child, fill, not_negative, not_over, unchanged
from alcove.api.kinds.core.pods import default_pod_template
from alcove.api.objects import Object, get

_OVER_REPLICAS = "cannot be greater than status.replicas"
_OVER_READY = "cannot be greater than readyReplicas"


def default_replica_set(obj: Object) -> None:
    spec = child(obj, "spec")
    fill(spec, "replicas", 1)
    default_pod_template(child(spec, "template"))


def validate_replica_set(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    return not_negative(spec, "spec", "replicas", "minReadySeconds") + validate_template(spec)


def validate_replica_set_update(new: Object, old: Object) -> list[FieldError]:
    return unchanged(new.get("spec") or {}, old.get("spec") or {}, "spec", "selector")


def validate_replica_set_status(new: Object, _old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    counters = (
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    )
    errors = not_negative(status, "status", *counters)
    bounded = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    errors += not_over(status, "replicas", _OVER_REPLICAS, "status", *bounded)
    return errors + not_over(status, "readyReplicas", _OVER_READY, "status", "availableReplicas")


STRATEGY = Strategy(
    default=default_replica_set,
    validate=validate_replica_set,
    validate_update=validate_replica_set_update,
    validate_status=validate_replica_set_status,
    fields={"status.replicas": lambda obj: str(get(obj, "status", "replicas", default=0))},
    has_status=True,
    counts_generation=True,
)
