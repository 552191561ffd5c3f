"""Sets the tenant's default class on an Ingress without one."""

from alcove.api import objects
from alcove.api.ids import GroupResource
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.admission.defaultclass import default_class
from alcove.apiserver.reader import CacheReader

INGRESSES = GroupResource("networking.k8s.io", "ingresses")
CLASSES = GroupResource("networking.k8s.io", "ingressclasses")
IS_DEFAULT = ("ingressclass.kubernetes.io/is-default-class",)
OLD_CLASS = "kubernetes.io/ingress.class"


class DefaultIngressClass(Plugin):
    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE and resource == INGRESSES and not subresource

    async def admit(self, attributes: Attributes) -> None:
        ingress = attributes.obj
        assert ingress is not None
        spec = ingress.setdefault("spec", {})
        if spec.get("ingressClassName") is not None or OLD_CLASS in objects.annotations(ingress):
            return
        if name := default_class(self._reader, attributes.tenant, CLASSES, IS_DEFAULT):
            spec["ingressClassName"] = name
