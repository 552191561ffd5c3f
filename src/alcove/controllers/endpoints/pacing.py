"""How often a service is worked out: one that takes long, less often.

Each change of one of its pods makes a service's endpoints anew, from all its pods: with thousands that change one after
another this would be all that the process does, for every tenant. So what took long rests for as long as keeps it to a
small share of the time; what changes meanwhile is told together after that.
"""

from __future__ import annotations

from alcove.client.keys import ObjectKey

SHARE = 0.05
FREE_SECONDS = 0.002
"""What takes less never rests: services of up to some fifty pods."""


class ServicePacing:
    def __init__(self) -> None:
        self._rests_until: dict[ObjectKey, float] = {}

    def wait_seconds(self, key: ObjectKey, now: float) -> float:
        """0: it may be worked out."""
        left = self._rests_until.get(key, now) - now
        if left <= 0:
            self._rests_until.pop(key, None)
        return max(left, 0.0)

    def took(self, key: ObjectKey, seconds: float, now: float) -> None:
        if seconds > FREE_SECONDS:
            self._rests_until[key] = now + seconds / SHARE

    def forget(self, key: ObjectKey) -> None:
        self._rests_until.pop(key, None)
