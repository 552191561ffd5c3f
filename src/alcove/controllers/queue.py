"""The work queue of a controller, fair between tenants.

    add ──▶ waiting (per tenant, in order, each key once) ──▶ take, round robin over tenants ──▶ done
    add_after ──▶ delayed ──▶ waiting

A key is never processed by two workers concurrently: a key that is added while it is processed waits until
that is done. A tenant with 100,000 keys delays another tenant's key by at most one key, and has at most
`processing_per_tenant_max` keys in processing, so that its slow keys never occupy all workers.

Keys of a dedicated plane are not counted among the `workers` that tenants of the home plane share: its API server may
not respond for as long as it likes. Each such plane has at most `processing_per_plane_max` keys in processing.

Bounded: beyond `waiting_per_tenant_max` waiting keys of a tenant, new ones are dropped and the tenant is
marked as overflown; once none of its keys is waiting, `refill` is called to add all its keys again.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from itertools import count

from msgspec import Struct

from alcove.client.keys import HOME, ObjectKey, TenantKey

WAITING_PER_TENANT_MAX = 100_000
FAILURES_KEPT_MAX = 100_000
BACKOFF_SECONDS_MIN = 0.01
BACKOFF_SECONDS_MAX = 300.0


class QueueItem(Struct, frozen=True):
    key: ObjectKey
    waited_seconds: float


class _TenantQueue:
    """One tenant's keys."""

    __slots__ = ("is_overflown", "is_scheduled", "keys", "processing")

    def __init__(self) -> None:
        self.keys: OrderedDict[ObjectKey, float] = OrderedDict()
        """Each with the time at which it was added."""
        self.processing = 0
        self.is_scheduled = False
        """Whether the tenant is in the round robin."""
        self.is_overflown = False


class WorkQueue:
    """Belongs to one event loop."""

    def __init__(
        self,
        *,
        workers: int,
        processing_per_tenant_max: int,
        processing_per_plane_max: int,
        waiting_per_tenant_max: int = WAITING_PER_TENANT_MAX,
        refill: Callable[[TenantKey], None] = lambda _tenant_key: None,
    ) -> None:
        self._free_workers = workers
        self._processing_max = processing_per_tenant_max
        self._plane_processing_max = processing_per_plane_max
        self._waiting_max = waiting_per_tenant_max
        self._refill = refill
        self._tenant_queues: dict[TenantKey, _TenantQueue] = {}
        self._round: deque[TenantKey] = deque()
        """Tenants of the home plane with waiting keys and fewer than the maximum in processing, in round-robin
        order."""
        self._dedicated_round: deque[TenantKey] = deque()
        """The same of dedicated planes."""
        self._processing: dict[ObjectKey, bool] = {}
        """Keys in processing. True if the key was added again meanwhile."""
        self._delayed: list[tuple[float, int]] = []
        """A heap of (due time, number). It holds no keys, because an outdated entry stays until it is due and
        would keep the key of a deleted tenant alive."""
        self._due: dict[ObjectKey, tuple[float, int]] = {}
        """The entry of each delayed key in the heap."""
        self._delayed_keys: dict[int, ObjectKey] = {}
        """The key of each entry in the heap, by number. An entry without a key is outdated."""
        self._numbers = count()
        self._failures: OrderedDict[ObjectKey, int] = OrderedDict()
        self._takers: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        """Stored separately: uvloop's timer handle does not return its time once that has passed."""
        self.added = 0

    # Adding

    def add(self, key: ObjectKey) -> None:
        self._undelay(key)
        self.added += 1
        if key in self._processing:
            self._processing[key] = True
            return
        tenant_queue = self._tenant_queues.get(key.tenant_key)
        if tenant_queue is None:
            tenant_queue = self._tenant_queues[key.tenant_key] = _TenantQueue()
        if key in tenant_queue.keys:
            return
        if len(tenant_queue.keys) >= self._waiting_max:
            tenant_queue.is_overflown = True
            return
        tenant_queue.keys[key] = self._now()
        self._schedule(key.tenant_key, tenant_queue)

    def add_after(self, key: ObjectKey, seconds: float) -> None:
        """Adds the key after a delay. The earliest of several calls wins; `add` cancels the delay."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._now() + seconds
        if key in self._due and self._due[key][0] <= due:
            return
        self._undelay(key)
        number = next(self._numbers)
        self._due[key] = entry = (due, number)
        self._delayed_keys[number] = key
        heapq.heappush(self._delayed, entry)
        self._set_timer()

    def add_failed(self, key: ObjectKey) -> float:
        """Adds the key with exponential backoff; returns the delay in seconds."""
        failures = self._failures.pop(key, 0)
        self._failures[key] = failures + 1
        if len(self._failures) > FAILURES_KEPT_MAX:
            self._failures.popitem(last=False)
        seconds = min(BACKOFF_SECONDS_MIN * 2.0 ** min(failures, 30), BACKOFF_SECONDS_MAX)
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: ObjectKey) -> None:
        """Resets the key's backoff after a success."""
        self._failures.pop(key, None)

    def failures(self, key: ObjectKey) -> int:
        return self._failures.get(key, 0)

    # Taking

    async def take(self) -> QueueItem:
        while (ready := self._ready_round()) is None:
            waiting = asyncio.get_running_loop().create_future()
            self._takers.append(waiting)
            try:
                await waiting
            except asyncio.CancelledError:
                if waiting.done() and not waiting.cancelled():
                    self._wake()  # Pass the wake-up on to another waiter.
                raise
        tenant_key = ready.popleft()
        if tenant_key.plane == HOME:
            self._free_workers -= 1
        tenant_queue = self._tenant_queues[tenant_key]
        tenant_queue.is_scheduled = False
        key, since = tenant_queue.keys.popitem(last=False)
        tenant_queue.processing += 1
        self._processing[key] = False
        self._schedule(tenant_key, tenant_queue)
        return QueueItem(key, self._now() - since)

    def _ready_round(self) -> deque[TenantKey] | None:
        if self._dedicated_round:
            return self._dedicated_round
        return self._round if self._round and self._free_workers > 0 else None

    def done(self, key: ObjectKey) -> None:
        was_added = self._processing.pop(key)
        tenant_key = key.tenant_key
        if tenant_key.plane == HOME:
            self._free_workers += 1
            if self._round:
                self._wake()
        tenant_queue = self._tenant_queues[tenant_key]
        tenant_queue.processing -= 1
        if was_added:
            tenant_queue.keys[key] = self._now()
        if tenant_queue.is_overflown and not tenant_queue.keys:
            tenant_queue.is_overflown = False
            self._refill(tenant_key)
        self._schedule(tenant_key, tenant_queue)
        if not tenant_queue.keys and not tenant_queue.processing:
            del self._tenant_queues[tenant_key]

    def _schedule(self, tenant_key: TenantKey, tenant_queue: _TenantQueue) -> None:
        is_home = tenant_key.plane == HOME
        maximum = self._processing_max if is_home else self._plane_processing_max
        if tenant_queue.keys and not tenant_queue.is_scheduled and tenant_queue.processing < maximum:
            tenant_queue.is_scheduled = True
            (self._round if is_home else self._dedicated_round).append(tenant_key)
            self._wake()

    def _wake(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    # Delays

    def _set_timer(self) -> None:
        due = self._delayed[0][0]
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer_due = due
        self._timer = asyncio.get_running_loop().call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._now()
        while self._delayed and self._delayed[0][0] <= now:
            _due, number = heapq.heappop(self._delayed)
            if (key := self._delayed_keys.get(number)) is not None:
                self.add(key)
        if self._delayed:
            self._set_timer()

    def _undelay(self, key: ObjectKey) -> None:
        """Cancels the key's delay. At most half of the heap is outdated afterwards."""
        if (entry := self._due.pop(key, None)) is None:
            return
        del self._delayed_keys[entry[1]]
        if len(self._delayed) > 2 * len(self._due):
            self._delayed = [each for each in self._delayed if each[1] in self._delayed_keys]
            heapq.heapify(self._delayed)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    # Metrics

    @property
    def depth(self) -> int:
        return sum(len(tenant_queue.keys) for tenant_queue in self._tenant_queues.values())

    @property
    def delayed(self) -> int:
        return len(self._due)

    @property
    def processing(self) -> int:
        return len(self._processing)

    def deepest(self, maximum: int) -> list[tuple[TenantKey, int]]:
        """At most `maximum` tenants with the most waiting keys, and their counts."""
        depths = Counter(
            {
                tenant_key: len(tenant_queue.keys)
                for tenant_key, tenant_queue in self._tenant_queues.items()
                if tenant_queue.keys
            }
        )
        return depths.most_common(maximum)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
