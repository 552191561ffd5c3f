"""Requests for objects whose stored bodies cannot be decrypted: they are in the store, but not in the cache.

Such a request fails and says why; nothing is answered as if the object did not exist. Lists over all tenants
leave it out with a warning, so that one tenant's object does not stop the controllers of the others.
"""

from __future__ import annotations

from collections.abc import Awaitable

import orjson

from alcove.api.errors import InternalError
from alcove.api.ids import ALL, Key
from alcove.apiserver.call import ApiCall
from alcove.apiserver.services import ApiServerServices
from alcove.http.messages import HttpResponse
from alcove.store.base import WriteOp

DELETE_OPTION = "ignoreStoreReadErrorWithClusterBreakingPotential"
"""Kubernetes' option of a delete that does not read the object: its finalizers are ignored."""
_COLLECTION_VERBS = frozenset({"list", "watch", "deletecollection"})


def check(services: ApiServerServices, call: ApiCall) -> Awaitable[HttpResponse] | None:
    """The response to the deletion of an unreadable object, None if the request can be handled as usual.
    Raises InternalError."""
    if call.target.name:
        reason = services.unreadable.find(call.key)
        if reason is None:
            return None
        if call.verb == "delete" and not call.target.subresource and call.flag(DELETE_OPTION):
            return _delete(services, call.key)
        raise _error(call.key, reason)
    if call.verb in _COLLECTION_VERBS:
        resource = call.kind.storage_resource
        if call.tenant == ALL:
            if any(key.resource == resource for key, _ in services.unreadable):
                call.warn([f"some {resource} cannot be decrypted and are not listed"])
            return None
        key = services.unreadable.first(resource, call.tenant, call.list_namespace)
        if key is not None:
            raise _error(key, services.unreadable.find(key) or "")
    return None


def _error(key: Key, reason: str) -> InternalError:
    where = f" in the namespace {key.namespace}" if key.namespace else ""
    return InternalError(f'{key.resource} "{key.name}"{where} cannot be decrypted: {reason}')


async def _delete(services: ApiServerServices, key: Key) -> HttpResponse:
    revision = await services.store.write([WriteOp(key, None)])
    await services.cache.reached(revision)
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return HttpResponse(200, orjson.dumps(status))
