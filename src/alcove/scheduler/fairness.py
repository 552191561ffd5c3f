"""Which tenant is next: weighted dominant resource fairness.

A tenant's dominant share is the largest fraction it uses of the cluster's CPU, memory or pods. The ready
tenant whose share, divided by its weight, is smallest is next; a tenant below its guaranteed minimum
(`guaranteed_minimums`) precedes all others, if its next pod requests a resource it is due. Three things bound
the effect of one tenant on another:

- aging: a ready tenant that has waited ten times as long as its weight implies is served, whatever its share;
- tries: a failed attempt costs a try, or several if it took long, and tries are replenished slowly. A tenant without
  tries yields to those that have some, so unschedulable pods cost the others next to nothing, however expensive they
  are to evaluate. Retrying what failed before is cheap: in a full cluster every tenant retries whenever resources
  are released, and shares must follow weights there too;
- quotas and guaranteed minimums, in `Tenant.spec.quota`.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from alcove.api.ids import TenantId
from alcove.scheduler.guaranteed_minimums import NO_MINIMUM, TenantLimits, hold
from alcove.scheduler.resource_amounts import CPU, MEMORY, PODS, Amounts

SHARED = (CPU, MEMORY, PODS)
AGING = 10
TRIES_MAX = 64.0
TRIES_OWED_MAX = 512.0
TRIES_PER_TURN = 1 / 8
TRY_AGAIN = 2 * TRIES_PER_TURN
"""Cost of a retry: less than is replenished while one other tenant tries as often."""
TRY_SECONDS = 0.005
"""CPU time of one try: the maximum of a normal attempt on thousands of nodes."""
_SMOOTHING = 1 / 64

Head = tuple[int, str, int]
"""Sort key of a tenant's first pod: (negated priority, creation time, order of arrival)."""


_NOTHING: Mapping[str, int] = {}


class TenantShare:
    """One tenant's usage and position."""

    __slots__ = (
        "asks",
        "entry",
        "head",
        "limits",
        "minimum",
        "size",
        "tenant",
        "tries",
        "tries_at",
        "used",
        "wait",
    )

    def __init__(self, tenant: TenantId) -> None:
        self.tenant = tenant
        self.limits = TenantLimits()
        self.minimum = NO_MINIMUM
        self.used: Amounts = {}
        self.head: Head | None = None
        """None if the tenant has no ready pod."""
        self.asks = _NOTHING
        """Requests of its first pod."""
        self.size = 0.0
        """Moving average of its pods' dominant share."""
        self.tries = TRIES_MAX
        self.tries_at = 0
        self.entry = 0
        """Number of its valid entry in `_ready`, `_tired` and `_weary`."""
        self.wait = 0
        """Number of its valid entry in `_waiting`."""


class FairShareQueue:
    def __init__(self) -> None:
        self.accounts: dict[TenantId, TenantShare] = {}
        self.turns = 0
        self._capacity: Amounts = {}
        self._used: Amounts = {}
        self._promised: dict[TenantShare, None] = {}
        """Accounts with a guaranteed minimum."""
        self._has_current_minimums = True
        """Whether the minimums are computed for the current capacity and limits."""
        self._reserved: Amounts = {}
        """Resources reserved in total for tenants below their minimum."""
        self._size = 0.0
        self._weight_ready = 0
        self._numbers = 0
        self._moved: dict[TenantShare, None] = {}
        """Ready accounts whose position must be updated."""
        self._have_all_moved = False
        """Whether the positions of all accounts must be updated."""
        self._ready: list[tuple[tuple[float, ...] | Head, int, TenantShare]] = []
        self._tired: list[tuple[int, int, TenantShare]] = []
        """Accounts without tries, by the turn at which they have one again."""
        self._weary: list[tuple[tuple[float, ...] | Head, int, TenantShare]] = []
        """The same accounts in order of precedence, for when no other account is ready."""
        self._waiting: list[tuple[float, int, TenantShare]] = []

    def account(self, tenant: TenantId) -> TenantShare:
        found = self.accounts.get(tenant)
        if found is None:
            found = self.accounts[tenant] = TenantShare(tenant)
        return found

    def forget(self, tenant: TenantId) -> None:
        """Forgets a deleted tenant that uses nothing."""
        account = self.accounts.pop(tenant, None)
        if account is not None:
            self.set_head(account, None)
            self.set_limits(account, TenantLimits())

    def set_limits(self, account: TenantShare, limits: TenantLimits) -> None:
        if account.head is not None:
            self._weight_ready += limits.weight - account.limits.weight
        account.limits = limits
        if limits.least:
            self._promised[account] = None
            self._has_current_minimums = False
        elif account in self._promised:
            del self._promised[account]
            account.minimum = NO_MINIMUM
            self._has_current_minimums = False
        self._move(account)

    def set_capacity(self, capacity: Amounts) -> None:
        if capacity != self._capacity:
            self._capacity = capacity
            self._has_current_minimums = self._has_current_minimums and not self._promised
            self._have_all_moved = True

    def _compute_minimums(self) -> None:
        """Computes the minimums after limits or capacity changed. Done lazily: nodes and tenants often change
        by the thousand."""
        self._has_current_minimums = True
        minima = hold((account.limits for account in self._promised), self._capacity)
        self._reserved = {}
        for account, minimum in zip(self._promised, minima, strict=True):
            account.minimum = minimum
            self._reserve(account, 1)
            self._move(account)

    def charge(self, account: TenantShare, amounts: Mapping[str, int], sign: int = 1) -> None:
        """Adds a pod's requests to the tenant's usage (or, with -1, subtracts them)."""
        self._reserve(account, -1)
        for resource, amount in amounts.items():
            account.used[resource] = account.used.get(resource, 0) + sign * amount
            self._used[resource] = self._used.get(resource, 0) + sign * amount
        self._reserve(account, 1)
        self._move(account)

    def _reserve(self, account: TenantShare, sign: int) -> None:
        for resource, kept in account.minimum.kept.items():
            missing = max(0, kept - account.used.get(resource, 0))
            self._reserved[resource] = self._reserved.get(resource, 0) + sign * missing

    @property
    def has_ready(self) -> bool:
        return self._weight_ready > 0

    @property
    def has_minima(self) -> bool:
        """Whether any tenant has a guaranteed minimum."""
        return bool(self._promised)

    def share(self, account: TenantShare) -> float:
        """The tenant's unweighted dominant share."""
        return max(
            (account.used.get(each, 0) / self._capacity[each] for each in SHARED if self._capacity.get(each)),
            default=0.0,
        )

    def objection(self, account: TenantShare, amounts: Mapping[str, int]) -> str:
        """Why the tenant may not place a pod with these requests now. Empty if it may."""
        return self.quota_objection(account, amounts) or self.guarantee_objection(account, amounts)

    def quota_objection(self, account: TenantShare, amounts: Mapping[str, int]) -> str:
        """The objection that follows from the tenant's own limits and usage."""
        limits = account.limits
        if limits.is_asleep:
            return "the tenant is asleep; `alcove tenant wake` wakes it"
        for resource, most in limits.most.items():
            used, requested = account.used.get(resource, 0), amounts.get(resource, 0)
            if requested and used + requested > most:
                return f"tenant's quota of {resource} is exceeded"
        return ""

    def guarantee_objection(self, account: TenantShare, amounts: Mapping[str, int]) -> str:
        """The objection that follows from what other tenants are guaranteed."""
        if not self._has_current_minimums:
            self._compute_minimums()
        for resource, total_reserved in self._reserved.items():
            requested = amounts.get(resource, 0)
            reserved = max(0, account.minimum.kept.get(resource, 0) - account.used.get(resource, 0))
            free = self._capacity.get(resource, 0) - self._used.get(resource, 0)
            if requested > reserved and 0 < total_reserved - reserved > free - requested:
                return f"remaining {resource} is guaranteed to other tenants"
        return ""

    def unguaranteed(self) -> Amounts:
        """What a tenant without a guaranteed minimum may place, of the resources of which some are guaranteed."""
        if not self._has_current_minimums:
            self._compute_minimums()
        return {
            resource: self._capacity.get(resource, 0) - self._used.get(resource, 0) - reserved
            for resource, reserved in self._reserved.items()
            if reserved > 0
        }

    def set_head(self, account: TenantShare, head: Head | None, asks: Mapping[str, int] = _NOTHING) -> None:
        """Sets the tenant's first pod and its requests. None if no pod is ready."""
        before, account.head = account.head, head
        account.asks = asks
        if (before is None) != (head is None):
            self._weight_ready += account.limits.weight if before is None else -account.limits.weight
            if head is not None:
                self._await(account)
        self._move(account)

    def _move(self, account: TenantShare) -> None:
        if account.head is not None:
            self._moved[account] = None

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def next(self) -> TenantShare | None:
        """The next account. It stays ready until `set_head` is called."""
        self.turns += 1
        self._update_order()
        chosen = self._overdue() or self._first()
        if chosen is not None:
            self._await(chosen)
            self._moved[chosen] = None
        return chosen

    def _update_order(self) -> None:
        if not self._has_current_minimums:
            self._compute_minimums()
        for account in list(self.accounts.values()) if self._have_all_moved else self._moved:
            if account.head is None:
                continue
            account.entry = self._number()
            if self._is_tired(account):
                rested = self.turns + int((1 - account.tries) / TRIES_PER_TURN) + 1
                heapq.heappush(self._tired, (rested, account.entry, account))
                heapq.heappush(self._weary, (self._key(account), account.entry, account))
            else:
                heapq.heappush(self._ready, (self._key(account), account.entry, account))
        self._moved.clear()
        self._have_all_moved = False
        while self._tired and self._tired[0][0] <= self.turns:
            _, entry, account = heapq.heappop(self._tired)
            if entry == account.entry and account.head is not None:
                heapq.heappush(self._ready, (self._key(account), entry, account))
        for heap in (self._ready, self._weary):
            if len(heap) > 64 + 4 * len(self.accounts):
                heap[:] = [each for each in heap if each[1] == each[2].entry]
                heapq.heapify(heap)

    def _key(self, account: TenantShare) -> tuple[float, ...] | Head:
        due = account.minimum.due
        if due and any(account.used.get(each, 0) < due[each] for each in due if account.asks.get(each)):
            # Among tenants below their minimum, the one with the smallest fraction of it is first.
            return (0.0, max(account.used.get(each, 0) / due[each] for each in due if due[each]))
        return (1.0, self.share(account) / account.limits.weight)

    def _is_tired(self, account: TenantShare) -> bool:
        passed = self.turns - account.tries_at
        account.tries = min(TRIES_MAX, account.tries + passed * TRIES_PER_TURN)
        account.tries_at = self.turns
        return account.tries < 1

    def _first(self) -> TenantShare | None:
        """The first account with tries, else the first without."""
        for heap in (self._ready, self._weary):
            while heap:
                _, entry, account = heapq.heappop(heap)
                if entry == account.entry and account.head is not None:
                    return account
        return None

    def _overdue(self) -> TenantShare | None:
        while self._waiting and self._waiting[0][0] <= self.turns:
            _, wait, account = heapq.heappop(self._waiting)
            if wait != account.wait or account.head is None:
                continue
            if not self._is_tired(account):
                return account
            # It used its turns for failing attempts. Its debt is bounded, and so is its wait.
            self._await(account)
        return None

    def _await(self, account: TenantShare) -> None:
        """Restarts the account's aging."""
        account.wait = self._number()
        heapq.heappush(self._waiting, (self.turns + self._turns_max(account), account.wait, account))
        if len(self._waiting) > 64 + 4 * len(self.accounts):
            self._waiting = [each for each in self._waiting if each[1] == each[2].wait]
            heapq.heapify(self._waiting)

    def _turns_max(self, account: TenantShare) -> float:
        """Turns after which the account is served whatever its share: AGING times its fair interval, more if
        its pods are larger than others'."""
        larger = account.size / self._size if self._size else 1.0
        return AGING * max(1, self._weight_ready) / account.limits.weight * max(1.0, larger)

    def succeeded(self, account: TenantShare, amounts: Mapping[str, int]) -> None:
        """The tenant's turn placed a pod with these requests."""
        size = max(
            (amounts.get(each, 0) / self._capacity[each] for each in SHARED if self._capacity.get(each)),
            default=0.0,
        )
        account.size += (size - account.size) * (_SMOOTHING if account.size else 1.0)
        self._size += (size - self._size) * (_SMOOTHING if self._size else 1.0)

    def failed(self, account: TenantShare, seconds: float = 0.0, is_again: bool = False) -> None:
        """The tenant's turn failed after `seconds` of CPU time. `is_again`: the pod was unschedulable
        before."""
        cost = max(TRY_AGAIN if is_again else 1.0, seconds / TRY_SECONDS - 1.0)
        account.tries = max(account.tries - cost, -TRIES_OWED_MAX)


class FirstComeQueue(FairShareQueue):
    """No fairness: the oldest pod of all tenants is next. For comparison in benchmarks."""

    def _key(self, account: TenantShare) -> tuple[float, ...] | Head:
        assert account.head is not None
        return account.head

    def _is_tired(self, account: TenantShare) -> bool:
        return False

    def _turns_max(self, account: TenantShare) -> float:
        return float("inf")
