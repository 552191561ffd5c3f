"""Addresses and ports that a service has, by its type."""

from alcove.api.objects import Object

SOURCE_RANGES_ANNOTATION = "service.beta.kubernetes.io/load-balancer-source-ranges"
SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def has_cluster_ip(spec: Object) -> bool:
    """Whether the type has a cluster IP; a headless service explicitly has none."""
    return spec.get("type") != "ExternalName"


def is_headless(spec: Object) -> bool:
    return spec.get("clusterIPs") == ["None"]


def is_balanced(spec: Object) -> bool:
    return spec.get("type") == "LoadBalancer"


def has_node_ports(spec: Object) -> bool:
    return spec.get("type") in ("LoadBalancer", "NodePort")


def is_external(spec: Object) -> bool:
    """Whether the service is reachable from outside the network."""
    if has_node_ports(spec):
        return True
    return spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs"))


def has_health_port(spec: Object) -> bool:
    """Whether load balancers query nodes for local backends (`healthCheckNodePort`)."""
    return is_balanced(spec) and spec.get("externalTrafficPolicy") == "Local"


def source_ranges(service: Object) -> list[str]:
    """The ranges of clients that may use the load balancer's addresses; empty if all may. The field counts
    before the annotation that preceded it."""
    texts = service.get("spec", {}).get("loadBalancerSourceRanges")
    if not texts:
        annotations = service.get("metadata", {}).get("annotations") or {}
        texts = annotations.get(SOURCE_RANGES_ANNOTATION, "").split(",")
    return [text.strip() for text in texts if text.strip()]
