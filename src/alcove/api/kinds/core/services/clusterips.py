"""A service's cluster IPs and IP families: one or two, of different families; `clusterIP` is the first."""

from alcove.api import addresses
from alcove.api.fields import duplicate, invalid, not_supported, required
from alcove.api.kinds.core.services import types
from alcove.api.objects import Object
from alcove.api.validation import FieldErrors

_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_FIXED = "may not change once set"


def check_cluster_ips(spec: Object, errors: FieldErrors) -> None:
    first, ips = spec.get("clusterIP", ""), spec.get("clusterIPs", [])
    if first and not ips:
        errors.append(required("spec.clusterIPs"))
    elif first and ips[0] != first:
        errors.append(invalid("spec.clusterIPs", ips, "first value must match `clusterIP`"))
    elif ips and not first:
        errors.append(invalid("spec.clusterIPs", ips, "must be empty when `clusterIP` is not specified"))
    families = spec.get("ipFamilies", ())
    seen: set[str] = set()
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            errors.append(not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if family in seen:
            errors.append(duplicate(f"spec.ipFamilies[{index}]", family))
        seen.add(family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _FAMILY_POLICIES:
        errors.append(not_supported("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES))
    if _check_each(ips, errors):
        _check_families(spec, ips, families, errors)


def _check_each(ips: list[str], errors: FieldErrors) -> bool:
    """Check every address; returns whether all are valid."""
    before = len(errors)
    for index, ip in enumerate(ips):
        if index == 0 and ip == "None":
            if len(ips) > 1:
                errors.append(invalid("spec.clusterIPs", ips, "'None' must be the first and only value"))
            continue
        errors += addresses.ip_errors(f"spec.clusterIPs[{index}]", ip)
    is_good = len(errors) == before
    if len(ips) > 2:
        errors.append(invalid("spec.clusterIPs", ips, "may only hold up to 2 values"))
    return is_good


def _check_families(spec: Object, ips: list[str], families: list[str], errors: FieldErrors) -> None:
    if len(ips) > 1 and len({addresses.ip_family(ip) for ip in ips}) != 2:
        message = "may specify no more than one IP for each IP family"
        errors.append(invalid("spec.clusterIPs", ips, message))
    if types.is_headless(spec):
        return
    for index, (ip, family) in enumerate(zip(ips, families, strict=False)):
        if family in _FAMILIES and addresses.ip_family(ip) != family:
            message = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(f"spec.clusterIPs[{index}]", ip, message))
    if spec.get("ipFamilyPolicy") == "SingleStack":
        for field, description in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")):
            if len(spec.get(field, ())) == 2:
                message = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {description} are specified"
                errors.append(invalid("spec.ipFamilyPolicy", "SingleStack", message))


def check_cluster_ip_changes(spec: Object, before: Object, errors: FieldErrors) -> None:
    """The first address and family are immutable; a second one may be added and removed."""
    if types.is_headless(spec) and types.is_headless(before):
        return
    ips, old_ips = spec.get("clusterIPs", []), before.get("clusterIPs", [])
    if len(ips) == len(old_ips):
        for index, ip in enumerate(old_ips):
            if ip != ips[index]:
                errors.append(invalid(f"spec.clusterIPs[{index}]", ips, _FIXED))
    else:
        if old_ips and not ips:
            errors.append(invalid("spec.clusterIPs[0]", ips, "primary clusterIP can not be unset"))
        if old_ips and ips and ips[0] != old_ips[0]:
            errors.append(invalid("spec.clusterIPs[0]", ips, _FIXED))
        if len(old_ips) > len(ips) == 1:
            _check_single(spec, "clusterIP", errors)
    # Without an address, the family is a guess: the network determines it with the address.
    if old_ips and types.is_headless(spec) == types.is_headless(before):
        _check_family_changes(spec, before, errors)


def _check_family_changes(spec: Object, before: Object, errors: FieldErrors) -> None:
    families, old_families = spec.get("ipFamilies", []), before.get("ipFamilies", [])
    if len(families) == len(old_families):
        for index, family in enumerate(old_families):
            if family != families[index]:
                errors.append(invalid("spec.ipFamilies[0]", families, _FIXED))
        return
    if len(old_families) > len(families) and not spec.get("clusterIPs"):
        errors.append(invalid("spec.ipFamilies[0]", families, "primary ipFamily can not be unset"))
    if old_families and families and families[0] != old_families[0]:
        errors.append(invalid("spec.ipFamilies[0]", spec.get("clusterIPs", []), _FIXED))
    if len(old_families) > len(families) == 1:
        _check_single(spec, "ipFamily", errors)


def _check_single(spec: Object, description: str, errors: FieldErrors) -> None:
    if spec.get("ipFamilyPolicy") != "SingleStack":
        message = f"must be set to 'SingleStack' when releasing the secondary {description}"
        errors.append(invalid("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), message))
