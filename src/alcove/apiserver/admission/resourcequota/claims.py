"""The usage of volume claims and device claims. Pure: no I/O."""

from collections.abc import Sequence

from alcove.api import objects, quantity
from alcove.api.objects import Object
from alcove.api.quantity import ONE as UNIT
from alcove.api.quantity import Quantity
from alcove.apiserver.admission.resourcequota.pods import ONE, Amounts, named

_BY_CLASS = ".storageclass.storage.k8s.io/"
_DEVICES = ".deviceclass.resource.k8s.io/devices"
_DEVICES_MAX = 32
"""The usage of a request for all devices: the maximum number of devices of a claim."""
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


def counts_volumes(name: str) -> bool:
    if name in ("persistentvolumeclaims", "count/persistentvolumeclaims", "requests.storage"):
        return True
    return name.endswith((f"{_BY_CLASS}persistentvolumeclaims", f"{_BY_CLASS}requests.storage"))


def volume_usage(claim: Object) -> Amounts:
    used = {"persistentvolumeclaims": ONE, "count/persistentvolumeclaims": ONE}
    storage = _storage(claim)
    if storage is not None:
        used["requests.storage"] = storage
    if name := objects.annotations(claim).get(_BETA_CLASS) or claim["spec"].get("storageClassName"):
        used[f"{name}{_BY_CLASS}persistentvolumeclaims"] = ONE
        if storage is not None:
            used[f"{name}{_BY_CLASS}requests.storage"] = storage
    return used


def _storage(claim: Object) -> Quantity | None:
    """The requested size, or the allocated one if that is larger; in whole bytes."""
    requested = objects.get(claim, "spec", "resources", "requests", "storage")
    if requested is None:
        return None
    allocated = objects.get(claim, "status", "allocatedResources", "storage")
    amounts = [quantity.of(each) for each in (requested, allocated) if each is not None]
    return max(amounts).rounded_up(UNIT)


def in_scope(scope: str, operator: str, values: Sequence[str], claim: Object) -> bool:
    if scope != "VolumeAttributesClass":
        return False
    status = claim.get("status") or {}
    names = {
        claim["spec"].get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        objects.get(status, "modifyVolumeStatus", "targetVolumeAttributesClassName"),
    }
    known = [name for name in names if name] or [""]
    return any(named(name, operator, values) for name in known)


def counts_devices(name: str) -> bool:
    return name == "count/resourceclaims.resource.k8s.io" or name.endswith(_DEVICES)


def device_usage(claim: Object) -> Amounts:
    used = {"count/resourceclaims.resource.k8s.io": ONE}
    for request in objects.get(claim, "spec", "devices", "requests", default=()):
        for name, devices in _requested(request).items():
            key = f"{name}{_DEVICES}"
            amount = Quantity(devices * UNIT)
            used[key] = used[key] + amount if key in used else amount
    return used


def _requested(request: Object) -> dict[str, int]:
    """Devices by class; for alternatives the maximum."""
    maximum: dict[str, int] = {}
    exactly = request.get("exactly")
    for each in request.get("firstAvailable") or ([exactly] if exactly else ()):
        name = each.get("deviceClassName", "")
        maximum[name] = max(maximum.get(name, 0), _devices(each))
    return maximum


def _devices(request: Object) -> int:
    match request.get("allocationMode"):
        case "ExactCount":
            return int(request.get("count", 0))
        case "All":
            return _DEVICES_MAX
    return 0
