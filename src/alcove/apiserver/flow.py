"""Flow control, fair between tenants: one tenant's flood slows that tenant.

A request takes *seats*, as many as its work is wide (a GET one, a big LIST hundreds), and gives them
back when it is done. Seats given back can be taken again from the loop's next turn on: the server has
one core, and what was used in this turn is used. So a turn of the loop never gets longer than all
seats' work, however many requests came in with it, and a neighbour's request is in the next.

    free seats, nobody waiting   taken at once, without waiting (well under a microsecond)
    else                         a queue per tenant; who has been served least for its weight, this request
                                 included, is next
    queue full, or too long in it   429 with Retry-After

A tenant alone may have most seats, never all of them; some are kept for ring0.
"""

import heapq
from asyncio import CancelledError, Future, get_running_loop
from collections import deque
from collections.abc import Callable
from time import monotonic
from types import TracebackType

from msgspec import Struct

from alcove.api.errors import TooManyRequests
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.apiserver.reader import CacheReader

RETRY_AFTER_SECONDS = 1
IDLE_TENANTS_KEPT_MAX = 4_096

SEAT_MICROSECONDS = 25
"""The work one seat stands for, about: what a GET takes."""
OBJECTS_PER_SEAT = 16
BYTES_PER_SEAT = 32 << 10

WEIGHT_MAX = 100
"""More weight than this makes no difference: a neighbour of the least weight must not wait for long."""
SEAT_TIME = 1_000_000
"""What a seat adds to the virtual time of a tenant of weight 1."""

_TENANTS = GroupResource("", "tenants")


def width(objects: int = 0, size_bytes: int = 0) -> int:
    """How many seats a request takes that goes through so many objects, or so many bytes."""
    return 1 + objects // OBJECTS_PER_SEAT + size_bytes // BYTES_PER_SEAT


def weights(reader: CacheReader) -> Callable[[TenantId], int]:
    """Tenants' weights, as their Tenant objects have them: `spec.weight`."""

    def weight(tenant: TenantId) -> int:
        found = reader.get(SYSTEM, _TENANTS, "", tenant)
        given = (found.get("spec") or {}).get("weight") if found is not None else None
        return given if isinstance(given, int) else 1

    return weight


class FlowLimits(Struct, frozen=True, kw_only=True):
    seats: int = 800
    """In use at once, and per turn of the loop: 800 are about 20 ms."""
    seats_per_tenant: int = 600
    seats_of_system: int = 80
    """Only ring0 may take these."""
    queue_per_tenant_max: int = 256
    queued_max: int = 8_192
    wait_seconds_max: float = 15.0


class _Waiter(Struct, eq=False):
    width: int
    cost: int
    """The virtual time that serving it takes."""
    since: float
    granted: Future[None]


class _Share:
    """One tenant's part: what it holds, who waits, how much it was served."""

    __slots__ = ("held", "queue", "ranked", "tenant", "virtual_time", "waiting")

    def __init__(self, tenant: TenantId) -> None:
        self.tenant = tenant
        self.held = 0
        self.queue: deque[_Waiter] = deque()
        self.waiting = 0
        """Of those in the queue, how many have not given up."""
        self.virtual_time = 0
        """Grows with the width it is served, the less the more it weighs; the least goes next."""
        self.ranked = False
        """It is in the ranking."""

    def head(self) -> _Waiter | None:
        while self.queue and self.queue[0].granted.done():
            self.queue.popleft()
        return self.queue[0] if self.queue else None


class FlowController:
    """All seats. Belongs to the loop that uses it."""

    def __init__(
        self,
        limits: FlowLimits | None = None,
        *,
        clock: Callable[[], float] = monotonic,
        on_wait: Callable[[float], None] = lambda _seconds: None,
        weight: Callable[[TenantId], int] = lambda _tenant: 1,
    ) -> None:
        """`on_wait` is told how long each request waited that had to and was let in. Where tenants wait for one
        another, their seats are to each other as their weights are."""
        self.limits = limits or FlowLimits()
        self._clock = clock
        self._on_wait = on_wait
        self._weight = weight
        self._width_max = min(self.limits.seats_per_tenant, self.limits.seats - self.limits.seats_of_system)
        self._free = self.limits.seats
        self._spent = 0
        """Given back, not yet free: from the next turn on."""
        self._system = _Share(SYSTEM)
        self._kept = self.limits.seats_of_system
        """Of the free seats, how many only ring0 may take."""
        self._shares: dict[TenantId, _Share] = {SYSTEM: self._system}
        self._ranking: list[tuple[int, int, _Share]] = []
        """(virtual time when done, rank, share): the least is first."""
        self._rank = 0
        self._capped: list[_Share] = []
        """Tenants that wait for seats of their own, not of others."""
        self._virtual_time = 0
        self._turn_due = False
        self._expiry_due = False
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
        """Takes the seats if that needs no waiting. Whoever gets True calls `release` once, with the same."""
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
            or self._free - width < self._kept
            or share.held + width > self.limits.seats_per_tenant
        ):
            return False
        share.held += width
        self._free -= width
        return True

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
            self._keep_for_system()
        if self.waiting:
            self._schedule_turn()
        elif not share.held and len(self._shares) > IDLE_TENANTS_KEPT_MAX and share is not self._system:
            del self._shares[tenant]

    async def acquire(self, tenant: TenantId, width: int = 1) -> None:
        """Takes the seats, waiting for them if need be. Raises TooManyRequests."""
        if self.try_acquire(tenant, width):
            return
        share = self._shares[tenant]
        waiter = self._enqueue(share, min(width, self._width_max))
        try:
            await waiter.granted
        except CancelledError:
            if waiter.granted.cancelled():
                self._forget(share)
            elif waiter.granted.exception() is None:
                self.release(tenant, width)
            raise

    def expire(self) -> None:
        """Rejects who has waited too long by now."""
        self._expiry_due = False
        now = self._clock()
        oldest = now
        for share in self._shares.values():
            while (waiter := share.head()) and now - waiter.since >= self.limits.wait_seconds_max:
                self.rejected_late += 1
                self._forget(share)
                waiter.granted.set_exception(_rejection(share.tenant))
            if waiter:
                oldest = min(oldest, waiter.since)
        if self.waiting:
            self._schedule_expiry(oldest + self.limits.wait_seconds_max - now)

    def _fits(self, share: _Share, width: int) -> bool:
        kept = 0 if share is self._system else self._kept
        return self._free - width >= kept and share.held + width <= self.limits.seats_per_tenant

    def _take(self, share: _Share, width: int) -> None:
        share.held += width
        self._free -= width
        if share is self._system:
            self._keep_for_system()

    def _keep_for_system(self) -> None:
        self._kept = max(0, self.limits.seats_of_system - self._system.held)

    def _enqueue(self, share: _Share, width: int) -> _Waiter:
        if share.waiting >= self.limits.queue_per_tenant_max or self.waiting >= self.limits.queued_max:
            self.rejected_full += 1
            raise _rejection(share.tenant)
        cost = width * SEAT_TIME // min(max(self._weight(share.tenant), 1), WEIGHT_MAX)
        waiter = _Waiter(width, cost, self._clock(), get_running_loop().create_future())
        if not share.waiting:
            # Who was away has no claim on the seats of that time.
            share.virtual_time = max(share.virtual_time, self._virtual_time)
        share.queue.append(waiter)
        share.waiting += 1
        self.waiting += 1
        self._rank_share(share)
        self._schedule_turn()
        if not self._expiry_due:
            self._schedule_expiry(self.limits.wait_seconds_max)
        return waiter

    def _forget(self, share: _Share) -> None:
        share.waiting -= 1
        self.waiting -= 1

    def _schedule_turn(self) -> None:
        if not self._turn_due:
            self._turn_due = True
            get_running_loop().call_soon(self._turn)

    def _schedule_expiry(self, seconds: float) -> None:
        self._expiry_due = True
        get_running_loop().call_later(seconds, self.expire)

    def _turn(self) -> None:
        """A new turn of the loop: seats given back are free again, and who waits may take them."""
        self._turn_due = False
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
        """Ring0 has what is kept for it, whoever else was served less."""
        share = self._system
        while (waiter := share.head()) and share.held + waiter.width <= self.limits.seats_of_system:
            if not self._fits(share, waiter.width):
                return
            self._grant(share, waiter)

    def _serve_first(self) -> bool:
        """Serves the first of the ranking, if there are seats for it; whether to go on with the next."""
        finish, _, share = self._ranking[0]
        waiter = share.head()
        if waiter is None or share.virtual_time + waiter.cost != finish:
            # Whom it was ranked for gave up, or was served as ring0's.
            self._unrank_first()
            self._rank_share(share)
            return True
        if self._free - waiter.width < (0 if share is self._system else self._kept):
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
        self._forget(share)
        self._take(share, waiter.width)
        self._on_wait(self._clock() - waiter.since)
        waiter.granted.set_result(None)


class Seat:
    """The seats of one request, as a context."""

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
