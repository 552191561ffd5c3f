"""Connections that wait for their next use, by where they lead.

The one used last is taken first, so that those which only a burst needed grow old and are closed.
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
    """Less than the server's own: who closes first decides whether a request is lost."""
    kept: int = 0
    """So many of a target are kept that long; the others only for `spare_seconds_max`."""
    spare_seconds_max: float = 0.0


class _Idle(Struct, Generic[_C], frozen=True):
    connection: _C
    since: float


class IdleConnections(Generic[_K, _C]):
    """Belongs to one event loop."""

    def __init__(self, limits: PoolLimits) -> None:
        self._limits = limits
        self._idle: dict[_K, deque[_Idle[_C]]] = {}
        """Those used last are at the end."""
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return self._count

    def take(self, target: _K) -> _C | None:
        idle = self._idle.get(target)
        oldest = self._now() - self._limits.idle_seconds_max
        while idle:
            found = idle.pop()
            self._count -= 1
            if found.connection.is_reusable and found.since > oldest:
                return found.connection
            found.connection.abort()
        self._idle.pop(target, None)
        return None

    def put(self, target: _K, connection: _C) -> None:
        """Keeps a connection for another request; one that cannot serve it, or is one too many, is closed."""
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
        self._timer = asyncio.get_running_loop().call_later(seconds / 2, self._sweep)

    def _sweep(self) -> None:
        """Closes what nobody has used for long."""
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
