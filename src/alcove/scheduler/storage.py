"""One tenant's claims, volumes and storage classes, with decided bindings that are not observed yet."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from alcove.api import objects, selectors
from alcove.api.errors import BadRequest
from alcove.api.objects import Object, get, labels
from alcove.api.quantity import QuantityError
from alcove.api.selectors import LabelSelector
from alcove.scheduler.nodes import REGION, ZONE
from alcove.scheduler.nodeselectors import NodeSelector, NodeSelectorRequirement, Term, read_terms
from alcove.scheduler.resource_amounts import read_nanos

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
NOT_PROVISIONED = "kubernetes.io/no-provisioner"
_OLD_ZONES = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
}
ZONE_LABELS = (*_OLD_ZONES, ZONE, REGION)

ClaimKey = tuple[str, str]
"""(namespace, name)"""


class VolumeClaim(Struct, frozen=True):
    key: ClaimKey
    uid: str
    volume: str
    is_bound: bool
    is_lost: bool
    is_leaving: bool
    storage_class: str
    modes: frozenset[str]
    volume_mode: str
    size: int
    """In nanos of a byte."""
    selector: LabelSelector | None
    attributes_class: str
    selected_node: str
    owners: frozenset[str]


class SchedulerVolume(Struct, frozen=True):
    name: str
    claim: ClaimKey | None
    claim_uid: str
    storage_class: str
    modes: frozenset[str]
    volume_mode: str
    size: int
    labels: dict[str, str]
    attributes_class: str
    nodes: NodeSelector | None
    zones: tuple[NodeSelectorRequirement, ...]
    is_available: bool
    is_leaving: bool


class StorageClass(Struct, frozen=True):
    name: str
    provisioner: str
    waits: bool | None
    """Whether volumeBindingMode is WaitForFirstConsumer. None if it is not set."""
    nodes: NodeSelector | None
    """Nodes on which volumes can be provisioned."""

    @property
    def provisions(self) -> bool:
        return self.provisioner not in ("", NOT_PROVISIONED)


class TenantStorage:
    def __init__(self) -> None:
        self.claims: dict[ClaimKey, VolumeClaim] = {}
        self.volumes: dict[str, SchedulerVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.promised: dict[str, ClaimKey] = {}
        """Volume → claim that it is going to be bound to."""
        self.users: Counter[ClaimKey] = Counter()
        """Claim → number of placed pods that use it."""

    def volumes_of_class(self, name: str) -> list[SchedulerVolume]:
        return [volume for volume in self.volumes.values() if volume.storage_class == name]

    def is_for(self, volume: SchedulerVolume, claim: VolumeClaim) -> bool:
        """Whether the volume is bound or promised to this claim."""
        promised = self.promised.get(volume.name)
        if promised is not None:
            return promised == claim.key
        return volume.claim == claim.key and volume.claim_uid in ("", claim.uid)

    def is_taken(self, volume: SchedulerVolume) -> bool:
        return volume.claim is not None or volume.name in self.promised


def _size(amounts: Object | None) -> int:
    try:
        return read_nanos(amounts).get("storage", 0)
    except QuantityError:
        return 0


def read_claim(claim: Object) -> VolumeClaim:
    meta, spec, status = claim["metadata"], claim.get("spec") or {}, claim.get("status") or {}
    annotations = objects.annotations(claim)
    volume = spec.get("volumeName") or ""
    is_done = BIND_COMPLETED in annotations or status.get("phase") == "Bound"
    return VolumeClaim(
        key=(meta.get("namespace", ""), meta["name"]),
        uid=meta.get("uid", ""),
        volume=volume,
        is_bound=bool(volume) and is_done,
        is_lost=status.get("phase") == "Lost",
        is_leaving=bool(meta.get("deletionTimestamp")),
        storage_class=annotations.get(CLASS_ANNOTATION) or spec.get("storageClassName") or "",
        modes=frozenset(spec.get("accessModes") or ()),
        volume_mode=spec.get("volumeMode") or "Filesystem",
        size=_size(get(spec, "resources", "requests")),
        selector=_selector(spec.get("selector")),
        attributes_class=spec.get("volumeAttributesClassName") or "",
        selected_node=annotations.get(SELECTED_NODE) or "",
        owners=frozenset(
            each.get("uid", "") for each in meta.get("ownerReferences") or () if each.get("controller")
        ),
    )


def _selector(raw: Object | None) -> LabelSelector | None:
    """An invalid selector selects no volume."""
    if raw is None:
        return None
    try:
        return selectors.from_object(raw)
    except BadRequest:
        return selectors.NOTHING


def read_volume(volume: Object) -> SchedulerVolume:
    meta, spec, status = volume["metadata"], volume.get("spec") or {}, volume.get("status") or {}
    reference = spec.get("claimRef")
    return SchedulerVolume(
        name=meta["name"],
        claim=(reference.get("namespace", ""), reference.get("name", "")) if reference else None,
        claim_uid=(reference or {}).get("uid") or "",
        storage_class=objects.annotations(volume).get(CLASS_ANNOTATION) or spec.get("storageClassName") or "",
        modes=frozenset(spec.get("accessModes") or ()),
        volume_mode=spec.get("volumeMode") or "Filesystem",
        size=_size(spec.get("capacity")),
        labels=dict(labels(volume)),
        attributes_class=spec.get("volumeAttributesClassName") or "",
        nodes=_volume_nodes(get(spec, "nodeAffinity", "required")),
        zones=_zones(labels(volume)),
        is_available=status.get("phase") == "Available",
        is_leaving=bool(meta.get("deletionTimestamp")),
    )


def _volume_nodes(required: Object | None) -> NodeSelector | None:
    return None if required is None else NodeSelector((), read_terms(required.get("nodeSelectorTerms") or ()))


def _zones(source: dict[str, str]) -> tuple[NodeSelectorRequirement, ...]:
    """A volume's zone labels as requirements; several zones are separated by `__`."""
    return tuple(
        NodeSelectorRequirement(key, "In", tuple(source[key].split("__")))
        for key in ZONE_LABELS
        if source.get(key)
    )


def modern(key: str) -> str:
    """The current label for a deprecated zone label."""
    return _OLD_ZONES.get(key, key)


def read_class(source: Object) -> StorageClass:
    mode = source.get("volumeBindingMode")
    topologies = source.get("allowedTopologies") or ()
    terms = tuple(
        Term(
            tuple(
                NodeSelectorRequirement(each.get("key", ""), "In", tuple(each.get("values") or ()))
                for each in topology.get("matchLabelExpressions") or ()
            )
        )
        for topology in topologies
    )
    return StorageClass(
        source["metadata"]["name"],
        source.get("provisioner") or "",
        None if mode is None else mode == "WaitForFirstConsumer",
        NodeSelector((), terms) if topologies else None,
    )
