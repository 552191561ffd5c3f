"""Admission of claims and volumes: what protects them from deletion, who may grow them, and whose files they
may be."""

from alcove.api import local_volumes, objects, quantity
from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource
from alcove.api.objects import Object
from alcove.api.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from alcove.api.validation import same
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.admission.default_classes import BETA_STORAGE_CLASS
from alcove.apiserver.reader import CacheReader

FINALIZERS = {
    PERSISTENT_VOLUME_CLAIMS: "kubernetes.io/pvc-protection",
    PERSISTENT_VOLUMES: "kubernetes.io/pv-protection",
}
_ON_NODES = ("hostPath", "local")


class StorageProtection(Plugin):
    """Adds the protection finalizer to new claims and volumes: they are not deleted while they are in use."""

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE and resource in FINALIZERS and not subresource

    async def admit(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        finalizer, meta = FINALIZERS[attributes.resource], objects.metadata(attributes.obj)
        existing = meta.get("finalizers") or []
        if finalizer not in existing:
            meta["finalizers"] = [*existing, finalizer]


class LocalVolumeAdmission(Plugin):
    """Only ring0 may create volumes that are directories of a node, so that no tenant can access a node's files.

    Of the local volumes that ring0 creates for them, tenants may change the claim and the reclaim policy, but
    not the location, the size, and the finalizer that ensures that the volume is wiped.
    """

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return resource == PERSISTENT_VOLUMES and operation in (Operation.CREATE, Operation.UPDATE)

    async def validate(self, attributes: Attributes) -> None:
        if attributes.identity.tenant == SYSTEM:
            return
        message = _violation(attributes.obj or {}, attributes.old or {})
        if message:
            raise Forbidden.of(PERSISTENT_VOLUMES, attributes.name, message)


def _violation(new: Object, old: Object) -> str:
    for source in _ON_NODES:
        # The kind's validation makes a volume's source immutable too; this does not depend on it.
        if objects.get(new, "spec", source) is not None and not same(
            objects.get(new, "spec", source), objects.get(old, "spec", source)
        ):
            return f"{source} volumes can only be created by the system; use a claim with a storage class"
    if objects.labels(new).get(local_volumes.NODE_LABEL) != objects.labels(old).get(local_volumes.NODE_LABEL):
        return f"the label {local_volumes.NODE_LABEL} can only be set by the system"
    if _has_finalizer(new) != _has_finalizer(old):
        return f"the finalizer {local_volumes.FINALIZER} can only be set by the system"
    if local_volumes.is_local(old) and not same(
        objects.get(new, "spec", "capacity"), objects.get(old, "spec", "capacity")
    ):
        return "the size of a local volume follows its claim"
    return ""


def _has_finalizer(volume: Object) -> bool:
    return local_volumes.FINALIZER in objects.get(volume, "metadata", "finalizers", default=())


class ClaimResize(Plugin):
    """A claim may grow only if it is bound and its class allows volume expansion."""

    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.UPDATE and resource == PERSISTENT_VOLUME_CLAIMS and not subresource

    async def validate(self, attributes: Attributes) -> None:
        new, old = attributes.obj or {}, attributes.old or {}
        if _size(new) <= _size(old):
            return
        message = ""
        if objects.get(old, "status", "phase") != "Bound":
            message = "Only bound persistent volume claims can be expanded"
        elif not self._grows(attributes, new, old):
            message = (
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the "
                "pvc must support resize"
            )
        if message:
            raise Forbidden.of(PERSISTENT_VOLUME_CLAIMS, attributes.name, message)

    def _grows(self, attributes: Attributes, new: Object, old: Object) -> bool:
        name = _class_name(new)
        if not name or name != _class_name(old):
            return False
        chosen = self._reader.get(attributes.tenant, STORAGE_CLASSES, "", name)
        return chosen is not None and bool(chosen.get("allowVolumeExpansion"))


def _size(claim: Object) -> quantity.Quantity:
    return quantity.of(objects.get(claim, "spec", "resources", "requests", "storage", default="0"))


def _class_name(claim: Object) -> str:
    return str(
        objects.annotations(claim).get(BETA_STORAGE_CLASS)
        or objects.get(claim, "spec", "storageClassName")
        or ""
    )
