"""Counts anew what is used, from what the cache holds at this moment, and knows when that is called for.

A quota's usage is kept by adding and subtracting. It has to begin right: a write that was on its way
when the quota came did not know of it, on this server or on another. So a quota that this server has
only just come to know is counted anew at each charge, and once more at the first one after that.
"""

from collections.abc import Callable

from alcove.api.ids import TenantId
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
        self._known: dict[object, tuple[object, float]] = {}
        """By key: what was counted, and since when; 0 when it is settled."""

    def is_due(self, account: Account) -> bool:
        if not account.is_whole:
            return True
        now, identity = self._clock(), account.identity
        known = self._known.get(account.key)
        if known is None or known[0] != identity:
            if known is None and len(self._known) >= KNOWN_MAX:
                del self._known[next(iter(self._known))]
            self._known[account.key] = (identity, now)
            return True
        if not known[1]:
            return False
        if now - known[1] >= SETTLE_SECONDS:
            self._known[account.key] = (identity, 0.0)
        return True
