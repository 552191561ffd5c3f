"""Every living namespace has the config map `kube-root-ca.crt`: what its pods trust the API server by."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.errors import AlreadyExists
from alcove.api.objects import Object
from alcove.client.changes import ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import CONFIG_MAPS, NAMESPACES
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result

NAME = "kube-root-ca.crt"
_TOLD = {
    "kubernetes.io/description": "The certificate that verifies the API server as pods of this cluster "
    "reach it; it is written by a controller, and changes to it are undone."
}


class RootCaController(Controller):
    name = "root-ca-cert-publisher"
    resource = NAMESPACES
    workers = 16

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._namespaces = self.mirror(NAMESPACES)
        self._maps = self.mirror(CONFIG_MAPS, fields=f"metadata.name={NAME}")
        self.on(self._namespaces)
        self.on(self._maps, _namespace_of)

    async def reconcile(self, key: ObjectKey) -> Result:
        namespace = self._namespaces.get(key)
        if namespace is None or "deletionTimestamp" in namespace["metadata"]:
            return DONE
        authority = self.context.authorities.get(key.plane)
        if authority is None:
            return DONE
        there = self._maps.get(key.of(NAME, key.name))
        if there is None:
            await self._make(key, authority)
        elif there.get("data") != {"ca.crt": authority}:
            there["data"] = {"ca.crt": authority}
            there.pop("binaryData", None)
            await self.client(key).update(key.tenant, CONFIG_MAPS, there)
        return DONE

    async def _make(self, key: ObjectKey, authority: str) -> None:
        desired: Object = {
            "metadata": {"name": NAME, "namespace": key.name, "annotations": _TOLD},
            "data": {"ca.crt": authority},
        }
        try:
            await self.client(key).create(key.tenant, CONFIG_MAPS, desired)
        except AlreadyExists:
            pass  # Somebody was faster, and the watch will tell what they wrote.


def _namespace_of(change: ObjectChange) -> Iterable[ObjectKey]:
    yield change.key.of(change.key.namespace, "")
