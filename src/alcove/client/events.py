"""Events: what controllers tell the users of an object, in the object's own tenant and namespace.

Telling never waits and never fails: events go through bounded queues, several of the same are counted
in one, and an object that has too much to say is silenced for a while (`event_memory.py`).
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
QUEUED_PER_TENANT_MAX = 100
AT_ONCE_MAX = 16
WRITE_SECONDS_MAX = 10.0
SAME_SECONDS = 600.0
"""Within this time, the same is counted and not told again."""
MESSAGE_BYTES_MAX = 1_024

NORMAL = "Normal"
WARNING = "Warning"

ClientOf = Callable[[PlaneId], Client]
_Line = tuple[PlaneId, TenantId]


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
    """The node that tells it."""

    @property
    def sameness(self) -> tuple[PlaneId, TenantId, str, str, str, str, str]:
        named = str(self.involved.get("uid") or self.involved.get("name"))
        return (self.plane, self.tenant, named, self.type, self.reason, self.message, self.component)

    @property
    def object_mark(self) -> tuple[PlaneId, TenantId, str]:
        return (self.plane, self.tenant, str(self.involved.get("uid") or self.involved.get("name")))


class EventRecorder:
    """`run` writes what was told, until cancelled: tenant by tenant in turn, of each one at a time, so that one whose
    webhooks take their time, or who has much to tell, does not keep the others waiting."""

    def __init__(self, client_of: ClientOf, clock: Callable[[], float]) -> None:
        self._client_of = client_of
        self._clock = clock
        self._lines: dict[_Line, deque[PendingEvent]] = {}
        """What each tenant has to tell."""
        self._turns: asyncio.Queue[_Line] = asyncio.Queue()
        """Tenants with something to tell of whom nothing is being written, each once."""
        self._queued = 0
        self._written = WrittenEvents()
        self._budget = EventBudget()
        self.dropped = 0

    def record(self, event: PendingEvent) -> None:
        which = (event.plane, event.tenant)
        line = self._lines.get(which)
        if self._queued >= QUEUED_MAX or (line is not None and len(line) >= QUEUED_PER_TENANT_MAX):
            self.dropped += 1
            return
        self._queued += 1
        if line is None:
            self._lines[which] = deque((event,))
            self._turns.put_nowait(which)
        else:
            line.append(event)

    async def drained(self) -> None:
        """Waits until everything that was told is written, or dropped."""
        await self._turns.join()

    async def run(self) -> None:
        hands = asyncio.Semaphore(AT_ONCE_MAX)
        async with asyncio.TaskGroup() as tasks:
            while True:
                await hands.acquire()
                which = await self._turns.get()
                tasks.create_task(self._turn(which, hands), name="event")

    async def _turn(self, which: _Line, hands: asyncio.Semaphore) -> None:
        line = self._lines[which]
        told = line.popleft()
        self._queued -= 1
        try:
            async with asyncio.timeout(WRITE_SECONDS_MAX):
                await self._write(told)
        except (ApiError, ClientError, TimeoutError) as error:
            # The tenant or namespace may be going away, the plane may have left.
            self.dropped += 1
            log.debug("event not written", extra={"reason": told.reason, "error": str(error)})
        finally:
            if line:
                self._turns.put_nowait(which)
            else:
                del self._lines[which]
            self._turns.task_done()
            hands.release()

    async def _write(self, told: PendingEvent) -> None:
        now = self._clock()
        place = self._written.find(told.sameness, now, SAME_SECONDS)
        if place is not None and await self._count(told, place, now):
            return
        if self._budget.take(told.object_mark, now):
            await self._create(told, now)
        else:
            self.dropped += 1

    async def _create(self, told: PendingEvent, now: float) -> None:
        event = described(told, now)
        namespace = event["metadata"]["namespace"]
        await self._client_of(told.plane).create(told.tenant, EVENTS, event, namespace=namespace)
        self._written.put(told.sameness, now)

    async def _count(self, told: PendingEvent, place: int, now: float) -> bool:
        patch = {"count": self._written.count(place) + 1, "lastTimestamp": meta.format_time(now)}
        name, namespace = _name(told.involved, self._written.first(place)), _namespace(told.involved)
        try:
            await self._client_of(told.plane).patch(told.tenant, EVENTS, name, patch, namespace=namespace)
        except NotFound:
            self._written.forget(told.sameness, place)
            return False
        self._written.add(told.sameness, place, now)
        return True


class ControllerEvents:
    """A controller's own voice."""

    def __init__(self, recorder: EventRecorder, component: str) -> None:
        self._recorder = recorder
        self._component = component

    def normal(self, plane: PlaneId, obj: Object, reason: str, message: str) -> None:
        self._tell(plane, obj, NORMAL, reason, message)

    def warning(self, plane: PlaneId, obj: Object, reason: str, message: str) -> None:
        self._tell(plane, obj, WARNING, reason, message)

    def _tell(self, plane: PlaneId, obj: Object, type_: str, reason: str, message: str) -> None:
        metadata = obj["metadata"]
        tenant = TenantId(metadata.get("tenant") or SYSTEM)
        told = PendingEvent(plane, tenant, reference(obj), type_, reason, message, self._component)
        self._recorder.record(told)


def reference(obj: Object) -> Object:
    """What an event says of the object that it is about."""
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
    """Where events of an object are: beside it, or in `default` if it has no namespace."""
    return involved.get("namespace") or "default"


def _name(involved: Object, first: float) -> str:
    return f"{involved['name'][:200]}.{int(first * 1_000_000):x}"


def described(told: PendingEvent, now: float) -> Object:
    time = meta.format_time(now)
    message = told.message.encode()[:MESSAGE_BYTES_MAX].decode(errors="ignore")
    host = {"host": told.host} if told.host else {}
    instance = {"reportingInstance": told.host} if told.host else {}
    return {
        "metadata": {
            "namespace": _namespace(told.involved),
            "name": _name(told.involved, now),
        },
        "involvedObject": told.involved,
        "type": told.type,
        "reason": told.reason,
        "message": message,
        "source": {"component": told.component, **host},
        "reportingComponent": told.component,
        **instance,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }
