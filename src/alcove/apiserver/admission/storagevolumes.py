"""Volumes that are folders of a node are ring0's to make: no tenant reaches a node's files by writing one.

Of the volumes that ring0 makes for them, tenants may change what is theirs (which claim, what becomes of
it), but not where it is, how large it is, and that it is wiped.
"""

from alcove.api import local_volumes
from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource
from alcove.api.objects import Object, get, labels
from alcove.api.validation import same
from alcove.apiserver.admission.base import Attributes, Operation, Plugin

VOLUMES = GroupResource("", "persistentvolumes")
_ON_NODES = ("hostPath", "local")


class LocalVolumeAdmission(Plugin):
    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return resource == VOLUMES and operation in (Operation.CREATE, Operation.UPDATE)

    async def validate(self, attributes: Attributes) -> None:
        if attributes.identity.tenant == SYSTEM:
            return
        message = _fault(attributes.obj or {}, attributes.old or {})
        if message:
            raise Forbidden.of(VOLUMES, attributes.name, message)


def _fault(new: Object, old: Object) -> str:
    for source in _ON_NODES:
        # The kind's validation keeps a volume's source as it is; this keeps it so whatever that says.
        if get(new, "spec", source) is not None and not same(
            get(new, "spec", source), get(old, "spec", source)
        ):
            return f"{source} volumes are made by the system only; claim one of a storage class instead"
    if labels(new).get(local_volumes.NODE_LABEL) != labels(old).get(local_volumes.NODE_LABEL):
        return f"the label {local_volumes.NODE_LABEL} is the system's to write"
    if _holds(new) != _holds(old):
        return f"the finalizer {local_volumes.FINALIZER} is the system's to write"
    if local_volumes.is_local(old) and not same(get(new, "spec", "capacity"), get(old, "spec", "capacity")):
        return "the size of a local volume follows its claim"
    return ""


def _holds(volume: Object) -> bool:
    return local_volumes.FINALIZER in get(volume, "metadata", "finalizers", default=())
