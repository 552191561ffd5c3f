"""Counts usage again from the objects in the cache, and decides when that is necessary.

A quota's usage is updated incrementally, so it must be correct at first: a write that was in progress when
the quota was created did not charge it, on this server or another. So a quota that was created or changed
recently is counted at each charge, and any quota when this server first charges it. If the usage should ever
be wrong nevertheless, the next count repairs it: usage is counted every COUNT_SECONDS, and before a write is
rejected.
"""

from collections.abc import Callable, Mapping

from alcove.api import meta
from alcove.api.ids import Key, TenantId
from alcove.api.objects import Object
from alcove.api.quantity import ONE as UNIT
from alcove.api.quantity import ZERO, Quantity
from alcove.apiserver.admission.resourcequota import usage
from alcove.apiserver.admission.resourcequota.account import QuotaAccount
from alcove.apiserver.admission.resourcequota.pods import Amounts
from alcove.apiserver.cache.cache import Cache

SETTLE_SECONDS = 5.0
"""Longer than any write takes from reading the quotas to the commit."""
COUNT_SECONDS = 300.0
REFUSE_SECONDS = 10.0
"""The maximum age of a count if a write is charged (COUNT_SECONDS) or rejected (REFUSE_SECONDS)."""
KNOWN_MAX = 4096


def count(cache: Cache, tenant: TenantId, account: QuotaAccount) -> Amounts:
    """The total usage of all objects that the account counts."""
    used: Amounts = dict.fromkeys(account.hard, ZERO)
    measures = dict.fromkeys(each for name in account.hard for each in usage.measured_by(name))
    for each in measures:
        if each.usage is None:
            _add_plain(cache, tenant, account, each, used)
        else:
            _add_measured(cache, tenant, account, each, used)
    return used


def _add_plain(
    cache: Cache, tenant: TenantId, account: QuotaAccount, measure: usage.UsageMeasure, used: Amounts
) -> None:
    if account.scopes:
        return
    amount = Quantity(cache.count(tenant, measure.resource, account.namespace) * UNIT)
    for name in usage.plain_names(measure.resource):
        if name in used:
            used[name] = amount


def _add_measured(
    cache: Cache, tenant: TenantId, account: QuotaAccount, measure: usage.UsageMeasure, used: Amounts
) -> None:
    assert measure.usage is not None
    for entry in cache.entries(tenant, measure.resource, account.namespace):
        # Decode a temporary copy: otherwise the cache would keep decoded pods in memory.
        obj = entry.decode()
        if account.matches(measure.resource, obj):
            for name, amount in measure.usage(obj).items():
                if name in used:
                    used[name] = used[name] + amount


class RecountSchedule:
    """Decides which accounts must be counted before they are charged."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._confirmed: dict[Key, tuple[object, float]] = {}
        """Key → the account's identity, and the time of the last count that confirmed its usage."""

    def is_due(self, account: QuotaAccount, *, to_refuse: bool = False) -> bool:
        if not account.is_whole:
            return True
        confirmed = self._confirmed.get(account.key)
        if confirmed is None or confirmed[0] != account.identity:
            return True
        return self._clock() - confirmed[1] >= (REFUSE_SECONDS if to_refuse else COUNT_SECONDS)

    def counted(self, account: QuotaAccount, used: Mapping[str, Quantity]) -> None:
        """Record a count. It is valid for some time if it equals the account's usage and the quota did not
        change recently."""
        now, key = self._clock(), account.key
        if dict(account.used) != used or now - _changed_at(account.obj) < SETTLE_SECONDS:
            return
        if key not in self._confirmed and len(self._confirmed) >= KNOWN_MAX:
            del self._confirmed[next(iter(self._confirmed))]
        self._confirmed[key] = (account.identity, now)


def _changed_at(obj: Object) -> float:
    """When a client last wrote the quota (epoch seconds); charges do not count."""
    metadata = obj["metadata"]
    times = [
        metadata.get("creationTimestamp"),
        *(each.get("time") for each in metadata.get("managedFields") or ()),
    ]
    return max((meta.parse_time(time) for time in times if time), default=0.0)
