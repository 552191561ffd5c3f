"""Endpoints: the addresses behind a service, the predecessor of EndpointSlices."""

from alcove.api import addresses, names
from alcove.api.fields import FieldError, required
from alcove.api.kind import Strategy
from alcove.api.objects import Object
from alcove.api.validation import FieldErrors, check_port, check_required_choice, check_value

_PROTOCOLS = ("SCTP", "TCP", "UDP")


def _default(endpoints: Object) -> None:
    for subset in endpoints.get("subsets", ()):
        for port in subset.get("ports", ()):
            if not port.get("protocol"):
                port["protocol"] = "TCP"


def _validate(endpoints: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, subset in enumerate(endpoints.get("subsets", ())):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
        for field in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(field, ())):
                _check_address(address, f"{path}.{field}[{number}]", errors)
        ports = subset.get("ports", ())
        for number, port in enumerate(ports):
            _check_port(port, len(ports) > 1, f"{path}.ports[{number}]", errors)
    return errors


def _check_address(address: Object, path: str, errors: FieldErrors) -> None:
    ip = address.get("ip", "")
    errors += addresses.ip_errors(f"{path}.ip", ip)
    if hostname := address.get("hostname"):
        check_value(hostname, names.dns_label, f"{path}.hostname", errors)
    if "nodeName" in address:
        check_value(address["nodeName"], names.dns_subdomain, f"{path}.nodeName", errors)
    errors += addresses.endpoint_ip_errors(f"{path}.ip", ip)


def _check_port(port: Object, is_name_required: bool, path: str, errors: FieldErrors) -> None:
    if name := port.get("name"):
        check_value(name, names.dns_label, f"{path}.name", errors)
    elif is_name_required:
        errors.append(required(f"{path}.name"))
    check_port(port.get("port", 0), f"{path}.port", errors)
    check_required_choice(port.get("protocol", ""), _PROTOCOLS, f"{path}.protocol", errors)
    if "appProtocol" in port:
        check_value(port["appProtocol"], names.qualified_name, f"{path}.appProtocol", errors)


STRATEGY = Strategy(default=_default, validate=_validate, create_on_update=True)
