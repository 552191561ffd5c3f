"""Flow control, fair between tenants: a flood of requests delays only the tenant that sends it.

A request takes *seats* in proportion to its work (a GET takes one, a big LIST hundreds) and releases them
when it is done. Released seats are free again from the event loop's next iteration on: the server has one
core, and the time spent in this iteration is spent. An iteration is therefore never longer than the work of
all seats, however many requests arrive in it, and another tenant's request is served in the next.

    free seats, empty queues     taken immediately, without waiting (well under a microsecond)
    first request of a tenant    taken immediately too: one small request of each tenant in an iteration, if the
    that had less than others    tenant waits for nothing and was not served more than those that wait
    otherwise                    a queue per tenant; the tenant with the least service for its weight, counting the
                                 queued request, is served next (weighted fair queueing)
    queue full, or waited too long   429 with Retry-After

A single tenant may take most of the seats, but never all: some are reserved for ring0.

Seats are an estimate. What a request really took is measured and charged (`metering.py`): time on the loop
beyond the estimate takes further seats of this iteration, and all of it counts as service received, so a
tenant with costly requests waits behind its own.
"""

import heapq
from asyncio import CancelledError, Future, get_running_loop
from collections import deque
from collections.abc import Callable
from time import monotonic
from types import TracebackType

from msgspec import Struct, structs

from alcove.api.errors import TooManyRequests
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.resources import TENANTS
from alcove.apiserver.reader import CacheReader

RETRY_AFTER_SECONDS = 1
IDLE_TENANTS_KEPT_MAX = 4_096

SEAT_MICROSECONDS = 25
"""Approximate work of one seat: the time that a GET takes."""
OBJECTS_PER_SEAT = 16
BYTES_PER_SEAT = 32 << 10

WEIGHT_MAX = 100
"""Larger weights count as this one, so that a tenant of weight 1 does not wait for long."""
SEAT_TIME = 1_000_000
"""Added to the virtual time of a tenant of weight 1 for each seat."""

FIRST_WIDTH_MAX = 2
"""Seats of a small request."""

FIRST_AHEAD_SEATS = 200
"""Five milliseconds. A tenant that had more service than others by so much is not served in an iteration that is late."""

DEBT_SEATS_MAX = 20_000
"""Half a second. Time that a tenant took while nobody else wanted it does not keep it waiting for longer."""


def width(objects: int = 0, size_bytes: int = 0) -> int:
    """The seats of a request that visits `objects` objects and has a body of `size_bytes`."""
    return 1 + objects // OBJECTS_PER_SEAT + size_bytes // BYTES_PER_SEAT


def weights(reader: CacheReader) -> Callable[[TenantId], int]:
    """A lookup of tenants' weights: `spec.weight` of the Tenant object, 1 if it has none."""

    def weight(tenant: TenantId) -> int:
        obj = reader.get(SYSTEM, TENANTS, "", tenant)
        value = (obj.get("spec") or {}).get("weight") if obj is not None else None
        return value if isinstance(value, int) else 1

    return weight


class FlowLimits(Struct, frozen=True, kw_only=True):
    seats: int = 800
    """In use at the same time, and per iteration of the event loop: 800 are about 20 ms."""
    seats_per_tenant: int = 600
    seats_of_system: int = 80
    """Only ring0 may take these."""
    first_requests_max: int = 40
    """Per iteration, of different tenants, beside all seats: about 1 ms."""
    queue_per_tenant_max: int = 256
    queued_max: int = 8_192
    wait_seconds_max: float = 15.0

    def divided(self, workers: int) -> "FlowLimits":
        """The limits of each of several workers, which together queue as many requests as one server. Seats are not
        divided: they stand for the time of an event loop, of which each worker has one."""
        return structs.replace(
            self,
            queue_per_tenant_max=max(self.queue_per_tenant_max // workers, 1),
            queued_max=max(self.queued_max // workers, 1),
        )


class _Waiter(Struct, eq=False):
    width: int
    cost: int
    """The virtual time that serving it takes."""
    since: float
    granted: Future[None]


class _Share:
    """One tenant's state: seats held, waiting requests, and service received."""

    __slots__ = ("held", "queue", "ranked", "tenant", "virtual_time", "waiting")

    def __init__(self, tenant: TenantId) -> None:
        self.tenant = tenant
        self.held = 0
        self.queue: deque[_Waiter] = deque()
        self.waiting = 0
        """Requests in the queue that were not cancelled or rejected."""
        self.virtual_time = 0
        """Grows with the seats served, divided by the tenant's weight; the lowest is served next."""
        self.ranked = False
        """Whether the share is in the ranking."""

    def head(self) -> _Waiter | None:
        while self.queue and self.queue[0].granted.done():
            self.queue.popleft()
        return self.queue[0] if self.queue else None


class FlowController:
    """All seats of the server. Use it from one event loop only."""

    def __init__(
        self,
        limits: FlowLimits | None = None,
        *,
        clock: Callable[[], float] = monotonic,
        on_wait: Callable[[float], None] = lambda _seconds: None,
        weight: Callable[[TenantId], int] = lambda _tenant: 1,
    ) -> None:
        """`on_wait` is called with the seconds that a queued request waited before it got its seats. Tenants
        that compete for seats get them in proportion to their weights."""
        self.limits = limits or FlowLimits()
        self._clock = clock
        self._on_wait = on_wait
        self._weight = weight
        self._width_max = min(self.limits.seats_per_tenant, self.limits.seats - self.limits.seats_of_system)
        self._free = self.limits.seats
        self._spent = 0
        """Released seats that are free from the loop's next iteration on."""
        self._system = _Share(SYSTEM)
        self._reserved = self.limits.seats_of_system
        """Free seats that only ring0 may take."""
        self._shares: dict[TenantId, _Share] = {SYSTEM: self._system}
        self._ranking: list[tuple[int, int, _Share]] = []
        """A heap of (virtual time when served, rank, share)."""
        self._rank = 0
        self._capped: list[_Share] = []
        """Tenants that wait because they hold `seats_per_tenant` already."""
        self._virtual_time = 0
        self._firsts: set[TenantId] = set()
        """Tenants whose first request was served in this iteration though others wait."""
        self._iteration_scheduled = False
        self._expiry_scheduled = False
        self.waiting = 0
        self.rejected_full = 0
        self.rejected_late = 0

    @property
    def in_use(self) -> int:
        return self.limits.seats - self._free - self._spent

    def seat(self, tenant: TenantId, width: int = 1) -> "Seat":
        """`async with flow.seat(tenant, width=n):`; entering raises TooManyRequests."""
        return Seat(self, tenant, width)

    def try_acquire(self, tenant: TenantId, width: int = 1) -> bool:
        """Takes the seats if that needs no waiting. After True, call `release` once with the same
        arguments."""
        share = self._shares.get(tenant)
        if share is None:
            share = self._shares[tenant] = _Share(tenant)
        if width > self._width_max:
            width = self._width_max
        if share is self._system:
            return self._try_system(width)
        if (
            self._ranking
            or share.waiting
            or self._free - width < self._reserved
            or share.held + width > self.limits.seats_per_tenant
        ):
            return self._try_first(share, width)
        share.held += width
        self._free -= width
        return True

    def try_first(self, tenant: TenantId, width: int = 1) -> bool:
        """Takes the seats for the first request of a tenant in this iteration, as `try_acquire` does, but for no
        other request."""
        return self._try_first(self._shares.setdefault(tenant, _Share(tenant)), width)

    def _try_first(self, share: _Share, width: int) -> bool:
        """A tenant that asks for little would otherwise wait for two iterations: for a seat, and for its turn."""
        if (
            share.waiting
            or width > FIRST_WIDTH_MAX
            or self._is_after_others(share, width)
            or share.held + width > self.limits.seats_per_tenant
            or len(self._firsts) >= self.limits.first_requests_max
            or share.tenant in self._firsts
        ):
            return False
        self._firsts.add(share.tenant)
        share.virtual_time = self._next_time(share, width)
        self._take(share, width)
        self._schedule_iteration()
        return True

    def _is_after_others(self, share: _Share, width: int) -> bool:
        """Whether somebody waits that had less service. If nobody waits, and the loop is only late: whether the tenant
        itself had so much more than others that the loop may be late because of it."""
        first = self._ranking[0][0] if self._ranking else self._virtual_time + FIRST_AHEAD_SEATS * SEAT_TIME
        return self._next_time(share, width) > first

    def _next_time(self, share: _Share, width: int) -> int:
        """The virtual time of the share when it is served."""
        return max(share.virtual_time, self._virtual_time) + width * self._seat_time(share.tenant)

    def _try_system(self, width: int) -> bool:
        share = self._system
        in_turn = share.held + width <= self.limits.seats_of_system or not self._ranking
        if share.waiting or not in_turn or not self._fits(share, width):
            return False
        self._take(share, width)
        return True

    def release(self, tenant: TenantId, width: int = 1) -> None:
        share = self._shares[tenant]
        if width > self._width_max:
            width = self._width_max
        share.held -= width
        self._spent += width
        if share is self._system:
            self._update_reserved()
        if self.waiting:
            self._schedule_iteration()
        elif not share.held and len(self._shares) > IDLE_TENANTS_KEPT_MAX and share is not self._system:
            del self._shares[tenant]

    def charge(self, tenant: TenantId, seconds: float, *, is_on_loop: bool = True) -> None:
        """Counts CPU time that a request took in addition to the work of its seats."""
        share = self._shares.get(tenant)
        seats = int(seconds * 1_000_000 / SEAT_MICROSECONDS)
        if share is None or not seats:
            return
        debt_max = DEBT_SEATS_MAX * SEAT_TIME
        cost = min(seats * self._seat_time(tenant), self._virtual_time + debt_max - share.virtual_time)
        share.virtual_time += max(cost, 0)
        if is_on_loop:
            self._free -= seats
            self._spent += seats

    def _seat_time(self, tenant: TenantId) -> int:
        return SEAT_TIME // min(max(self._weight(tenant), 1), WEIGHT_MAX)

    async def acquire(self, tenant: TenantId, width: int = 1) -> None:
        """Takes the seats, waiting for them if necessary. Raises TooManyRequests."""
        if self.try_acquire(tenant, width):
            return
        share = self._shares[tenant]
        waiter = self._enqueue(share, min(width, self._width_max))
        try:
            await waiter.granted
        except CancelledError:
            if waiter.granted.cancelled():
                self._leave_queue(share)
            elif waiter.granted.exception() is None:
                self.release(tenant, width)
            raise

    def expire(self) -> None:
        """Rejects requests that have waited for `wait_seconds_max`."""
        self._expiry_scheduled = False
        now = self._clock()
        oldest = now
        for share in self._shares.values():
            while (waiter := share.head()) and now - waiter.since >= self.limits.wait_seconds_max:
                self.rejected_late += 1
                self._leave_queue(share)
                waiter.granted.set_exception(_rejection(share.tenant))
            if waiter:
                oldest = min(oldest, waiter.since)
        if self.waiting:
            self._schedule_expiry(oldest + self.limits.wait_seconds_max - now)

    def _fits(self, share: _Share, width: int) -> bool:
        reserved = 0 if share is self._system else self._reserved
        return self._free - width >= reserved and share.held + width <= self.limits.seats_per_tenant

    def _take(self, share: _Share, width: int) -> None:
        share.held += width
        self._free -= width
        if share is self._system:
            self._update_reserved()

    def _update_reserved(self) -> None:
        self._reserved = max(0, self.limits.seats_of_system - self._system.held)

    def _enqueue(self, share: _Share, width: int) -> _Waiter:
        if share.waiting >= self.limits.queue_per_tenant_max or self.waiting >= self.limits.queued_max:
            self.rejected_full += 1
            raise _rejection(share.tenant)
        cost = width * self._seat_time(share.tenant)
        waiter = _Waiter(width, cost, self._clock(), get_running_loop().create_future())
        if not share.waiting:
            # An idle tenant does not collect a claim on seats.
            share.virtual_time = max(share.virtual_time, self._virtual_time)
        share.queue.append(waiter)
        share.waiting += 1
        self.waiting += 1
        self._rank_share(share)
        self._schedule_iteration()
        if not self._expiry_scheduled:
            self._schedule_expiry(self.limits.wait_seconds_max)
        return waiter

    def _leave_queue(self, share: _Share) -> None:
        share.waiting -= 1
        self.waiting -= 1

    def _schedule_iteration(self) -> None:
        if not self._iteration_scheduled:
            self._iteration_scheduled = True
            get_running_loop().call_soon(self._start_iteration)

    def _schedule_expiry(self, seconds: float) -> None:
        self._expiry_scheduled = True
        get_running_loop().call_later(seconds, self.expire)

    def _start_iteration(self) -> None:
        """Runs in a new iteration of the loop: frees the released seats and grants them to waiting
        requests."""
        self._iteration_scheduled = False
        self._firsts.clear()
        self._free += self._spent
        self._spent = 0
        capped, self._capped = self._capped, []
        for share in capped:
            self._rank_share(share)
        self._serve_system()
        while self._ranking and self._serve_first():
            pass

    def _rank_share(self, share: _Share) -> None:
        waiter = share.head()
        if waiter and not share.ranked:
            share.ranked = True
            self._rank += 1
            finish = share.virtual_time + waiter.cost
            heapq.heappush(self._ranking, (finish, self._rank, share))

    def _serve_system(self) -> None:
        """Grants ring0 its reserved seats before the ranking is served."""
        share = self._system
        while (waiter := share.head()) and share.held + waiter.width <= self.limits.seats_of_system:
            if not self._fits(share, waiter.width):
                return
            self._grant(share, waiter)

    def _serve_first(self) -> bool:
        """Serves the first share of the ranking if enough seats are free; returns whether to try the next."""
        finish, _, share = self._ranking[0]
        waiter = share.head()
        if waiter is None or share.virtual_time + waiter.cost != finish:
            # The request that it was ranked for was cancelled, rejected, or served from ring0's reserve.
            self._unrank_first()
            self._rank_share(share)
            return True
        if self._free - waiter.width < (0 if share is self._system else self._reserved):
            return False
        self._unrank_first()
        if share.held + waiter.width > self.limits.seats_per_tenant:
            self._capped.append(share)
        else:
            self._virtual_time = max(self._virtual_time, share.virtual_time)
            self._grant(share, waiter)
            self._rank_share(share)
        return True

    def _unrank_first(self) -> None:
        heapq.heappop(self._ranking)[-1].ranked = False

    def _grant(self, share: _Share, waiter: _Waiter) -> None:
        share.queue.popleft()
        share.virtual_time += waiter.cost
        self._leave_queue(share)
        self._take(share, waiter.width)
        self._on_wait(self._clock() - waiter.since)
        waiter.granted.set_result(None)


class Seat:
    """The seats of one request, as an async context manager."""

    __slots__ = ("_flow", "_tenant", "_width")

    def __init__(self, flow: FlowController, tenant: TenantId, width: int) -> None:
        self._flow = flow
        self._tenant = tenant
        self._width = width

    async def __aenter__(self) -> None:
        await self._flow.acquire(self._tenant, self._width)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._flow.release(self._tenant, self._width)


def _rejection(tenant: TenantId) -> TooManyRequests:
    message = f'too many requests of tenant "{tenant}" are waiting, please try again later'
    return TooManyRequests.after(RETRY_AFTER_SECONDS, message)
