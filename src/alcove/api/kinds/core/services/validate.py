"""Validation of services: new ones, allowed changes, and the status."""

from collections.abc import Sequence

from alcove.api import addresses, names
from alcove.api.fields import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from alcove.api.kinds.core.networks import check_network_name, check_network_unchanged, refuse_two_networks
from alcove.api.kinds.core.services import types
from alcove.api.kinds.core.services.clusterips import check_cluster_ip_changes, check_cluster_ips
from alcove.api.kinds.metadata import validate_labels
from alcove.api.objects import Object
from alcove.api.validation import (
    FieldErrors,
    check_port,
    check_port_or_name,
    check_required_choice,
    check_value,
)

PORTS_MAX = 1_000
"""Each is combined with every endpoint, by controllers and on nodes. Kubernetes has no bound but the size of an object."""
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_AFFINITIES = ("ClientIP", "None")
_POLICIES = ("Cluster", "Local")
_IP_MODES = ("Proxy", "VIP")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_AFFINITY_SECONDS_MAX = 86400
_BALANCED_ONLY = "may only be used when `type` is 'LoadBalancer'"
_TOPOLOGY_MODE = "service.kubernetes.io/topology-mode"
_TOPOLOGY_HINTS = "service.kubernetes.io/topology-aware-hints"


def validate_service(service: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    meta, spec = service.get("metadata", {}), service.get("spec", {})
    annotations = meta.get("annotations", {})
    refuse_two_networks(spec, meta.get("labels", {}), "spec")
    mode = annotations.get(_TOPOLOGY_MODE)
    if mode is not None and mode != annotations.get(_TOPOLOGY_HINTS, mode):
        message = f"must match annotations[{_TOPOLOGY_HINTS}] when both are specified"
        errors.append(invalid(f"metadata.annotations[{_TOPOLOGY_MODE}]", mode, message))
    ports = spec.get("ports", ())
    if not ports and not types.is_headless(spec) and types.has_cluster_ip(spec):
        errors.append(required("spec.ports"))
    if len(ports) > PORTS_MAX:
        return [*errors, too_many("spec.ports", len(ports), PORTS_MAX)]
    _check_type(spec, errors)
    _check_ports(ports, errors)
    if selector := spec.get("selector"):
        errors += validate_labels(selector, "spec.selector")
    _check_affinity(spec, errors)
    if types.has_cluster_ip(spec):
        check_cluster_ips(spec, errors)
    for index, address in enumerate(spec.get("externalIPs", ())):
        field = f"spec.externalIPs[{index}]"
        errors += addresses.ip_errors(field, address) or addresses.endpoint_ip_errors(field, address)
    check_required_choice(spec.get("type", ""), types.SERVICE_TYPES, "spec.type", errors)
    _check_port_numbers(spec, ports, errors)
    _check_source_ranges(spec, annotations, errors)
    _check_balancing(spec, errors)
    _check_traffic(spec, errors)
    check_network_name(spec, "spec", errors)
    return errors


def _check_type(spec: Object, errors: FieldErrors) -> None:
    kind = spec.get("type")
    if kind in ("LoadBalancer", "NodePort") and types.is_headless(spec):
        message = f"may not be set to 'None' for {kind} services"
        errors.append(invalid("spec.clusterIPs[0]", "None", message))
    if kind != "ExternalName":
        return
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            errors.append(forbidden(f"spec.{field}", "may not be set for ExternalName services"))
    name = spec.get("externalName", "").removesuffix(".")
    if name:
        check_value(name, names.dns_subdomain, "spec.externalName", errors)
    else:
        errors.append(required("spec.externalName"))


def _check_ports(ports: Sequence[Object], errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            check_value(name, names.dns_label, f"{path}.name", errors)
            if name in seen:
                errors.append(duplicate(f"{path}.name", name))
            seen.add(name)
        elif len(ports) > 1:
            errors.append(required(f"{path}.name"))
        check_port(port.get("port", 0), f"{path}.port", errors)
        check_required_choice(port.get("protocol", ""), _PROTOCOLS, f"{path}.protocol", errors)
        check_port_or_name(port.get("targetPort", 0), f"{path}.targetPort", errors)
        if "appProtocol" in port:
            check_value(port["appProtocol"], names.qualified_name, f"{path}.appProtocol", errors)


def _check_port_numbers(spec: Object, ports: Sequence[Object], errors: FieldErrors) -> None:
    """Ports must be unique per protocol, the service's ports and its node ports."""
    if spec.get("type") == "ClusterIP":
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                message = "may not be used when `type` is 'ClusterIP'"
                errors.append(forbidden(f"spec.ports[{index}].nodePort", message))
    if len(ports) < 2:
        return
    seen: set[tuple[str, str, int]] = set()
    for field in ("nodePort", "port"):
        for index, port in enumerate(ports):
            number, protocol = port.get(field, 0), port.get("protocol", "")
            if field == "nodePort" and not number:
                continue
            if (field, protocol, number) in seen:
                if field == "nodePort":
                    errors.append(duplicate(f"spec.ports[{index}].nodePort", number))
                else:
                    repeated = {"port": number, "protocol": protocol}
                    errors.append(duplicate(f"spec.ports[{index}]", repeated))
            seen.add((field, protocol, number))


def _check_affinity(spec: Object, errors: FieldErrors) -> None:
    affinity, config = spec.get("sessionAffinity", ""), spec.get("sessionAffinityConfig")
    check_required_choice(affinity, _AFFINITIES, "spec.sessionAffinity", errors)
    field = "spec.sessionAffinityConfig"
    if affinity == "None" and config is not None:
        errors.append(forbidden(field, "must not be set when session affinity is None"))
    if affinity != "ClientIP":
        return
    message = "when session affinity type is ClientIP"
    if config is None:
        errors.append(required(field, message))
    elif "clientIP" not in config:
        errors.append(required(f"{field}.clientIP", message))
    elif "timeoutSeconds" not in config["clientIP"]:
        errors.append(required(f"{field}.clientIP.timeoutSeconds", message))
    else:
        seconds = config["clientIP"]["timeoutSeconds"]
        if not 0 < seconds <= _AFFINITY_SECONDS_MAX:
            bounds = f"must be greater than 0 and less than {_AFFINITY_SECONDS_MAX}"
            errors.append(invalid(f"{field}.clientIP.timeoutSeconds", seconds, bounds))


def _check_source_ranges(spec: Object, annotations: Object, errors: FieldErrors) -> None:
    """Check the field; if it is empty, the annotation that preceded it."""
    ranges = spec.get("loadBalancerSourceRanges")
    if ranges:
        field = "spec.LoadBalancerSourceRanges"
        if not types.is_balanced(spec):
            errors.append(forbidden(field, _BALANCED_ONLY))
        for index, value in enumerate(ranges):
            errors += addresses.cidr_errors(f"{field}[{index}]", value.strip())
    elif types.SOURCE_RANGES_ANNOTATION in annotations:
        field = f"metadata.annotations[{types.SOURCE_RANGES_ANNOTATION}]"
        if not types.is_balanced(spec):
            errors.append(forbidden(field, _BALANCED_ONLY))
        if text := annotations[types.SOURCE_RANGES_ANNOTATION].strip():
            for value in text.split(","):
                errors += addresses.cidr_errors(field, value.strip())


def _check_balancing(spec: Object, errors: FieldErrors) -> None:
    if "allocateLoadBalancerNodePorts" in spec and not types.is_balanced(spec):
        errors.append(forbidden("spec.allocateLoadBalancerNodePorts", _BALANCED_ONLY))
    if types.is_balanced(spec) and "allocateLoadBalancerNodePorts" not in spec:
        errors.append(required("allocateLoadBalancerNodePorts"))
    if "loadBalancerClass" in spec:
        if types.is_balanced(spec):
            check_value(spec["loadBalancerClass"], names.qualified_name, "spec.loadBalancerClass", errors)
        else:
            errors.append(forbidden("spec.loadBalancerClass", _BALANCED_ONLY))


def _check_traffic(spec: Object, errors: FieldErrors) -> None:
    policy, field = spec.get("externalTrafficPolicy", ""), "spec.externalTrafficPolicy"
    if types.is_external(spec):
        check_required_choice(policy, _POLICIES, field, errors)
    elif policy:
        errors.append(invalid(field, policy, "may only be set for externally-accessible services"))
    health_port = spec.get("healthCheckNodePort", 0)
    if health_port and types.has_health_port(spec):
        check_port(health_port, "spec.healthCheckNodePort", errors)
    elif health_port:
        message = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.append(invalid("spec.healthCheckNodePort", health_port, message))
    internal = spec.get("internalTrafficPolicy")
    if internal is None:
        if spec.get("type") in ("ClusterIP", "LoadBalancer", "NodePort"):
            errors.append(required("spec.internalTrafficPolicy"))
    elif internal not in _POLICIES:
        errors.append(not_supported("spec.internalTrafficPolicy", internal, _POLICIES))
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        errors.append(not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS))


def validate_service_update(new: Object, old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    spec, before = new.get("spec", {}), old.get("spec", {})
    if types.has_cluster_ip(spec) and types.has_cluster_ip(before):
        check_cluster_ip_changes(spec, before, errors)
    both_balanced = types.is_balanced(spec) and types.is_balanced(before)
    if both_balanced and spec.get("loadBalancerClass") != before.get("loadBalancerClass"):
        field, new_class = "spec.loadBalancerClass", spec.get("loadBalancerClass")
        errors.append(invalid(field, new_class, "may not change once set"))
    both_healthy = types.has_health_port(spec) and types.has_health_port(before)
    if both_healthy and spec.get("healthCheckNodePort", 0) != before.get("healthCheckNodePort", 0):
        errors.append(forbidden("spec.healthCheckNodePort", "field is immutable"))
    check_network_unchanged(new, old, errors)
    return errors


def validate_service_status(new: Object, old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    ingress = new.get("status", {}).get("loadBalancer", {}).get("ingress", ())
    if ingress and not types.is_balanced(old.get("spec", {})):
        message = "may only be used when `spec.type` is 'LoadBalancer'"
        errors.append(forbidden("status.loadBalancer.ingress", message))
        return errors
    for index, entry in enumerate(ingress):
        _check_ingress(entry, f"status.loadBalancer.ingress[{index}]", errors)
    return errors


def _check_ingress(entry: Object, path: str, errors: FieldErrors) -> None:
    ip, mode, hostname = entry.get("ip", ""), entry.get("ipMode"), entry.get("hostname", "")
    if ip:
        errors += addresses.ip_errors(f"{path}.ip", ip)
    if mode is None:
        if ip:
            errors.append(required(f"{path}.ipMode", "must be specified when `ip` is set"))
    elif not ip:
        errors.append(forbidden(f"{path}.ipMode", "may not be specified when `ip` is not set"))
    elif mode not in _IP_MODES:
        errors.append(not_supported(f"{path}.ipMode", mode, _IP_MODES))
    if hostname:
        check_value(hostname, names.dns_subdomain, f"{path}.hostname", errors)
        if addresses.ip_family(hostname):
            errors.append(invalid(f"{path}.hostname", hostname, "must be a DNS name, not an IP address"))
