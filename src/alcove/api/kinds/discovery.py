"""discovery.k8s.io: EndpointSlices, the addresses behind a service. Written often, so validation is fast."""

import ipaddress

from alcove.api import addresses, names
from alcove.api.fields import FieldError, duplicate, invalid, required, too_many
from alcove.api.kind import Strategy
from alcove.api.kinds.checks import fill, named, one_of_required, unchanged
from alcove.api.objects import Object

ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
PROTOCOLS = ("SCTP", "TCP", "UDP")
ENDPOINTS_MAX = 1000
ADDRESSES_MAX = 100
PORTS_MAX = 20000
HINTS_MAX = 8

_LINK_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def default_slice(obj: Object) -> None:
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        fill(port, "protocol", "TCP")


def prepare_slice(obj: Object) -> None:
    """Drop fields that v1 clients cannot write."""
    for endpoint in obj.get("endpoints") or ():
        endpoint.pop("deprecatedTopology", None)


def validate_slice(obj: Object) -> list[FieldError]:
    kind = obj.get("addressType", "")
    errors = one_of_required(kind, ADDRESS_TYPES, "addressType")
    return errors + _ports(obj.get("ports") or []) + _endpoints(obj.get("endpoints") or [], kind)


def validate_slice_update(new: Object, old: Object) -> list[FieldError]:
    return unchanged(new, old, "", "addressType")


def _ports(ports: list[Object]) -> list[FieldError]:
    if len(ports) > PORTS_MAX:
        return [too_many("ports", len(ports), PORTS_MAX)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"ports[{index}]", port.get("name", "")
        if name:
            errors += named(name, names.dns_label, f"{path}.name")
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
        errors += one_of_required(port.get("protocol", ""), PROTOCOLS, f"{path}.protocol")
        if "appProtocol" in port:
            errors += named(port["appProtocol"], names.qualified_name, f"{path}.appProtocol")
    return errors


def _endpoints(endpoints: list[Object], kind: str) -> list[FieldError]:
    if len(endpoints) > ENDPOINTS_MAX:
        return [too_many("endpoints", len(endpoints), ENDPOINTS_MAX)]
    errors: list[FieldError] = []
    for index, endpoint in enumerate(endpoints):
        endpoint_addresses = endpoint.get("addresses") or ()
        if not endpoint_addresses:
            message = "must contain at least 1 address"
            errors.append(required(f"endpoints[{index}].addresses", message))
        elif len(endpoint_addresses) > ADDRESSES_MAX:
            errors.append(too_many(f"endpoints[{index}].addresses", len(endpoint_addresses), ADDRESSES_MAX))
        for at, address in enumerate(endpoint_addresses):
            if not _is_plain(address, kind):
                errors += _address(address, kind, f"endpoints[{index}].addresses", at)
        for field, check in (("nodeName", names.dns_subdomain), ("hostname", names.dns_label)):
            if field in endpoint:
                errors += named(endpoint[field], check, f"endpoints[{index}].{field}")
        if "hints" in endpoint:
            errors += _hints(endpoint["hints"], f"endpoints[{index}].hints")
    return errors


def _is_plain(address: str, kind: str) -> bool:
    """Recognise the common case without parsing: IPv4 outside all special ranges."""
    special = ("0.", "127.", "169.254.", "224.0.0.")
    return kind == "IPv4" and addresses.is_ipv4(address) and not address.startswith(special)


def _address(address: str, kind: str, path: str, index: int) -> list[FieldError]:
    where = f"{path}[{index}]"
    if kind == "FQDN":
        return _domain_name(address, where)
    if kind not in ("IPv4", "IPv6"):
        return []
    check = addresses.ip_errors if kind == "IPv4" else addresses.canonical_ip_errors
    if errors := check(where, address):
        return errors
    if addresses.ip_family(address) != kind:
        errors.append(invalid(path, address, f"must be an {kind} address"))
    return errors + endpoint_ip_errors(address, where)


def endpoint_ip_errors(address: str, path: str) -> list[FieldError]:
    """Check a valid address against the ranges that endpoints cannot be in."""
    ip = ipaddress.ip_address(address)
    errors: list[FieldError] = []
    if ip.is_unspecified:
        errors.append(invalid(path, address, f"may not be unspecified ({address})"))
    if ip.is_loopback:
        errors.append(invalid(path, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if ip.is_link_local:
        message = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        errors.append(invalid(path, address, message))
    if any(ip in network for network in _LINK_LOCAL_MULTICAST if network.version == ip.version):
        message = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        errors.append(invalid(path, address, message))
    return errors


def _domain_name(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    bare = name.removesuffix(".")
    if wrong := names.dns_subdomain(bare):
        return [invalid(path, bare, ",".join(wrong))]
    labels = bare.split(".")
    if len(labels) < 2:
        message = "should be a domain with at least two segments separated by dots"
        return [invalid(path, bare, message)]
    for label in labels:
        if wrong := names.dns_label(label):
            return [invalid(path, label, ",".join(wrong))]
    return []


def _hints(hints: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field, check in (("forZones", names.label_value), ("forNodes", names.dns_subdomain)):
        entries = hints.get(field) or ()
        if len(entries) > HINTS_MAX:
            return [*errors, too_many(f"{path}.{field}", len(entries), HINTS_MAX)]
        seen: set[str] = set()
        for index, entry in enumerate(entries):
            where, name = f"{path}.{field}[{index}].name", entry.get("name", "")
            if name in seen:
                errors.append(duplicate(where, name))
            seen.add(name)
            errors += named(name, check, where)
    return errors


STRATEGIES: dict[str, Strategy] = {
    "endpointslices": Strategy(
        default=default_slice,
        validate=validate_slice,
        validate_update=validate_slice_update,
        prepare_create=prepare_slice,
        prepare_update=lambda new, _old: prepare_slice(new),
        counts_generation=True,
    ),
}
