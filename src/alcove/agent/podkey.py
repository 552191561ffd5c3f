"""The identity of a pod on a node. Two pods of one name, one after the other or on two planes, are two."""

from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME, ObjectKey, PlaneId


class PodKey(Struct, frozen=True):
    plane: PlaneId
    tenant: TenantId
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, key: ObjectKey, pod: Object) -> "PodKey":
        return cls(key.plane, key.tenant, key.namespace, key.name, pod["metadata"]["uid"])

    @property
    def object_key(self) -> ObjectKey:
        """Where its object is looked for; what is found there may be a later pod of the same name."""
        return ObjectKey(self.plane, self.tenant, self.namespace, self.name)

    def __str__(self) -> str:
        text = f"{self.tenant}/{self.namespace}/{self.name} ({self.uid})"
        return text if self.plane == HOME else f"{self.plane}:{text}"
