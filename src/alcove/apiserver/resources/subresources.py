"""The table of subresources and their handlers, and the handlers of kinds that are never stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from alcove.api import objects
from alcove.api.errors import NotAcceptable
from alcove.api.ids import GroupVersionKind
from alcove.api.objects import Object
from alcove.apiserver.admission import noderestriction
from alcove.apiserver.auth.tokenrequests import TokenRequests
from alcove.apiserver.call import ApiCall
from alcove.apiserver.negotiate import ResponseForm
from alcove.apiserver.planes.tenant_content import TenantContent
from alcove.apiserver.resources import body, patching, pods, reading, scale, updating, writing
from alcove.apiserver.responses import json_response
from alcove.apiserver.reviews import Reviews
from alcove.apiserver.services import ApiServerServices
from alcove.apiserver.sight import sight_api
from alcove.apiserver.sight.sight_api import SightApi
from alcove.apiserver.streams.connect import StreamHandler
from alcove.apiserver.usage import metrics_api
from alcove.apiserver.usage.metrics_api import MetricsApi
from alcove.http.messages import HttpResponse

Answer = HttpResponse | Awaitable[HttpResponse]
Handler = Callable[[ApiServerServices, ApiCall], Answer]

TOKEN_REQUEST = GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest")
REVIEW_GROUPS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
STREAMS = frozenset({"attach", "exec", "log", "portforward", "proxy"})


async def finalize(services: ApiServerServices, call: ApiCall) -> HttpResponse:
    """PUT …/finalize of a namespace or tenant: sets `spec.finalizers`."""
    obj = await body.read(services, call)
    finalizers = objects.get(obj, "spec", "finalizers", default=[])

    async def changed(old: Object) -> Object:
        old["metadata"].pop("resourceVersion", None)
        if revision := obj["metadata"].get("resourceVersion"):
            old["metadata"]["resourceVersion"] = revision
        old.setdefault("spec", {})["finalizers"] = finalizers
        return old

    entry = await updating.change(services, call, call.kind, changed, manager=writing.field_manager(call))
    return await writing.answer(services, call, 200, entry)


HANDLERS: dict[str, dict[str, Handler]] = {
    "status": {"get": reading.get, "update": updating.update, "patch": patching.patch},
    "approval": {"get": reading.get, "update": updating.update, "patch": patching.patch},
    "scale": {"get": scale.get, "update": scale.update, "patch": scale.patch},
    "binding": {"create": pods.bind},
    "eviction": {"create": pods.evict},
    "ephemeralcontainers": {"get": reading.get, "update": pods.change_spec, "patch": pods.change_spec},
    "resize": {"get": reading.get, "update": pods.change_spec, "patch": pods.change_spec},
    "finalize": {"update": finalize},
}


class Subresources:
    def __init__(
        self,
        services: ApiServerServices,
        token_requests: TokenRequests,
        reviews: Reviews,
        streams: StreamHandler,
        usage: MetricsApi,
        sight: SightApi,
        content: TenantContent,
    ) -> None:
        self._services = services
        self._token_requests = token_requests
        self._reviews = reviews
        self._streams = streams
        self._usage = usage
        self._sight = sight
        self._content = content

    def answer(self, call: ApiCall) -> Answer:
        name = call.target.subresource
        if name == "token":
            return self._token(call)
        if name == "content":
            return self._content.answer(call)
        if name in STREAMS:
            return self._streams.answer(call)
        return HANDLERS[name][call.verb](self._services, call)

    def virtual(self, call: ApiCall) -> Callable[[ApiCall], Answer] | None:
        """The handler of a kind whose objects are never stored; None for other kinds."""
        kind = call.kind
        if kind.group in REVIEW_GROUPS:
            return self._review
        if kind.group == metrics_api.GROUP:
            return self._usage.answer
        if kind.group == sight_api.GROUP:
            return self._sight.answer
        if kind.group == "" and kind.resource == "bindings":
            return lambda bound: pods.bind_by_object(self._services, bound)
        return None

    def _token(self, call: ApiCall) -> HttpResponse:
        node = self._services.registry.body(TOKEN_REQUEST)
        assert node is not None
        request = body.read_as(call, node, TOKEN_REQUEST.api_version, TOKEN_REQUEST.kind)
        account_key = (call.tenant, call.namespace, call.target.name)
        noderestriction.check_token(self._services.cache, call.identity, *account_key, request)
        response = self._token_requests.create(*account_key, request, call.warnings)
        return json_response(201, response)

    async def _review(self, call: ApiCall) -> HttpResponse:
        if call.view.form in (ResponseForm.TABLE, ResponseForm.METADATA):
            raise NotAcceptable(
                "reviews have neither metadata nor columns: only application/json is accepted"
            )
        obj = await body.read(self._services, call)
        response = await self._reviews.review(call.kind.kind, obj, call.identity, call.tenant, call.namespace)
        return json_response(201, response)
