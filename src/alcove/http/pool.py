"""Idle connections that can be reused, by target.

The most recently used one is taken first, so that connections that only a burst needed expire and are closed.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from msgspec import Struct


class Reusable(Protocol):
    @property
    def is_reusable(self) -> bool: ...

    def abort(self) -> None: ...


_K = TypeVar("_K", bound=Hashable)
_C = TypeVar("_C", bound=Reusable)


class PoolLimits(Struct, frozen=True, kw_only=True):
    per_target_max: int
    total_max: int
    per_owner_max: int = 0
    """Idle connections of one owner, as the pool's `owner_of` returns it; 0 for no such limit."""
    idle_seconds_max: float
    """Less than the server's idle timeout: a request on a connection that the server is closing would be
    lost."""
    kept: int = 0
    """Number of connections per target that are kept that long; the others are kept for
    `spare_seconds_max`."""
    spare_seconds_max: float = 0.0


class _Idle(Struct, Generic[_C], frozen=True):
    connection: _C
    since: float


class IdleConnections(Generic[_K, _C]):
    """Belongs to one event loop."""

    def __init__(self, limits: PoolLimits, owner_of: Callable[[_K], Hashable] = lambda _target: None) -> None:
        """Owners share the pool: when it is full, the one that has the most connections loses one."""
        self._limits = limits
        self._owner_of = owner_of
        self._by_owner: Counter[Hashable] = Counter()
        self._idle: dict[_K, deque[_Idle[_C]]] = {}
        """The most recently used ones are at the end."""
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return self._count

    def take(self, target: _K) -> _C | None:
        idle = self._idle.get(target)
        oldest = self._now() - self._limits.idle_seconds_max
        while idle:
            candidate = idle.pop()
            self._discount(target)
            if candidate.connection.is_reusable and candidate.since > oldest:
                return candidate.connection
            candidate.connection.abort()
        self._idle.pop(target, None)
        return None

    def put(self, target: _K, connection: _C) -> None:
        """Keep a connection for another request; close it if it is not reusable or the pool is full."""
        idle = self._idle.get(target)
        is_full = idle is not None and len(idle) >= self._limits.per_target_max
        if is_full or not connection.is_reusable or not self._has_room(self._owner_of(target)):
            connection.abort()
            return
        self._idle.setdefault(target, deque()).append(_Idle(connection, self._now()))
        self._count += 1
        self._by_owner[self._owner_of(target)] += 1
        if self._timer is None:
            self._schedule()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for idle in self._idle.values():
            for each in idle:
                each.connection.abort()
        self._idle.clear()
        self._by_owner.clear()
        self._count = 0

    def _has_room(self, owner: Hashable) -> bool:
        """Whether the owner may keep another connection; one of the largest owner is closed for it if the pool
        is full."""
        count, limits = self._by_owner[owner], self._limits
        if limits.per_owner_max and count >= limits.per_owner_max:
            return False
        if self._count < limits.total_max:
            return True
        largest, most = max(self._by_owner.items(), key=lambda item: item[1], default=(owner, 0))
        if most <= count + 1:
            return False
        target = next(each for each, idle in self._idle.items() if idle and self._owner_of(each) == largest)
        self._idle[target].popleft().connection.abort()
        self._discount(target)
        if not self._idle[target]:
            del self._idle[target]
        return True

    def _discount(self, target: _K) -> None:
        owner = self._owner_of(target)
        self._count -= 1
        self._by_owner[owner] -= 1
        if not self._by_owner[owner]:
            del self._by_owner[owner]

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _schedule(self) -> None:
        seconds = self._limits.spare_seconds_max or self._limits.idle_seconds_max
        self._timer = asyncio.get_running_loop().call_later(seconds / 2, self._close_expired)

    def _close_expired(self) -> None:
        """Close connections that were idle for too long."""
        now, limits = self._now(), self._limits
        for target, idle in list(self._idle.items()):
            while idle:
                is_spare = len(idle) > limits.kept and limits.spare_seconds_max > 0
                seconds_max = limits.spare_seconds_max if is_spare else limits.idle_seconds_max
                if idle[0].connection.is_reusable and now - idle[0].since < seconds_max:
                    break
                idle.popleft().connection.abort()
                self._discount(target)
            if not idle:
                del self._idle[target]
        self._timer = None
        if self._idle:
            self._schedule()
