"""Network policies: who may talk to a pod, and to whom it may talk."""

import ipaddress

from alcove.api import addresses, names
from alcove.api.fields import FieldError, forbidden, invalid, required
from alcove.api.kind import Strategy
from alcove.api.kinds.checks import child, fill, named, one_of
from alcove.api.kinds.labelselectors import validate_label_selector
from alcove.api.objects import Object

PROTOCOLS = ("TCP", "UDP", "SCTP")
POLICY_TYPES = ("Ingress", "Egress")


def default_policy(policy: Object) -> None:
    spec = child(policy, "spec")
    for rule in [*(spec.get("ingress") or ()), *(spec.get("egress") or ())]:
        for port in rule.get("ports") or ():
            fill(port, "protocol", "TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def validate_policy(policy: Object) -> list[FieldError]:
    spec = policy.get("spec") or {}
    faults = validate_label_selector(spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{index}]"
            for at, port in enumerate(rule.get("ports") or ()):
                faults += _port(port, f"{path}.ports[{at}]")
            for at, peer in enumerate(rule.get(peers) or ()):
                faults += _peer(peer, f"{path}.{peers}[{at}]")
    types = spec.get("policyTypes") or ()
    if len(types) > len(POLICY_TYPES):
        message = "may not specify more than two policyTypes"
        return [*faults, invalid("spec.policyTypes", types, message)]
    for index, kind in enumerate(types):
        faults += one_of(kind, POLICY_TYPES, f"spec.policyTypes[{index}]")
    return faults


def _port(port: Object, path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    if "protocol" in port:
        faults += one_of(port["protocol"], PROTOCOLS, f"{path}.protocol")
    number, end = port.get("port"), port.get("endPort")
    if number is None:
        if end is not None:
            message = "may not be specified when `port` is not specified"
            faults.append(invalid(f"{path}.endPort", end, message))
        return faults
    if isinstance(number, str):
        if end is not None:
            message = "may not be specified when `port` is non-numeric"
            faults.append(invalid(f"{path}.endPort", end, message))
        return faults + named(number, names.port_name, f"{path}.port")
    faults += [invalid(f"{path}.port", number, message) for message in names.port_number(number)]
    if end is not None:
        if end < number:
            message = "must be greater than or equal to `port`"
            faults.append(invalid(f"{path}.endPort", number, message))
        faults += [invalid(f"{path}.endPort", end, message) for message in names.port_number(end)]
    return faults


def _peer(peer: Object, path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    given = [
        field for field in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(field) is not None
    ]
    for field in given:
        if field == "ipBlock":
            faults += _block(peer["ipBlock"], f"{path}.ipBlock")
        else:
            faults += validate_label_selector(peer[field], f"{path}.{field}")
    if not given:
        faults.append(required(path, "must specify a peer"))
    elif len(given) > 1 and "ipBlock" in given:
        faults.append(forbidden(path, "may not specify both ipBlock and another peer"))
    return faults


def _block(block: Object, path: str) -> list[FieldError]:
    cidr = block.get("cidr", "")
    if not cidr:
        return [required(f"{path}.cidr")]
    faults = addresses.cidr_faults(f"{path}.cidr", cidr)
    if faults:
        return faults
    whole = ipaddress.ip_network(cidr)
    for index, text in enumerate(block.get("except") or ()):
        wrong = addresses.cidr_faults(f"{path}.except[{index}]", text)
        if not wrong and not _strictly_inside(ipaddress.ip_network(text), whole):
            wrong = [invalid(f"{path}.except[{index}]", text, "must be a strict subset of `cidr`")]
        faults += wrong
    return faults


def _strictly_inside(part: addresses.Network, whole: addresses.Network) -> bool:
    return part.prefixlen > whole.prefixlen and part.network_address in whole


STRATEGIES: dict[str, Strategy] = {
    "networkpolicies": Strategy(default=default_policy, validate=validate_policy, counts_generation=True),
}
