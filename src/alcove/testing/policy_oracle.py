"""What NetworkPolicies allow, read literally from the API's definition: slow, and without any of the product's code.

    allowed(policies, namespaces, source, target, "TCP", 80)

An end is a pod with labels, or an address that belongs to no pod.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address, ip_network

from msgspec import Struct

from alcove.api.objects import Object

Labels = Mapping[str, str]


class PolicyEnd(Struct, frozen=True, kw_only=True):
    """One end of a connection. `namespace` is empty for an address outside the network."""

    name: str
    address: str
    namespace: str = ""
    labels: Labels = {}
    ports: Mapping[tuple[str, str], int] = {}
    """Numbers of named ports, by name and protocol."""


def allowed(
    policies: Iterable[Object],
    namespaces: Mapping[str, Labels],
    source: PolicyEnd,
    target: PolicyEnd,
    protocol: str,
    port: int,
) -> bool:
    """Whether `source` may open a connection to `port` of `target`: egress of the one, and ingress of the other."""
    every = list(policies)
    egress = _direction(every, namespaces, "Egress", source, target, target, protocol, port)
    return egress and _direction(every, namespaces, "Ingress", target, source, target, protocol, port)


def _direction(
    policies: list[Object],
    namespaces: Mapping[str, Labels],
    direction: str,
    subject: PolicyEnd,
    peer: PolicyEnd,
    target: PolicyEnd,
    protocol: str,
    port: int,
) -> bool:
    selecting = [
        policy
        for policy in policies
        if policy["metadata"]["namespace"] == subject.namespace
        and selects(policy["spec"].get("podSelector") or {}, subject.labels)
        and direction in _types(policy["spec"])
    ]
    if not selecting:
        return True
    rules_field, peers_field = ("ingress", "from") if direction == "Ingress" else ("egress", "to")
    for policy in selecting:
        for rule in policy["spec"].get(rules_field) or []:
            peers, ports = rule.get(peers_field), rule.get("ports")
            is_peer = not peers or any(
                _is_peer(one, policy["metadata"]["namespace"], namespaces, peer) for one in peers
            )
            if is_peer and (not ports or any(_is_port(one, target, protocol, port) for one in ports)):
                return True
    return False


def _types(spec: Object) -> list[str]:
    if spec.get("policyTypes"):
        return list(spec["policyTypes"])
    return ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _is_peer(peer: Object, own_namespace: str, namespaces: Mapping[str, Labels], end: PolicyEnd) -> bool:
    if "ipBlock" in peer:
        block = peer["ipBlock"]
        return _inside(end.address, block["cidr"]) and not any(
            _inside(end.address, each) for each in block.get("except") or []
        )
    if not end.namespace:
        return False
    if "namespaceSelector" in peer:
        if not selects(peer["namespaceSelector"], namespaces[end.namespace]):
            return False
    elif end.namespace != own_namespace:
        return False
    return "podSelector" not in peer or selects(peer["podSelector"], end.labels)


def _inside(address: str, cidr: str) -> bool:
    one, network = ip_address(address), ip_network(cidr)
    return one.version == network.version and one in network


def _is_port(port: Object, target: PolicyEnd, protocol: str, number: int) -> bool:
    if protocol != port.get("protocol", "TCP"):
        return False
    wanted = port.get("port")
    if wanted is None:
        return True
    if isinstance(wanted, str):
        return target.ports.get((wanted, protocol)) == number
    return wanted <= number <= (port.get("endPort") or wanted)  # type: ignore[no-any-return]


def selects(selector: Object, labels: Labels) -> bool:
    """Whether a label selector of the API matches; an empty one matches everything."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for each in selector.get("matchExpressions") or []:
        key, values = each["key"], each.get("values") or []
        match each["operator"]:
            case "In":
                fits = key in labels and labels[key] in values
            case "NotIn":
                fits = key not in labels or labels[key] not in values
            case "Exists":
                fits = key in labels
            case "DoesNotExist":
                fits = key not in labels
            case other:
                raise ValueError(f"no such operator: {other}")
        if not fits:
            return False
    return True
