"""A claim that names no storage class gets the tenant's default one."""

from alcove.api import objects
from alcove.api.ids import GroupResource
from alcove.api.objects import Object
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.reader import Reader

CLAIMS = GroupResource("", "persistentvolumeclaims")
CLASSES = GroupResource("storage.k8s.io", "storageclasses")
IS_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


class DefaultStorageClass(Plugin):
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE and resource == CLAIMS and not subresource

    async def admit(self, attributes: Attributes) -> None:
        claim = attributes.obj
        assert claim is not None
        spec = claim["spec"]
        # An empty name is a choice: a volume without a class.
        if spec.get("storageClassName") is not None or BETA_CLASS in objects.annotations(claim):
            return
        marked = [each for each in self._reader.list(attributes.tenant, CLASSES) if _is_default(each)]
        if marked:
            # The newest; of several, the first by name.
            newest = max(each["metadata"]["creationTimestamp"] for each in marked)
            names = [
                each["metadata"]["name"] for each in marked if each["metadata"]["creationTimestamp"] == newest
            ]
            spec["storageClassName"] = min(names)


def _is_default(storage_class: Object) -> bool:
    annotations = objects.annotations(storage_class)
    return any(annotations.get(key) == "true" for key in IS_DEFAULT)
