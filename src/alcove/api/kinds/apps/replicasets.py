"""ReplicaSets: a number of pods of one template."""

from alcove.api.fields import FieldError
from alcove.api.kind import Strategy
from alcove.api.kinds.apps.templates import validate_selector_unchanged, validate_template
from alcove.api.kinds.checks import child, fill, not_negative, replica_counters
from alcove.api.kinds.core.pods import default_pod_template
from alcove.api.objects import Object, get


def default_replica_set(obj: Object) -> None:
    spec = child(obj, "spec")
    fill(spec, "replicas", 1)
    default_pod_template(child(spec, "template"))


def validate_replica_set(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    return not_negative(spec, "spec", "replicas", "minReadySeconds") + validate_template(spec)


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
    return errors + replica_counters(status, "fullyLabeledReplicas", "readyReplicas", "availableReplicas")


STRATEGY = Strategy(
    default=default_replica_set,
    validate=validate_replica_set,
    validate_update=validate_selector_unchanged,
    validate_status=validate_replica_set_status,
    fields={"status.replicas": lambda obj: str(get(obj, "status", "replicas", default=0))},
    has_status=True,
    counts_generation=True,
)
