"""A pod spec as a whole: every rule about it, in the order in which Kubernetes tells faults."""

from collections.abc import Collection, Sequence

from alcove.api import names
from alcove.api.fields import FieldError, duplicate, forbidden, invalid, not_found, required
from alcove.api.kinds.core.networks import refuse_two_networks
from alcove.api.kinds.core.pods.affinity import check_affinity, check_spread, check_tolerations
from alcove.api.kinds.core.pods.annotations import check_pod_annotations, check_profiles_match
from alcove.api.kinds.core.pods.containers import (
    PodContext,
    all_containers,
    check_containers,
    check_ephemeral_containers,
    check_init_containers,
)
from alcove.api.kinds.core.pods.network import (
    check_dns_config,
    check_host_aliases,
    check_host_network_ports,
    check_hostname_override,
    check_tenant_network,
)
from alcove.api.kinds.core.pods.security import (
    check_pod_security,
    check_shared_processes,
    check_user_namespace,
)
from alcove.api.kinds.core.pods.totals import container_limits, container_requests
from alcove.api.kinds.core.pods.volumes import check_volumes
from alcove.api.kinds.core.pods.windows import check_host_process, check_os
from alcove.api.kinds.core.resources import check_pod_resource_name, check_requirements, is_huge_page
from alcove.api.kinds.metadata import validate_annotations, validate_labels
from alcove.api.objects import Object
from alcove.api.validation import (
    INT32_MAX,
    Faults,
    check_required_choice,
    check_value,
    read_quantity,
)

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_NAMED = (
    ("serviceAccountName", names.dns_subdomain),
    ("nodeName", names.dns_subdomain),
    ("hostname", names.dns_label),
    ("subdomain", names.dns_label),
    ("priorityClassName", names.dns_subdomain),
)


def validate_pod_template(template: Object, path: str) -> list[FieldError]:
    """A PodTemplateSpec: its metadata and spec."""
    faults: list[FieldError] = []
    meta, spec = template.get("metadata", {}), template.get("spec", {})
    labels, annotations = meta.get("labels", {}), meta.get("annotations", {})
    refuse_two_networks(spec, labels, f"{path}.spec")
    if labels:
        faults += validate_labels(labels, f"{path}.labels")
    if annotations:
        faults += validate_annotations(annotations, f"{path}.annotations")
        check_pod_annotations(annotations, spec, f"{path}.annotations", faults)
    faults += validate_pod_spec(spec, f"{path}.spec")
    if annotations:
        check_profiles_match(annotations, spec, f"{path}.spec", faults)
    if spec.get("ephemeralContainers"):
        message = "ephemeral containers not allowed in pod template"
        faults.append(forbidden(f"{path}.spec.ephemeralContainers", message))
    return faults


def validate_pod_spec(
    spec: Object, path: str, *, pod_name: str = "", is_pod: bool = False
) -> list[FieldError]:
    """What is wrong with a pod spec. `is_pod`: it is a pod's own, not a template's."""
    faults: list[FieldError] = []
    if "terminationGracePeriodSeconds" not in spec:
        faults.append(required(f"{path}.terminationGracePeriodSeconds"))
    claim_names: Collection[str] = ()
    volumes = check_volumes(spec, pod_name, f"{path}.volumes", faults)
    if claims := spec.get("resourceClaims"):
        claim_names = _check_resource_claims(claims, f"{path}.resourceClaims", faults)
    around = PodContext(
        volumes=volumes,
        claim_names=claim_names,
        restart_policy=spec.get("restartPolicy", ""),
        grace_seconds=spec.get("terminationGracePeriodSeconds"),
        os=spec.get("os", {}).get("name", ""),
        host_users=spec.get("hostUsers", True),
    )
    check_containers(spec, around, path, faults)
    if "initContainers" in spec:
        check_init_containers(spec, around, path, faults)
    if "ephemeralContainers" in spec:
        check_ephemeral_containers(spec, around, path, faults)
    if "resources" in spec:
        _check_pod_resources(spec, claim_names, f"{path}.resources", faults)
    _check_rules(spec, is_pod, path, faults)
    _check_names(spec, path, faults)
    _check_placement(spec, path, faults)
    if is_pod:
        for index, volume in enumerate(spec.get("volumes", ())):
            if "image" in volume and not volume["image"].get("reference"):
                faults.append(required(f"{path}.volumes[{index}].image.reference"))
    _check_file_volumes(spec, path, faults)
    return faults


def _check_rules(spec: Object, is_pod: bool, path: str, faults: Faults) -> None:
    if spec.get("hostNetwork"):
        check_host_network_ports(spec, is_pod, path, faults)
    policy = spec.get("restartPolicy", "")
    if policy not in _RESTART_POLICIES:
        check_required_choice(policy, _RESTART_POLICIES, f"{path}.restartPolicy", faults)
    policy = spec.get("dnsPolicy", "")
    if policy not in _DNS_POLICIES:
        check_required_choice(policy, _DNS_POLICIES, f"{path}.dnsPolicy", faults)
    if selector := spec.get("nodeSelector"):
        faults += validate_labels(selector, f"{path}.nodeSelector")
    if spec.get("securityContext"):
        check_pod_security(spec, f"{path}.securityContext", faults)
    if "shareProcessNamespace" in spec:
        check_shared_processes(spec, path, faults)
    if affinity := spec.get("affinity"):
        check_affinity(affinity, f"{path}.affinity", faults)
    if policy == "None" or "dnsConfig" in spec:
        check_dns_config(spec, f"{path}.dnsConfig", faults)
    for index, gate in enumerate(spec.get("readinessGates", ())):
        where, kind = f"{path}.readinessGates[{index}].conditionType", gate.get("conditionType", "")
        check_value(kind, names.qualified_name, where, faults)
    if gates := spec.get("schedulingGates"):
        _check_scheduling_gates(gates, f"{path}.schedulingGates", faults)
    if constraints := spec.get("topologySpreadConstraints"):
        check_spread(constraints, f"{path}.topologySpreadConstraints", faults)
    check_host_process(spec, path, faults)
    if spec.get("hostUsers") is False:
        check_user_namespace(spec, path, faults)
    if "hostnameOverride" in spec:
        check_hostname_override(spec, path, faults)


def _check_names(spec: Object, path: str, faults: Faults) -> None:
    for field, check in _NAMED:
        if name := spec.get(field):
            check_value(name, check, f"{path}.{field}", faults)
    if "runtimeClassName" in spec:
        check_value(spec["runtimeClassName"], names.dns_subdomain, f"{path}.runtimeClassName", faults)
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and not 1 <= seconds <= INT32_MAX:
        message = names.out_of_range(1, INT32_MAX)
        faults.append(invalid(f"{path}.activeDeadlineSeconds", seconds, message))
    check_tenant_network(spec, path, faults)


def _check_placement(spec: Object, path: str, faults: Faults) -> None:
    if tolerations := spec.get("tolerations"):
        check_tolerations(tolerations, f"{path}.tolerations", faults)
    if aliases := spec.get("hostAliases"):
        check_host_aliases(aliases, f"{path}.hostAliases", faults)
    if "preemptionPolicy" in spec:
        policy = spec["preemptionPolicy"]
        check_required_choice(policy, _PREEMPTION_POLICIES, f"{path}.preemptionPolicy", faults)
    if overhead := spec.get("overhead"):
        check_requirements({"limits": overhead}, f"{path}.overhead", faults)
    if "os" in spec:
        check_os(spec, path, faults)


def _check_scheduling_gates(gates: Sequence[Object], path: str, faults: Faults) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        check_value(name, names.qualified_name, f"{path}[{index}]", faults)
        if name in seen:
            faults.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)


def _check_resource_claims(claims: Sequence[Object], path: str, faults: Faults) -> set[str]:
    """`resourceClaims`: each of one claim or template. The names are what containers may use."""
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        where, name = f"{path}[{index}]", claim.get("name", "")
        if not name:
            faults.append(required(f"{where}.name"))
        elif name in seen:
            faults.append(duplicate(f"{where}.name", name))
        else:
            check_value(name, names.dns_label, f"{where}.name", faults)
            seen.add(name)
        sources = [field for field in ("resourceClaimName", "resourceClaimTemplateName") if field in claim]
        if len(sources) > 1:
            message = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            faults.append(invalid(where, claim, message))
        if not sources:
            message = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            faults.append(invalid(where, claim, message))
        for field in sources:
            check_value(claim[field], names.dns_subdomain, f"{where}.{field}", faults)
    return seen


def _check_pod_resources(spec: Object, claim_names: Collection[str], path: str, faults: Faults) -> None:
    """Resources of the pod as a whole: at least what its containers ask for together."""
    resources = spec["resources"]
    if spec.get("os", {}).get("name") == "windows":
        faults.append(forbidden(path, "may not be set for a windows pod"))
        return
    if "claims" in resources:
        faults.append(forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level"))
    check_requirements(resources, path, faults, check_pod_resource_name, claim_names)
    for side, total in (("requests", container_requests(spec)), ("limits", container_limits(spec))):
        for resource, amount in total.items():
            if resource not in resources.get(side, ()) or (side == "limits" and not is_huge_page(resource)):
                continue
            own = read_quantity(resources[side][resource], f"{path}.{side}[{resource}]", [])
            if own is not None and amount > own:
                message = f"must be greater than or equal to aggregate container {side} of {amount}"
                faults.append(invalid(f"{path}.{side}[{resource}]", str(own), message))
    _check_container_limits(spec, path, faults)


def _check_container_limits(spec: Object, path: str, faults: Faults) -> None:
    whole = spec["resources"].get("limits", {})
    for index, container in enumerate(spec.get("containers", ())):
        for resource, limit in container.get("resources", {}).get("limits", {}).items():
            if resource not in whole:
                continue
            own, most = read_quantity(limit, "", []), read_quantity(whole[resource], "", [])
            if own is not None and most is not None and own > most:
                message = f"must be less than or equal to pod limits of {most}"
                faults.append(invalid(f"{path}.containers[{index}][{resource}].limits", str(own), message))


def _check_file_volumes(spec: Object, path: str, faults: Faults) -> None:
    """Variables read from files: the file is in an emptyDir of the pod."""
    sources: dict[str, Object] | None = None
    for container, where in all_containers(spec, path):
        for index, variable in enumerate(container.get("env", ())):
            reference = variable.get("valueFrom", {}).get("fileKeyRef") if "valueFrom" in variable else None
            if reference is None:
                continue
            if sources is None:
                sources = {volume.get("name", ""): volume for volume in spec.get("volumes", ())}
            name = reference.get("volumeName", "")
            field = f"{where}.env[{index}].valueFrom.fileKeyRef.volumeName"
            if name not in sources:
                faults.append(not_found(field, name))
            elif "emptyDir" not in sources[name]:
                faults.append(invalid(field, name, "referenced volume must be of type emptyDir"))
