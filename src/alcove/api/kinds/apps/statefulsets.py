"""StatefulSets: pods with stable names and claims. Most of the spec is immutable."""

from alcove.api import names
from alcove.api.fields import FieldError, forbidden, invalid, required
from alcove.api.kind import Strategy
from alcove.api.kinds.apps.templates import (
    mismatch_errors,
    read_selector,
    template_of,
    validate_long_running,
    validate_selector,
)
from alcove.api.kinds.checks import (
    at_most_100_percent,
    child,
    fill,
    int_or_percent_value,
    named,
    not_decremented,
    not_negative,
    one_of,
    positive_int_or_percent,
    replica_counters,
)
from alcove.api.kinds.core.claims import check_claim_spec, default_claim_spec
from alcove.api.kinds.core.pods import default_pod_template, validate_pod_template
from alcove.api.objects import Object, get, name
from alcove.api.validation import same

CHANGEABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_ONLY_CHANGEABLE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_ONLY_ROLLING = "only allowed for updateStrategy 'RollingUpdate'"


def default_stateful_set(obj: Object) -> None:
    spec = child(obj, "spec")
    fill(spec, "podManagementPolicy", "OrderedReady")
    strategy = child(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        child(strategy, "rollingUpdate")
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        fill(strategy["rollingUpdate"], "partition", 0)
    retention = child(spec, "persistentVolumeClaimRetentionPolicy")
    fill(retention, "whenDeleted", "Retain")
    fill(retention, "whenScaled", "Retain")
    fill(spec, "replicas", 1)
    fill(spec, "revisionHistoryLimit", 10)
    default_pod_template(child(spec, "template"))
    for claim in spec.get("volumeClaimTemplates") or ():
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
        default_claim_spec(child(claim, "spec"))
        fill(child(claim, "status"), "phase", "Pending")


def validate_stateful_set(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = _management(spec.get("podManagementPolicy", ""))
    errors += _update_strategy(spec.get("updateStrategy") or {})
    errors += _retention(spec.get("persistentVolumeClaimRetentionPolicy"))
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        check_claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec", errors)
    errors += not_negative(spec, "spec", "replicas", "minReadySeconds", "revisionHistoryLimit")
    errors += not_negative(spec.get("ordinals") or {}, "spec.ordinals", "start")
    if spec.get("serviceName"):
        errors += named(spec["serviceName"], names.dns_label, "spec.serviceName")
    return errors + _template(spec)


def _management(policy: str) -> list[FieldError]:
    path = "spec.podManagementPolicy"
    if not policy:
        return [required(path)]
    if policy in ("OrderedReady", "Parallel"):
        return []
    return [invalid(path, policy, "must be 'OrderedReady' or 'Parallel'")]


def _update_strategy(strategy: Object) -> list[FieldError]:
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.updateStrategy"
    if not kind:
        return [required(path)]
    if kind not in ("OnDelete", "RollingUpdate"):
        return [invalid(path, strategy, "must be 'RollingUpdate' or 'OnDelete'")]
    if rolling is None:
        return []
    path = f"{path}.rollingUpdate"
    if kind == "OnDelete":
        return [invalid(path, rolling, _ONLY_ROLLING)]
    errors = not_negative(rolling, path, "partition")
    if "maxUnavailable" in rolling:
        max_unavailable, path = rolling["maxUnavailable"], f"{path}.maxUnavailable"
        errors += positive_int_or_percent(max_unavailable, path)
        if int_or_percent_value(max_unavailable) == 0:
            errors.append(invalid(path, max_unavailable, "cannot be 0"))
        errors += at_most_100_percent(max_unavailable, path)
    return errors


def _retention(policy: Object | None) -> list[FieldError]:
    if policy is None:
        return []
    path = "spec.persistentVolumeClaimRetentionPolicy"
    errors = one_of(policy.get("whenDeleted", ""), ("Retain", "Delete"), f"{path}.whenDeleted")
    return errors + one_of(policy.get("whenScaled", ""), ("Retain", "Delete"), f"{path}.whenScaled")


def _template(spec: Object) -> list[FieldError]:
    errors = validate_selector(spec, "statefulset")
    selector = read_selector(spec)
    if selector is None:
        errors.append(invalid("spec.selector", spec["selector"], ""))
    else:
        if not selector.is_everything:
            errors += mismatch_errors(spec, selector)
        errors += validate_pod_template(_with_claims(spec), "spec.template")
    return errors + validate_long_running(spec, "StatefulSet")


def _with_claims(spec: Object) -> Object:
    """Return the template as its pods will be: each with its own name, and with volumes for the claims."""
    template = template_of(spec)
    pod: Object = dict(template.get("spec") or {})
    for overwritten in ("hostname", "subdomain"):
        pod.pop(overwritten, None)
    claims = [name(claim) for claim in spec.get("volumeClaimTemplates") or ()]
    if claims:
        made = [
            {"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in dict.fromkeys(claims)
        ]
        own = [volume for volume in pod.get("volumes") or () if volume.get("name") not in claims]
        pod["volumes"] = made + own
    return {**template, "spec": pod}


def validate_stateful_set_update(new: Object, old: Object) -> list[FieldError]:
    if same(_fixed(new), _fixed(old)):
        return []
    return [forbidden("spec", _ONLY_CHANGEABLE)]


def _fixed(obj: Object) -> Object:
    return {field: value for field, value in (obj.get("spec") or {}).items() if field not in CHANGEABLE}


def validate_stateful_set_status(new: Object, old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    bounded = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    counters = ("replicas", *bounded, "observedGeneration", "collisionCount")
    errors = not_negative(status, "status", *counters)
    errors += replica_counters(status, *bounded, ready="status.readyReplicas")
    return errors + not_decremented(status, old.get("status") or {}, "status", "collisionCount")


STRATEGY = Strategy(
    default=default_stateful_set,
    validate=validate_stateful_set,
    validate_update=validate_stateful_set_update,
    validate_status=validate_stateful_set_status,
    fields={"status.replicas": lambda obj: str(get(obj, "status", "replicas", default=0))},
    has_status=True,
    counts_generation=True,
    validate_name=names.name_is_dns_label,
)
