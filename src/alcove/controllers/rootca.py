"""Publishes the config map `kube-root-ca.crt`, with which pods verify the API server, in every namespace
that is not terminating. It has the authority of the API server that serves the tenant, and of the one that the tenant may move to
or has come from."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.errors import AlreadyExists
from alcove.api.objects import Object, get
from alcove.client.keys import HOME, ObjectKey
from alcove.client.resources import CONFIG_MAPS, NAMESPACES, TENANTS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.tenants.controller import tenant_key

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
        self._tenants = self.mirror(TENANTS)
        self._maps = self.mirror(CONFIG_MAPS, fields=f"metadata.name={NAME}")
        self.on(self._namespaces, lambda change: self._if_due(change.key))
        self.on(self._maps, lambda change: self._if_due(change.key.of(change.key.namespace, "")))

    def _if_due(self, key: ObjectKey) -> Iterable[ObjectKey]:
        """The namespace, unless it has what it needs, as most have: at a start there may be a hundred thousand of them."""
        if not self._is_kept(key):
            return ()
        existing, authority = self._maps.get(key.of(NAME, key.name)), self._authorities(key)
        return () if existing is not None and existing.get("data") == {"ca.crt": authority} else (key,)

    def _is_kept(self, key: ObjectKey) -> bool:
        namespace = self._namespaces.get(key)
        return namespace is not None and "deletionTimestamp" not in namespace["metadata"]

    async def reconcile(self, key: ObjectKey) -> Result:
        if not self._is_kept(key):
            return DONE
        authority = self._authorities(key)
        if not authority:
            return DONE
        existing = self._maps.get(key.of(NAME, key.name))
        if existing is None:
            await self._create(key, authority)
        elif existing.get("data") != {"ca.crt": authority}:
            existing["data"] = {"ca.crt": authority}
            existing.pop("binaryData", None)
            await self.client(key).update(key.tenant, CONFIG_MAPS, existing)
        return DONE

    def _authorities(self, key: ObjectKey) -> str:
        """Empty if that of the serving API server is not known."""
        known = self.context.authorities
        if key.plane != HOME:
            return known[key.plane] + known.get(HOME, "") if key.plane in known else ""
        tenant = self._tenants.get(tenant_key(key.tenant)) or {}
        further = str(get(tenant, "status", "controlPlane", "certificateAuthority", default=""))
        return known.get(HOME, "") + further

    async def _create(self, key: ObjectKey, authority: str) -> None:
        desired: Object = {
            "metadata": {"name": NAME, "namespace": key.name, "annotations": _ANNOTATIONS},
            "data": {"ca.crt": authority},
        }
        try:
            await self.client(key).create(key.tenant, CONFIG_MAPS, desired)
        except AlreadyExists:
            pass  # Another writer created it; the watch event enqueues the namespace again.
