"""The table of verbs and their handlers, for objects and their subresources."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from alcove.api import objects
from alcove.api.resources import CRDS
from alcove.apiserver.call import ApiCall
from alcove.apiserver.crds import sharing
from alcove.apiserver.resources import (
    body,
    creating,
    deleting,
    listing,
    lookup,
    nodeview,
    patching,
    reading,
    unreadable,
    updating,
    watching,
)
from alcove.apiserver.resources.subresources import Subresources
from alcove.apiserver.services import ApiServerServices
from alcove.http.messages import HttpResponse

Answer = HttpResponse | Awaitable[HttpResponse]
Handler = Callable[[ApiServerServices, ApiCall], Answer]

VERBS: dict[str, Handler] = {
    "get": reading.get,
    "list": listing.list_objects,
    "watch": watching.watch_objects,
    "create": creating.create,
    "update": updating.update,
    "patch": patching.patch,
    "delete": deleting.delete,
    "deletecollection": deleting.delete_collection,
}


_WRITES = frozenset({"create", "update", "patch", "delete"})


class ResourceHandlers:
    def __init__(self, services: ApiServerServices, subresources: Subresources) -> None:
        self._services = services
        self._subresources = subresources

    def answer(self, call: ApiCall) -> Answer:
        if self._services.unreadable and (instead := unreadable.check(self._services, call)) is not None:
            return instead
        if call.kind.warning:
            call.warnings.append(call.kind.warning)
        if call.verb in _WRITES and call.kind.group_resource == CRDS:
            return self._change_definition(call)
        return self._handle(call)

    def reads_stored(self, call: ApiCall) -> bool:
        """Whether a GET is answered with the stored bytes of its object, and always will be."""
        return (
            call.verb == "get"
            and not call.target.subresource
            and not call.kind.warning
            and self._subresources.virtual(call) is None
            and not nodeview.applies(call)
            and not lookup.is_overlaid(call.tenant, call.kind.storage_resource)
            and call.kind.storage_resource != CRDS
            and reading.is_verbatim(call)
            # Those of custom kinds may change.
            and self._services.registry.find(call.kind.group, call.kind.version, call.kind.resource)
            is call.kind
        )

    async def _change_definition(self, call: ApiCall) -> HttpResponse:
        # A create has the object's name only in its body.
        name = call.target.name or objects.name(await body.read(self._services, call))
        sharing.check_write(self._services.cache, call.tenant, call.verb, name)
        call.warnings.clear()
        answer = self._handle(call)
        return answer if isinstance(answer, HttpResponse) else await answer

    def _handle(self, call: ApiCall) -> Answer:
        if call.target.subresource:
            return self._subresources.answer(call)
        virtual = self._subresources.virtual(call)
        if virtual is not None:
            return virtual(call)
        if nodeview.applies(call):
            return nodeview.VERBS[call.verb](self._services, call)
        return VERBS[call.verb](self._services, call)
