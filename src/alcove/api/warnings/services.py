"""Warnings for services, endpoints, ingresses and network policies."""

from collections.abc import Iterable

from alcove.api.objects import Object, annotations, get
from alcove.api.warnings.base import address, cidr

_HINTS = "service.kubernetes.io/topology-aware-hints"
_INGRESS_CLASS = "kubernetes.io/ingress.class"


def service(new: Object, _old: Object | None) -> list[str]:
    spec = new.get("spec") or {}
    messages: list[str] = []
    if _HINTS in annotations(new):
        messages.append(
            f"annotation {_HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"
        )
    is_headless = spec.get("clusterIP") == "None"
    if not is_headless and (cluster_ips := spec.get("clusterIPs")):
        messages += _addresses(cluster_ips, "spec.clusterIPs")
    messages += _ignored(spec, is_headless and spec.get("type") == "ClusterIP")
    external = spec.get("externalIPs")
    if external:
        messages += _addresses(external, "spec.externalIPs")
    if external and not is_headless and spec.get("type") != "ExternalName":
        messages.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if spec.get("loadBalancerIP"):
        messages += address("spec.loadBalancerIP", spec["loadBalancerIP"])
    for index, allowed in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        messages += cidr(f"spec.loadBalancerSourceRanges[{index}]", allowed)
    if spec.get("trafficDistribution") == "PreferClose":
        messages.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return messages


def _ignored(spec: Object, is_headless: bool) -> list[str]:
    """Return warnings for fields that have no effect in such a service."""
    messages: list[str] = []
    if is_headless:
        if spec.get("loadBalancerIP"):
            messages.append("spec.loadBalancerIP is ignored for headless services")
        if spec.get("externalIPs"):
            messages.append("spec.externalIPs is ignored for headless services")
        if spec.get("sessionAffinity", "None") != "None":
            messages.append("spec.SessionAffinity is ignored for headless services")
    is_name = spec.get("type") == "ExternalName"
    if is_name and spec.get("externalIPs"):
        messages.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if not is_name and spec.get("externalName"):
        messages.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    return messages


def _addresses(values: Iterable[str], path: str) -> list[str]:
    return [message for index, value in enumerate(values) for message in address(f"{path}[{index}]", value)]


def endpoints(new: Object, _old: Object | None) -> list[str]:
    messages: list[str] = []
    for index, subset in enumerate(new.get("subsets") or ()):
        for field in ("addresses", "notReadyAddresses"):
            for number, each in enumerate(subset.get(field) or ()):
                messages += address(f"subsets[{index}].{field}[{number}].ip", each.get("ip", ""))
    return messages


def endpoint_slice(new: Object, _old: Object | None) -> list[str]:
    if new.get("addressType") == "FQDN":
        return ["spec.addressType: FQDN endpoints are deprecated"]
    messages: list[str] = []
    if new.get("addressType") == "IPv6":
        for index, endpoint in enumerate(new.get("endpoints") or ()):
            messages += _addresses(endpoint.get("addresses") or (), f"endpoints[{index}].addresses")
    return messages


def ingress(new: Object, old: Object | None) -> list[str]:
    if old is None and _INGRESS_CLASS in annotations(new) and get(new, "spec", "ingressClassName") is None:
        return [f"annotation \"{_INGRESS_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"]
    return []


def network_policy(new: Object, _old: Object | None) -> list[str]:
    messages: list[str] = []
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(get(new, "spec", direction, default=())):
            for number, peer in enumerate(rule.get(peers) or ()):
                block, path = peer.get("ipBlock"), f"spec.{direction}[{index}].{peers}[{number}].ipBlock"
                if block:
                    messages += cidr(f"{path}.cidr", block.get("cidr", ""))
                    for position, excepted in enumerate(block.get("except") or ()):
                        messages += cidr(f"{path}.except[{position}]", excepted)
    return messages
