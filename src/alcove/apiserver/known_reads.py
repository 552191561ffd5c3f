"""GETs that come again: of an object that the same caller has read before, with headers that its connection has sent before.

The pipeline decides the first one (`app.py`). What it found out and what cannot change, because it follows from the path, the headers and
the certificate, is kept for the next: target, kind, metrics, parts of the audit event. What can change is looked at each time: whether the
certificate is valid, the roles are those by which it was allowed, the tenant is served here, and there are seats. Whatever is not as it
was is the pipeline's to decide again: then nothing has been counted.
"""

from __future__ import annotations

from msgspec import Struct

from alcove.api.fair_pool import FairPool
from alcove.api.ids import SYSTEM, Key
from alcove.api.resources import TENANTS
from alcove.apiserver.aggregation.proxying import ExtensionProxy
from alcove.apiserver.audit import KnownEvent
from alcove.apiserver.auth.clientcert import CertificateIdentity
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.metrics import RequestSeries
from alcove.apiserver.paths import RequestTarget
from alcove.apiserver.planes.closed_tenants import ClosedTenants
from alcove.apiserver.planes.proxy import PlaneProxy
from alcove.apiserver.rbac.authorize import Authorizer
from alcove.apiserver.request_buffering import RequestBuffering
from alcove.apiserver.request_recorder import RepeatedRequest, RequestRecorder
from alcove.apiserver.resources.handlers import ResourceHandlers
from alcove.apiserver.resources.reading import PLAIN_JSON
from alcove.apiserver.seating import RequestSeats
from alcove.apiserver.services import ApiServerServices
from alcove.http.messages import SLICE_BYTES, HttpRequest, HttpResponse

KNOWN_READS_MAX = 8_192
"""Reads that are kept, of all tenants. Beyond it the tenant with most loses its oldest; they are decided by the pipeline again."""
IDLE_SECONDS = 300.0
PATH_LENGTH_MAX = 256
"""Characters of a path whose reads are kept."""
_PLAIN_HEADERS = frozenset({"host", "accept", "accept-encoding", "connection", "content-type", "user-agent"})
"""Headers that say nothing of who calls, nor of what is to be done with the request."""


class HeadFacts(Struct, frozen=True):
    """What is known of headers that come again."""

    is_plain: bool
    user_agent: str


def facts_of(headers: dict[str, str]) -> HeadFacts:
    is_plain = _PLAIN_HEADERS.issuperset(headers) and headers.get("accept", "") in PLAIN_JSON
    return HeadFacts(is_plain, headers.get("user-agent", ""))


class KnownRead:
    __slots__ = (
        "caller",
        "event",
        "key",
        "path",
        "series",
        "stamp",
        "target",
        "tenant_entry",
        "was_used",
    )

    def __init__(
        self,
        path: str,
        caller: CertificateIdentity,
        key: Key,
        target: RequestTarget,
        series: RequestSeries,
        event: KnownEvent,
        stamp: tuple[int, ...],
        tenant_entry: CacheEntry | None,
    ) -> None:
        self.path = path
        self.caller = caller
        self.key = key
        self.target = target
        self.series = series
        self.event = event
        self.stamp = stamp
        """See `Authorizer.stamp`."""
        self.tenant_entry = tenant_entry
        """The caller's Tenant as it was when the certificate was found to be valid."""
        self.was_used = False


class KnownReads:
    """Use it from one event loop only."""

    def __init__(
        self,
        services: ApiServerServices,
        authorizer: Authorizer,
        seats: RequestSeats,
        buffering: RequestBuffering,
        recorder: RequestRecorder,
        handlers: ResourceHandlers,
        planes: PlaneProxy,
        closed: ClosedTenants,
        extensions: ExtensionProxy,
    ) -> None:
        self._services = services
        self._cache = services.cache
        self._clock = services.clock
        self._authorizer = authorizer
        self._seats = seats
        self._buffering = buffering
        self._handlers = handlers
        self._planes = planes
        self._closed = closed
        self._extensions = extensions
        self._recorder = recorder
        self._reads: dict[tuple[str, int], KnownRead] = {}
        """By the path and the address of the caller's identity, which is kept here."""
        self._kept: FairPool[KnownRead] = FairPool(KNOWN_READS_MAX, IDLE_SECONDS, _was_used)

    def answer(self, request: HttpRequest, request_id: str) -> HttpResponse | None:
        """The response, without the header with its id; None if the pipeline has to decide."""
        head = request.known_head
        known = self._reads.get((request.path, id(request.peer)))
        if head is None or known is None or request.raw_query or request.method != "GET":
            return None
        facts = head.facts
        if not isinstance(facts, HeadFacts):
            facts = head.facts = facts_of(request.headers)
        started = self._clock()
        if not facts.is_plain or not self._is_unchanged(known, request, started):
            return None
        entry = self._cache.entry(known.key)
        body = entry.unpack() if entry is not None else b""
        if not body or len(body) > SLICE_BYTES or not self._seats.pass_through(known.caller.tenant):
            return None
        known.was_used = True
        repeated = RepeatedRequest(
            started, request_id, known.key.tenant, known.caller, request.address, facts.user_agent
        )
        self._recorder.repeat(known.event, known.series, repeated)
        return HttpResponse(200, body)

    def _is_unchanged(self, known: KnownRead, request: HttpRequest, now: float) -> bool:
        """Whether the request would be allowed as the first one was, and answered by this server at once."""
        caller, tenant, connection = known.caller, known.key.tenant, request.connection
        return (
            now <= caller.expires
            and connection is not None
            and connection.group == caller.tenant
            and self._cache.find(SYSTEM, TENANTS, "", caller.tenant) is known.tenant_entry
            and (not known.stamp or self._authorizer.stamp(caller) == known.stamp)
            and self._planes.serves(tenant)
            and not self._closed.has(tenant)
            and (not known.target.group or self._extensions.find_target(tenant, known.target) is None)
            and not self._services.unreadable
            and self._buffering.has_room(caller.tenant)
            and (not self._services.shared or self._cache.has_newest())
        )

    def remember(self, call: ApiCall, response: HttpResponse) -> None:
        """Keeps what is known of a GET that the pipeline has answered without waiting."""
        request, caller = call.request, call.request.peer
        if (
            not isinstance(caller, CertificateIdentity)
            or response.status != 200
            or request.raw_query
            or request.method != "GET"
            or call.caller is not caller
            or call.identity is not caller
            or not call.target.is_resource
            or len(request.path) > PATH_LENGTH_MAX
            or not facts_of(request.headers).is_plain
            or call.flow is not None
            or call.annotations
            or not self._handlers.reads_stored(call)
        ):
            return
        stamp = self._authorizer.stamp(caller)
        if stamp is None:
            return
        tenant_entry = self._cache.find(SYSTEM, TENANTS, "", caller.tenant)
        series, event = self._recorder.series(call), self._recorder.known_event(call)
        known = KnownRead(request.path, caller, call.key, call.target, series, event, stamp, tenant_entry)
        place = (known.path, id(caller))
        former = self._reads.get(place)
        if former is not None:
            self._kept.remove(former.caller.tenant, former)
        self._reads[place] = known
        for gone in self._kept.add(caller.tenant, known, 1):
            del self._reads[gone.path, id(gone.caller)]


def _was_used(known: KnownRead) -> bool:
    was_used, known.was_used = known.was_used, False
    return was_used
