"""Defaults of services, on creation and on update."""

import copy
from collections.abc import Sequence

from alcove.api import addresses
from alcove.api.kinds.core.services import types
from alcove.api.objects import Object

AFFINITY_SECONDS = 10800


def default_service(service: Object) -> None:
    spec = service.setdefault("spec", {})
    if not spec.get("type"):
        spec["type"] = "ClusterIP"
    _default_affinity(spec)
    for port in spec.get("ports", ()):
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if port.get("targetPort", 0) in (0, "") and "port" in port:
            port["targetPort"] = port["port"]
    if types.is_external(spec) and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if spec["type"] in ("ClusterIP", "LoadBalancer", "NodePort") and "internalTrafficPolicy" not in spec:
        spec["internalTrafficPolicy"] = "Cluster"
    if types.is_balanced(spec):
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in service.get("status", {}).get("loadBalancer", {}).get("ingress", ()):
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def _default_affinity(spec: Object) -> None:
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = spec.get("sessionAffinityConfig", {}).get("clientIP", {})
        if "timeoutSeconds" not in config:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}}


def prepare_new_service(service: Object) -> None:
    """Set IP families, as far as they follow from the spec; the allocator sets the others, with the addresses."""
    service["status"] = {"loadBalancer": {}}
    spec = service["spec"]
    if not types.has_cluster_ip(spec):
        return
    has_no_backends = spec.get("clusterIP") == "None" and not spec.get("selector")
    if "ipFamilyPolicy" not in spec:
        spec["ipFamilyPolicy"] = "RequireDualStack" if has_no_backends else "SingleStack"
    families = list(spec.get("ipFamilies", ()))
    for address in spec.get("clusterIPs", ())[len(families) :]:
        family = addresses.ip_family(address)
        if family and family not in families:
            families.append(family)
    if has_no_backends:
        families = families or ["IPv4"]
        if len(families) == 1 and spec["ipFamilyPolicy"] != "SingleStack":
            families.append("IPv6" if families == ["IPv4"] else "IPv4")
    if families:
        spec["ipFamilies"] = families


def prepare_service_update(new: Object, old: Object) -> None:
    """Keep allocated values that the client omitted, and drop those that the new type does not have."""
    spec, before = new["spec"], old.get("spec", {})
    _drop_unused(spec, before)
    if types.has_cluster_ip(spec) and types.has_cluster_ip(before):
        _keep_cluster_ips(spec, before)
        for field in ("ipFamilies", "ipFamilyPolicy"):
            if field in before and not spec.get(field):
                spec[field] = copy.copy(before[field])
        _release_secondary(spec, before)
    if types.has_node_ports(spec) and types.has_node_ports(before):
        _keep_node_ports(spec.get("ports", ()), before.get("ports", ()))
    both_healthy = types.has_health_port(spec) and types.has_health_port(before)
    if both_healthy and "healthCheckNodePort" in before and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before["healthCheckNodePort"]
    if not types.is_balanced(spec) and "loadBalancer" in new.get("status", ()):
        new["status"] = {**new["status"], "loadBalancer": {}}


def _drop_unused(spec: Object, before: Object) -> None:
    if types.has_cluster_ip(before) and not types.has_cluster_ip(spec):
        if all(spec.get(field) == before.get(field) for field in ("clusterIP", "clusterIPs")):
            _drop(spec, "clusterIP", "clusterIPs")
        _drop_same(spec, before, "ipFamilies", "ipFamilyPolicy")
    if types.has_node_ports(before) and not types.has_node_ports(spec):
        old_ports = {port.get("nodePort") for port in before.get("ports", ())}
        if all(
            port.get("nodePort", 0) in old_ports for port in spec.get("ports", ()) if port.get("nodePort")
        ):
            for port in spec.get("ports", ()):
                port.pop("nodePort", None)
    if types.has_health_port(before) and not types.has_health_port(spec):
        _drop_same(spec, before, "healthCheckNodePort")
    if types.is_balanced(before) and not types.is_balanced(spec):
        _drop_same(spec, before, "allocateLoadBalancerNodePorts", "loadBalancerClass")
    if types.is_external(before) and not types.is_external(spec):
        _drop_same(spec, before, "externalTrafficPolicy")


def _drop(spec: Object, *fields: str) -> None:
    for field in fields:
        spec.pop(field, None)


def _drop_same(spec: Object, before: Object, *fields: str) -> None:
    for field in fields:
        if spec.get(field) == before.get(field):
            spec.pop(field, None)


def _keep_cluster_ips(spec: Object, before: Object) -> None:
    if not spec.get("clusterIP") and before.get("clusterIP"):
        spec["clusterIP"] = before["clusterIP"]
    if not spec.get("clusterIPs") and before.get("clusterIPs"):
        spec["clusterIPs"] = list(before["clusterIPs"])
    if spec.get("clusterIP") != before.get("clusterIP") and spec.get("clusterIPs") == before.get(
        "clusterIPs"
    ):
        # Clients that know only the older, singular field change that one.
        spec["clusterIPs"] = [spec["clusterIP"]]


def _release_secondary(spec: Object, before: Object) -> None:
    """Back to single stack: remove the second address, unless the client specified which to keep."""
    if spec.get("ipFamilyPolicy") != "SingleStack":
        return
    for field in ("clusterIPs", "ipFamilies"):
        if len(spec.get(field, ())) > 1 and spec[field] == before.get(field):
            spec[field] = spec[field][:1]


def _keep_node_ports(ports: Sequence[Object], before: Sequence[Object]) -> None:
    old_ports = {port.get("name", ""): port["nodePort"] for port in before if port.get("nodePort")}
    used = {port["nodePort"] for port in ports if port.get("nodePort")}
    for port in ports:
        old_port = old_ports.get(port.get("name", ""))
        if not port.get("nodePort") and old_port is not None and old_port not in used:
            port["nodePort"] = old_port
