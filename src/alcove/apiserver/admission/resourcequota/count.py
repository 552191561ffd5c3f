"""Counts usage again from the objects in the cache, and decides when that is necessary.

A quota's usage is updated incrementally, so it must be correct at first: a write that was in progress when
the quota was created did not charge it, on this server or another. So a quota that was created or changed
recently is counted at each charge, and any quota when this server first charges it. If the usage should ever
be wrong nevertheless, the next count repairs it: usage is counted every COUNT_SECONDS, and before a write is
rejected.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from alcove.api import meta
from alcove.api.ids import Key, TenantId
from alcove.api.objects import Object
from alcove.api.quantity import ONE as UNIT
from alcove.api.quantity import ZERO, Quantity
from alcove.apiserver.admission.resourcequota import usage
from alcove.apiserver.admission.resourcequota.account import QuotaAccount
from alcove.apiserver.admission.resourcequota.pods import Amounts
from alcove.apiserver.admission.resourcequota.usage import UsageMeasure
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.computing import ComputeThreads

SETTLE_SECONDS = 5.0
"""Longer than any write takes from reading the quotas to the commit."""
COUNT_SECONDS = 300.0
REFUSE_SECONDS = 10.0
"""The maximum age of a count if a write is charged (COUNT_SECONDS) or rejected (REFUSE_SECONDS)."""
KNOWN_MAX = 4096
MEASURED_AT_ONCE_MAX = 200
"""Objects that are measured on the event loop, some microseconds each; more are measured in a thread."""


class UsageCounter:
    """Counts what a tenant's objects use. Many objects are measured in threads, in the tenant's own turns."""

    def __init__(self, cache: Cache, threads: ComputeThreads) -> None:
        self._cache = cache
        self._threads = threads

    async def count(self, tenant: TenantId, account: QuotaAccount) -> Amounts:
        """The total usage of all objects that the account counts, as the cache has them when this returns."""
        measured: dict[CacheEntry, UsageMeasure] = {}
        used: Amounts = dict.fromkeys(account.hard, ZERO)
        while True:
            entries = self._measured_entries(tenant, account)
            # Objects may have changed while others were measured.
            added = [each for each in entries.items() if each[0] not in measured]
            removed = [each for each in measured.items() if each[0] not in entries]
            add = partial(_with_usage, account, used, added, removed)
            if len(added) + len(removed) <= MEASURED_AT_ONCE_MAX:
                return self._with_plain(tenant, account, add())
            used, measured = await self._threads.run(tenant, add), entries

    def _measured_entries(self, tenant: TenantId, account: QuotaAccount) -> dict[CacheEntry, UsageMeasure]:
        return {
            entry: measure
            for measure in _measures(account)
            if measure.usage is not None
            for entry in self._cache.entries(tenant, measure.resource, account.namespace)
        }

    def _with_plain(self, tenant: TenantId, account: QuotaAccount, used: Amounts) -> Amounts:
        """With the objects that are only counted, of which the cache knows the number."""
        for measure in _measures(account) if not account.scopes else ():
            if measure.usage is None:
                amount = Quantity(self._cache.count(tenant, measure.resource, account.namespace) * UNIT)
                used |= {name: amount for name in usage.plain_names(measure.resource) if name in used}
        return used


def _measures(account: QuotaAccount) -> Iterable[UsageMeasure]:
    return dict.fromkeys(each for name in account.hard for each in usage.measured_by(name))


Measured = Iterable[tuple[CacheEntry, UsageMeasure]]


def _with_usage(account: QuotaAccount, used: Amounts, added: Measured, removed: Measured) -> Amounts:
    total = dict(used)
    for sign, entries in ((1, added), (-1, removed)):
        for entry, measure in entries:
            # Decode a temporary copy: otherwise the cache would keep decoded pods in memory.
            obj = entry.decode()
            if measure.usage is not None and account.matches(measure.resource, obj):
                for name, amount in measure.usage(obj).items():
                    if name in total:
                        total[name] = total[name] + amount if sign > 0 else total[name] - amount
    return total


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
