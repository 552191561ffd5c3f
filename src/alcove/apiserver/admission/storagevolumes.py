"""Only ring0 may create volumes that are directories of a node, so that no tenant can access a node's files.

Of the local volumes that ring0 creates for them, tenants may change the claim and the reclaim policy, but not
the location, the size, and the finalizer that ensures that the volume is wiped.
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
        message = _violation(attributes.obj or {}, attributes.old or {})
        if message:
            raise Forbidden.of(VOLUMES, attributes.name, message)


def _violation(new: Object, old: Object) -> str:
    for source in _ON_NODES:
        # The kind's validation makes a volume's source immutable too; this does not depend on it.
        if get(new, "spec", source) is not None and not same(
            get(new, "spec", source), get(old, "spec", source)
        ):
            return f"{source} volumes can only be created by the system; use a claim with a storage class"
    if labels(new).get(local_volumes.NODE_LABEL) != labels(old).get(local_volumes.NODE_LABEL):
        return f"the label {local_volumes.NODE_LABEL} can only be set by the system"
    if _has_finalizer(new) != _has_finalizer(old):
        return f"the finalizer {local_volumes.FINALIZER} can only be set by the system"
    if local_volumes.is_local(old) and not same(get(new, "spec", "capacity"), get(old, "spec", "capacity")):
        return "the size of a local volume follows its claim"
    return ""


def _has_finalizer(volume: Object) -> bool:
    return local_volumes.FINALIZER in get(volume, "metadata", "finalizers", default=())
