"""Columns of volumes, claims, and the classes and drivers behind them."""

from typing import Any

from alcove.api import objects
from alcove.api.columns.base import AGE, NAME, UNSET, WIDE, at, counted, joined
from alcove.api.kind import PrinterColumn
from alcove.api.objects import Object

_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(modes: Any) -> str:
    given = set(modes or ())
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _phase(obj: Object, _now: float) -> str:
    if objects.get(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    return str(objects.get(obj, "status", "phase", default=""))


def _class(obj: Object, _now: float) -> str:
    own: str = objects.get(obj, "spec", "storageClassName", default="")
    return objects.annotations(obj).get(_CLASS_ANNOTATION, own)


def _claim(obj: Object, _now: float) -> str:
    claim = objects.get(obj, "spec", "claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


_STORAGE_CLASS = PrinterColumn("StorageClass", _class, description="Class the volume is made by.")
_ATTRIBUTES_CLASS = PrinterColumn(
    "VolumeAttributesClass",
    at("spec", "volumeAttributesClassName", default=UNSET),
    description="Class of the volume's changeable qualities.",
)
_VOLUME_MODE = PrinterColumn(
    "VolumeMode",
    at("spec", "volumeMode", default=UNSET),
    description="Whether it is a file system or a block device.",
    priority=WIDE,
)

PERSISTENT_VOLUME = (
    NAME,
    PrinterColumn("Capacity", at("spec", "capacity", "storage"), description="Its size."),
    PrinterColumn(
        "Access Modes",
        lambda obj, _now: _modes(objects.get(obj, "spec", "accessModes")),
        description="Ways it can be mounted.",
    ),
    PrinterColumn(
        "Reclaim Policy",
        at("spec", "persistentVolumeReclaimPolicy"),
        description="What becomes of it when its claim goes.",
    ),
    PrinterColumn("Status", _phase, description="Whether it is bound."),
    PrinterColumn("Claim", _claim, description="Claim it is bound to."),
    _STORAGE_CLASS,
    _ATTRIBUTES_CLASS,
    PrinterColumn("Reason", at("status", "reason"), description="Why it failed."),
    AGE,
    _VOLUME_MODE,
)


def _claim_capacity(obj: Object, _now: float) -> str:
    is_bound = objects.get(obj, "spec", "volumeName")
    return objects.get(obj, "status", "capacity", "storage", default="") if is_bound else ""


def _claim_modes(obj: Object, _now: float) -> str:
    is_bound = objects.get(obj, "spec", "volumeName")
    return _modes(objects.get(obj, "status", "accessModes")) if is_bound else ""


PERSISTENT_VOLUME_CLAIM = (
    NAME,
    PrinterColumn("Status", _phase, description="Whether it is bound."),
    PrinterColumn("Volume", at("spec", "volumeName"), description="Volume it is bound to."),
    PrinterColumn("Capacity", _claim_capacity, description="Size of that volume."),
    PrinterColumn("Access Modes", _claim_modes, description="Ways that volume can be mounted."),
    _STORAGE_CLASS,
    _ATTRIBUTES_CLASS,
    AGE,
    _VOLUME_MODE,
)


def _class_name(obj: Object, _now: float) -> str:
    annotations = objects.annotations(obj)
    is_default = any(annotations.get(name) == "true" for name in _DEFAULT_ANNOTATIONS)
    return f"{objects.name(obj)} (default)" if is_default else objects.name(obj)


STORAGE_CLASS = (
    PrinterColumn("Name", _class_name, format="name", description=NAME.description),
    PrinterColumn("Provisioner", at("provisioner"), description="Who makes volumes of the class."),
    PrinterColumn(
        "ReclaimPolicy", at("reclaimPolicy", default="Delete"), description="What becomes of them afterwards."
    ),
    PrinterColumn(
        "VolumeBindingMode",
        at("volumeBindingMode", default="Immediate"),
        description="When a claim is bound.",
    ),
    PrinterColumn(
        "AllowVolumeExpansion",
        lambda obj, _now: bool(obj.get("allowVolumeExpansion")),
        description="Whether volumes may grow.",
    ),
    AGE,
)

VOLUME_ATTRIBUTES_CLASS = (
    NAME,
    PrinterColumn("DriverName", at("driverName"), description="Driver it is for."),
    AGE,
)

VOLUME_ATTACHMENT = (
    NAME,
    PrinterColumn("Attacher", at("spec", "attacher"), description="Driver that attaches."),
    PrinterColumn("PV", at("spec", "source", "persistentVolumeName"), description="Volume attached."),
    PrinterColumn("Node", at("spec", "nodeName"), description="Node it is attached to."),
    PrinterColumn(
        "Attached", at("status", "attached", default=False), "boolean", description="Whether it is."
    ),
    AGE,
)

CSI_NODE = (NAME, counted("Drivers", "Drivers on the node.", "spec", "drivers"), AGE)


def _driver_modes(obj: Object, _now: float) -> str:
    return joined(objects.get(obj, "spec", "volumeLifecycleModes", default=()))


def _token_audiences(obj: Object, _now: float) -> str:
    requests = objects.get(obj, "spec", "tokenRequests", default=())
    return joined((each.get("audience", "") for each in requests), none=UNSET)


def _flag(name: str, field: str, description: str, default: bool) -> PrinterColumn:
    return PrinterColumn(name, at("spec", field, default=default), "boolean", description=description)


CSI_DRIVER = (
    NAME,
    _flag("AttachRequired", "attachRequired", "Whether volumes are attached before mounting.", True),
    _flag("PodInfoOnMount", "podInfoOnMount", "Whether the driver is told about pods.", False),
    _flag("StorageCapacity", "storageCapacity", "Whether it tells how much room there is.", False),
    PrinterColumn("TokenRequests", _token_audiences, description="Audiences of the tokens it is given."),
    _flag("RequiresRepublish", "requiresRepublish", "Whether it is called again and again.", False),
    PrinterColumn("Modes", _driver_modes, description="Kinds of volumes it has."),
    AGE,
)

CSI_STORAGE_CAPACITY = (
    NAME,
    PrinterColumn("StorageClassName", at("storageClassName"), description="Class the room is for."),
    PrinterColumn("Capacity", at("capacity"), description="Room there is."),
)
