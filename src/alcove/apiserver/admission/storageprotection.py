"""Adds the protection finalizer to new claims and volumes: they are not deleted while they are in use."""

from alcove.api.ids import GroupResource
from alcove.api.objects import metadata
from alcove.apiserver.admission.base import Attributes, Operation, Plugin

FINALIZERS = {
    GroupResource("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    GroupResource("", "persistentvolumes"): "kubernetes.io/pv-protection",
}


class StorageProtection(Plugin):
    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE and resource in FINALIZERS and not subresource

    async def admit(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        finalizer, meta = FINALIZERS[attributes.resource], metadata(attributes.obj)
        existing = meta.get("finalizers") or []
        if finalizer not in existing:
            meta["finalizers"] = [*existing, finalizer]
