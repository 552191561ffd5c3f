"""Idle connections that can be reused, by target.

The most recently used one is taken first, so that connections that only a burst needed expire and are closed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
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

    def __init__(self, limits: PoolLimits) -> None:
        self._limits = limits
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
            self._count -= 1
            if candidate.connection.is_reusable and candidate.since > oldest:
                return candidate.connection
            candidate.connection.abort()
        self._idle.pop(target, None)
        return None

    def put(self, target: _K, connection: _C) -> None:
        """Keep a connection for another request; close it if it is not reusable or the pool is full."""
        idle = self._idle.get(target)
        is_full = idle is not None and len(idle) >= self._limits.per_target_max
        if is_full or self._count >= self._limits.total_max or not connection.is_reusable:
            connection.abort()
            return
        self._idle.setdefault(target, deque()).append(_Idle(connection, self._now()))
        self._count += 1
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
        self._count = 0

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
                self._count -= 1
            if not idle:
                del self._idle[target]
        self._timer = None
        if self._idle:
            self._schedule()
