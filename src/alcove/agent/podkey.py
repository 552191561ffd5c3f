"""The identity of a pod on a node. Pods of the same name, one after the other or on two planes, have
different keys.

A pod keeps its key, and so its containers, directories and addresses, when its tenant moves to another plane: `plane` is where
the pod was when it came to this node. Which plane has its object now is `Planes.serving(tenant)`.
"""

import re
from hashlib import blake2s

from msgspec import Struct, structs

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME, ObjectKey, PlaneId, TenantKey

_is_uuid = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch


class PodKey(Struct, frozen=True):
    plane: PlaneId
    tenant: TenantId
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, key: ObjectKey, pod: Object) -> "PodKey":
        return cls(key.plane, key.tenant, key.namespace, key.name, pod["metadata"]["uid"])

    def on_other_plane(self) -> "PodKey":
        """The key that this pod has if it came to this node before its tenant moved; the same one for ring0, which does not move."""
        return structs.replace(self, plane=PlaneId(self.tenant) if self.plane == HOME else HOME)

    @property
    def object_key(self) -> ObjectKey:
        """The key of the pod's object; the object there may be a later pod of the same name."""
        return ObjectKey(self.plane, self.tenant, self.namespace, self.name)

    @property
    def tenant_key(self) -> TenantKey:
        return TenantKey(self.plane, self.tenant)

    @property
    def directory_name(self) -> str:
        """The pod's name in paths and ids on this node. Other planes choose their uids, so these are
        hashed."""
        if self.plane == HOME and _is_uuid(self.uid):
            return self.uid
        return blake2s(f"{self.plane}\0{self.tenant}\0{self.uid}".encode(), digest_size=16).hexdigest()

    @property
    def tenant_directory_name(self) -> str:
        """The tenant's name in paths on this node."""
        return blake2s(f"{self.plane}\0{self.tenant}".encode(), digest_size=16).hexdigest()

    def __str__(self) -> str:
        text = f"{self.tenant}/{self.namespace}/{self.name} ({self.uid})"
        return text if self.plane == HOME else f"{self.plane}:{text}"
