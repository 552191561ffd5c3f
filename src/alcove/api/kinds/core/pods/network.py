"""Network settings of a pod: DNS, host names, host networking, and the tenant's network it joins."""

from alcove.api import addresses, names
from alcove.api.fields import forbidden, invalid, required, too_long
from alcove.api.kinds.core.networks import check_network_name
from alcove.api.objects import Object
from alcove.api.validation import FieldErrors, check_value

_NAMESERVERS_MAX = 3
_SEARCHES_MAX = 32
_SEARCH_LIST_LENGTH_MAX = 2048
_HOSTNAME_LENGTH_MAX = 64


def check_dns_config(spec: Object, path: str, errors: FieldErrors) -> None:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None" and not (config or {}).get("nameservers"):
        if config is None:
            errors.append(required(path, "must provide `dnsConfig` when `dnsPolicy` is None"))
        else:
            message = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            errors.append(required(f"{path}.nameservers", message))
        return
    if config is None:
        return
    servers = config.get("nameservers", ())
    if len(servers) > _NAMESERVERS_MAX:
        message = f"must not have more than {_NAMESERVERS_MAX} nameservers"
        errors.append(invalid(f"{path}.nameservers", servers, message))
    for index, server in enumerate(servers):
        errors += addresses.ip_errors(f"{path}.nameservers[{index}]", server)
    _check_searches(config.get("searches", []), f"{path}.searches", errors)
    for index, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            errors.append(required(f"{path}.options[{index}]", "must not be empty"))


def _check_searches(searches: list[str], path: str, errors: FieldErrors) -> None:
    if len(searches) > _SEARCHES_MAX:
        errors.append(invalid(path, searches, f"must not have more than {_SEARCHES_MAX} search paths"))
    if len(" ".join(searches).encode()) > _SEARCH_LIST_LENGTH_MAX:
        message = f"must not have more than {_SEARCH_LIST_LENGTH_MAX} characters (including spaces) in the search list"
        errors.append(invalid(path, searches, message))
    for index, search in enumerate(searches):
        if search != ".":
            check_value(search.removesuffix("."), names.dns_subdomain_underscored, f"{path}[{index}]", errors)


def check_host_aliases(aliases: list[Object], path: str, errors: FieldErrors) -> None:
    for index, alias in enumerate(aliases):
        errors += addresses.ip_errors(f"{path}[{index}].ip", alias.get("ip", ""))
        for number, hostname in enumerate(alias.get("hostnames", ())):
            check_value(hostname, names.dns_subdomain, f"{path}[{index}].hostnames[{number}]", errors)


def check_hostname_override(spec: Object, path: str, errors: FieldErrors) -> None:
    where, name = f"{path}.hostnameOverride", spec["hostnameOverride"]
    if spec.get("setHostnameAsFQDN"):
        errors.append(forbidden(where, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        errors.append(forbidden(where, "may not be specified when hostNetwork is true"))
    if len(name.encode()) > _HOSTNAME_LENGTH_MAX:
        errors.append(too_long(where, _HOSTNAME_LENGTH_MAX))
    check_value(name, names.dns_subdomain, where, errors)


def check_host_network_ports(spec: Object, is_pod: bool, path: str, errors: FieldErrors) -> None:
    """With host networking, a container's port must equal its host port."""
    for index, container in enumerate(spec.get("containers", ())):
        for number, port in enumerate(container.get("ports", ())):
            on_host = port.get("hostPort", 0)
            if (is_pod or on_host) and on_host != port.get("containerPort", 0):
                message = "must match `containerPort` when `hostNetwork` is true"
                where = f"{path}.containers[{index}].ports[{number}].hostPort"
                errors.append(invalid(where, on_host, message))


def check_tenant_network(spec: Object, path: str, errors: FieldErrors) -> None:
    """Check `spec.network`, and `spec.nics` inside it."""
    check_network_name(spec, path, errors)
    for index, nic in enumerate(spec.get("nics", ())):
        where = f"{path}.nics[{index}]"
        if subnet := nic.get("subnet"):
            check_value(subnet, names.dns_subdomain, f"{where}.subnet", errors)
        if address := nic.get("ip"):
            errors += addresses.ip_errors(f"{where}.ip", address)
