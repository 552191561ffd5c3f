"""What one reporter (a node, an API server) has counted and ring0 has not summed up yet, by hour and tenant.

A reporter writes the totals of these hours, not what was added to them: to write twice changes nothing. An hour takes
amounts until some time after its end; ring0 sums it up later than that, and says so; then the reporter forgets it.
"""

from __future__ import annotations

from collections.abc import Mapping

from alcove.api.usage import HOUR_SECONDS, TenantAmounts, UsageAmounts, hour_of

LATE_SECONDS = 600
"""So long after its end amounts are still added to an hour; later ones go to the current hour."""
SETTLE_SECONDS = 900
"""So long after its end ring0 sums up an hour. The difference is more than clocks may differ, and a write may take."""
HOURS_MAX = 48
"""Hours that are kept while ring0 does not sum them up; of more, the oldest two become one."""


class UsageHours:
    def __init__(self, hours: dict[int, TenantAmounts]) -> None:
        self.hours = hours

    def charge(self, tenant: str, amounts: UsageAmounts, since: float, now: float) -> None:
        """Charges what was used from `since` to `now`: to the hour in which it began, if that is still open."""
        if amounts:
            hour = hour_of(since) if is_open(hour_of(since), now) else hour_of(now)
            self._add(hour, tenant, amounts)

    def adopt(self, reported: Mapping[int, TenantAmounts]) -> None:
        """Goes on with what an earlier reporter of the same name has reported."""
        for hour, tenants in reported.items():
            for tenant, amounts in tenants.items():
                self._add(hour, tenant, amounts)

    def forget_closed(self, now: float) -> None:
        """Forgets hours that take no more amounts: without a report, ring0 has summed them up and deleted it."""
        for hour in [hour for hour in self.hours if not is_open(hour, now)]:
            del self.hours[hour]

    def settle(self, reported: Mapping[int, TenantAmounts], settled_through: int, now: float) -> None:
        """Forgets hours that ring0 has summed up. What belongs to hours that are no longer open, and is not reported
        yet, moves to the current one."""
        for hour in [hour for hour in self.hours if hour <= settled_through or not is_open(hour, now)]:
            known = reported.get(hour, {})
            for tenant, amounts in self.hours.pop(hour).items():
                self.charge(tenant, amounts.less(known.get(tenant, UsageAmounts())), now, now)
            if hour > settled_through and known:
                self.hours[hour] = {tenant: amounts.copy() for tenant, amounts in known.items()}
        while len(self.hours) > HOURS_MAX:
            oldest, second = sorted(self.hours)[:2]
            for tenant, amounts in self.hours.pop(oldest).items():
                self._add(second, tenant, amounts)

    def _add(self, hour: int, tenant: str, amounts: UsageAmounts) -> None:
        self.hours.setdefault(hour, {}).setdefault(tenant, UsageAmounts()).add(amounts)


def is_open(hour: int, now: float) -> bool:
    """Whether amounts may still be added to the hour."""
    return now < (hour + 1) * HOUR_SECONDS + LATE_SECONDS


def is_due(hour: int, now: float) -> bool:
    """Whether ring0 may sum up the hour."""
    return now >= (hour + 1) * HOUR_SECONDS + SETTLE_SECONDS
