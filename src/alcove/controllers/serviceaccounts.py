"""Creates the service account `default` in every namespace that is not terminating."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.errors import AlreadyExists
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import NAMESPACES, SERVICE_ACCOUNTS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result

NAME = "default"


class ServiceAccountController(Controller):
    name = "serviceaccount"
    resource = NAMESPACES
    workers = 16

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._namespaces = self.mirror(NAMESPACES)
        self._accounts = self.mirror(SERVICE_ACCOUNTS)
        self.on(self._namespaces)
        self.on(self._accounts, _namespace_of_deleted)

    async def reconcile(self, key: ObjectKey) -> Result:
        namespace = self._namespaces.get(key)
        if namespace is None or "deletionTimestamp" in namespace["metadata"]:
            return DONE
        if key.of(NAME, key.name) not in self._accounts:
            await self._create(key)
        return DONE

    async def _create(self, key: ObjectKey) -> None:
        account = {"metadata": {"name": NAME, "namespace": key.name}}
        try:
            await self.client(key).create(key.tenant, SERVICE_ACCOUNTS, account)
        except AlreadyExists:
            pass


def _namespace_of_deleted(change: ObjectChange) -> Iterable[ObjectKey]:
    if change.kind is ChangeType.DELETED and change.key.name == NAME:
        yield change.key.of(change.key.namespace, "")
