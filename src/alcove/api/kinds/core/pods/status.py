"""Writes to a pod's status: what the node tells, and what it may not take back."""

from collections.abc import Sequence

from alcove.api import addresses, names
from alcove.api.fields import FieldError, duplicate, forbidden, invalid
from alcove.api.kinds.core.pods.annotations import check_annotation_changes
from alcove.api.objects import Object, annotations
from alcove.api.validation import Faults, check_value

CONTAINER_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_NOT_NEGATIVE = "must be a non-negative integer"


def prepare_pod_status(new: Object, old: Object) -> None:
    """Keeps what a node that does not know of it would drop."""
    status, before = new.setdefault("status", {}), old.get("status", {})
    for field in ("qosClass", "observedGeneration"):
        if field in before and not status.get(field):
            status[field] = before[field]


def validate_pod_status(new: Object, old: Object) -> list[FieldError]:
    faults: list[FieldError] = []
    check_annotation_changes(annotations(new), annotations(old), "metadata.annotations", faults)
    status, before, spec = new.get("status", {}), old.get("status", {}), old.get("spec", {})
    _check_conditions(status.get("conditions", ()), faults)
    _check_nomination(status, before, spec, faults)
    if status.get("observedGeneration", 0) < 0:
        faults.append(invalid("status.observedGeneration", status["observedGeneration"], _NOT_NEGATIVE))
    if status.get("qosClass") and status["qosClass"] != before.get("qosClass", ""):
        faults.append(invalid("status.qosClass", status["qosClass"], "field is immutable"))
    _check_container_names(status, before, faults)
    _check_all_transitions(status, before, spec, faults)
    _check_claims(status.get("resourceClaimStatuses", ()), spec, faults)
    _check_ips(status, before, faults)
    return faults


def _check_conditions(conditions: Sequence[Object], faults: Faults) -> None:
    for index, condition in enumerate(conditions):
        if condition.get("observedGeneration", 0) < 0:
            field = f"status.conditions[{index}].observedGeneration"
            faults.append(invalid(field, condition["observedGeneration"], _NOT_NEGATIVE))
        kind = condition.get("type", "")
        if kind not in _SYSTEM_CONDITIONS:
            check_value(kind, names.qualified_name, f"status.conditions[{index}].Type", faults)


def _check_nomination(status: Object, before: Object, spec: Object, faults: Faults) -> None:
    node = status.get("nominatedNodeName", "")
    if not node or node == before.get("nominatedNodeName", ""):
        return
    check_value(node, names.dns_subdomain, "status.nominatedNodeName", faults)
    if spec.get("nodeName"):
        message = "may not be set on pods that are already bound to a node"
        faults.append(forbidden("status.nominatedNodeName", message))


def _check_container_names(status: Object, before: Object, faults: Faults) -> None:
    """Require new names to be DNS labels. Nodes treat the status as a claim, but it is also shown to people."""
    for field in CONTAINER_STATUSES:
        known = {entry.get("name") for entry in before.get(field, ())}
        for index, entry in enumerate(status.get(field, ())):
            if (name := entry.get("name", "")) not in known:
                check_value(name, names.dns_label, f"status.{field}[{index}].name", faults)


def _check_all_transitions(status: Object, before: Object, spec: Object, faults: Faults) -> None:
    """A container that has ended stays ended, unless its restart policy runs it again."""
    if not _all_may_restart(spec):
        for field, containers in (
            ("containerStatuses", "containers"),
            ("initContainerStatuses", "initContainers"),
        ):
            _check_transitions(status, before, field, spec, spec.get(containers, ()), faults)
    _check_transitions(status, before, "ephemeralContainerStatuses", spec, (), faults)


def _check_transitions(
    status: Object, before: Object, field: str, spec: Object, containers: Sequence[Object], faults: Faults
) -> None:
    now = {entry.get("name"): entry.get("state", {}) for entry in status.get(field, ())}
    by_name = {container.get("name"): container for container in containers}
    for index, entry in enumerate(before.get(field, ())):
        ended, name = entry.get("state", {}).get("terminated"), entry.get("name")
        if ended is None or name not in now or "terminated" in now[name]:
            continue
        if name not in by_name or not _restarts(by_name[name], spec, ended.get("exitCode", 0)):
            message = "may not be transitioned to non-terminated state"
            faults.append(forbidden(f"status.{field}[{index}].state", message))


def _restarts(container: Object, spec: Object, exit_code: int) -> bool:
    for rule in container.get("restartPolicyRules", ()):
        codes = rule.get("exitCodes", {})
        if (exit_code in codes.get("values", ())) == (codes.get("operator") == "In"):
            return rule.get("action") in ("Restart", "RestartAllContainers")
    policy = container.get("restartPolicy", spec.get("restartPolicy", "Always"))
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _all_may_restart(spec: Object) -> bool:
    """A rule somewhere may start every container of the pod again."""
    return any(
        rule.get("action") == "RestartAllContainers"
        for field in ("containers", "initContainers")
        for container in spec.get(field, ())
        for rule in container.get("restartPolicyRules", ())
    )


def _check_claims(statuses: Sequence[Object], spec: Object, faults: Faults) -> None:
    known = {claim.get("name") for claim in spec.get("resourceClaims", ())}
    seen: set[str] = set()
    for index, status in enumerate(statuses):
        field, name = f"status.resourceClaimStatuses[{index}]", status.get("name", "")
        if name not in known:
            message = "must match the name of an entry in `spec.resourceClaims`"
            faults.append(invalid(f"{field}.name", name, message))
        if name in seen:
            faults.append(duplicate(f"{field}.name", name))
        seen.add(name)
        if claim := status.get("resourceClaimName"):
            check_value(claim, names.dns_subdomain, f"{field}.resourceClaimName", faults)


def _check_ips(status: Object, before: Object, faults: Faults) -> None:
    _check_ip_list(status.get("podIPs", ()), before.get("podIPs", ()), "status.podIPs", faults)
    hosts = status.get("hostIPs", ())
    if hosts and hosts[0].get("ip", "") != status.get("hostIP", ""):
        faults.append(invalid("status.hostIPs[0].ip", hosts[0].get("ip", ""), "must be equal to `hostIP`"))
    _check_ip_list(hosts, before.get("hostIPs", ()), "status.hostIPs", faults)


def _check_ip_list(entries: Sequence[Object], before: Sequence[Object], path: str, faults: Faults) -> None:
    known = {entry.get("ip") for entry in before}
    for index, entry in enumerate(entries):
        if entry.get("ip") not in known:
            faults += addresses.ip_faults(f"{path}[{index}]", entry.get("ip", ""))
    if len(entries) > 1:
        families = {addresses.ip_family(entry.get("ip", "")) for entry in entries}
        if len(entries) > 2 or families != {"IPv4", "IPv6"}:
            message = "may specify no more than one IP for each IP family"
            faults.append(invalid(path, list(entries), message))
