"""Events: what controllers tell the users of an object, in the object's own tenant and namespace.

Telling never waits and never fails: events go through a bounded queue, several of the same are counted
in one, and an object that has too much to say is silenced for a while.
"""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections import Counter, OrderedDict
from collections.abc import Callable

from msgspec import Struct

from alcove.api import meta
from alcove.api.errors import ApiError, NotFound
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.errors import ClientError
from alcove.client.keys import PlaneId
from alcove.client.resources import EVENTS

log = logging.getLogger(__name__)

QUEUED_MAX = 1_000
QUEUED_PER_TENANT_MAX = 100
REMEMBERED_MAX = 4_096
SAME_SECONDS = 600.0
"""Within this time, the same is counted and not told again."""
BURST_PER_OBJECT = 25
REFILL_SECONDS = 300.0
"""After a burst, an object may tell one thing more each time this has passed."""
BUCKETS = 1 << 13
MESSAGE_BYTES_MAX = 1_024

NORMAL = "Normal"
WARNING = "Warning"

ClientOf = Callable[[PlaneId], Client]


class Told(Struct, frozen=True):
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


class _Kept(Struct):
    """An event that was written: where, and how often it happened."""

    name: str
    count: int
    last: float


class _Buckets:
    """How much each object may still tell. A table of fixed size, by hash: two objects that meet in it
    share, which is no harm, and nothing is kept of objects that are gone."""

    def __init__(self) -> None:
        self._used = array("d", bytes(8 * BUCKETS))
        self._since = array("d", bytes(8 * BUCKETS))

    def take(self, mark: object, now: float) -> bool:
        place = hash(mark) % BUCKETS
        refilled = (now - self._since[place]) / REFILL_SECONDS
        used = max(self._used[place] - refilled, 0.0)
        self._since[place] = now
        may = used + 1 <= BURST_PER_OBJECT
        self._used[place] = used + 1 if may else used
        return may


class Recorder:
    """`run` writes what was told, until cancelled."""

    def __init__(self, client_of: ClientOf, clock: Callable[[], float]) -> None:
        self._client_of = client_of
        self._clock = clock
        self._queue: asyncio.Queue[Told] = asyncio.Queue(QUEUED_MAX)
        self._queued: Counter[TenantId] = Counter()
        self._kept: OrderedDict[object, _Kept] = OrderedDict()
        self._buckets = _Buckets()
        self.dropped = 0

    def tell(self, told: Told) -> None:
        if self._queue.full() or self._queued[told.tenant] >= QUEUED_PER_TENANT_MAX:
            self.dropped += 1
            return
        self._queued[told.tenant] += 1
        self._queue.put_nowait(told)

    async def drained(self) -> None:
        """Waits until everything that was told is written, or dropped."""
        await self._queue.join()

    async def run(self) -> None:
        while True:
            told = await self._queue.get()
            self._queued -= Counter((told.tenant,))
            try:
                await self._write(told)
            except (ApiError, ClientError) as error:
                # The tenant or namespace may be going away, the plane may have left.
                self.dropped += 1
                log.debug("event not written", extra={"reason": told.reason, "error": str(error)})
            finally:
                self._queue.task_done()

    async def _write(self, told: Told) -> None:
        now = self._clock()
        self._forget(now)
        kept = self._kept.get(told.sameness)
        if kept is not None and now - kept.last < SAME_SECONDS and await self._count(told, kept, now):
            return
        if self._buckets.take(told.object_mark, now):
            await self._create(told, now)
        else:
            self.dropped += 1

    async def _create(self, told: Told, now: float) -> None:
        event = described(told, now)
        namespace = event["metadata"]["namespace"]
        made = await self._client_of(told.plane).create(told.tenant, EVENTS, event, namespace=namespace)
        self._kept[told.sameness] = _Kept(made["metadata"]["name"], 1, now)
        if len(self._kept) > REMEMBERED_MAX:
            self._kept.popitem(last=False)

    async def _count(self, told: Told, kept: _Kept, now: float) -> bool:
        patch = {"count": kept.count + 1, "lastTimestamp": meta.format_time(now)}
        namespace = _namespace(told.involved)
        try:
            await self._client_of(told.plane).patch(
                told.tenant, EVENTS, kept.name, patch, namespace=namespace
            )
        except NotFound:
            del self._kept[told.sameness]
            return False
        kept.count, kept.last = kept.count + 1, now
        self._kept.move_to_end(told.sameness)
        return True

    def _forget(self, now: float) -> None:
        """What is too old to be counted again."""
        while self._kept and now - next(iter(self._kept.values())).last >= SAME_SECONDS:
            self._kept.popitem(last=False)


class Events:
    """A controller's own voice."""

    def __init__(self, recorder: Recorder, component: str) -> None:
        self._recorder = recorder
        self._component = component

    def normal(self, plane: PlaneId, obj: Object, reason: str, message: str) -> None:
        self._tell(plane, obj, NORMAL, reason, message)

    def warning(self, plane: PlaneId, obj: Object, reason: str, message: str) -> None:
        self._tell(plane, obj, WARNING, reason, message)

    def _tell(self, plane: PlaneId, obj: Object, type_: str, reason: str, message: str) -> None:
        metadata = obj["metadata"]
        tenant = TenantId(metadata.get("tenant") or SYSTEM)
        told = Told(plane, tenant, reference(obj), type_, reason, message, self._component)
        self._recorder.tell(told)


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


def described(told: Told, now: float) -> Object:
    time = meta.format_time(now)
    message = told.message.encode()[:MESSAGE_BYTES_MAX].decode(errors="ignore")
    host = {"host": told.host} if told.host else {}
    instance = {"reportingInstance": told.host} if told.host else {}
    return {
        "metadata": {
            "namespace": _namespace(told.involved),
            "name": f"{told.involved['name'][:200]}.{int(now * 1_000_000):x}",
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
