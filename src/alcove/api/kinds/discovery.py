"""discovery.k8s.io: endpoint slices, the addresses behind a service. Written often: kept cheap."""

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
    """What v1 clients may no longer write."""
    for endpoint in obj.get("endpoints") or ():
        endpoint.pop("deprecatedTopology", None)


def validate_slice(obj: Object) -> list[FieldError]:
    kind = obj.get("addressType", "")
    faults = one_of_required(kind, ADDRESS_TYPES, "addressType")
    return faults + _ports(obj.get("ports") or []) + _endpoints(obj.get("endpoints") or [], kind)


def validate_slice_update(new: Object, old: Object) -> list[FieldError]:
    return unchanged(new, old, "", "addressType")


def _ports(ports: list[Object]) -> list[FieldError]:
    if len(ports) > PORTS_MAX:
        return [too_many("ports", len(ports), PORTS_MAX)]
    faults: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"ports[{index}]", port.get("name", "")
        if name:
            faults += named(name, names.dns_label, f"{path}.name")
        if name in seen:
            faults.append(duplicate(f"{path}.name", name))
        seen.add(name)
        faults += one_of_required(port.get("protocol", ""), PROTOCOLS, f"{path}.protocol")
        if "appProtocol" in port:
            faults += named(port["appProtocol"], names.qualified_name, f"{path}.appProtocol")
    return faults


def _endpoints(endpoints: list[Object], kind: str) -> list[FieldError]:
    if len(endpoints) > ENDPOINTS_MAX:
        return [too_many("endpoints", len(endpoints), ENDPOINTS_MAX)]
    faults: list[FieldError] = []
    for index, endpoint in enumerate(endpoints):
        given = endpoint.get("addresses") or ()
        if not given:
            message = "must contain at least 1 address"
            faults.append(required(f"endpoints[{index}].addresses", message))
        elif len(given) > ADDRESSES_MAX:
            faults.append(too_many(f"endpoints[{index}].addresses", len(given), ADDRESSES_MAX))
        for at, address in enumerate(given):
            if not _is_plain(address, kind):
                faults += _address(address, kind, f"endpoints[{index}].addresses", at)
        for field, check in (("nodeName", names.dns_subdomain), ("hostname", names.dns_label)):
            if field in endpoint:
                faults += named(endpoint[field], check, f"endpoints[{index}].{field}")
        if "hints" in endpoint:
            faults += _hints(endpoint["hints"], f"endpoints[{index}].hints")
    return faults


def _is_plain(address: str, kind: str) -> bool:
    """The common case, told apart without parsing: IPv4 outside every special range."""
    special = ("0.", "127.", "169.254.", "224.0.0.")
    return kind == "IPv4" and addresses.is_ipv4(address) and not address.startswith(special)


def _address(address: str, kind: str, path: str, index: int) -> list[FieldError]:
    where = f"{path}[{index}]"
    if kind == "FQDN":
        return _domain_name(address, where)
    if kind not in ("IPv4", "IPv6"):
        return []
    check = addresses.ip_faults if kind == "IPv4" else addresses.canonical_ip_faults
    if faults := check(where, address):
        return faults
    if addresses.ip_family(address) != kind:
        faults.append(invalid(path, address, f"must be an {kind} address"))
    return faults + endpoint_ip_faults(address, where)


def endpoint_ip_faults(address: str, path: str) -> list[FieldError]:
    """Ranges no endpoint may be in. The address is a valid one."""
    ip = ipaddress.ip_address(address)
    faults: list[FieldError] = []
    if ip.is_unspecified:
        faults.append(invalid(path, address, f"may not be unspecified ({address})"))
    if ip.is_loopback:
        faults.append(invalid(path, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if ip.is_link_local:
        message = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
        faults.append(invalid(path, address, message))
    if any(ip in network for network in _LINK_LOCAL_MULTICAST if network.version == ip.version):
        message = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        faults.append(invalid(path, address, message))
    return faults


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
    faults: list[FieldError] = []
    for field, check in (("forZones", names.label_value), ("forNodes", names.dns_subdomain)):
        entries = hints.get(field) or ()
        if len(entries) > HINTS_MAX:
            return [*faults, too_many(f"{path}.{field}", len(entries), HINTS_MAX)]
        seen: set[str] = set()
        for index, entry in enumerate(entries):
            where, name = f"{path}.{field}[{index}].name", entry.get("name", "")
            if name in seen:
                faults.append(duplicate(where, name))
            seen.add(name)
            faults += named(name, check, where)
    return faults


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
