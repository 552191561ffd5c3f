"""Rate limit for the computation of a service's endpoints: expensive services are computed less often.

Each change of a pod recomputes the endpoints of its services from all their pods. With thousands of pods
that change one after another this would use all of the process's time, at the expense of every tenant. A
service whose computation took long therefore rests until it uses at most `SHARE` of the time; changes in
between are handled together afterwards.
"""

from __future__ import annotations

from alcove.client.keys import ObjectKey

SHARE = 0.05
FREE_SECONDS = 0.002
"""A service that takes less never rests: about fifty pods."""


class ServicePacing:
    def __init__(self) -> None:
        self._rests_until: dict[ObjectKey, float] = {}

    def wait_seconds(self, key: ObjectKey, now: float) -> float:
        """Seconds until the service may be computed again; 0 if it may be computed now."""
        remaining = self._rests_until.get(key, now) - now
        if remaining <= 0:
            self._rests_until.pop(key, None)
        return max(remaining, 0.0)

    def took(self, key: ObjectKey, seconds: float, now: float) -> None:
        if seconds > FREE_SECONDS:
            self._rests_until[key] = now + seconds / SHARE

    def forget(self, key: ObjectKey) -> None:
        self._rests_until.pop(key, None)
