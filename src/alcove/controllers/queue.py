"""Keys that wait for their reconciler, fair between tenants.

    add ──▶ waiting (per tenant, in order, each key once) ──▶ take, tenant by tenant in turn ──▶ done
    add_after ──▶ delayed ──▶ waiting

A key is never with two workers at once: what is added meanwhile waits until it is done. A tenant with
100,000 keys delays another tenant's one key by one turn, and has at most `in_hand_per_tenant_max` keys
with workers, so that its slow ones never hold all of them.

Bounded: beyond `waiting_per_tenant_max` keys of a tenant, new ones are only noted as *overflown*; once
that tenant has nothing waiting, `refill` is asked to add all its keys again.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from itertools import count

from msgspec import Struct

from alcove.client.keys import ObjectKey, TenantKey

WAITING_PER_TENANT_MAX = 100_000
FAILURES_KEPT_MAX = 100_000
BACKOFF_SECONDS_MIN = 0.01
BACKOFF_SECONDS_MAX = 300.0


class QueueItem(Struct, frozen=True):
    key: ObjectKey
    waited_seconds: float


class _Line:
    """One tenant's keys."""

    __slots__ = ("in_hand", "is_overflown", "is_ranked", "keys")

    def __init__(self) -> None:
        self.keys: OrderedDict[ObjectKey, float] = OrderedDict()
        """Each with the time since it waits."""
        self.in_hand = 0
        self.is_ranked = False
        """It is in the round."""
        self.is_overflown = False


class WorkQueue:
    """Belongs to one event loop."""

    def __init__(
        self,
        *,
        in_hand_per_tenant_max: int,
        waiting_per_tenant_max: int = WAITING_PER_TENANT_MAX,
        refill: Callable[[TenantKey], None] = lambda _space: None,
    ) -> None:
        self._in_hand_max = in_hand_per_tenant_max
        self._waiting_max = waiting_per_tenant_max
        self._refill = refill
        self._lines: dict[TenantKey, _Line] = {}
        self._round: deque[TenantKey] = deque()
        """Tenants with keys to take and hands free, in the order of their turns."""
        self._in_hand: dict[ObjectKey, bool] = {}
        """Keys with workers; True: to be taken again when done."""
        self._delayed: list[tuple[float, int]] = []
        """A heap of times and numbers. It holds no keys: an outdated entry stays until its time, and its tenant may be
        gone by then."""
        self._due: dict[ObjectKey, tuple[float, int]] = {}
        """The entry of each delayed key in the heap."""
        self._delayed_keys: dict[int, ObjectKey] = {}
        """The key of each entry in the heap, by number. An entry without a key is outdated."""
        self._numbers = count()
        self._failures: OrderedDict[ObjectKey, int] = OrderedDict()
        self._takers: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0
        """Kept here: uvloop's handle of a time that is already past does not tell it."""
        self.added = 0

    # Adding

    def add(self, key: ObjectKey) -> None:
        self._undelay(key)
        self.added += 1
        if key in self._in_hand:
            self._in_hand[key] = True
            return
        line = self._lines.get(key.tenant_key)
        if line is None:
            line = self._lines[key.tenant_key] = _Line()
        if key in line.keys:
            return
        if len(line.keys) >= self._waiting_max:
            line.is_overflown = True
            return
        line.keys[key] = self._now()
        self._rank(key.tenant_key, line)

    def add_after(self, key: ObjectKey, seconds: float) -> None:
        """Adds the key later. Of several, the earliest counts; `add` before then takes its place."""
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
        """Adds the key later, each time in a row twice as much later; returns the seconds."""
        failures = self._failures.pop(key, 0)
        self._failures[key] = failures + 1
        if len(self._failures) > FAILURES_KEPT_MAX:
            self._failures.popitem(last=False)
        seconds = min(BACKOFF_SECONDS_MIN * 2.0 ** min(failures, 30), BACKOFF_SECONDS_MAX)
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: ObjectKey) -> None:
        """It went well: the next failure is the first again."""
        self._failures.pop(key, None)

    def failures(self, key: ObjectKey) -> int:
        return self._failures.get(key, 0)

    # Taking

    async def take(self) -> QueueItem:
        while not self._round:
            waiting = asyncio.get_running_loop().create_future()
            self._takers.append(waiting)
            try:
                await waiting
            except asyncio.CancelledError:
                if waiting.done() and not waiting.cancelled():
                    self._wake()  # Its turn is another's.
                raise
        tenant_key = self._round.popleft()
        line = self._lines[tenant_key]
        line.is_ranked = False
        key, since = line.keys.popitem(last=False)
        line.in_hand += 1
        self._in_hand[key] = False
        self._rank(tenant_key, line)
        return QueueItem(key, self._now() - since)

    def done(self, key: ObjectKey) -> None:
        again = self._in_hand.pop(key)
        tenant_key = key.tenant_key
        line = self._lines[tenant_key]
        line.in_hand -= 1
        if again:
            line.keys[key] = self._now()
        if line.is_overflown and not line.keys:
            line.is_overflown = False
            self._refill(tenant_key)
        self._rank(tenant_key, line)
        if not line.keys and not line.in_hand:
            del self._lines[tenant_key]

    def _rank(self, tenant_key: TenantKey, line: _Line) -> None:
        if line.keys and not line.is_ranked and line.in_hand < self._in_hand_max:
            line.is_ranked = True
            self._round.append(tenant_key)
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
            if self._rings_at <= due:
                return
            self._timer.cancel()
        self._rings_at = due
        self._timer = asyncio.get_running_loop().call_at(due, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._now()
        while self._delayed and self._delayed[0][0] <= now:
            _due, number = heapq.heappop(self._delayed)
            if (key := self._delayed_keys.get(number)) is not None:
                self.add(key)
        if self._delayed:
            self._set_timer()

    def _undelay(self, key: ObjectKey) -> None:
        """Forget that the key is delayed. At most half of the heap is outdated afterwards."""
        if (entry := self._due.pop(key, None)) is None:
            return
        del self._delayed_keys[entry[1]]
        if len(self._delayed) > 2 * len(self._due):
            self._delayed = [each for each in self._delayed if each[1] in self._delayed_keys]
            heapq.heapify(self._delayed)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    # What metrics show

    @property
    def depth(self) -> int:
        return sum(len(line.keys) for line in self._lines.values())

    @property
    def delayed(self) -> int:
        return len(self._due)

    @property
    def in_hand(self) -> int:
        return len(self._in_hand)

    def deepest(self, most: int) -> list[tuple[TenantKey, int]]:
        """The tenants with the most keys waiting."""
        depths = Counter(
            {tenant_key: len(line.keys) for tenant_key, line in self._lines.items() if line.keys}
        )
        return depths.most_common(most)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
