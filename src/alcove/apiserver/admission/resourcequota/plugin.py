"""Charges every write to the quotas of its namespace and tenant, in the write's own transaction.

A lock serializes the writers of one namespace, so that charges of one server rarely conflict; between servers
the quota's revision decides, and the later writer computes its charge again. What a client writes to a quota's status
is taken, except for what is used: any write of a client makes the server count again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from alcove.api import objects
from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource, Key, TenantId
from alcove.api.kind import Scope
from alcove.api.objects import Object
from alcove.api.quantity import Quantity
from alcove.api.resources import PODS, RESOURCE_QUOTAS, TENANTS
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.admission.lifecycle import TenantLifecycle
from alcove.apiserver.admission.resourcequota import account as accounts
from alcove.apiserver.admission.resourcequota import pods, usage
from alcove.apiserver.admission.resourcequota.account import QuotaAccount, QuotaChange
from alcove.apiserver.admission.resourcequota.count import RecountSchedule, UsageCounter
from alcove.apiserver.admission.resourcequota.pods import Amounts
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.computing import ComputeThreads
from alcove.store.base import WriteOp

QUOTAS_MAX = 64
"""Maximum number of quotas of a namespace: all of them must fit into one transaction."""
_ACCOUNTS = (RESOURCE_QUOTAS.resource, TENANTS.resource)


class ResourceQuota(Plugin):
    def __init__(self, cache: Cache, clock: Callable[[], float], threads: ComputeThreads) -> None:
        self._cache = cache
        self._counter = UsageCounter(cache, threads)
        self._lifecycle = TenantLifecycle(cache)
        self._recounts = RecountSchedule(clock)
        self._locks = KeyedLocks()

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is not Operation.CONNECT and resource not in usage.UNCOUNTED

    async def validate(self, attributes: Attributes) -> None:
        if attributes.kind.resource in _ACCOUNTS and attributes.operation is not Operation.DELETE:
            await self._fill_in(attributes)
        if not self._is_limited(attributes.tenant) or not self._accounts(attributes):
            return
        if attributes.dry_run:
            await self._charges(
                attributes, QuotaChange.of(attributes.resource, attributes.old, attributes.obj)
            )
        else:
            attributes.joins.append(partial(self._join, attributes))

    @asynccontextmanager
    async def _join(self, attributes: Attributes, op: WriteOp) -> AsyncIterator[Sequence[WriteOp]]:
        new = attributes.obj
        if op.body is None:
            new = None
        elif attributes.operation is Operation.DELETE:
            # An object that is only marked for deletion keeps its usage.
            new = attributes.old
        change = QuotaChange.of(attributes.resource, attributes.old, new)
        if change.is_indifferent:
            yield ()
            return
        if not any(accounts.difference(each, change) for each in self._accounts(attributes)):
            self._check_specified(attributes, change)
            yield ()
            return
        async with self._locks.take(self._lock_key(attributes)):
            if self._tenant_account(attributes) is not None:
                # The tenant may be terminating since the last check.
                self._lifecycle.check_create(attributes)
            charges = await self._charges(attributes, change)
            yield [charge for charge in charges if charge.key != op.key]

    def _lock_key(self, attributes: Attributes) -> tuple[str, str]:
        has_tenant_quota = self._tenant_account(attributes) is not None
        return attributes.tenant, "" if has_tenant_quota else attributes.namespace

    # The quotas of a write

    def _is_limited(self, tenant: TenantId) -> bool:
        """Whether the tenant has, or ever had, any quota."""
        if self._cache.generation(tenant, RESOURCE_QUOTAS):
            return True
        entry = self._cache.entry(Key(TENANTS, SYSTEM, "", tenant))
        return entry is not None and "quota" in entry.object["spec"]

    def _accounts(self, attributes: Attributes) -> list[QuotaAccount]:
        tenant, resource = attributes.tenant, attributes.resource
        candidates: list[QuotaAccount] = []
        if attributes.kind.scope is Scope.NAMESPACE and self._cache.generation(tenant, RESOURCE_QUOTAS):
            quotas = self._cache.list(tenant, RESOURCE_QUOTAS, attributes.namespace)
            candidates = [accounts.of_quota(tenant, quota) for quota in quotas]
        tenant_account = self._tenant_account(attributes)
        if tenant_account is not None:
            candidates.append(tenant_account)
        return [each for each in candidates if each.tracks(resource)]

    def _tenant_account(self, attributes: Attributes) -> QuotaAccount | None:
        if attributes.tenant == SYSTEM:
            return None
        entry = self._cache.entry(Key(TENANTS, SYSTEM, "", attributes.tenant))
        return accounts.of_tenant(entry.object) if entry is not None else None

    # Charging

    async def _charges(self, attributes: Attributes, change: QuotaChange) -> list[WriteOp]:
        """The operations that update the quotas. Raises Forbidden if one is exceeded."""
        self._check_specified(attributes, change)
        ops: list[WriteOp] = []
        for account in self._accounts(attributes):
            changes = accounts.difference(account, change)
            if not changes:
                continue
            used = await self._used_before(attributes, account, changes)
            ops.append(account.with_used(accounts.added(used, changes)))
        return ops

    async def _used_before(
        self, attributes: Attributes, account: QuotaAccount, changes: Amounts
    ) -> Mapping[str, Quantity]:
        """The usage without the changes. Raises Forbidden if the changes exceed the quota."""
        is_counted = self._recounts.is_due(account)
        used = await self._counted(attributes, account) if is_counted else account.used
        message = accounts.exceeded(account, used, changes) if _is_enforced(attributes) else ""
        if message and not is_counted and self._recounts.is_due(account, to_refuse=True):
            used = await self._counted(attributes, account)
            message = accounts.exceeded(account, used, changes)
        if message:
            raise Forbidden.of(attributes.requested_resource, attributes.name, message)
        return used

    async def _counted(self, attributes: Attributes, account: QuotaAccount) -> Mapping[str, Quantity]:
        used = await self._counter.count(attributes.tenant, account)
        self._recounts.counted(account, used)
        return used

    def _check_specified(self, attributes: Attributes, change: QuotaChange) -> None:
        """Raise Forbidden if a pod does not specify a resource that a quota counts."""
        pod = change.new
        if change.resource != PODS or pod is None or attributes.subresource not in ("", "resize"):
            return
        if attributes.operation is not Operation.CREATE and change.before == change.after:
            return
        for account in self._accounts(attributes):
            if account.matches(PODS, pod) and (message := pods.unsaid(pod, account.hard)):
                raise Forbidden.of(PODS, attributes.name, f"failed quota: {account.name}: {message}")

    # Writes of quotas

    async def _fill_in(self, attributes: Attributes) -> None:
        if attributes.resource == RESOURCE_QUOTAS:
            await self._fill_in_quota(attributes)
        elif attributes.resource == TENANTS:
            await self._fill_in_tenant(attributes)

    async def _fill_in_quota(self, attributes: Attributes) -> None:
        quota, is_new = attributes.obj, attributes.operation is Operation.CREATE
        assert quota is not None
        if (
            is_new
            and self._cache.count(attributes.tenant, RESOURCE_QUOTAS, attributes.namespace) >= QUOTAS_MAX
        ):
            message = f"a namespace may have at most {QUOTAS_MAX} quotas"
            raise Forbidden.of(RESOURCE_QUOTAS, attributes.name, message)
        account = accounts.of_quota(attributes.tenant, quota)
        used = await self._counter.count(attributes.tenant, account)
        if is_new:
            used = accounts.added(
                used, accounts.difference(account, QuotaChange.of(RESOURCE_QUOTAS, None, quota))
            )
        hard = {name: str(amount) for name, amount in account.hard.items()}
        amounts = {name: str(used[name]) for name in hard}
        if attributes.subresource == "status":
            hard = objects.get(quota, "status", "hard", default={})
        quota["status"] = {"hard": hard, "used": amounts}

    async def _fill_in_tenant(self, attributes: Attributes) -> None:
        tenant = attributes.obj
        assert tenant is not None
        account = accounts.of_tenant(tenant)
        status = tenant.setdefault("status", {})
        if account is None:
            status.pop("quota", None)
            return
        amounts = _retained_usage(attributes.old, account)
        if amounts is None:
            used = await self._counter.count(TenantId(tenant["metadata"]["name"]), account)
            amounts = {name: str(used[name]) for name in account.hard}
        status["quota"] = {"used": amounts}


def _is_enforced(attributes: Attributes) -> bool:
    """Whether the write can exceed a quota: deletions and status updates are always allowed."""
    return attributes.operation is not Operation.DELETE and attributes.subresource != "status"


def _retained_usage(old: Object | None, account: QuotaAccount) -> dict[str, str] | None:
    before = accounts.of_tenant(old) if old is not None else None
    if before is None or before.hard.keys() != account.hard.keys() or not before.is_whole:
        return None
    return {name: str(before.used[name]) for name in account.hard}


class _Lock:
    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class KeyedLocks:
    """One lock per key. A key without holder and waiters takes no memory."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, _Lock] = {}

    @asynccontextmanager
    async def take(self, key: Hashable) -> AsyncIterator[None]:
        entry = self._locks.get(key)
        if entry is None:
            entry = self._locks[key] = _Lock()
        entry.users += 1
        try:
            async with entry.lock:
                yield
        finally:
            entry.users -= 1
            if not entry.users:
                del self._locks[key]
