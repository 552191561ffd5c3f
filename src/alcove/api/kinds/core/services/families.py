"""The IP families of a service, by its policy and the families of its network."""

from collections.abc import Sequence

from alcove.api import addresses
from alcove.api.fields import FieldError, invalid
from alcove.api.kinds.core.services import types
from alcove.api.objects import Object

REQUIRED, PREFERRED = "RequireDualStack", "PreferDualStack"
_NOT_CONFIGURED = "not configured on this cluster"
_NOT_DUAL = "this cluster is not configured for dual-stack services"


def families_of(spec: Object, available: Sequence[str]) -> list[str]:
    """The families that the service gets, the first for `clusterIP`. `available` are the network's."""
    chosen = list(spec.get("ipFamilies") or ())
    for address in (spec.get("clusterIPs") or ())[len(chosen) :]:
        family = addresses.ip_family(address)
        if family and family not in chosen:
            chosen.append(family)
    chosen = chosen or list(available[:1])
    if spec.get("ipFamilyPolicy") in (REQUIRED, PREFERRED):
        chosen += [each for each in available if each not in chosen]
    return chosen


def family_errors(spec: Object, families: Sequence[str], available: Sequence[str]) -> list[FieldError]:
    """What the network cannot give. The backends of a headless service without a selector may be anywhere."""
    if types.is_headless(spec) and not spec.get("selector"):
        return []
    errors = [
        invalid(f"spec.ipFamilies[{index}]", family, _NOT_CONFIGURED)
        for index, family in enumerate(families)
        if family not in available
    ]
    if spec.get("ipFamilyPolicy") == REQUIRED and len(available) < 2:
        errors.append(invalid("spec.ipFamilyPolicy", REQUIRED, _NOT_DUAL))
    return errors
