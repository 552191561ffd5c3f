"""Columns of volumes, claims, storage classes and CSI drivers."""

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
    present = set(modes or ())
    return ",".join(short for mode, short in _MODES.items() if mode in present)


def _phase(obj: Object, _now: float) -> str:
    if objects.get(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    return str(objects.get(obj, "status", "phase", default=""))


def _class(obj: Object, _now: float) -> str:
    storage_class: str = objects.get(obj, "spec", "storageClassName", default="")
    return objects.annotations(obj).get(_CLASS_ANNOTATION, storage_class)


def _claim(obj: Object, _now: float) -> str:
    claim = objects.get(obj, "spec", "claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


_STORAGE_CLASS = PrinterColumn("StorageClass", _class, description="Storage class of the volume.")
_ATTRIBUTES_CLASS = PrinterColumn(
    "VolumeAttributesClass",
    at("spec", "volumeAttributesClassName", default=UNSET),
    description="VolumeAttributesClass of the volume.",
)
_VOLUME_MODE = PrinterColumn(
    "VolumeMode",
    at("spec", "volumeMode", default=UNSET),
    description="Volume mode: Filesystem or Block.",
    priority=WIDE,
)

PERSISTENT_VOLUME = (
    NAME,
    PrinterColumn("Capacity", at("spec", "capacity", "storage"), description="Capacity."),
    PrinterColumn(
        "Access Modes",
        lambda obj, _now: _modes(objects.get(obj, "spec", "accessModes")),
        description="Access modes.",
    ),
    PrinterColumn(
        "Reclaim Policy",
        at("spec", "persistentVolumeReclaimPolicy"),
        description="Reclaim policy when the claim is deleted.",
    ),
    PrinterColumn("Status", _phase, description="Phase."),
    PrinterColumn("Claim", _claim, description="Claim that the volume is bound to."),
    _STORAGE_CLASS,
    _ATTRIBUTES_CLASS,
    PrinterColumn("Reason", at("status", "reason"), description="Reason of the current phase."),
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
    PrinterColumn("Status", _phase, description="Phase."),
    PrinterColumn("Volume", at("spec", "volumeName"), description="Volume that the claim is bound to."),
    PrinterColumn("Capacity", _claim_capacity, description="Capacity of the bound volume."),
    PrinterColumn("Access Modes", _claim_modes, description="Access modes of the bound volume."),
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
    PrinterColumn("Provisioner", at("provisioner"), description="Provisioner of the class."),
    PrinterColumn(
        "ReclaimPolicy", at("reclaimPolicy", default="Delete"), description="Reclaim policy of its volumes."
    ),
    PrinterColumn(
        "VolumeBindingMode",
        at("volumeBindingMode", default="Immediate"),
        description="When claims are bound.",
    ),
    PrinterColumn(
        "AllowVolumeExpansion",
        lambda obj, _now: bool(obj.get("allowVolumeExpansion")),
        description="Whether volumes can be expanded.",
    ),
    AGE,
)

VOLUME_ATTRIBUTES_CLASS = (
    NAME,
    PrinterColumn("DriverName", at("driverName"), description="Driver of the class."),
    AGE,
)

VOLUME_ATTACHMENT = (
    NAME,
    PrinterColumn("Attacher", at("spec", "attacher"), description="Driver that attaches the volume."),
    PrinterColumn("PV", at("spec", "source", "persistentVolumeName"), description="Attached volume."),
    PrinterColumn("Node", at("spec", "nodeName"), description="Node that the volume is attached to."),
    PrinterColumn(
        "Attached",
        at("status", "attached", default=False),
        "boolean",
        description="Whether the volume is attached.",
    ),
    AGE,
)

CSI_NODE = (NAME, counted("Drivers", "Number of drivers on the node.", "spec", "drivers"), AGE)


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
    _flag("PodInfoOnMount", "podInfoOnMount", "Whether pod information is passed on mount.", False),
    _flag("StorageCapacity", "storageCapacity", "Whether the driver publishes storage capacity.", False),
    PrinterColumn(
        "TokenRequests", _token_audiences, description="Audiences of the requested service account tokens."
    ),
    _flag(
        "RequiresRepublish", "requiresRepublish", "Whether NodePublishVolume is called periodically.", False
    ),
    PrinterColumn("Modes", _driver_modes, description="Supported volume lifecycle modes."),
    AGE,
)

CSI_STORAGE_CAPACITY = (
    NAME,
    PrinterColumn("StorageClassName", at("storageClassName"), description="Storage class of the capacity."),
    PrinterColumn("Capacity", at("capacity"), description="Available capacity."),
)
