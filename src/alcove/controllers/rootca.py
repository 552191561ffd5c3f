"""Publishes the config map `kube-root-ca.crt`, with which pods verify the API server, in every namespace
that is not terminating."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.errors import AlreadyExists
from alcove.api.objects import Object
from alcove.client.changes import ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import CONFIG_MAPS, NAMESPACES
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result

NAME = "kube-root-ca.crt"
_ANNOTATIONS = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the API server from pods "
    "of this cluster. It is managed by a controller; changes to it are reverted."
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
        existing = self._maps.get(key.of(NAME, key.name))
        if existing is None:
            await self._create(key, authority)
        elif existing.get("data") != {"ca.crt": authority}:
            existing["data"] = {"ca.crt": authority}
            existing.pop("binaryData", None)
            await self.client(key).update(key.tenant, CONFIG_MAPS, existing)
        return DONE

    async def _create(self, key: ObjectKey, authority: str) -> None:
        desired: Object = {
            "metadata": {"name": NAME, "namespace": key.name, "annotations": _ANNOTATIONS},
            "data": {"ca.crt": authority},
        }
        try:
            await self.client(key).create(key.tenant, CONFIG_MAPS, desired)
        except AlreadyExists:
            pass  # Another writer created it; the watch event enqueues the namespace again.


def _namespace_of(change: ObjectChange) -> Iterable[ObjectKey]:
    yield change.key.of(change.key.namespace, "")
