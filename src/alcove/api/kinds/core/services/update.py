"""Allowed changes of an existing service, and of its status."""

from alcove.api import addresses, names
from alcove.api.fields import FieldError, forbidden, invalid, not_supported, required
from alcove.api.kinds.core.networks import check_network_unchanged
from alcove.api.kinds.core.services import types
from alcove.api.kinds.core.services.clusterips import check_cluster_ip_changes
from alcove.api.objects import Object
from alcove.api.validation import FieldErrors, check_value

_IP_MODES = ("Proxy", "VIP")


def validate_service_update(new: Object, old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    spec, before = new.get("spec", {}), old.get("spec", {})
    if types.has_cluster_ip(spec) and types.has_cluster_ip(before):
        check_cluster_ip_changes(spec, before, errors)
    both_balanced = types.is_balanced(spec) and types.is_balanced(before)
    if both_balanced and spec.get("loadBalancerClass") != before.get("loadBalancerClass"):
        field, new_class = "spec.loadBalancerClass", spec.get("loadBalancerClass")
        errors.append(invalid(field, new_class, "may not change once set"))
    both_healthy = types.has_health_port(spec) and types.has_health_port(before)
    if both_healthy and spec.get("healthCheckNodePort", 0) != before.get("healthCheckNodePort", 0):
        errors.append(forbidden("spec.healthCheckNodePort", "field is immutable"))
    check_network_unchanged(new, old, errors)
    return errors


def validate_service_status(new: Object, old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    ingress = new.get("status", {}).get("loadBalancer", {}).get("ingress", ())
    if ingress and not types.is_balanced(old.get("spec", {})):
        message = "may only be used when `spec.type` is 'LoadBalancer'"
        errors.append(forbidden("status.loadBalancer.ingress", message))
        return errors
    for index, entry in enumerate(ingress):
        _check_ingress(entry, f"status.loadBalancer.ingress[{index}]", errors)
    return errors


def _check_ingress(entry: Object, path: str, errors: FieldErrors) -> None:
    ip, mode, hostname = entry.get("ip", ""), entry.get("ipMode"), entry.get("hostname", "")
    if ip:
        errors += addresses.ip_errors(f"{path}.ip", ip)
    if mode is None:
        if ip:
            errors.append(required(f"{path}.ipMode", "must be specified when `ip` is set"))
    elif not ip:
        errors.append(forbidden(f"{path}.ipMode", "may not be specified when `ip` is not set"))
    elif mode not in _IP_MODES:
        errors.append(not_supported(f"{path}.ipMode", mode, _IP_MODES))
    if hostname:
        check_value(hostname, names.dns_subdomain, f"{path}.hostname", errors)
        if addresses.ip_family(hostname):
            errors.append(invalid(f"{path}.hostname", hostname, "must be a DNS name, not an IP address"))
