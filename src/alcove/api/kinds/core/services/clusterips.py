"""A service's cluster IPs and their families: one or two, one of each family, the first named twice."""

from alcove.api import addresses
from alcove.api.fields import duplicate, invalid, not_supported, required
from alcove.api.kinds.core.services import types
from alcove.api.objects import Object
from alcove.api.validation import Faults

_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_FIXED = "may not change once set"


def check_cluster_ips(spec: Object, faults: Faults) -> None:
    first, ips = spec.get("clusterIP", ""), spec.get("clusterIPs", [])
    if first and not ips:
        faults.append(required("spec.clusterIPs"))
    elif first and ips[0] != first:
        faults.append(invalid("spec.clusterIPs", ips, "first value must match `clusterIP`"))
    elif ips and not first:
        faults.append(invalid("spec.clusterIPs", ips, "must be empty when `clusterIP` is not specified"))
    families = spec.get("ipFamilies", ())
    seen: set[str] = set()
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            faults.append(not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES))
        if family in seen:
            faults.append(duplicate(f"spec.ipFamilies[{index}]", family))
        seen.add(family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _FAMILY_POLICIES:
        faults.append(not_supported("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES))
    if _check_each(ips, faults):
        _check_families(spec, ips, families, faults)


def _check_each(ips: list[str], faults: Faults) -> bool:
    """Whether every address is one."""
    before = len(faults)
    for index, ip in enumerate(ips):
        if index == 0 and ip == "None":
            if len(ips) > 1:
                faults.append(invalid("spec.clusterIPs", ips, "'None' must be the first and only value"))
            continue
        faults += addresses.ip_faults(f"spec.clusterIPs[{index}]", ip)
    is_good = len(faults) == before
    if len(ips) > 2:
        faults.append(invalid("spec.clusterIPs", ips, "may only hold up to 2 values"))
    return is_good


def _check_families(spec: Object, ips: list[str], families: list[str], faults: Faults) -> None:
    if len(ips) > 1 and len({addresses.ip_family(ip) for ip in ips}) != 2:
        message = "may specify no more than one IP for each IP family"
        faults.append(invalid("spec.clusterIPs", ips, message))
    if types.is_headless(spec):
        return
    for index, (ip, family) in enumerate(zip(ips, families, strict=False)):
        if family in _FAMILIES and addresses.ip_family(ip) != family:
            message = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            faults.append(invalid(f"spec.clusterIPs[{index}]", ip, message))
    if spec.get("ipFamilyPolicy") == "SingleStack":
        for field, what in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")):
            if len(spec.get(field, ())) == 2:
                message = (
                    f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                )
                faults.append(invalid("spec.ipFamilyPolicy", "SingleStack", message))


def check_cluster_ip_changes(spec: Object, before: Object, faults: Faults) -> None:
    """The first address and family are a service's for life; a second may come and go."""
    if types.is_headless(spec) and types.is_headless(before):
        return
    ips, old_ips = spec.get("clusterIPs", []), before.get("clusterIPs", [])
    if len(ips) == len(old_ips):
        for index, ip in enumerate(old_ips):
            if ip != ips[index]:
                faults.append(invalid(f"spec.clusterIPs[{index}]", ips, _FIXED))
    else:
        if old_ips and not ips:
            faults.append(invalid("spec.clusterIPs[0]", ips, "primary clusterIP can not be unset"))
        if old_ips and ips and ips[0] != old_ips[0]:
            faults.append(invalid("spec.clusterIPs[0]", ips, _FIXED))
        if len(old_ips) > len(ips) == 1:
            _check_single(spec, "clusterIP", faults)
    # Without an address, the family is only a guess: the network decides it with the address.
    if old_ips and types.is_headless(spec) == types.is_headless(before):
        _check_family_changes(spec, before, faults)


def _check_family_changes(spec: Object, before: Object, faults: Faults) -> None:
    families, old_families = spec.get("ipFamilies", []), before.get("ipFamilies", [])
    if len(families) == len(old_families):
        for index, family in enumerate(old_families):
            if family != families[index]:
                faults.append(invalid("spec.ipFamilies[0]", families, _FIXED))
        return
    if len(old_families) > len(families) and not spec.get("clusterIPs"):
        faults.append(invalid("spec.ipFamilies[0]", families, "primary ipFamily can not be unset"))
    if old_families and families and families[0] != old_families[0]:
        faults.append(invalid("spec.ipFamilies[0]", spec.get("clusterIPs", []), _FIXED))
    if len(old_families) > len(families) == 1:
        _check_single(spec, "ipFamily", faults)


def _check_single(spec: Object, what: str, faults: Faults) -> None:
    if spec.get("ipFamilyPolicy") != "SingleStack":
        message = f"must be set to 'SingleStack' when releasing the secondary {what}"
        faults.append(invalid("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), message))
