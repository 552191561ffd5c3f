"""Limits of open streams, per tenant and in total: streams last for hours and hold memory on both ends."""

from collections import Counter
from collections.abc import Callable

from alcove.api.errors import TooManyRequests
from alcove.api.ids import TenantId

PER_TENANT_MAX = 256
TOTAL_MAX = 4_096
RETRY_AFTER_SECONDS = 5


class StreamLimits:
    def __init__(self, per_tenant_max: int = PER_TENANT_MAX, total_max: int = TOTAL_MAX) -> None:
        self._per_tenant_max = per_tenant_max
        self._total_max = total_max
        self._open: Counter[TenantId] = Counter()
        self.total = 0

    def enter(self, tenant: TenantId) -> Callable[[], None]:
        """Counts one more stream. Call the result when the stream has ended; further calls do nothing.

        Raises TooManyRequests.
        """
        if self._open[tenant] >= self._per_tenant_max:
            raise _too_many(f'tenant "{tenant}" has {self._per_tenant_max} streams open')
        if self.total >= self._total_max:
            raise _too_many(f"this server has {self._total_max} streams open")
        self._open[tenant] += 1
        self.total += 1
        uncounted = [tenant]

        def leave() -> None:
            if uncounted:
                self._leave(uncounted.pop())

        return leave

    def _leave(self, tenant: TenantId) -> None:
        self.total -= 1
        self._open[tenant] -= 1
        if not self._open[tenant]:
            del self._open[tenant]


def _too_many(message: str) -> TooManyRequests:
    return TooManyRequests.after(RETRY_AFTER_SECONDS, f"{message}; close some, or try again later")
