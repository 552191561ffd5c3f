"""Counts anew what is used, from what the cache holds at this moment, and knows when that is called for.

A quota's usage is kept by adding and subtracting. It has to begin right: a write that was on its way
when the quota came did not know of it, on this server or on another. So a quota that was made or changed
just now is counted anew at each charge, and any quota when this server first charges it. Should something
ever be written past the quotas all the same, the next count mends it: there is one from time to time, and
one before somebody is refused.
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
"""Longer than any write takes from its last look at the quotas to the store."""
COUNT_SECONDS = 300.0
REFUSE_SECONDS = 10.0
"""How old a count may be when something is charged, and when something is refused."""
KNOWN_MAX = 4096


def count(cache: Cache, tenant: TenantId, account: QuotaAccount) -> Amounts:
    """What everything that the account counts uses together."""
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
        # A copy that is forgotten again: decoded pods would stay in memory otherwise.
        obj = entry.decode()
        if account.matches(measure.resource, obj):
            for name, amount in measure.usage(obj).items():
                if name in used:
                    used[name] = used[name] + amount


class RecountSchedule:
    """Which accounts have to be counted anew before they are charged."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._right: dict[Key, tuple[object, float]] = {}
        """By key: what was counted there, and when it was last found to be right, after it had settled."""

    def is_due(self, account: QuotaAccount, *, to_refuse: bool = False) -> bool:
        if not account.is_whole:
            return True
        known = self._right.get(account.key)
        if known is None or known[0] != account.identity:
            return True
        return self._clock() - known[1] >= (REFUSE_SECONDS if to_refuse else COUNT_SECONDS)

    def counted(self, account: QuotaAccount, used: Mapping[str, Quantity]) -> None:
        """A count is believed for a while if it says what the account says, and that is no longer new."""
        now, key = self._clock(), account.key
        if dict(account.used) != used or now - _changed_at(account.obj) < SETTLE_SECONDS:
            return
        if key not in self._right and len(self._right) >= KNOWN_MAX:
            del self._right[next(iter(self._right))]
        self._right[key] = (account.identity, now)


def _changed_at(obj: Object) -> float:
    """When somebody last wrote the quota (epoch seconds); charging it does not count."""
    metadata = obj["metadata"]
    times = [
        metadata.get("creationTimestamp"),
        *(each.get("time") for each in metadata.get("managedFields") or ()),
    ]
    return max((meta.parse_time(time) for time in times if time), default=0.0)
