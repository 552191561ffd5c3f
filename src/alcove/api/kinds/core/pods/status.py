"""Writes to a pod's status: what the node reports, and transitions that are not allowed."""

from collections.abc import Sequence

from alcove.api import addresses, names
from alcove.api.fields import FieldError, duplicate, forbidden, invalid
from alcove.api.kinds.core.pods.annotations import check_annotation_changes
from alcove.api.objects import Object, annotations
from alcove.api.validation import FieldErrors, check_value

CONTAINER_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_NOT_NEGATIVE = "must be a non-negative integer"


def prepare_pod_status(new: Object, old: Object) -> None:
    """Restore fields that a node would drop because it does not know them."""
    status, before = new.setdefault("status", {}), old.get("status", {})
    for field in ("qosClass", "observedGeneration"):
        if field in before and not status.get(field):
            status[field] = before[field]


def validate_pod_status(new: Object, old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    check_annotation_changes(annotations(new), annotations(old), "metadata.annotations", errors)
    status, before, spec = new.get("status", {}), old.get("status", {}), old.get("spec", {})
    _check_conditions(status.get("conditions", ()), errors)
    _check_nomination(status, before, spec, errors)
    if status.get("observedGeneration", 0) < 0:
        errors.append(invalid("status.observedGeneration", status["observedGeneration"], _NOT_NEGATIVE))
    if status.get("qosClass") and status["qosClass"] != before.get("qosClass", ""):
        errors.append(invalid("status.qosClass", status["qosClass"], "field is immutable"))
    _check_container_names(status, before, errors)
    _check_all_transitions(status, before, spec, errors)
    _check_claims(status.get("resourceClaimStatuses", ()), spec, errors)
    _check_ips(status, before, errors)
    return errors


def _check_conditions(conditions: Sequence[Object], errors: FieldErrors) -> None:
    for index, condition in enumerate(conditions):
        if condition.get("observedGeneration", 0) < 0:
            field = f"status.conditions[{index}].observedGeneration"
            errors.append(invalid(field, condition["observedGeneration"], _NOT_NEGATIVE))
        kind = condition.get("type", "")
        if kind not in _SYSTEM_CONDITIONS:
            check_value(kind, names.qualified_name, f"status.conditions[{index}].Type", errors)


def _check_nomination(status: Object, before: Object, spec: Object, errors: FieldErrors) -> None:
    node = status.get("nominatedNodeName", "")
    if not node or node == before.get("nominatedNodeName", ""):
        return
    check_value(node, names.dns_subdomain, "status.nominatedNodeName", errors)
    if spec.get("nodeName"):
        message = "may not be set on pods that are already bound to a node"
        errors.append(forbidden("status.nominatedNodeName", message))


def _check_container_names(status: Object, before: Object, errors: FieldErrors) -> None:
    """Require new names to be DNS labels: nodes are not trusted, and the status is shown to users."""
    for field in CONTAINER_STATUSES:
        old_names = {entry.get("name") for entry in before.get(field, ())}
        for index, entry in enumerate(status.get(field, ())):
            if (name := entry.get("name", "")) not in old_names:
                check_value(name, names.dns_label, f"status.{field}[{index}].name", errors)


def _check_all_transitions(status: Object, before: Object, spec: Object, errors: FieldErrors) -> None:
    """A terminated container must stay terminated, unless its restart policy restarts it."""
    if not _all_may_restart(spec):
        for field, containers in (
            ("containerStatuses", "containers"),
            ("initContainerStatuses", "initContainers"),
        ):
            _check_transitions(status, before, field, spec, spec.get(containers, ()), errors)
    _check_transitions(status, before, "ephemeralContainerStatuses", spec, (), errors)


def _check_transitions(
    status: Object,
    before: Object,
    field: str,
    spec: Object,
    containers: Sequence[Object],
    errors: FieldErrors,
) -> None:
    now = {entry.get("name"): entry.get("state", {}) for entry in status.get(field, ())}
    by_name = {container.get("name"): container for container in containers}
    for index, entry in enumerate(before.get(field, ())):
        ended, name = entry.get("state", {}).get("terminated"), entry.get("name")
        if ended is None or name not in now or "terminated" in now[name]:
            continue
        if name not in by_name or not _restarts(by_name[name], spec, ended.get("exitCode", 0)):
            message = "may not be transitioned to non-terminated state"
            errors.append(forbidden(f"status.{field}[{index}].state", message))


def _restarts(container: Object, spec: Object, exit_code: int) -> bool:
    for rule in container.get("restartPolicyRules", ()):
        codes = rule.get("exitCodes", {})
        if (exit_code in codes.get("values", ())) == (codes.get("operator") == "In"):
            return rule.get("action") in ("Restart", "RestartAllContainers")
    policy = container.get("restartPolicy", spec.get("restartPolicy", "Always"))
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _all_may_restart(spec: Object) -> bool:
    """Whether a restart rule may restart all containers of the pod."""
    return any(
        rule.get("action") == "RestartAllContainers"
        for field in ("containers", "initContainers")
        for container in spec.get(field, ())
        for rule in container.get("restartPolicyRules", ())
    )


def _check_claims(statuses: Sequence[Object], spec: Object, errors: FieldErrors) -> None:
    claim_names = {claim.get("name") for claim in spec.get("resourceClaims", ())}
    seen: set[str] = set()
    for index, status in enumerate(statuses):
        field, name = f"status.resourceClaimStatuses[{index}]", status.get("name", "")
        if name not in claim_names:
            message = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(invalid(f"{field}.name", name, message))
        if name in seen:
            errors.append(duplicate(f"{field}.name", name))
        seen.add(name)
        if claim := status.get("resourceClaimName"):
            check_value(claim, names.dns_subdomain, f"{field}.resourceClaimName", errors)


def _check_ips(status: Object, before: Object, errors: FieldErrors) -> None:
    _check_ip_list(status.get("podIPs", ()), before.get("podIPs", ()), "status.podIPs", errors)
    hosts = status.get("hostIPs", ())
    if hosts and hosts[0].get("ip", "") != status.get("hostIP", ""):
        errors.append(invalid("status.hostIPs[0].ip", hosts[0].get("ip", ""), "must be equal to `hostIP`"))
    _check_ip_list(hosts, before.get("hostIPs", ()), "status.hostIPs", errors)


def _check_ip_list(
    entries: Sequence[Object], before: Sequence[Object], path: str, errors: FieldErrors
) -> None:
    old_ips = {entry.get("ip") for entry in before}
    for index, entry in enumerate(entries):
        if entry.get("ip") not in old_ips:
            errors += addresses.ip_errors(f"{path}[{index}]", entry.get("ip", ""))
    if len(entries) > 1:
        families = {addresses.ip_family(entry.get("ip", "")) for entry in entries}
        if len(entries) > 2 or families != {"IPv4", "IPv6"}:
            message = "may specify no more than one IP for each IP family"
            errors.append(invalid(path, list(entries), message))
