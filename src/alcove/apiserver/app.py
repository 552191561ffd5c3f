"""The API server's request pipeline, as one ordered list of steps.

A step returns None to continue, a response to end the request, or an awaitable of either. As long as no step
waits, the whole pipeline is one synchronous call: GETs and LISTs are answered this way.

When several servers share the store, the cache may lack what another server has just written. A request is
therefore never rejected because of a missing write: an error is final only if the cache had every write that
was acknowledged before the request arrived. Otherwise the server catches up with the store and decides again.

Workers of one server know the store's newest revision without asking (`Store.known_revision`). So there every request is
decided with a cache that has all that was acknowledged before it arrived, as in one process.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from time import perf_counter
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
    NotFound,
    TooManyRequests,
)
from alcove.api.ids import TenantId
from alcove.api.kind import Compilation
from alcove.apiserver import fencing, freshness, paths, resolve
from alcove.apiserver.aggregation.proxying import ExtensionProxy
from alcove.apiserver.auth.authenticate import PUBLIC_PATHS, VERSION_PATHS, Authenticator
from alcove.apiserver.auth.impersonate import headers_of, impersonate
from alcove.apiserver.auth.oidc.oidc_tokens import TokenNotVerified
from alcove.apiserver.auth.tokens import BoundObjectMissing
from alcove.apiserver.call import ApiCall
from alcove.apiserver.flow import FlowController
from alcove.apiserver.identity import Identity
from alcove.apiserver.known_reads import KnownReads
from alcove.apiserver.metering import LoopMeter
from alcove.apiserver.planes.closed_tenants import ClosedTenants
from alcove.apiserver.planes.proxy import PlaneProxy
from alcove.apiserver.rbac.authorize import Authorizer, NotCompiled
from alcove.apiserver.rbac.nodes import node_name
from alcove.apiserver.request_buffering import RequestBuffering
from alcove.apiserver.request_recorder import RequestRecorder
from alcove.apiserver.requested_access import access_of
from alcove.apiserver.resources.handlers import ResourceHandlers
from alcove.apiserver.responses import error_response
from alcove.apiserver.routes import Routes
from alcove.apiserver.seating import RequestSeats
from alcove.apiserver.services import ApiServerServices
from alcove.apiserver.usage.api_time import ApiTimeMeter
from alcove.apiserver.warning_headers import warning_headers
from alcove.component import request_ids
from alcove.http.connections import ConnectionSlot, network_of
from alcove.http.messages import SLICE_BYTES, WHOLE_BODIES, HttpRequest, HttpResponse
from alcove.http.upload import RequestUpload

log = logging.getLogger(__name__)

Outcome = HttpResponse | None
Step = Callable[[ApiCall], Outcome | Awaitable[Outcome]]

_REQUEST_ID_HEADER = request_ids.HEADER.encode()

_CACHE_DEPENDENT_ERRORS = (BadRequest, Forbidden, NotFound, AlreadyExists, Conflict, Invalid)
"""Errors that a stale cache may cause."""

SYNCHRONOUS_SECONDS = 0.0005
"""Requests that are answered without waiting and take less than this are covered by their seats."""
CONNECTIONS_RETRY_SECONDS = 5


class AppParts(Struct, frozen=True):
    """The components that the pipeline's steps use."""

    services: ApiServerServices
    authenticator: Authenticator
    authorizer: Authorizer
    flow: FlowController
    seats: RequestSeats
    meter: LoopMeter
    buffering: RequestBuffering
    recorder: RequestRecorder
    handlers: ResourceHandlers
    routes: Routes
    extensions: ExtensionProxy
    planes: PlaneProxy
    closed: ClosedTenants
    api_time: ApiTimeMeter


class App:
    def __init__(self, parts: AppParts) -> None:
        self._parts = parts
        self._kinds = parts.services.kinds
        self._clock = parts.services.clock
        self._cache = parts.services.cache
        self._is_shared = parts.services.shared
        self._knows_newest = self._is_shared and parts.services.store.known_revision() is not None
        self._seats = parts.seats
        self.known_reads = KnownReads(
            parts.services,
            parts.authorizer,
            parts.seats,
            parts.buffering,
            parts.recorder,
            parts.handlers,
            parts.planes,
            parts.closed,
            parts.extensions,
        )
        self._request_ids = request_ids.generate()
        self.pipeline: tuple[Step, ...] = (
            self._authenticate,
            self._resolve,
            self._limit,
            parts.planes.forward,
            parts.closed.check,
            *((self._catch_up,) if self._is_shared else ()),
            self._authorize,
            self._prepare_kinds,
            self._receive,
            self._answer,
        )
        self._authorize_index = self.pipeline.index(self._authorize)

    def handle(self, request: HttpRequest) -> HttpResponse | Coroutine[Any, Any, HttpResponse]:
        started = perf_counter()
        if request.known_head is not None:
            response = self._repeat(request, started)
            if response is not None:
                return response
        request_id = request_ids.from_headers(request.headers) or next(self._request_ids)
        try:
            call = ApiCall(request, paths.parse(request.path), self._clock(), request_id)
        except ApiError as error:
            return _with_request_id(error_response(error), request_id)
        call.revision_at_start = self._cache.revision
        if self._knows_newest:
            call.is_current = self._cache.has_newest()
        try:
            outcome = self._run(call, 0)
        except ApiError as error:
            outcome = self._reject(call, error)
        except Exception:
            outcome = _unexpected(call)
        if isinstance(outcome, HttpResponse):
            response = self._finish(call, outcome)
            if request.known_head is not None and call.verb == "get":
                self.known_reads.remember(call, response)
            self._charge(call.identity.tenant if call.verb else None, perf_counter() - started)
            return response
        if call.verb:
            self._parts.api_time.add(call.identity.tenant, perf_counter() - started)
        waiting = self._wait(call, outcome)
        return self._parts.meter.measured(call.identity.tenant, waiting) if call.verb else waiting

    def _repeat(self, request: HttpRequest, started: float) -> HttpResponse | None:
        """The response to a GET that comes again; None if the pipeline has to decide."""
        request_id = next(self._request_ids)
        response = self.known_reads.answer(request, request_id)
        if response is None:
            return None
        caller = request.peer
        assert isinstance(caller, Identity)
        self._charge(caller.tenant, perf_counter() - started)
        return _with_request_id(response, request_id)

    def _charge(self, tenant: TenantId | None, seconds: float) -> None:
        """Charges the time of a request that was answered without waiting; nobody, if it was of no tenant."""
        if tenant is not None and seconds > SYNCHRONOUS_SECONDS:
            self._parts.meter.record(tenant, seconds)
            return
        self._parts.meter.add(seconds)
        if tenant is not None:
            self._parts.api_time.add(tenant, seconds)

    def _run(self, call: ApiCall, first: int) -> HttpResponse | Coroutine[Any, Any, HttpResponse]:
        for index in range(first, len(self.pipeline)):
            outcome = self.pipeline[index](call)
            if outcome is None:
                continue
            if isinstance(outcome, HttpResponse):
                return outcome
            return self._resume(call, outcome, index + 1)
        raise AssertionError("the last pipeline step must return a response")

    async def _resume(self, call: ApiCall, pending: Awaitable[Outcome], next_index: int) -> HttpResponse:
        outcome = await pending
        if outcome is None:
            rest = self._run(call, next_index)
            return rest if isinstance(rest, HttpResponse) else await rest
        return outcome

    async def _wait(self, call: ApiCall, outcome: Coroutine[Any, Any, HttpResponse]) -> HttpResponse:
        # Each waiting request has a task, so this context variable ends with the request.
        request_ids.current.set(call.request_id)
        try:
            response = await self._settle(call, outcome)
        except Exception:
            response = _unexpected(call)
        except BaseException:
            self._seats.release(call)
            self._parts.buffering.release(call)
            raise
        self._parts.buffering.release(call)
        return self._finish(call, response)

    async def _settle(
        self, call: ApiCall, outcome: HttpResponse | Coroutine[Any, Any, HttpResponse]
    ) -> HttpResponse:
        while not isinstance(outcome, HttpResponse):
            try:
                outcome = await outcome
            except ApiError as error:
                outcome = self._reject(call, error)
        return outcome

    def _reject(self, call: ApiCall, error: ApiError) -> HttpResponse | Coroutine[Any, Any, HttpResponse]:
        """Returns the error response, or a coroutine that decides again if a stale cache may have caused the
        error."""
        is_final = call.is_current or not call.seats or not isinstance(error, _CACHE_DEPENDENT_ERRORS)
        return self._decide_again(call, error) if self._is_shared and not is_final else error_response(error)

    async def _decide_again(self, call: ApiCall, error: ApiError) -> HttpResponse:
        """Catches up with the store and runs the pipeline again from authorization on.

        The request keeps its seats meanwhile. Raises `error` if the cache had missed nothing.
        """
        revision_at_start = call.revision_at_start
        await self._parts.services.catch_up()
        call.is_current = True
        if self._cache.revision == revision_at_start:
            raise error
        call.start_over()
        rest = self._run(call, self._authorize_index)
        return rest if isinstance(rest, HttpResponse) else await rest

    def _finish(self, call: ApiCall, response: HttpResponse) -> HttpResponse:
        body = response.body
        size = len(body) if isinstance(body, WHOLE_BODIES) else 0
        if size > SLICE_BYTES and call.verb:
            response = self._parts.buffering.send(call, response, size, partial(self._seats.release, call))
        else:
            self._seats.release(call)
        if call.flow is not None:
            response.headers = [*(response.headers or ()), *call.flow.headers()]
        if call.warnings:
            response.headers = [*(response.headers or ()), *warning_headers(call.warnings)]
        self._parts.recorder.finish(call, _with_request_id(response, call.request_id))
        return response

    # The steps

    def _authenticate(self, call: ApiCall) -> Outcome | Awaitable[Outcome]:
        request = call.request
        if call.target.path in PUBLIC_PATHS and request.method in ("GET", "HEAD") and _is_anonymous(call):
            return self._parts.routes.public(call)
        try:
            self._identify(call, now=True)
        except NotCompiled as error:
            return self._compile_roles(error.tenant, partial(self._identify, call))
        except TokenNotVerified as error:
            return self._verify_token(call, error)
        except (BoundObjectMissing, Forbidden) as error:
            if not self._is_shared:
                raise
            tenant = error.tenant if isinstance(error, BoundObjectMissing) else call.caller.tenant
            return self._identify_again(call, tenant)
        return None

    async def _verify_token(self, call: ApiCall, error: TokenNotVerified) -> Outcome:
        """Authenticates with a token of an OIDC issuer, whose first use takes long."""
        await self._parts.authenticator.verify(error, network_of(call.request.address))
        self._identify(call)
        return None

    async def _identify_again(self, call: ApiCall, tenant: TenantId) -> Outcome:
        """Authenticates with a cache that has all writes: another server may just have created the object
        that the token is bound to, or the role that allows impersonation."""
        async with self._parts.flow.seat(tenant):
            await self._parts.services.catch_up()
        call.is_current = True
        self._identify(call)
        return None

    async def _compile_roles(self, tenant: TenantId, decide: Callable[[], None]) -> Outcome:
        """Compiles large roles that have changed, and decides then."""
        await self._parts.authorizer.compile(tenant, self._parts.services.threads.run)
        decide()
        return None

    def _identify(self, call: ApiCall, *, now: bool = False) -> None:
        request = call.request
        certificate = request.peer
        if isinstance(certificate, ApiError):
            if "authorization" not in request.headers:
                raise certificate
            certificate = None
        assert certificate is None or isinstance(certificate, Identity)
        caller = call.caller = call.identity = self._parts.authenticator.authenticate(
            request.headers, certificate, call.target.tenant
        )
        connection = request.connection
        if connection is not None and connection.group != caller.tenant:
            _claim(connection, call)
        if "impersonate-" in "\n".join(request.headers):  # The cheapest test for any such header.
            call.identity = impersonate(
                call.caller, headers_of(request.fields), self._parts.authorizer, now=now
            )

    def _resolve(self, call: ApiCall) -> Outcome:
        call.tenant = call.target.tenant or call.identity.tenant
        call.verb = resolve.verb_of(call) if call.target.is_resource else resolve.path_verb_of(call)
        # From here on the request is counted and audited, even if it is rejected.
        self._parts.recorder.begin(call)
        resolve.check_reach(call)
        return None

    def _limit(self, call: ApiCall) -> Outcome | Awaitable[Outcome]:
        self._parts.buffering.check(call)
        return self._seats.take(call)

    def _catch_up(self, call: ApiCall) -> Outcome | Awaitable[Outcome]:
        """Lets the cache catch up before a request that is answered from it (`freshness.needs_newest`); before any request if
        that costs nothing."""
        if call.is_current or not (self._knows_newest or freshness.needs_newest(call)):
            return None
        return self._wait_for_newest(call)

    async def _wait_for_newest(self, call: ApiCall) -> Outcome:
        await self._parts.services.catch_up()
        call.is_current = True
        if self._knows_newest:
            # The account that a token is bound to may have been deleted.
            self._identify(call)
        return None

    def _authorize(self, call: ApiCall) -> Outcome | Awaitable[Outcome]:
        try:
            self._decide(call, now=True)
        except NotCompiled as error:
            return self._compile_roles(error.tenant, partial(self._decide, call))
        return None

    def _decide(self, call: ApiCall, *, now: bool = False) -> None:
        if call.is_allowed_by_plane:
            return
        access = access_of(call)
        self._parts.authorizer.require(call.identity, access, now=now)
        if call.verb == "watch" and node_name(call.identity):
            # A node's right that follows from a pod ends with the pod, which may be before the watch ends.
            call.is_still_allowed = partial(self._parts.authorizer.allows, call.identity, access)

    def _prepare_kinds(self, call: ApiCall) -> Outcome | Awaitable[Outcome]:
        """Has the kinds of a tenant with many new CRDs, as after a start, compiled beside the event loop."""
        prepare = self._kinds.preparation(call.tenant)
        return self._prepare(call, prepare) if prepare is not None else None

    async def _prepare(self, call: ApiCall, prepare: Callable[[], None]) -> Outcome:
        await self._parts.services.threads.run(call.identity.tenant, prepare)
        return None

    def _receive(self, call: ApiCall) -> Outcome | Awaitable[Outcome]:
        """Receives a body that is too long to be received before the request is admitted; proxied requests
        pass it on instead."""
        upload = call.request.upload
        if upload is None or call.reserved_bytes or call.target.subresource == "proxy":
            return None
        if self._parts.extensions.find(call) is not None:
            return None
        return self._receive_body(call, upload)

    async def _receive_body(self, call: ApiCall, upload: RequestUpload) -> Outcome:
        self._parts.buffering.reserve(call, upload)
        # The client may send slowly, which is no work of this server.
        self._seats.release(call)
        await self._parts.buffering.receive(call, upload)
        waiting = self._seats.take(call)
        if waiting is not None:
            await waiting
        return None

    def _answer(self, call: ApiCall) -> Outcome | Awaitable[Outcome]:
        target = call.target
        # Nobody else serves the core group.
        registration = self._parts.extensions.find(call) if target.group or not target.resource else None
        if registration is not None:
            return self._parts.extensions.answer(call, registration)
        if not target.resource:
            return self._parts.routes.answer(call)
        call.kind = resolve.kind_of(self._kinds, call)
        if fencing.HEADER in call.request.headers:
            fencing.check(self._parts.services.cache, call)
        compilation = call.kind.compilation
        if compilation is not None and not compilation.is_done:
            return self._compile(call, compilation)
        return self._parts.handlers.answer(call)

    async def _compile(self, call: ApiCall, compilation: Compilation) -> Outcome:
        """Compiles the schema of a custom resource before its first use."""
        await self._parts.services.threads.run(call.identity.tenant, compilation.run)
        answer = self._parts.handlers.answer(call)
        return answer if isinstance(answer, HttpResponse) else await answer


def _is_anonymous(call: ApiCall) -> bool:
    """Whether a public path is answered without looking at the caller. The version is, if there are no credentials:
    clients that have some learn from the answer how their requests are classified."""
    request = call.request
    return call.target.path not in VERSION_PATHS or (
        request.peer is None and "authorization" not in request.headers
    )


def _claim(connection: ConnectionSlot, call: ApiCall) -> None:
    """Counts the connection for the caller's tenant. Raises TooManyRequests."""
    tenant = call.caller.tenant
    if not connection.claim(tenant):
        call.request.keep_alive = False
        message = (
            f'tenant "{tenant}" has too many connections open to this server; close some, or try again later'
        )
        raise TooManyRequests.after(CONNECTIONS_RETRY_SECONDS, message)


def _with_request_id(response: HttpResponse, request_id: str) -> HttpResponse:
    """Adds the header with the request's id, by which the client finds the request in logs."""
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
