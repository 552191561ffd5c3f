"""Deletes token secrets whose service account no longer exists. The API server issues the tokens."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.errors import NotFound
from alcove.api.objects import Object
from alcove.client.changes import ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import SECRETS, SERVICE_ACCOUNTS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.deletion import delete_if_unchanged

TYPE = "kubernetes.io/service-account-token"
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"
ACCOUNT = "account"


def without_data(secret: Object) -> Object:
    """The secret's metadata only, so that no secret data is cached."""
    metadata = secret["metadata"]
    fields = ("tenant", "namespace", "name", "uid", "resourceVersion", "annotations")
    return {"metadata": {field: metadata[field] for field in fields if field in metadata}}


def _account(secret: Object) -> Iterable[str]:
    metadata = secret["metadata"]
    return [f"{metadata['namespace']}/{objects.annotations(secret).get(ACCOUNT_NAME, '')}"]


class TokenSecretController(Controller):
    name = "serviceaccount-token"
    resource = SECRETS
    workers = 4

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._secrets = self.mirror(SECRETS, {ACCOUNT: _account}, fields=f"type={TYPE}", trim=without_data)
        self._accounts = self.mirror(SERVICE_ACCOUNTS)
        self.on(self._secrets)
        self.on(self._accounts, self._secrets_of)

    def _secrets_of(self, change: ObjectChange) -> Iterable[ObjectKey]:
        key = change.key
        return self._secrets.find_keys(ACCOUNT, key.plane, key.tenant, f"{key.namespace}/{key.name}")

    async def reconcile(self, key: ObjectKey) -> Result:
        secret = self._secrets.get(key)
        if secret is None or is_for(secret, self._accounts.get(_account_key(key, secret))):
            return DONE
        if not is_for(secret, await self._read_account(key, secret)):
            await delete_if_unchanged(self.client(key), SECRETS, key, secret["metadata"])
        return DONE

    async def _read_account(self, key: ObjectKey, secret: Object) -> Object | None:
        """Reads the account from the server, because the mirror may not have a new one yet."""
        name = objects.annotations(secret).get(ACCOUNT_NAME, "")
        if not name:
            return None
        try:
            return await self.client(key).get(key.tenant, SERVICE_ACCOUNTS, name, namespace=key.namespace)
        except NotFound:
            return None


def _account_key(key: ObjectKey, secret: Object) -> ObjectKey:
    return key.of(objects.annotations(secret).get(ACCOUNT_NAME, ""))


def is_for(secret: Object, account: Object | None) -> bool:
    """Whether the secret belongs to this account and not to an earlier one with the same name."""
    if account is None:
        return False
    uid = objects.annotations(secret).get(ACCOUNT_UID)
    return not uid or uid == account["metadata"]["uid"]
