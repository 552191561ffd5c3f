"""Records each request: its metrics and its line in the audit log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import orjson
from msgspec import Struct

from alcove.api.errors import Forbidden, TooManyRequests
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.apiserver.activity import UserActivity
from alcove.apiserver.audit import AuditEntry, AuditLog, KnownEvent
from alcove.apiserver.call import ApiCall
from alcove.apiserver.identity import Identity
from alcove.apiserver.metrics import ApiServerMetrics, RequestKey, RequestSeries, level_metrics
from alcove.http.messages import JSON, HttpResponse

SWITCHED = 101
EXCEEDED_QUOTA = "exceeded quota: "
"""In the message of a request that a quota refuses, as in Kubernetes."""


class RepeatedRequest(Struct, frozen=True):
    """A request that was answered without the pipeline."""

    started: float
    request_id: str
    tenant: TenantId
    caller: Identity
    address: str
    user_agent: str


class RequestRecorder:
    def __init__(
        self,
        metrics: ApiServerMetrics,
        audit: AuditLog,
        nominal_seats: Callable[[TenantId], Mapping[str, int]],
        activity: UserActivity,
    ) -> None:
        """`nominal_seats` returns the seats of each of a tenant's priority levels."""
        self._metrics = metrics
        self._audit = audit
        self._nominal_seats = nominal_seats
        self._activity = activity

    def begin(self, call: ApiCall) -> None:
        """Call it when the request's target and verb are resolved."""
        call.series = self.series(call)
        call.series.begin()
        self._metrics.tenants.count(call.tenant)
        self._activity.note(call.identity, call.started)

    def series(self, call: ApiCall) -> RequestSeries:
        """The metrics of requests like this one."""
        target = call.target
        scope = "resource" if target.name else "namespace" if target.namespace else "cluster"
        return self._metrics.requests(
            RequestKey(call.verb, target.group, target.version, target.resource, target.subresource, scope)
        )

    def known_event(self, call: ApiCall) -> KnownEvent:
        """For `repeat`: what the events of further successful requests like this one have in common."""
        return KnownEvent(_entry(call, 200, 0.0))

    def repeat(self, known: KnownEvent, series: RequestSeries, request: RepeatedRequest) -> None:
        """Records a successful GET that was answered without the pipeline."""
        seconds = time.time() - request.started
        series.count(200, seconds)
        self._metrics.tenants.count(request.tenant)
        self._activity.note(request.caller, request.started)
        self._audit.record_known(
            known, request.started, seconds, request.request_id, request.address, request.user_agent
        )

    def finish(self, call: ApiCall, response: HttpResponse) -> None:
        if call.series is None:
            return
        now = time.time()
        seconds = now - call.started
        # The duration of a watch is chosen by the client and is no latency.
        call.series.finish(response.status, None if call.verb == "watch" else seconds)
        call.series = None
        reason = self._refused(call, response) if response.status >= 400 else ""
        if response.status == SWITCHED:
            # The stream continues until one side closes it, which is recorded too.
            self._record(call, response.status, seconds, reason, "ResponseStarted")
            response.done = lambda: self._record(call, SWITCHED, time.time() - call.started)
        else:
            self._record(call, response.status, seconds, reason)

    def _refused(self, call: ApiCall, response: HttpResponse) -> str:
        """Counts a request that was refused because of a limit: the rate of the caller's tenant, or a quota of the tenant whose
        object it is. Returns the reason of any error."""
        status = _status(response)
        if response.status == TooManyRequests.code:
            self._metrics.tenants.count_refused(call.identity.tenant, "rate")
        elif response.status == Forbidden.code and EXCEEDED_QUOTA in str(status.get("message", "")):
            self._metrics.tenants.count_refused(call.tenant, "quota")
        return str(status.get("reason", ""))

    def _record(
        self, call: ApiCall, code: int, seconds: float, reason: str = "", stage: str = "ResponseComplete"
    ) -> None:
        self._audit.record(_entry(call, code, seconds, reason, stage))

    async def metrics(self, call: ApiCall) -> HttpResponse:
        """GET /metrics: a tenant reads only what concerns itself, ring0 everything."""
        levels = level_metrics(self._nominal_seats(call.tenant))
        accept = call.request.headers.get("accept", "")
        body, content_type = await self._metrics.render(accept, levels, is_whole=call.identity.is_system)
        return HttpResponse(200, body, content_type.encode())


def _entry(
    call: ApiCall, code: int, seconds: float, reason: str = "", stage: str = "ResponseComplete"
) -> AuditEntry:
    target = call.target
    request = call.request
    # By position: twenty names would take longer than all else that is done here.
    return AuditEntry(
        call.started,
        seconds,
        call.verb,
        request.path,
        call.tenant,
        call.caller,
        call.identity,
        code,
        call.request_id,
        request.address,
        request.headers.get("user-agent", ""),
        target.group,
        target.version,
        target.resource,
        target.subresource,
        target.namespace,
        target.name,
        reason,
        stage,
        call.annotations,
    )


def _status(response: HttpResponse) -> Object:
    """The Status of an error; empty if the body is another one."""
    if not isinstance(response.body, bytes) or response.content_type != JSON or not response.body:
        return {}
    body: Object = orjson.loads(response.body)
    return body
