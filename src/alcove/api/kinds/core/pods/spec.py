"""Validation of a pod spec as a whole, in Kubernetes' order of errors."""

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
    FieldErrors,
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
    """Check a PodTemplateSpec: its metadata and spec."""
    errors: list[FieldError] = []
    meta, spec = template.get("metadata", {}), template.get("spec", {})
    labels, annotations = meta.get("labels", {}), meta.get("annotations", {})
    refuse_two_networks(spec, labels, f"{path}.spec")
    if labels:
        errors += validate_labels(labels, f"{path}.labels")
    if annotations:
        errors += validate_annotations(annotations, f"{path}.annotations")
        check_pod_annotations(annotations, spec, f"{path}.annotations", errors)
    errors += validate_pod_spec(spec, f"{path}.spec")
    if annotations:
        check_profiles_match(annotations, spec, f"{path}.spec", errors)
    if spec.get("ephemeralContainers"):
        message = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", message))
    return errors


def validate_pod_spec(
    spec: Object, path: str, *, pod_name: str = "", is_pod: bool = False
) -> list[FieldError]:
    """Return the errors of a pod spec. `is_pod`: it is a pod's spec, not a template's."""
    errors: list[FieldError] = []
    if "terminationGracePeriodSeconds" not in spec:
        errors.append(required(f"{path}.terminationGracePeriodSeconds"))
    claim_names: Collection[str] = ()
    volumes = check_volumes(spec, pod_name, f"{path}.volumes", errors)
    if claims := spec.get("resourceClaims"):
        claim_names = _check_resource_claims(claims, f"{path}.resourceClaims", errors)
    around = PodContext(
        volumes=volumes,
        claim_names=claim_names,
        restart_policy=spec.get("restartPolicy", ""),
        grace_seconds=spec.get("terminationGracePeriodSeconds"),
        os=spec.get("os", {}).get("name", ""),
        host_users=spec.get("hostUsers", True),
    )
    check_containers(spec, around, path, errors)
    if "initContainers" in spec:
        check_init_containers(spec, around, path, errors)
    if "ephemeralContainers" in spec:
        check_ephemeral_containers(spec, around, path, errors)
    if "resources" in spec:
        _check_pod_resources(spec, claim_names, f"{path}.resources", errors)
    _check_rules(spec, is_pod, path, errors)
    _check_names(spec, path, errors)
    _check_placement(spec, path, errors)
    if is_pod:
        for index, volume in enumerate(spec.get("volumes", ())):
            if "image" in volume and not volume["image"].get("reference"):
                errors.append(required(f"{path}.volumes[{index}].image.reference"))
    _check_file_volumes(spec, path, errors)
    return errors


def _check_rules(spec: Object, is_pod: bool, path: str, errors: FieldErrors) -> None:
    if spec.get("hostNetwork"):
        check_host_network_ports(spec, is_pod, path, errors)
    policy = spec.get("restartPolicy", "")
    if policy not in _RESTART_POLICIES:
        check_required_choice(policy, _RESTART_POLICIES, f"{path}.restartPolicy", errors)
    policy = spec.get("dnsPolicy", "")
    if policy not in _DNS_POLICIES:
        check_required_choice(policy, _DNS_POLICIES, f"{path}.dnsPolicy", errors)
    if selector := spec.get("nodeSelector"):
        errors += validate_labels(selector, f"{path}.nodeSelector")
    if spec.get("securityContext"):
        check_pod_security(spec, f"{path}.securityContext", errors)
    if "shareProcessNamespace" in spec:
        check_shared_processes(spec, path, errors)
    if affinity := spec.get("affinity"):
        check_affinity(affinity, f"{path}.affinity", errors)
    if policy == "None" or "dnsConfig" in spec:
        check_dns_config(spec, f"{path}.dnsConfig", errors)
    for index, gate in enumerate(spec.get("readinessGates", ())):
        where, kind = f"{path}.readinessGates[{index}].conditionType", gate.get("conditionType", "")
        check_value(kind, names.qualified_name, where, errors)
    if gates := spec.get("schedulingGates"):
        _check_scheduling_gates(gates, f"{path}.schedulingGates", errors)
    if constraints := spec.get("topologySpreadConstraints"):
        check_spread(constraints, f"{path}.topologySpreadConstraints", errors)
    check_host_process(spec, path, errors)
    if spec.get("hostUsers") is False:
        check_user_namespace(spec, path, errors)
    if "hostnameOverride" in spec:
        check_hostname_override(spec, path, errors)


def _check_names(spec: Object, path: str, errors: FieldErrors) -> None:
    for field, check in _NAMED:
        if name := spec.get(field):
            check_value(name, check, f"{path}.{field}", errors)
    if "runtimeClassName" in spec:
        check_value(spec["runtimeClassName"], names.dns_subdomain, f"{path}.runtimeClassName", errors)
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and not 1 <= seconds <= INT32_MAX:
        message = names.out_of_range(1, INT32_MAX)
        errors.append(invalid(f"{path}.activeDeadlineSeconds", seconds, message))
    check_tenant_network(spec, path, errors)


def _check_placement(spec: Object, path: str, errors: FieldErrors) -> None:
    if tolerations := spec.get("tolerations"):
        check_tolerations(tolerations, f"{path}.tolerations", errors)
    if aliases := spec.get("hostAliases"):
        check_host_aliases(aliases, f"{path}.hostAliases", errors)
    if "preemptionPolicy" in spec:
        policy = spec["preemptionPolicy"]
        check_required_choice(policy, _PREEMPTION_POLICIES, f"{path}.preemptionPolicy", errors)
    if overhead := spec.get("overhead"):
        check_requirements({"limits": overhead}, f"{path}.overhead", errors)
    if "os" in spec:
        check_os(spec, path, errors)


def _check_scheduling_gates(gates: Sequence[Object], path: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        check_value(name, names.qualified_name, f"{path}[{index}]", errors)
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)


def _check_resource_claims(claims: Sequence[Object], path: str, errors: FieldErrors) -> set[str]:
    """Check `resourceClaims`, each with one claim or template; returns the names that containers may use."""
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        where, name = f"{path}[{index}]", claim.get("name", "")
        if not name:
            errors.append(required(f"{where}.name"))
        elif name in seen:
            errors.append(duplicate(f"{where}.name", name))
        else:
            check_value(name, names.dns_label, f"{where}.name", errors)
            seen.add(name)
        sources = [field for field in ("resourceClaimName", "resourceClaimTemplateName") if field in claim]
        if len(sources) > 1:
            message = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(invalid(where, claim, message))
        if not sources:
            message = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(invalid(where, claim, message))
        for field in sources:
            check_value(claim[field], names.dns_subdomain, f"{where}.{field}", errors)
    return seen


def _check_pod_resources(spec: Object, claim_names: Collection[str], path: str, errors: FieldErrors) -> None:
    """Check pod-level resources, which must be at least the sum of the containers'."""
    resources = spec["resources"]
    if spec.get("os", {}).get("name") == "windows":
        errors.append(forbidden(path, "may not be set for a windows pod"))
        return
    if "claims" in resources:
        errors.append(forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level"))
    check_requirements(resources, path, errors, check_pod_resource_name, claim_names)
    for side, total in (("requests", container_requests(spec)), ("limits", container_limits(spec))):
        for resource, amount in total.items():
            if resource not in resources.get(side, ()) or (side == "limits" and not is_huge_page(resource)):
                continue
            pod_amount = read_quantity(resources[side][resource], f"{path}.{side}[{resource}]", [])
            if pod_amount is not None and amount > pod_amount:
                message = f"must be greater than or equal to aggregate container {side} of {amount}"
                errors.append(invalid(f"{path}.{side}[{resource}]", str(pod_amount), message))
    _check_container_limits(spec, path, errors)


def _check_container_limits(spec: Object, path: str, errors: FieldErrors) -> None:
    whole = spec["resources"].get("limits", {})
    for index, container in enumerate(spec.get("containers", ())):
        for resource, limit in container.get("resources", {}).get("limits", {}).items():
            if resource not in whole:
                continue
            amount_set, pod_limit = read_quantity(limit, "", []), read_quantity(whole[resource], "", [])
            if amount_set is not None and pod_limit is not None and amount_set > pod_limit:
                message = f"must be less than or equal to pod limits of {pod_limit}"
                errors.append(
                    invalid(f"{path}.containers[{index}][{resource}].limits", str(amount_set), message)
                )


def _check_file_volumes(spec: Object, path: str, errors: FieldErrors) -> None:
    """Check variables read from files: the file must be in an emptyDir of the pod."""
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
                errors.append(not_found(field, name))
            elif "emptyDir" not in sources[name]:
                errors.append(invalid(field, name, "referenced volume must be of type emptyDir"))
