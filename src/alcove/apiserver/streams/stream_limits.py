"""How many streams there are, of each tenant and in all: they last for hours and hold memory on both ends."""

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
        """Counts one more; to be called, once or more, when it has ended. Raises TooManyRequests."""
        if self._open[tenant] >= self._per_tenant_max:
            raise _refused(f'tenant "{tenant}" has {self._per_tenant_max} streams open')
        if self.total >= self._total_max:
            raise _refused(f"this server has {self._total_max} streams open")
        self._open[tenant] += 1
        self.total += 1
        left = [tenant]

        def leave() -> None:
            if left:
                self._leave(left.pop())

        return leave

    def _leave(self, tenant: TenantId) -> None:
        self.total -= 1
        self._open[tenant] -= 1
        if not self._open[tenant]:
            del self._open[tenant]


def _refused(why: str) -> TooManyRequests:
    return TooManyRequests.after(RETRY_AFTER_SECONDS, f"{why}; close some, or try again later")
