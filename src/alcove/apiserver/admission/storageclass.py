"""Storage classes: sets the tenant's default class on a claim without one, and checks whether a claim may
grow."""

from alcove.api import objects, quantity
from alcove.api.errors import Forbidden
from alcove.api.ids import GroupResource
from alcove.api.objects import Object
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.admission.defaultclass import default_class
from alcove.apiserver.reader import CacheReader

CLAIMS = GroupResource("", "persistentvolumeclaims")
CLASSES = GroupResource("storage.k8s.io", "storageclasses")
IS_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


class DefaultStorageClass(Plugin):
    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE and resource == CLAIMS and not subresource

    async def admit(self, attributes: Attributes) -> None:
        claim = attributes.obj
        assert claim is not None
        spec = claim["spec"]
        # An empty name is a choice: it requests a volume without a class.
        if spec.get("storageClassName") is not None or BETA_CLASS in objects.annotations(claim):
            return
        if name := default_class(self._reader, attributes.tenant, CLASSES, IS_DEFAULT):
            spec["storageClassName"] = name


class ClaimResize(Plugin):
    """A claim may grow only if it is bound and its class allows volume expansion."""

    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.UPDATE and resource == CLAIMS and not subresource

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
            raise Forbidden.of(CLAIMS, attributes.name, message)

    def _grows(self, attributes: Attributes, new: Object, old: Object) -> bool:
        name = _class_name(new)
        if not name or name != _class_name(old):
            return False
        chosen = self._reader.get(attributes.tenant, CLASSES, "", name)
        return chosen is not None and bool(chosen.get("allowVolumeExpansion"))


def _size(claim: Object) -> quantity.Quantity:
    return quantity.of(objects.get(claim, "spec", "resources", "requests", "storage", default="0"))


def _class_name(claim: Object) -> str:
    return str(
        objects.annotations(claim).get(BETA_CLASS) or objects.get(claim, "spec", "storageClassName") or ""
    )
