"""Creates the service account `default` in every namespace that is not terminating."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.errors import AlreadyExists
from alcove.api.objects import Object
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
        self.on(self._namespaces, self._lacking)
        self.on(self._accounts, self._of_deleted)

    # Most namespaces lack nothing, and are not enqueued: at a start there may be a hundred thousand of them.

    def _lacking(self, change: ObjectChange) -> Iterable[ObjectKey]:
        key = change.key
        if change.kind is not ChangeType.DELETED and not _is_terminating(change.obj):
            return () if key.of(NAME, key.name) in self._accounts else (key,)
        return ()

    def _of_deleted(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """The namespace whose account was deleted, unless it goes itself."""
        if change.kind is ChangeType.DELETED and change.key.name == NAME:
            key = change.key.of(change.key.namespace, "")
            namespace = self._namespaces.get(key)
            if namespace is not None and not _is_terminating(namespace):
                yield key

    async def reconcile(self, key: ObjectKey) -> Result:
        namespace = self._namespaces.get(key)
        if namespace is None or _is_terminating(namespace):
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


def _is_terminating(namespace: Object) -> bool:
    return "deletionTimestamp" in namespace["metadata"]
