"""Claims and volumes that are in use stay until they are not: new ones get the finalizer that says so."""

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
        wanted, held = FINALIZERS[attributes.resource], metadata(attributes.obj)
        there = held.get("finalizers") or []
        if wanted not in there:
            held["finalizers"] = [*there, wanted]
