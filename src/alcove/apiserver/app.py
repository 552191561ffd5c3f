"""The API server: a request's way through the pipeline, as one list.

A step returns None to go on, a response to end, or an awaitable of either. As long as no step waits,
the whole way is one synchronous call: that is how GETs and LISTs are answered.

Where several servers share the store, the cache may lack what another server wrote a moment ago. So a request
is never refused because of what the cache lacks: a refusal counts only if the cache had every write that was
acknowledged before the request came. Otherwise the server catches up with the store and decides again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from msgspec import Struct

from alcove.api.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    InternalError,
    Invalid,
    NotAcceptable,
    NotFound,
)
from alcove.api.ids import ALL, GroupResource, TenantId
from alcove.apiserver import fencing, flow, paths, resolve
from alcove.apiserver.auth.authenticate import PUBLIC_PATHS, Authenticator
from alcove.apiserver.auth.impersonate import impersonate
from alcove.apiserver.auth.tokens import BoundObjectMissing
from alcove.apiserver.call import ApiCall
from alcove.apiserver.flow import FlowController
from alcove.apiserver.identity import Identity
from alcove.apiserver.negotiate import ResponseForm, negotiate
from alcove.apiserver.rbac.authorize import Access, Authorizer
from alcove.apiserver.rbac.nodes import node_name
from alcove.apiserver.request_recorder import RequestRecorder
from alcove.apiserver.resources.handlers import ResourceHandlers
from alcove.apiserver.resources.subresources import REVIEW_GROUPS, STREAMS
from alcove.apiserver.responses import error_response
from alcove.apiserver.routes import Routes
from alcove.apiserver.services import ApiServerServices
from alcove.component import request_ids
from alcove.http.messages import HttpRequest, HttpResponse, header_safe
from alcove.http.serverconnection import SLICE_BYTES

log = logging.getLogger(__name__)

Outcome = HttpResponse | None
Step = Callable[[ApiCall], Outcome | Awaitable[Outcome]]


_REQUEST_ID_HEADER = request_ids.HEADER.encode()
_COLLECTION_READS = frozenset({"list", "watch", "deletecollection"})
_READS = frozenset({"get", "list", "watch"})
_DISCOVERY_PATHS = ("/api", "/openapi")

_DECIDED_BY_THE_CACHE = (BadRequest, Forbidden, NotFound, AlreadyExists, Conflict, Invalid)
"""Refusals that may be due to what the cache has, or lacks."""


class AppParts(Struct, frozen=True):
    """What the pipeline is made of."""

    services: ApiServerServices
    authenticator: Authenticator
    authorizer: Authorizer
    flow: FlowController
    recorder: RequestRecorder
    handlers: ResourceHandlers
    routes: Routes


class App:
    def __init__(self, parts: AppParts) -> None:
        self._parts = parts
        self._kinds = parts.services.kinds
        self._clock = parts.services.clock
        self._cache = parts.services.cache
        self._is_shared = parts.services.shared
        self._request_ids = request_ids.generate()
        self.pipeline: tuple[Step, ...] = (
            self._authenticate,
            self._resolve,
            self._limit,
            *((self._catch_up,) if self._is_shared else ()),
            self._authorize,
            self._answer,
        )
        self._decides_from = self.pipeline.index(self._authorize)

    def handle(self, request: HttpRequest) -> HttpResponse | Coroutine[Any, Any, HttpResponse]:
        request_id = request_ids.from_headers(request.headers) or next(self._request_ids)
        try:
            call = ApiCall(request, paths.parse(request.path), self._clock(), request_id)
        except ApiError as error:
            return _identified(error_response(error), request_id)
        call.seen = self._cache.revision
        try:
            outcome = self._run(call, 0)
        except ApiError as error:
            outcome = self._refuse(call, error)
        except Exception:
            outcome = _unexpected(call)
        if isinstance(outcome, HttpResponse):
            return self._finish(call, outcome)
        return self._wait(call, outcome)

    def _run(self, call: ApiCall, first: int) -> HttpResponse | Coroutine[Any, Any, HttpResponse]:
        for index in range(first, len(self.pipeline)):
            outcome = self.pipeline[index](call)
            if outcome is None:
                continue
            if isinstance(outcome, HttpResponse):
                return outcome
            return self._resume(call, outcome, index + 1)
        raise AssertionError("the last step answers")

    async def _resume(self, call: ApiCall, waiting: Awaitable[Outcome], following: int) -> HttpResponse:
        outcome = await waiting
        if outcome is None:
            rest = self._run(call, following)
            return rest if isinstance(rest, HttpResponse) else await rest
        return outcome

    async def _wait(self, call: ApiCall, outcome: Coroutine[Any, Any, HttpResponse]) -> HttpResponse:
        # In the task of this one request: it ends with it.
        request_ids.current.set(call.request_id)
        try:
            response = await self._settle(call, outcome)
        except Exception:
            response = _unexpected(call)
        except BaseException:
            self._release(call)
            raise
        return self._finish(call, response)

    async def _settle(
        self, call: ApiCall, outcome: HttpResponse | Coroutine[Any, Any, HttpResponse]
    ) -> HttpResponse:
        while not isinstance(outcome, HttpResponse):
            try:
                outcome = await outcome
            except ApiError as error:
                outcome = self._refuse(call, error)
        return outcome

    def _refuse(self, call: ApiCall, refusal: ApiError) -> HttpResponse | Coroutine[Any, Any, HttpResponse]:
        """The refusal; or the way to decide again, if the cache may not have had all it was to be decided by."""
        is_final = call.is_current or not call.seats or not isinstance(refusal, _DECIDED_BY_THE_CACHE)
        return (
            self._decide_again(call, refusal) if self._is_shared and not is_final else error_response(refusal)
        )

    async def _decide_again(self, call: ApiCall, refusal: ApiError) -> HttpResponse:
        """The caller's seats are held meanwhile. Where nothing was missing, nothing is done twice."""
        seen = call.seen
        await self._parts.services.catch_up()
        call.is_current = True
        if self._cache.revision == seen:
            raise refusal
        call.start_over()
        rest = self._run(call, self._decides_from)
        return rest if isinstance(rest, HttpResponse) else await rest

    def _finish(self, call: ApiCall, response: HttpResponse) -> HttpResponse:
        if call.warnings:
            headers = response.headers or []
            headers += [(b"Warning", b'299 - "%b"' % header_safe(_quoted(text))) for text in call.warnings]
            response.headers = headers
        self._parts.recorder.finish(call, _identified(response, call.request_id))
        if isinstance(response.body, bytes) and len(response.body) > SLICE_BYTES:
            # The work of a large answer is not over before it is written.
            response.done = lambda: self._release(call)
        else:
            self._release(call)
        return response

    def _release(self, call: ApiCall) -> None:
        width, call.seats = call.seats, 0
        if width:
            self._parts.flow.release(call.identity.tenant, width)

    # The steps

    def _authenticate(self, call: ApiCall) -> Outcome | Awaitable[Outcome]:
        request = call.request
        if call.target.path in PUBLIC_PATHS and request.method in ("GET", "HEAD"):
            return self._parts.routes.public(call)
        try:
            self._identify(call)
        except (BoundObjectMissing, Forbidden) as refusal:
            if not self._is_shared:
                raise
            tenant = refusal.tenant if isinstance(refusal, BoundObjectMissing) else call.caller.tenant
            return self._identify_again(call, tenant)
        return None

    async def _identify_again(self, call: ApiCall, tenant: TenantId) -> Outcome:
        """What a token is bound to, or the right to impersonate, may be another server's newest write."""
        async with self._parts.flow.seat(tenant):
            await self._parts.services.catch_up()
        call.is_current = True
        self._identify(call)
        return None

    def _identify(self, call: ApiCall) -> None:
        request = call.request
        certificate = request.peer
        if isinstance(certificate, ApiError):
            if "authorization" not in request.headers:
                raise certificate
            certificate = None
        assert certificate is None or isinstance(certificate, Identity)
        call.caller = call.identity = self._parts.authenticator.authenticate(request.headers, certificate)
        if "impersonate-" in "\n".join(request.headers):  # The cheapest way to find any of them.
            call.identity = impersonate(call.caller, _impersonation(request), self._parts.authorizer)

    def _resolve(self, call: ApiCall) -> Outcome:
        call.tenant = call.target.tenant or call.identity.tenant
        call.verb = resolve.verb_of(call) if call.target.is_resource else resolve.path_verb_of(call)
        # From here on the request is counted and audited, refused or not.
        self._parts.recorder.begin(call)
        resolve.check_reach(call)
        return None

    def _limit(self, call: ApiCall) -> Outcome | Awaitable[Outcome]:
        width = self._width(call)
        if self._parts.flow.try_acquire(call.identity.tenant, width):
            call.seats = width
            return None
        return self._queue(call, width)

    async def _queue(self, call: ApiCall, width: int) -> Outcome:
        await self._parts.flow.acquire(call.identity.tenant, width)
        call.seats = width
        return None

    def _width(self, call: ApiCall) -> int:
        """How much work a request is: the objects that a list goes through, the bytes that a write brings."""
        if call.verb in ("list", "watch", "deletecollection") and call.target.is_resource:
            target = call.target
            resource = GroupResource(target.group, target.resource)
            tenant = None if call.tenant == ALL else call.tenant
            return flow.width(self._parts.services.cache.count(tenant, resource, target.namespace or None))
        return flow.width(size_bytes=len(call.request.body))

    def _catch_up(self, call: ApiCall) -> Outcome | Awaitable[Outcome]:
        """What is answered from the cache, and not only decided by it, has all that any server acknowledged before."""
        if call.is_current or not _needs_newest(call):
            return None
        return self._caught_up(call)

    async def _caught_up(self, call: ApiCall) -> Outcome:
        await self._parts.services.catch_up()
        call.is_current = True
        return None

    def _authorize(self, call: ApiCall) -> Outcome:
        access = _access(call)
        self._parts.authorizer.require(call.identity, access)
        if call.verb == "watch" and node_name(call.identity):
            # What a pod gave a node ends with the pod, not with the watch.
            call.is_still_allowed = partial(self._parts.authorizer.allows, call.identity, access)
        return None

    def _answer(self, call: ApiCall) -> Outcome | Awaitable[Outcome]:
        if not call.target.is_resource:
            return self._parts.routes.answer(call)
        call.kind = resolve.kind_of(self._kinds, call)
        if fencing.HEADER in call.request.headers:
            fencing.check(self._parts.services.cache, call)
        return self._parts.handlers.answer(call)


def _needs_newest(call: ApiCall) -> bool:
    """Whether a stale answer could pass for a true one: reads that name no revision, reviews, streams to a pod,
    deletions of all that is there, and whatever a node does, whose rights follow pods."""
    target = call.target
    if not target.is_resource:
        return target.path.startswith(_DISCOVERY_PATHS)
    if call.verb in _READS:
        return not call.query.get("resourceVersion") or bool(node_name(call.identity))
    return (
        call.verb == "deletecollection"
        or target.group in REVIEW_GROUPS
        or target.subresource in STREAMS
        or bool(node_name(call.identity))
    )


def _impersonation(request: HttpRequest) -> list[tuple[str, str]]:
    """The Impersonate-* headers, each as often as it was sent."""
    return [
        (name.decode("latin-1"), value.decode("utf-8", "replace"))
        for name, value in request.fields
        if name[:12].lower() == b"impersonate-"
    ]


def _access(call: ApiCall) -> Access:
    target = call.target
    if not target.is_resource:
        return Access(call.verb, call.tenant, path=target.path)
    name, fields, labels = target.name, "", ""
    if call.verb in _COLLECTION_READS and call.request.raw_query:
        fields, labels = call.query.get("fieldSelector", ""), call.query.get("labelSelector", "")
        name = name or _selected_name(fields)
    return Access(
        call.verb,
        call.tenant,
        target.group,
        target.resource,
        target.subresource,
        target.namespace,
        name,
        fields=fields,
        labels=labels,
        metadata_only=call.verb in _COLLECTION_READS and _is_metadata(call),
    )


def _is_metadata(call: ApiCall) -> bool:
    try:
        return negotiate(call.request.headers.get("accept", "")) is ResponseForm.METADATA
    except NotAcceptable:
        return False  # Told in its turn.


def _selected_name(fields: str) -> str:
    """A role that names an object also allows to list and watch just that one."""
    if not fields.startswith("metadata.name="):
        return ""
    name = fields.removeprefix("metadata.name=").removeprefix("=")
    return "" if "," in name else name


def _identified(response: HttpResponse, request_id: str) -> HttpResponse:
    """Adds the header by which the client can tell its request in logs."""
    header = (_REQUEST_ID_HEADER, request_id.encode())
    response.headers = [header] if response.headers is None else [*response.headers, header]
    return response


def _unexpected(call: ApiCall) -> HttpResponse:
    request, request_id = call.request, call.request_id
    log.exception(
        "request failed", extra={"method": request.method, "path": request.path, "request_id": request_id}
    )
    return error_response(
        InternalError(f"an unexpected error occurred; see request {request_id} in the API server's log")
    )


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
