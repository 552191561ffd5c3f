"""Whose turn it is: weighted dominant-resource fairness between tenants.

A tenant's dominant share is the greatest part it uses of the cluster's CPU, memory or places for pods.
The turn goes to the ready tenant whose share, divided by its weight, is smallest; one below its
guaranteed minimum (`minima`) goes before all, if its next pod asks for what it is due. Three things
bound what one tenant can do to another:

- aging: a ready tenant that was passed over ten times as long as its weight would have it is served,
  whatever its share;
- tries: an attempt that fails costs a try, or several if it was much work, and tries come back slowly; a
  tenant without any waits for those that have some, so pods that fit nowhere cost the others next to
  nothing, however hard they are to judge. To try again what failed before costs little: in a full
  cluster everybody does so whenever there is room for one, and shares have to follow weights there too;
- ceilings and minima, in `Tenant.spec.quota`.
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
"""What it costs to try again: less than comes back while one other tenant tries as often."""
TRY_SECONDS = 0.005
"""The work of one try: what an attempt takes at most on thousands of nodes, unless it is made hard."""
_SMOOTHING = 1 / 64

Head = tuple[int, str, int]
"""What is first in a tenant's line: (priority negated, made when, order of arrival)."""


_NOTHING: Mapping[str, int] = {}


class TenantShare:
    """One tenant's use and standing."""

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
        """None: nothing of the tenant's is ready."""
        self.asks = _NOTHING
        """What the first of its pods requests."""
        self.size = 0.0
        """The dominant share of one of its pods, about."""
        self.tries = TRIES_MAX
        self.tries_at = 0
        self.entry = 0
        """Number of its one valid entry among the ready (or the tired)."""
        self.wait = 0
        """Number of its one valid entry among the waiting."""


class FairShareQueue:
    def __init__(self) -> None:
        self.accounts: dict[TenantId, TenantShare] = {}
        self.turns = 0
        self._capacity: Amounts = {}
        self._used: Amounts = {}
        self._promised: dict[TenantShare, None] = {}
        """Accounts with a minimum."""
        self._are_minima_held = True
        """Whether their minima are those that can be held with this capacity and these limits."""
        self._owed: Amounts = {}
        """What is still kept free for tenants below their minimum, in sum."""
        self._size = 0.0
        self._weight_ready = 0
        self._numbers = 0
        self._moved: dict[TenantShare, None] = {}
        """Ready accounts whose place in the order has to be found anew."""
        self._ready: list[tuple[tuple[float, ...] | Head, int, TenantShare]] = []
        self._tired: list[tuple[int, int, TenantShare]] = []
        """By when they are rested."""
        self._weary: list[tuple[tuple[float, ...] | Head, int, TenantShare]] = []
        """The same, by whose turn it is, should nobody else be ready."""
        self._waiting: list[tuple[float, int, TenantShare]] = []

    def account(self, tenant: TenantId) -> TenantShare:
        found = self.accounts.get(tenant)
        if found is None:
            found = self.accounts[tenant] = TenantShare(tenant)
        return found

    def forget(self, tenant: TenantId) -> None:
        """The tenant is gone, and so is all it had."""
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
            self._are_minima_held = False
        elif account in self._promised:
            del self._promised[account]
            account.minimum = NO_MINIMUM
            self._are_minima_held = False
        self._move(account)

    def set_capacity(self, capacity: Amounts) -> None:
        if capacity != self._capacity:
            self._capacity = capacity
            self._are_minima_held = self._are_minima_held and not self._promised
            self._moved |= {account: None for account in self.accounts.values() if account.head is not None}

    def _hold_minima(self) -> None:
        """Limits or capacity changed: find anew what each minimum is worth. Only when it matters, for
        nodes and tenants often come by the thousand."""
        self._are_minima_held = True
        minima = hold((account.limits for account in self._promised), self._capacity)
        self._owed = {}
        for account, minimum in zip(self._promised, minima, strict=True):
            account.minimum = minimum
            self._owe(account, 1)
            self._move(account)

    def charge(self, account: TenantShare, amounts: Mapping[str, int], sign: int = 1) -> None:
        """A pod of the tenant takes these amounts (or, with -1, gives them back)."""
        self._owe(account, -1)
        for resource, amount in amounts.items():
            account.used[resource] = account.used.get(resource, 0) + sign * amount
            self._used[resource] = self._used.get(resource, 0) + sign * amount
        self._owe(account, 1)
        self._move(account)

    def _owe(self, account: TenantShare, sign: int) -> None:
        for resource, kept in account.minimum.kept.items():
            missing = max(0, kept - account.used.get(resource, 0))
            self._owed[resource] = self._owed.get(resource, 0) + sign * missing

    @property
    def has_ready(self) -> bool:
        return self._weight_ready > 0

    @property
    def has_minima(self) -> bool:
        """Whether something is guaranteed to somebody."""
        return bool(self._promised)

    def share(self, account: TenantShare) -> float:
        """The dominant share, not weighted."""
        return max(
            (account.used.get(each, 0) / self._capacity[each] for each in SHARED if self._capacity.get(each)),
            default=0.0,
        )

    def objection(self, account: TenantShare, amounts: Mapping[str, int]) -> str:
        """Why the tenant may not place a pod of these amounts now; empty if it may."""
        limits = account.limits
        for resource, most in limits.most.items():
            used, asked = account.used.get(resource, 0), amounts.get(resource, 0)
            if asked and used + asked > most:
                return f"tenant's quota of {resource} is used up"
        if not self._are_minima_held:
            self._hold_minima()
        for resource, owed in self._owed.items():
            asked = amounts.get(resource, 0)
            own = max(0, account.minimum.kept.get(resource, 0) - account.used.get(resource, 0))
            free = self._capacity.get(resource, 0) - self._used.get(resource, 0)
            if asked > own and 0 < owed - own > free - asked:
                return f"what is left of {resource} is guaranteed to other tenants"
        return ""

    def set_head(self, account: TenantShare, head: Head | None, asks: Mapping[str, int] = _NOTHING) -> None:
        """What is first in the tenant's line now, and what it requests; None: nothing is ready."""
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
        """Whose turn it is. The account keeps its head until told otherwise."""
        self.turns += 1
        self._sort_in()
        chosen = self._overdue() or self._first()
        if chosen is not None:
            self._await(chosen)
            self._moved[chosen] = None
        return chosen

    def _sort_in(self) -> None:
        if not self._are_minima_held:
            self._hold_minima()
        for account in self._moved:
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
            # Of those below, whoever has the least part of what it is due.
            return (0.0, max(account.used.get(each, 0) / due[each] for each in due if due[each]))
        return (1.0, self.share(account) / account.limits.weight)

    def _is_tired(self, account: TenantShare) -> bool:
        passed = self.turns - account.tries_at
        account.tries = min(TRIES_MAX, account.tries + passed * TRIES_PER_TURN)
        account.tries_at = self.turns
        return account.tries < 1

    def _first(self) -> TenantShare | None:
        """The first of those that have tries left, or else of those that have not."""
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
            # It has had its turns, and failed; what it owes is bounded, so is its wait.
            self._await(account)
        return None

    def _await(self, account: TenantShare) -> None:
        """From now on the account waits for its turn."""
        account.wait = self._number()
        heapq.heappush(self._waiting, (self.turns + self._patience(account), account.wait, account))
        if len(self._waiting) > 64 + 4 * len(self.accounts):
            self._waiting = [each for each in self._waiting if each[1] == each[2].wait]
            heapq.heapify(self._waiting)

    def _patience(self, account: TenantShare) -> float:
        """Turns after which it is served whatever its share: many times what its weight gives it, more
        if its pods are larger than others'."""
        larger = account.size / self._size if self._size else 1.0
        return AGING * max(1, self._weight_ready) / account.limits.weight * max(1.0, larger)

    def succeeded(self, account: TenantShare, amounts: Mapping[str, int]) -> None:
        """The tenant's turn led to a placed pod of these amounts."""
        size = max(
            (amounts.get(each, 0) / self._capacity[each] for each in SHARED if self._capacity.get(each)),
            default=0.0,
        )
        account.size += (size - account.size) * (_SMOOTHING if account.size else 1.0)
        self._size += (size - self._size) * (_SMOOTHING if self._size else 1.0)

    def failed(self, account: TenantShare, seconds: float = 0.0, is_again: bool = False) -> None:
        """The tenant's turn led to nothing, and was so much work. `is_again`: it was tried before."""
        cost = max(TRY_AGAIN if is_again else 1.0, seconds / TRY_SECONDS - 1.0)
        account.tries = max(account.tries - cost, -TRIES_OWED_MAX)


class FirstComeQueue(FairShareQueue):
    """No fairness: the oldest pod of all is next. To measure what fairness is worth."""

    def _key(self, account: TenantShare) -> tuple[float, ...] | Head:
        assert account.head is not None
        return account.head

    def _is_tired(self, account: TenantShare) -> bool:
        return False

    def _patience(self, account: TenantShare) -> float:
        return float("inf")
