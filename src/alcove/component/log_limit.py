"""Limits how often a failure is logged, by whose it is: a tenant that can cause one can cause a million."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

OWNERS_MAX = 4_096
"""Owners that are remembered; then all are forgotten, and may log again."""


class LogLimit:
    def __init__(self, seconds: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        """An owner may log once in this time."""
        self._seconds = seconds
        self._clock = clock
        self._logged_at: dict[int, float] = {}
        """By the owner's hash: names of tenants that are gone are not kept."""

    def allows(self, owner: Hashable) -> bool:
        """Whether the owner may log now; if so, it is noted."""
        now, number = self._clock(), hash(owner)
        if now - self._logged_at.get(number, -self._seconds) < self._seconds:
            return False
        if len(self._logged_at) >= OWNERS_MAX:
            self._logged_at.clear()
        self._logged_at[number] = now
        return True
