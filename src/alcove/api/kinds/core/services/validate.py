"""What makes a service valid."""

from collections.abc import Sequence

from alcove.api import addresses, names
from alcove.api.fields import FieldError, duplicate, forbidden, invalid, not_supported, required
from alcove.api.kinds.core.networks import check_network_name, refuse_two_networks
from alcove.api.kinds.core.services import types
from alcove.api.kinds.core.services.clusterips import check_cluster_ips
from alcove.api.kinds.metadata import validate_labels
from alcove.api.objects import Object
from alcove.api.validation import (
    Faults,
    check_port,
    check_port_or_name,
    check_required_choice,
    check_value,
)

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_AFFINITIES = ("ClientIP", "None")
_POLICIES = ("Cluster", "Local")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_AFFINITY_SECONDS_MAX = 86400
_BALANCED_ONLY = "may only be used when `type` is 'LoadBalancer'"
_SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_TOPOLOGY_MODE = "service.kubernetes.io/topology-mode"
_TOPOLOGY_HINTS = "service.kubernetes.io/topology-aware-hints"


def validate_service(service: Object) -> list[FieldError]:
    faults: list[FieldError] = []
    meta, spec = service.get("metadata", {}), service.get("spec", {})
    annotations = meta.get("annotations", {})
    refuse_two_networks(spec, meta.get("labels", {}), "spec")
    mode = annotations.get(_TOPOLOGY_MODE)
    if mode is not None and mode != annotations.get(_TOPOLOGY_HINTS, mode):
        message = f"must match annotations[{_TOPOLOGY_HINTS}] when both are specified"
        faults.append(invalid(f"metadata.annotations[{_TOPOLOGY_MODE}]", mode, message))
    ports = spec.get("ports", ())
    if not ports and not types.is_headless(spec) and types.has_cluster_ip(spec):
        faults.append(required("spec.ports"))
    _check_type(spec, faults)
    _check_ports(ports, faults)
    if selector := spec.get("selector"):
        faults += validate_labels(selector, "spec.selector")
    _check_affinity(spec, faults)
    if types.has_cluster_ip(spec):
        check_cluster_ips(spec, faults)
    for index, address in enumerate(spec.get("externalIPs", ())):
        field = f"spec.externalIPs[{index}]"
        faults += addresses.ip_faults(field, address) or addresses.endpoint_ip_faults(field, address)
    check_required_choice(spec.get("type", ""), types.SERVICE_TYPES, "spec.type", faults)
    _check_port_numbers(spec, ports, faults)
    _check_source_ranges(spec, annotations, faults)
    _check_balancing(spec, faults)
    _check_traffic(spec, faults)
    check_network_name(spec, "spec", faults)
    return faults


def _check_type(spec: Object, faults: Faults) -> None:
    kind = spec.get("type")
    if kind in ("LoadBalancer", "NodePort") and types.is_headless(spec):
        message = f"may not be set to 'None' for {kind} services"
        faults.append(invalid("spec.clusterIPs[0]", "None", message))
    if kind != "ExternalName":
        return
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            faults.append(forbidden(f"spec.{field}", "may not be set for ExternalName services"))
    name = spec.get("externalName", "").removesuffix(".")
    if name:
        check_value(name, names.dns_subdomain, "spec.externalName", faults)
    else:
        faults.append(required("spec.externalName"))


def _check_ports(ports: Sequence[Object], faults: Faults) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            check_value(name, names.dns_label, f"{path}.name", faults)
            if name in seen:
                faults.append(duplicate(f"{path}.name", name))
            seen.add(name)
        elif len(ports) > 1:
            faults.append(required(f"{path}.name"))
        check_port(port.get("port", 0), f"{path}.port", faults)
        check_required_choice(port.get("protocol", ""), _PROTOCOLS, f"{path}.protocol", faults)
        check_port_or_name(port.get("targetPort", 0), f"{path}.targetPort", faults)
        if "appProtocol" in port:
            check_value(port["appProtocol"], names.qualified_name, f"{path}.appProtocol", faults)


def _check_port_numbers(spec: Object, ports: Sequence[Object], faults: Faults) -> None:
    """No port twice for one protocol, neither the service's nor the nodes'."""
    if spec.get("type") == "ClusterIP":
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                message = "may not be used when `type` is 'ClusterIP'"
                faults.append(forbidden(f"spec.ports[{index}].nodePort", message))
    seen: set[tuple[str, str, int]] = set()
    for field in ("nodePort", "port"):
        for index, port in enumerate(ports):
            number, protocol = port.get(field, 0), port.get("protocol", "")
            if field == "nodePort" and not number:
                continue
            if (field, protocol, number) in seen:
                if field == "nodePort":
                    faults.append(duplicate(f"spec.ports[{index}].nodePort", number))
                else:
                    repeated = {"port": number, "protocol": protocol}
                    faults.append(duplicate(f"spec.ports[{index}]", repeated))
            seen.add((field, protocol, number))


def _check_affinity(spec: Object, faults: Faults) -> None:
    affinity, config = spec.get("sessionAffinity", ""), spec.get("sessionAffinityConfig")
    check_required_choice(affinity, _AFFINITIES, "spec.sessionAffinity", faults)
    field = "spec.sessionAffinityConfig"
    if affinity == "None" and config is not None:
        faults.append(forbidden(field, "must not be set when session affinity is None"))
    if affinity != "ClientIP":
        return
    message = "when session affinity type is ClientIP"
    if config is None:
        faults.append(required(field, message))
    elif "clientIP" not in config:
        faults.append(required(f"{field}.clientIP", message))
    elif "timeoutSeconds" not in config["clientIP"]:
        faults.append(required(f"{field}.clientIP.timeoutSeconds", message))
    else:
        seconds = config["clientIP"]["timeoutSeconds"]
        if not 0 < seconds <= _AFFINITY_SECONDS_MAX:
            bounds = f"must be greater than 0 and less than {_AFFINITY_SECONDS_MAX}"
            faults.append(invalid(f"{field}.clientIP.timeoutSeconds", seconds, bounds))


def _check_source_ranges(spec: Object, annotations: Object, faults: Faults) -> None:
    """The field; or, where that is empty, the annotation that was there before it."""
    ranges = spec.get("loadBalancerSourceRanges")
    if ranges:
        field = "spec.LoadBalancerSourceRanges"
        if not types.is_balanced(spec):
            faults.append(forbidden(field, _BALANCED_ONLY))
        for index, value in enumerate(ranges):
            faults += addresses.cidr_faults(f"{field}[{index}]", value.strip())
    elif _SOURCE_RANGES in annotations:
        field = f"metadata.annotations[{_SOURCE_RANGES}]"
        if not types.is_balanced(spec):
            faults.append(forbidden(field, _BALANCED_ONLY))
        if text := annotations[_SOURCE_RANGES].strip():
            for value in text.split(","):
                faults += addresses.cidr_faults(field, value.strip())


def _check_balancing(spec: Object, faults: Faults) -> None:
    if "allocateLoadBalancerNodePorts" in spec and not types.is_balanced(spec):
        faults.append(forbidden("spec.allocateLoadBalancerNodePorts", _BALANCED_ONLY))
    if types.is_balanced(spec) and "allocateLoadBalancerNodePorts" not in spec:
        faults.append(required("allocateLoadBalancerNodePorts"))
    if "loadBalancerClass" in spec:
        if types.is_balanced(spec):
            check_value(spec["loadBalancerClass"], names.qualified_name, "spec.loadBalancerClass", faults)
        else:
            faults.append(forbidden("spec.loadBalancerClass", _BALANCED_ONLY))


def _check_traffic(spec: Object, faults: Faults) -> None:
    policy, field = spec.get("externalTrafficPolicy", ""), "spec.externalTrafficPolicy"
    if types.is_external(spec):
        check_required_choice(policy, _POLICIES, field, faults)
    elif policy:
        faults.append(invalid(field, policy, "may only be set for externally-accessible services"))
    health_port = spec.get("healthCheckNodePort", 0)
    if health_port and types.has_health_port(spec):
        check_port(health_port, "spec.healthCheckNodePort", faults)
    elif health_port:
        message = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        faults.append(invalid("spec.healthCheckNodePort", health_port, message))
    internal = spec.get("internalTrafficPolicy")
    if internal is None:
        if spec.get("type") in ("ClusterIP", "LoadBalancer", "NodePort"):
            faults.append(required("spec.internalTrafficPolicy"))
    elif internal not in _POLICIES:
        faults.append(not_supported("spec.internalTrafficPolicy", internal, _POLICIES))
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        faults.append(not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS))
