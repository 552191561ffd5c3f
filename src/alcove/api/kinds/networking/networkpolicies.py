"""NetworkPolicies: allowed ingress and egress of pods."""

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
    errors = validate_label_selector(spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{index}]"
            for at, port in enumerate(rule.get("ports") or ()):
                errors += _port(port, f"{path}.ports[{at}]")
            for at, peer in enumerate(rule.get(peers) or ()):
                errors += _peer(peer, f"{path}.{peers}[{at}]")
    types = spec.get("policyTypes") or ()
    if len(types) > len(POLICY_TYPES):
        message = "may not specify more than two policyTypes"
        return [*errors, invalid("spec.policyTypes", types, message)]
    for index, kind in enumerate(types):
        errors += one_of(kind, POLICY_TYPES, f"spec.policyTypes[{index}]")
    return errors


def _port(port: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if "protocol" in port:
        errors += one_of(port["protocol"], PROTOCOLS, f"{path}.protocol")
    number, end = port.get("port"), port.get("endPort")
    if number is None:
        if end is not None:
            message = "may not be specified when `port` is not specified"
            errors.append(invalid(f"{path}.endPort", end, message))
        return errors
    if isinstance(number, str):
        if end is not None:
            message = "may not be specified when `port` is non-numeric"
            errors.append(invalid(f"{path}.endPort", end, message))
        return errors + named(number, names.port_name, f"{path}.port")
    errors += [invalid(f"{path}.port", number, message) for message in names.port_number(number)]
    if end is not None:
        if end < number:
            message = "must be greater than or equal to `port`"
            errors.append(invalid(f"{path}.endPort", number, message))
        errors += [invalid(f"{path}.endPort", end, message) for message in names.port_number(end)]
    return errors


def _peer(peer: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    peer_fields = [
        field for field in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(field) is not None
    ]
    for field in peer_fields:
        if field == "ipBlock":
            errors += _block(peer["ipBlock"], f"{path}.ipBlock")
        else:
            errors += validate_label_selector(peer[field], f"{path}.{field}")
    if not peer_fields:
        errors.append(required(path, "must specify a peer"))
    elif len(peer_fields) > 1 and "ipBlock" in peer_fields:
        errors.append(forbidden(path, "may not specify both ipBlock and another peer"))
    return errors


def _block(block: Object, path: str) -> list[FieldError]:
    cidr = block.get("cidr", "")
    if not cidr:
        return [required(f"{path}.cidr")]
    errors = addresses.cidr_errors(f"{path}.cidr", cidr)
    if errors:
        return errors
    whole = ipaddress.ip_network(cidr)
    for index, text in enumerate(block.get("except") or ()):
        wrong = addresses.cidr_errors(f"{path}.except[{index}]", text)
        if not wrong and not _strictly_inside(ipaddress.ip_network(text), whole):
            wrong = [invalid(f"{path}.except[{index}]", text, "must be a strict subset of `cidr`")]
        errors += wrong
    return errors


def _strictly_inside(part: addresses.Network, whole: addresses.Network) -> bool:
    return part.prefixlen > whole.prefixlen and part.network_address in whole


STRATEGIES: dict[str, Strategy] = {
    "networkpolicies": Strategy(default=default_policy, validate=validate_policy, counts_generation=True),
}
