"""Sets the class that a tenant annotated as its default on claims and Ingresses without one."""

from collections.abc import Sequence

from alcove.api import objects
from alcove.api.ids import GroupResource, TenantId
from alcove.api.resources import INGRESS_CLASSES, INGRESSES, PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.admission.derived import DerivedCache
from alcove.apiserver.reader import CacheReader

IS_DEFAULT_STORAGE = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"

IS_DEFAULT_INGRESS = ("ingressclass.kubernetes.io/is-default-class",)
OLD_INGRESS_CLASS = "kubernetes.io/ingress.class"


class DefaultStorageClass(Plugin):
    def __init__(self, reader: CacheReader) -> None:
        def find(tenant: TenantId) -> str:
            return default_class(reader, tenant, STORAGE_CLASSES, IS_DEFAULT_STORAGE)

        self._default = DerivedCache(reader, STORAGE_CLASSES, find)

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE and resource == PERSISTENT_VOLUME_CLAIMS and not subresource

    async def admit(self, attributes: Attributes) -> None:
        claim = attributes.obj
        assert claim is not None
        spec = claim["spec"]
        # An empty name is a choice: it requests a volume without a class.
        if spec.get("storageClassName") is not None or BETA_STORAGE_CLASS in objects.annotations(claim):
            return
        if name := self._default.of(attributes.tenant):
            spec["storageClassName"] = name


class DefaultIngressClass(Plugin):
    def __init__(self, reader: CacheReader) -> None:
        def find(tenant: TenantId) -> str:
            return default_class(reader, tenant, INGRESS_CLASSES, IS_DEFAULT_INGRESS)

        self._default = DerivedCache(reader, INGRESS_CLASSES, find)

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE and resource == INGRESSES and not subresource

    async def admit(self, attributes: Attributes) -> None:
        ingress = attributes.obj
        assert ingress is not None
        spec = ingress.setdefault("spec", {})
        if spec.get("ingressClassName") is not None or OLD_INGRESS_CLASS in objects.annotations(ingress):
            return
        if name := self._default.of(attributes.tenant):
            spec["ingressClassName"] = name


def default_class(reader: CacheReader, tenant: TenantId, resource: GroupResource, keys: Sequence[str]) -> str:
    """The name of the newest class with an annotation of `keys`; of several, the first by name. Empty if
    none."""
    marked = [
        each["metadata"]
        for each in reader.list(tenant, resource)
        if any(objects.annotations(each).get(key) == "true" for key in keys)
    ]
    newest = max((each["creationTimestamp"] for each in marked), default="")
    return min((each["name"] for each in marked if each["creationTimestamp"] == newest), default="")
