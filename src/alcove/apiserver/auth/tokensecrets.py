"""Secrets of type `kubernetes.io/service-account-token`: admission adds the token.

In Kubernetes a controller with the signing key does this; here the key stays in the API server, and the
Secret has its token when the request returns. The token does not expire: it is valid while the Secret
contains it. A Secret whose service account does not exist stays empty.
"""

import base64

from alcove.api import objects
from alcove.api.ids import GroupResource, TenantId
from alcove.api.objects import Object
from alcove.api.resources import SECRETS, SERVICE_ACCOUNTS
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.auth.tokens import BoundObject, TokenObjectRef, Tokens
from alcove.apiserver.reader import CacheReader

TYPE = "kubernetes.io/service-account-token"
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"


class TokenSecretAdmission(Plugin):
    def __init__(self, reader: CacheReader, tokens: Tokens, authority_pem: bytes) -> None:
        self._reader = reader
        self._tokens = tokens
        self._authority_pem = authority_pem

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        writes = operation in (Operation.CREATE, Operation.UPDATE)
        return writes and resource == SECRETS and not subresource

    async def admit(self, attributes: Attributes) -> None:
        secret = attributes.obj
        if secret is not None and secret.get("type") == TYPE:
            self._fill(attributes.tenant, attributes.namespace, attributes.name, secret)

    def _fill(self, tenant: TenantId, namespace: str, name: str, secret: Object) -> None:
        account_name = objects.annotations(secret).get(ACCOUNT_NAME, "")
        account = self._reader.get(tenant, SERVICE_ACCOUNTS, namespace, account_name)
        name = name or objects.name(secret)
        if account is None or not name:
            return
        uid = account["metadata"]["uid"]
        data = secret.get("data") or {}
        secret["data"] = data
        if not data.get("token") or objects.annotations(secret).get(ACCOUNT_UID) != uid:
            bound = BoundObject(
                tenant, namespace, TokenObjectRef(account_name, uid), secret=TokenObjectRef(name)
            )
            token = self._tokens.issue(bound, self._tokens.audiences(tenant), None)
            data["token"] = _base64(token.encode())
        objects.metadata(secret).setdefault("annotations", {})[ACCOUNT_UID] = uid
        data["ca.crt"] = _base64(self._authority_pem)
        data["namespace"] = _base64(namespace.encode())


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
