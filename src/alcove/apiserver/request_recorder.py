"""Records each request: its metrics and its line in the audit log."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import orjson

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.apiserver.activity import UserActivity
from alcove.apiserver.audit import AuditEntry, AuditLog
from alcove.apiserver.call import ApiCall
from alcove.apiserver.metrics import ApiServerMetrics, RequestKey, level_metrics
from alcove.http.messages import JSON, HttpResponse

SWITCHED = 101


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
        target = call.target
        scope = "resource" if target.name else "namespace" if target.namespace else "cluster"
        call.series = self._metrics.requests(
            RequestKey(call.verb, target.group, target.version, target.resource, target.subresource, scope)
        )
        call.series.begin()
        self._metrics.tenants.count(call.tenant)
        self._activity.note(call.identity, call.started)

    def finish(self, call: ApiCall, response: HttpResponse) -> None:
        if call.series is None:
            return
        now = time.time()
        seconds = now - call.started
        # The duration of a watch is chosen by the client and is no latency.
        call.series.finish(response.status, None if call.verb == "watch" else seconds)
        call.series = None
        reason = _reason(response) if response.status >= 400 else ""
        if response.status == SWITCHED:
            # The stream continues until one side closes it, which is recorded too.
            self._record(call, response.status, seconds, reason, "ResponseStarted")
            response.done = lambda: self._record(call, SWITCHED, time.time() - call.started)
        else:
            self._record(call, response.status, seconds, reason)

    def _record(
        self, call: ApiCall, code: int, seconds: float, reason: str = "", stage: str = "ResponseComplete"
    ) -> None:
        target = call.target
        self._audit.record(
            AuditEntry(
                received=call.started,
                seconds=seconds,
                verb=call.verb,
                path=call.request.path,
                tenant=call.tenant,
                caller=call.caller,
                identity=call.identity,
                code=code,
                audit_id=call.request_id,
                source=call.request.address,
                user_agent=call.request.headers.get("user-agent", ""),
                group=target.group,
                version=target.version,
                resource=target.resource,
                subresource=target.subresource,
                namespace=target.namespace,
                name=target.name,
                reason=reason,
                stage=stage,
                annotations=call.annotations,
            )
        )

    async def metrics(self, call: ApiCall) -> HttpResponse:
        """GET /metrics: a tenant reads only what concerns itself, ring0 everything."""
        levels = level_metrics(self._nominal_seats(call.tenant))
        accept = call.request.headers.get("accept", "")
        body, content_type = await self._metrics.render(accept, levels, is_whole=call.identity.is_system)
        return HttpResponse(200, body, content_type.encode())


def _reason(response: HttpResponse) -> str:
    if not isinstance(response.body, bytes) or response.content_type != JSON or not response.body:
        return ""
    body: Object = orjson.loads(response.body)
    return str(body.get("reason", ""))
