"""What follows from a service's type: which addresses and ports it has."""

from alcove.api.objects import Object

SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def has_cluster_ip(spec: Object) -> bool:
    """Or could have: a headless service is one without by choice."""
    return spec.get("type") != "ExternalName"


def is_headless(spec: Object) -> bool:
    return spec.get("clusterIPs") == ["None"]


def is_balanced(spec: Object) -> bool:
    return spec.get("type") == "LoadBalancer"


def has_node_ports(spec: Object) -> bool:
    return spec.get("type") in ("LoadBalancer", "NodePort")


def is_external(spec: Object) -> bool:
    """Reachable from outside the network."""
    if has_node_ports(spec):
        return True
    return spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs"))


def has_health_port(spec: Object) -> bool:
    """A load balancer asks the nodes which of them have backends of their own."""
    return is_balanced(spec) and spec.get("externalTrafficPolicy") == "Local"
