"""A claim that names no storage class gets the tenant's default one."""

from alcove.api import objects
from alcove.api.ids import GroupResource
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.reader import Reader

CLAIMS = GroupResource("", "persistentvolumeclaims")
CLASSES = GroupResource("storage.k8s.io", "storageclasses")
IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"
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
        marked = [
            each
            for each in self._reader.list(attributes.tenant, CLASSES)
            if objects.annotations(each).get(IS_DEFAULT) == "true"
        ]
        if marked:
            newest = max(
                marked, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"])
            )
            spec["storageClassName"] = newest["metadata"]["name"]
