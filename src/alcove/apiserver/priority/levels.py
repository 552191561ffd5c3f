"""The seats of one tenant, divided between its priority levels.

    nominal seats      a level's part of the tenant's seats, by its shares
    lendable           what others may have of them while the level does not use them
    borrowing limit    how far a level may go beyond its nominal seats

A level that has lent seats gets them back as soon as the requests on them end. Seats that were released are free from
the event loop's next iteration on, as in `apiserver/flow.py`: most requests begin and end within one.

A level whose seats are taken rejects further requests, or queues them: each flow in one of the few queues that its hash
deals to it, the shortest, so that a flood fills the queues of its own flow. Queues are served in turn.
"""

from __future__ import annotations

import math
from asyncio import Future, get_running_loop
from collections import OrderedDict, deque
from collections.abc import Iterable
from hashlib import blake2b

from msgspec import Struct

from alcove.api.errors import TooManyRequests
from alcove.api.objects import Object, name

RETRY_AFTER_SECONDS = 1


class LevelConfig(Struct, frozen=True):
    name: str
    uid: str
    is_exempt: bool
    shares: int
    lendable_percent: int
    borrowing_percent: int | None
    queues: int
    """0: requests beyond the level's seats are rejected."""
    hand_size: int
    queue_length_max: int


def config_of(obj: Object) -> LevelConfig:
    spec = obj["spec"]
    limits = spec.get("limited") or spec.get("exempt") or {}
    queuing = (limits.get("limitResponse") or {}).get("queuing") or {}
    return LevelConfig(
        name(obj),
        obj["metadata"].get("uid", ""),
        spec["type"] == "Exempt",
        limits.get("nominalConcurrencyShares", 0),
        limits.get("lendablePercent", 0),
        limits.get("borrowingLimitPercent"),
        queuing.get("queues", 0),
        queuing.get("handSize", 0),
        queuing.get("queueLengthLimit", 0),
    )


class WaitingLimits(Struct):
    """How many requests may wait: of one tenant, and of all tenants whose seats are divided."""

    of_tenant: int
    of_all: int
    now: int = 0
    """Requests of all these tenants that wait now."""


class _Waiter(Struct, eq=False):
    width: int
    queue: int
    granted: Future[None]
    is_queued: bool = True


class PriorityLevel:
    """One level's state. Requests keep a reference to it until they release their seats."""

    __slots__ = ("config", "held", "maximum", "nominal", "queues", "reserved", "waiting")

    def __init__(self, config: LevelConfig) -> None:
        self.held = 0
        self.waiting = 0
        self.queues: OrderedDict[int, deque[_Waiter]] = OrderedDict()
        """Queues with waiting requests; the first is served next."""
        self.configure(config, 0, 0)

    def configure(self, config: LevelConfig, seats: int, shares: int) -> None:
        """Computes the level's seats from its shares among the `shares` of all levels of the tenant."""
        self.config = config
        self.nominal = math.ceil(seats * config.shares / shares) if shares else 0
        self.reserved = self.nominal - self.nominal * config.lendable_percent // 100
        """What is never lent."""
        percent = config.borrowing_percent
        self.maximum = seats if percent is None else self.nominal + self.nominal * percent // 100

    @property
    def kept(self) -> int:
        """Seats that no other level may take now."""
        return max(0, self.reserved - self.held)

    def next_waiter(self) -> _Waiter:
        return next(iter(self.queues.values()))[0]

    def enqueue(self, flow: str, width: int) -> _Waiter:
        """Raises TooManyRequests if the level has no queues, or if the flow's are full."""
        config = self.config
        if not config.queues:
            raise rejection(config.name, "all of its seats are in use")
        hand = deal(flow, config.queues, config.hand_size)
        chosen = min(hand, key=lambda queue: len(self.queues.get(queue, ())))
        waiting = self.queues.get(chosen)
        if waiting is not None and len(waiting) >= config.queue_length_max:
            raise rejection(config.name, "too many requests are waiting")
        waiter = _Waiter(width, chosen, get_running_loop().create_future())
        self.queues.setdefault(chosen, deque()).append(waiter)
        self.waiting += 1
        return waiter

    def leave(self, waiter: _Waiter) -> None:
        """Takes a request out of its queue; the queue is the last to be served then."""
        waiting = self.queues[waiter.queue]
        waiting.remove(waiter)
        waiter.is_queued = False
        self.waiting -= 1
        if waiting:
            self.queues.move_to_end(waiter.queue)
        else:
            del self.queues[waiter.queue]


class LevelSeats:
    """All levels of one tenant. Use it from one event loop only."""

    def __init__(self, seats: int, limits: WaitingLimits) -> None:
        """`limits` are shared with other tenants."""
        self._seats = seats
        self._limits = limits
        self._levels: dict[str, PriorityLevel] = {}
        self._held = 0
        self._released: list[tuple[PriorityLevel, int]] = []
        """Seats that are free from the loop's next iteration on."""
        self._kept = 0
        """Seats that are reserved for levels that do not use them."""
        self._waiting = 0
        self._is_scheduled = False

    @property
    def is_idle(self) -> bool:
        return not (self._held or self._waiting)

    def nominal(self) -> dict[str, int]:
        """The nominal seats of each level."""
        return {level.config.name: level.nominal for level in self._levels.values()}

    def get(self, level: str) -> PriorityLevel:
        return self._levels[level]

    def configure(self, configs: Iterable[LevelConfig]) -> None:
        """Takes over a changed configuration. A level that was removed is kept until its requests have ended."""
        wanted = {config.name: config for config in configs}
        shares = sum(config.shares for config in wanted.values())
        for level in list(self._levels.values()):
            if level.config.name not in wanted and (level.held or level.waiting):
                gone = LevelConfig(level.config.name, level.config.uid, False, 0, 0, None, 0, 0, 0)
                level.configure(gone, self._seats, shares)
            elif level.config.name not in wanted:
                del self._levels[level.config.name]
        for config in wanted.values():
            level = self._levels.setdefault(config.name, PriorityLevel(config))
            level.configure(config, self._seats, shares)
        self._kept = sum(level.kept for level in self._levels.values())
        if self._waiting:
            self._schedule()

    def try_acquire(self, level: PriorityLevel, width: int) -> int:
        """Takes seats if that needs no waiting. Returns how many, for `release`; 0 if it does."""
        width = _width(level, width)
        if level.waiting or not self._fits(level, width):
            return 0
        self._take(level, width)
        return width

    async def acquire(self, level: PriorityLevel, flow: str, width: int) -> int:
        """Waits for seats, and returns how many were taken, for `release`. Raises TooManyRequests. A caller that
        waits no longer cancels it."""
        if self._waiting >= self._limits.of_tenant or self._limits.now >= self._limits.of_all:
            raise rejection(level.config.name, "too many requests of the tenant are waiting")
        waiter = level.enqueue(flow, _width(level, width))
        self._waiting += 1
        self._limits.now += 1
        self._schedule()
        try:
            await waiter.granted
        except BaseException:
            if waiter.is_queued:
                self._leave(level, waiter)
            elif not waiter.granted.cancelled():
                self.release(level, waiter.width)
            raise
        return waiter.width

    def release(self, level: PriorityLevel, seats: int) -> None:
        self._released.append((level, seats))
        self._schedule()

    def _leave(self, level: PriorityLevel, waiter: _Waiter) -> None:
        level.leave(waiter)
        self._waiting -= 1
        self._limits.now -= 1

    def _fits(self, level: PriorityLevel, width: int) -> bool:
        held = level.held + width
        if self._held + width > self._seats or held > level.maximum:
            return False
        return held <= level.nominal or self._held + width <= self._seats - (self._kept - level.kept)

    def _take(self, level: PriorityLevel, width: int) -> None:
        self._kept -= level.kept
        level.held += width
        self._held += width
        self._kept += level.kept

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            get_running_loop().call_soon(self._start_iteration)

    def _start_iteration(self) -> None:
        self._is_scheduled = False
        released, self._released = self._released, []
        for level, width in released:
            self._take(level, -width)
        if self._waiting:
            self._serve()

    def _serve(self) -> None:
        """Grants free seats to waiting requests, one request of each level in turn: first nominal seats, then
        borrowed ones."""
        for may_borrow in (False, True):
            turn = [level for level in self._levels.values() if level.waiting]
            while turn:
                # A level whose next request does not fit now does not fit after others were granted seats either.
                turn = [level for level in turn if level.waiting and self._serve_next(level, may_borrow)]

    def _serve_next(self, level: PriorityLevel, may_borrow: bool) -> bool:
        waiter = level.next_waiter()
        is_nominal = level.held + waiter.width <= level.nominal
        if not (is_nominal or may_borrow) or not self._fits(level, waiter.width):
            return False
        self._leave(level, waiter)
        if not waiter.granted.done():  # It may just have been cancelled.
            self._take(level, waiter.width)
            waiter.granted.set_result(None)
        return True


def _width(level: PriorityLevel, width: int) -> int:
    """No request is wider than its level, or it would never be served."""
    return min(width, max(level.nominal, 1))


def deal(flow: str, queues: int, hand_size: int) -> list[int]:
    """The queues that a flow may use: `hand_size` different ones, by the flow's hash."""
    entropy = int.from_bytes(blake2b(flow.encode(), digest_size=8).digest())
    hand: list[int] = []
    for dealt in range(hand_size):
        entropy, card = divmod(entropy, queues - dealt)
        for taken in sorted(hand):
            card += card >= taken
        hand.append(card)
    return hand


def rejection(level: str, reason: str) -> TooManyRequests:
    message = f'too many requests in the priority level "{level}": {reason}; please try again later'
    return TooManyRequests.after(RETRY_AFTER_SECONDS, message)
