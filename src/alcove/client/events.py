"""Records Kubernetes events about an object, in the object's tenant and namespace.

Recording never waits and never fails: events go through bounded queues, repeated events are counted in one
object, and the events of each object are rate-limited (`event_memory.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from alcove.api import meta
from alcove.api.errors import ApiError, NotFound
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.errors import ClientError
from alcove.client.event_memory import EventBudget, WrittenEvents
from alcove.client.keys import PlaneId
from alcove.client.resources import EVENTS

log = logging.getLogger(__name__)

QUEUED_MAX = 1_000
"""Pending events of all tenants; for one more, the tenant with most loses its newest."""
QUEUED_PER_TENANT_MAX = 100
AT_ONCE_MAX = 16
WRITE_SECONDS_MAX = 10.0
SAME_SECONDS = 600.0
"""An event that repeats within this time is counted instead of created again."""
MESSAGE_BYTES_MAX = 1_024

NORMAL = "Normal"
WARNING = "Warning"

ClientOf = Callable[[PlaneId], Client]
_QueueKey = tuple[PlaneId, TenantId]


class PendingEvent(Struct, frozen=True):
    plane: PlaneId
    tenant: TenantId
    involved: Object
    """apiVersion, kind, namespace, name, uid, resourceVersion."""
    type: str
    reason: str
    message: str
    component: str
    host: str = ""
    """The node that reports the event."""

    @property
    def dedup_key(self) -> tuple[PlaneId, TenantId, str, str, str, str, str]:
        named = str(self.involved.get("uid") or self.involved.get("name"))
        return (self.plane, self.tenant, named, self.type, self.reason, self.message, self.component)

    @property
    def object_key(self) -> tuple[PlaneId, TenantId, str]:
        return (self.plane, self.tenant, str(self.involved.get("uid") or self.involved.get("name")))


class EventRecorder:
    """`run` writes recorded events until cancelled: round-robin by tenant and one at a time for each, so that
    a tenant with slow webhooks or many events does not delay other tenants."""

    def __init__(self, client_of: ClientOf, clock: Callable[[], float]) -> None:
        self._client_of = client_of
        self._clock = clock
        self._queues: dict[_QueueKey, deque[PendingEvent]] = {}
        """Pending events by tenant."""
        self._ready: asyncio.Queue[_QueueKey] = asyncio.Queue()
        """Tenants with pending events of which none is being written, each once."""
        self._queued = 0
        self._written = WrittenEvents()
        self._budget = EventBudget()
        self.dropped = 0

    def record(self, event: PendingEvent) -> None:
        key = (event.plane, event.tenant)
        queue = self._queues.get(key)
        if not self._has_room(len(queue) if queue is not None else 0):
            self.dropped += 1
            return
        self._queued += 1
        if queue is None:
            self._queues[key] = deque((event,))
            self._ready.put_nowait(key)
        else:
            queue.append(event)

    def _has_room(self, pending: int) -> bool:
        """Whether a tenant with `pending` events may have another; one of the tenant with most is dropped for it if
        there are too many in all."""
        if pending >= QUEUED_PER_TENANT_MAX:
            return False
        if self._queued < QUEUED_MAX:
            return True
        longest = max(self._queues.values(), key=len)
        if len(longest) <= pending + 1:
            return False
        longest.pop()
        self._queued -= 1
        self.dropped += 1
        return True

    async def drained(self) -> None:
        """Wait until all recorded events are written or dropped."""
        await self._ready.join()

    async def run(self) -> None:
        writers = asyncio.Semaphore(AT_ONCE_MAX)
        async with asyncio.TaskGroup() as tasks:
            while True:
                await writers.acquire()
                key = await self._ready.get()
                tasks.create_task(self._write_next(key, writers), name="event")

    async def _write_next(self, key: _QueueKey, writers: asyncio.Semaphore) -> None:
        queue = self._queues[key]
        event = queue.popleft()
        self._queued -= 1
        try:
            async with asyncio.timeout(WRITE_SECONDS_MAX):
                await self._write(event)
        except (ApiError, ClientError, TimeoutError) as error:
            # The tenant or namespace may be terminating, or the plane may have left.
            self.dropped += 1
            log.debug("failed to write event; dropped", extra={"reason": event.reason, "error": str(error)})
        finally:
            if queue:
                self._ready.put_nowait(key)
            else:
                del self._queues[key]
            self._ready.task_done()
            writers.release()

    async def _write(self, event: PendingEvent) -> None:
        now = self._clock()
        position = self._written.find(event.dedup_key, now, SAME_SECONDS)
        if position is not None and await self._count(event, position, now):
            return
        if self._budget.take(event.object_key, now):
            await self._create(event, now)
        else:
            self.dropped += 1

    async def _create(self, event: PendingEvent, now: float) -> None:
        body = described(event, now)
        namespace = body["metadata"]["namespace"]
        await self._client_of(event.plane).create(event.tenant, EVENTS, body, namespace=namespace)
        self._written.put(event.dedup_key, now)

    async def _count(self, event: PendingEvent, position: int, now: float) -> bool:
        patch = {"count": self._written.count(position) + 1, "lastTimestamp": meta.format_time(now)}
        name, namespace = _name(event.involved, self._written.first(position)), _namespace(event.involved)
        try:
            await self._client_of(event.plane).patch(event.tenant, EVENTS, name, patch, namespace=namespace)
        except NotFound:
            self._written.forget(event.dedup_key, position)
            return False
        self._written.add(event.dedup_key, position, now)
        return True


class ControllerEvents:
    """Records events in the name of one component."""

    def __init__(self, recorder: EventRecorder, component: str) -> None:
        self._recorder = recorder
        self._component = component

    def normal(self, plane: PlaneId, obj: Object, reason: str, message: str) -> None:
        self._record(plane, obj, NORMAL, reason, message)

    def warning(self, plane: PlaneId, obj: Object, reason: str, message: str) -> None:
        self._record(plane, obj, WARNING, reason, message)

    def _record(self, plane: PlaneId, obj: Object, type_: str, reason: str, message: str) -> None:
        metadata = obj["metadata"]
        tenant = TenantId(metadata.get("tenant") or SYSTEM)
        event = PendingEvent(plane, tenant, reference(obj), type_, reason, message, self._component)
        self._recorder.record(event)


def reference(obj: Object) -> Object:
    """The ObjectReference for an event's involvedObject."""
    metadata = obj["metadata"]
    named = {
        "apiVersion": obj.get("apiVersion"),
        "kind": obj.get("kind"),
        "namespace": metadata.get("namespace"),
        "name": metadata["name"],
        "uid": metadata.get("uid"),
        "resourceVersion": metadata.get("resourceVersion"),
    }
    return {field: value for field, value in named.items() if value}


def _namespace(involved: Object) -> str:
    """The namespace of an object's events: its own, or `default` if it has none."""
    return involved.get("namespace") or "default"


def _name(involved: Object, first: float) -> str:
    return f"{involved['name'][:200]}.{int(first * 1_000_000):x}"


def described(event: PendingEvent, now: float) -> Object:
    """The Event object to create."""
    time = meta.format_time(now)
    message = event.message.encode()[:MESSAGE_BYTES_MAX].decode(errors="ignore")
    host = {"host": event.host} if event.host else {}
    instance = {"reportingInstance": event.host} if event.host else {}
    return {
        "metadata": {
            "namespace": _namespace(event.involved),
            "name": _name(event.involved, now),
        },
        "involvedObject": event.involved,
        "type": event.type,
        "reason": event.reason,
        "message": message,
        "source": {"component": event.component, **host},
        "reportingComponent": event.component,
        **instance,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }
