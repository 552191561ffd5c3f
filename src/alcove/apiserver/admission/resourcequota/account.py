"""A quota with its usage: what it counts, how a write changes the usage, and whether that exceeds it. Pure:
no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from alcove.api import objects, quantity
from alcove.api.encode import encode
from alcove.api.ids import SYSTEM, GroupResource, Key, Revision, TenantId
from alcove.api.objects import Object
from alcove.api.quantity import ZERO, Quantity
from alcove.api.resources import RESOURCE_QUOTAS, TENANTS
from alcove.apiserver.admission.resourcequota import usage
from alcove.apiserver.admission.resourcequota.pods import Amounts
from alcove.store.base import WriteOp


class QuotaScope(Struct, frozen=True):
    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class QuotaAccount(Struct, frozen=True):
    name: str
    key: Key
    obj: Object
    """The ResourceQuota or Tenant as it is in the cache; shared."""
    hard: Mapping[str, Quantity]
    used: Mapping[str, Quantity]
    scopes: tuple[QuotaScope, ...] = ()
    namespace: str | None = None
    """None for a quota of the whole tenant."""

    @property
    def identity(self) -> tuple[object, ...]:
        """Changes if the set of counted resources or objects changes."""
        return self.obj["metadata"]["uid"], tuple(sorted(self.hard)), self.scopes

    @property
    def is_whole(self) -> bool:
        """Whether there is a usage for every limited resource."""
        return self.hard.keys() <= self.used.keys()

    def matches(self, resource: GroupResource, obj: Object) -> bool:
        """Whether the object's usage is counted by this quota."""
        in_scope = usage.measure(resource).in_scope
        return all(in_scope(scope.name, scope.operator, scope.values, obj) for scope in self.scopes)

    def tracks(self, resource: GroupResource) -> bool:
        return any(map(usage.measure(resource).counts, self.hard))

    def with_used(self, used: Mapping[str, Quantity]) -> WriteOp:
        """The operation that writes a new usage, if the quota's revision is unchanged."""
        status = {**(self.obj.get("status") or {})}
        amounts = {name: str(used[name]) for name in self.hard if name in used}
        if self.namespace is None:
            status["quota"] = {"used": amounts}
        else:
            status["used"] = amounts
        return WriteOp(self.key, encode({**self.obj, "status": status}), self.revision)

    @property
    def revision(self) -> Revision:
        return Revision(int(self.obj["metadata"]["resourceVersion"]))


def of_quota(tenant: TenantId, quota: Object) -> QuotaAccount:
    spec, namespace = quota.get("spec") or {}, objects.namespace(quota)
    name = quota["metadata"]["name"]
    return QuotaAccount(
        name=name,
        key=Key(RESOURCE_QUOTAS, tenant, namespace, name),
        obj=quota,
        hard=_amounts(spec.get("hard")),
        used=_amounts(objects.get(quota, "status", "used")),
        scopes=_scopes(spec),
        namespace=namespace,
    )


def of_tenant(tenant: Object) -> QuotaAccount | None:
    """The quota for all objects of the tenant; None if it has none."""
    hard = objects.get(tenant, "spec", "quota", "hard")
    if not hard:
        return None
    name = tenant["metadata"]["name"]
    used = _amounts(objects.get(tenant, "status", "quota", "used"))
    return QuotaAccount(
        name=f"tenant {name}", key=Key(TENANTS, SYSTEM, "", name), obj=tenant, hard=_amounts(hard), used=used
    )


def _amounts(values: Mapping[str, str] | None) -> Amounts:
    return {name: quantity.of(value) for name, value in (values or {}).items()}


def _scopes(spec: Object) -> tuple[QuotaScope, ...]:
    named = [QuotaScope(name) for name in spec.get("scopes") or ()]
    selected = objects.get(spec, "scopeSelector", "matchExpressions", default=())
    for term in selected:
        values = tuple(term.get("values") or ())
        named.append(QuotaScope(term.get("scopeName", ""), term.get("operator", ""), values))
    return tuple(named)


class QuotaChange(Struct, frozen=True):
    """The change of one object by a write. `old` is None if the object is created, `new` if it is deleted."""

    resource: GroupResource
    old: Object | None
    new: Object | None
    before: Amounts
    after: Amounts

    @property
    def is_indifferent(self) -> bool:
        """Whether the write certainly changes no usage."""
        return not self.before and not self.after

    @classmethod
    def of(cls, resource: GroupResource, old: Object | None, new: Object | None) -> QuotaChange:
        if old is not None and new is not None:
            depends_on = usage.measure(resource).determinants
            if depends_on(old) == depends_on(new):
                return cls(resource, old, new, {}, {})
        before = usage.of(resource, old) if old is not None else {}
        after = usage.of(resource, new) if new is not None else {}
        return cls(resource, old, new, before, after)


def difference(account: QuotaAccount, change: QuotaChange) -> Amounts:
    """The change of the usage; contains only amounts that change."""
    before = change.before if _counts(account, change.resource, change.old) else {}
    after = change.after if _counts(account, change.resource, change.new) else {}
    changes = {
        name: after.get(name, ZERO) - before.get(name, ZERO)
        for name in account.hard
        if name in before or name in after
    }
    return {name: amount for name, amount in changes.items() if amount}


def _counts(account: QuotaAccount, resource: GroupResource, obj: Object | None) -> bool:
    return obj is not None and account.matches(resource, obj)


def exceeded(account: QuotaAccount, used: Mapping[str, Quantity], changes: Amounts) -> str:
    """The error message if the changes exceed the quota; empty if they do not."""
    names = sorted(
        name
        for name, amount in changes.items()
        if amount.nano > 0 and used.get(name, ZERO) + amount > account.hard[name]
    )
    if not names:
        return ""
    return (
        f"exceeded quota: {account.name}, requested: {_shown(changes, names)}, "
        f"used: {_shown(used, names)}, limited: {_shown(account.hard, names)}"
    )


def _shown(amounts: Mapping[str, Quantity], names: Iterable[str]) -> str:
    return ",".join(f"{name}={amounts.get(name, ZERO)}" for name in names)


def added(used: Mapping[str, Quantity], changes: Amounts) -> Amounts:
    """The usage after the changes; never below zero."""
    total = dict(used)
    for name, amount in changes.items():
        summed = total.get(name, ZERO) + amount
        total[name] = summed if summed.nano > 0 else ZERO
    return total
