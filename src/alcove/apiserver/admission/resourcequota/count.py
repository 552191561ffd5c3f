"""Counts anew what is used, from what the cache holds at this moment, and knows when that is called for.

A quota's usage is kept by adding and subtracting. It has to begin right: a write that was on its way
when the quota came did not know of it, on this server or on another. So a quota that was made or changed
just now is counted anew at each charge, and any quota once more when this server first charges it.
"""

from collections.abc import Callable

from alcove.api import meta
from alcove.api.ids import Key, TenantId
from alcove.api.objects import Object
from alcove.api.quantity import ONE as UNIT
from alcove.api.quantity import ZERO, Quantity
from alcove.apiserver.admission.resourcequota import usage
from alcove.apiserver.admission.resourcequota.account import Account
from alcove.apiserver.admission.resourcequota.pods import Amounts
from alcove.apiserver.cache.cache import Cache

SETTLE_SECONDS = 5.0
"""Longer than any write takes from its last look at the quotas to the store."""
KNOWN_MAX = 4096


def count(cache: Cache, tenant: TenantId, account: Account) -> Amounts:
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
    cache: Cache, tenant: TenantId, account: Account, measure: usage.Measure, used: Amounts
) -> None:
    if account.scopes:
        return
    amount = Quantity(cache.count(tenant, measure.resource, account.namespace) * UNIT)
    for name in usage.plain_names(measure.resource):
        if name in used:
            used[name] = amount


def _add_measured(
    cache: Cache, tenant: TenantId, account: Account, measure: usage.Measure, used: Amounts
) -> None:
    assert measure.usage is not None
    for entry in cache.entries(tenant, measure.resource, account.namespace):
        # A copy that is forgotten again: decoded pods would stay in memory otherwise.
        obj = entry.decode()
        if account.matches(measure.resource, obj):
            for name, amount in measure.usage(obj).items():
                if name in used:
                    used[name] = used[name] + amount


class Settling:
    """Which accounts have to be counted anew before they are charged."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._settled: dict[Key, object] = {}
        """By key: what is counted there, as it was when it was counted last."""

    def is_due(self, account: Account) -> bool:
        if not account.is_whole:
            return True
        identity = account.identity
        if self._settled.get(account.key) == identity:
            return False
        if self._clock() - _changed_at(account.obj) >= SETTLE_SECONDS:
            if account.key not in self._settled and len(self._settled) >= KNOWN_MAX:
                del self._settled[next(iter(self._settled))]
            self._settled[account.key] = identity
        return True


def _changed_at(obj: Object) -> float:
    """When somebody last wrote the quota (epoch seconds); charging it does not count."""
    metadata = obj["metadata"]
    times = [
        metadata.get("creationTimestamp"),
        *(each.get("time") for each in metadata.get("managedFields") or ()),
    ]
    return max((meta.parse_time(time) for time in times if time), default=0.0)
