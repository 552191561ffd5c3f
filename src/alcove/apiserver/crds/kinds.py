"""The kinds that a tenant is served: built-in kinds, those of its CRDs, and those of ring0's shared CRDs.

They are derived from the CRDs in the cache and cached until one changes, so a CRD is served as soon as it is
stored. Tenants with equal CRDs share the compiled kinds, and tenants without CRDs of their own share everything, however
many they are. A CRD never hides a built-in kind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from weakref import WeakValueDictionary

import orjson
from msgspec import Struct
from msgspec.structs import replace

from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.kind import Kind
from alcove.api.objects import Object, get
from alcove.api.registry import KindRegistry
from alcove.api.resources import CRDS
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.computing import LARGE_BYTES
from alcove.apiserver.crds import sharing
from alcove.apiserver.crds.acceptance import is_established
from alcove.apiserver.crds.compiled import CompiledCrd
from alcove.apiserver.crds.conversion import ConversionParts
from alcove.apiserver.crds.definitions import definition_strategy
from alcove.apiserver.reader import CacheReader

TENANTS_MOST = 4096
"""Tenants whose tables are cached; beyond that, the oldest is dropped."""


class _CompiledObject(Struct, frozen=True):
    """A state of a CRD, and what it was compiled to."""

    entry: CacheEntry
    group: str
    plural: str
    kind: str
    compiled: CompiledCrd
    by_webhook: bool


class _Table:
    """The kinds of one tenant's CRDs."""

    __slots__ = ("_all", "by_entry", "by_kind", "by_resource", "generations", "has_webhooks")

    def __init__(self, generations: tuple[int, int]) -> None:
        self.generations = generations
        self.by_resource: dict[tuple[str, str], CompiledCrd] = {}
        self.by_kind: dict[tuple[str, str], CompiledCrd] = {}
        self.by_entry: dict[int, _CompiledObject] = {}
        """By the identity of the cache's entry: unchanged CRDs are not decoded again when another one changes."""
        self.has_webhooks = False
        """Whether one is converted by a webhook, which is called on behalf of the tenant."""
        self._all: Sequence[Kind] | None = None

    def add(self, added: _CompiledObject) -> None:
        self.by_entry[id(added.entry)] = added
        self.by_resource[added.group, added.plural] = added.compiled
        self.by_kind[added.group, added.kind] = added.compiled
        self.has_webhooks = self.has_webhooks or added.by_webhook

    def all(self, stock: Sequence[Kind]) -> Sequence[Kind]:
        if self._all is None:
            custom = [
                compiled.kinds[version]
                for compiled in self.by_resource.values()
                for version in compiled.served
            ]
            self._all = (*stock, *custom) if custom else stock
        return self._all


class CustomKinds:
    """Implements `reader.ServedKinds`."""

    def __init__(
        self,
        registry: KindRegistry,
        reader: CacheReader,
        clock: Callable[[], float],
        conversion: Callable[[TenantId], ConversionParts] | None = None,
    ) -> None:
        """`conversion` returns what conversions for a tenant need; None if webhooks cannot be called."""
        self._registry = registry
        self._reader = reader
        self._conversion = conversion
        self._tables: dict[TenantId, _Table] = {}
        self._common: _Table | None = None
        """Of all tenants that have no CRDs."""
        self._compiled: WeakValueDictionary[bytes, CompiledCrd] = WeakValueDictionary()
        strategy = definition_strategy(registry, reader, clock)
        self._stock = tuple(
            replace(kind, strategy=strategy(kind.strategy)) if kind.group_resource == CRDS else kind
            for kind in registry.all()
        )
        # CRDs are the only kind of their group.
        self._definitions = {kind.version: kind for kind in self._stock if kind.group == CRDS.group}
        self._stock_names = {(kind.group, kind.resource) for kind in self._stock}

    def find(self, tenant: TenantId, group: str, version: str, resource: str) -> Kind | None:
        stock = self._registry.find(group, version, resource)
        if stock is not None:
            return self._definitions[version] if group == CRDS.group else stock
        compiled = self._table(tenant).by_resource.get((group, resource))
        return _at(compiled, version)

    def find_anywhere(self, group: str, version: str, resource: str) -> Kind | None:
        candidates = (self.find(tenant, group, version, resource) for tenant in self._reader.tenants(CRDS))
        return next((kind for kind in candidates if kind is not None), None)

    def find_kind(self, tenant: TenantId, group: str, version: str, kind: str) -> Kind | None:
        stock = self._registry.find_kind(group, version, kind)
        if stock is not None:
            return self._definitions[version] if group == CRDS.group else stock
        return _at(self._table(tenant).by_kind.get((group, kind)), version)

    def stored(self, tenant: TenantId, resource: GroupResource) -> Kind | None:
        """The kind whose objects the store keeps under `resource`, served or not."""
        stock = self._registry.stored(resource)
        if stock is not None:
            return self._definitions[stock.version] if resource == CRDS else stock
        compiled = self._table(tenant).by_resource.get((resource.group, resource.resource))
        return compiled.stored if compiled is not None else None

    def all(self, tenant: TenantId) -> Sequence[Kind]:
        """All served kinds, in order of preference. Returns the same sequence until a CRD changes."""
        return self._table(tenant).all(self._stock)

    def _table(self, tenant: TenantId) -> _Table:
        generation = self._reader.generation
        generations = (generation(tenant, CRDS), generation(SYSTEM, CRDS))
        if not generations[0] and tenant != SYSTEM:
            common = self._common
            if common is None or common.generations != generations:
                common = self._common = self._build(generations, tenant, common)
            if not common.has_webhooks:
                return common
        table = self._tables.get(tenant)
        if table is not None and table.generations == generations:
            return table
        table = self._build(generations, tenant, table)
        self._keep(tenant, table)
        return table

    def preparation(self, tenant: TenantId) -> Callable[[], None] | None:
        """What to call in a thread before the tenant's kinds are asked for, because it has many new or changed CRDs; None if it
        has few of them."""
        own = self._reader.generation(tenant, CRDS)
        if not own:
            return None
        generations = (own, self._reader.generation(SYSTEM, CRDS))
        former = self._tables.get(tenant)
        if former is not None and former.generations == generations:
            return None
        entries = sharing.served_entries(self._reader, tenant)
        known = former.by_entry if former is not None else {}
        if sum(entry.size for entry in entries if id(entry) not in known) <= LARGE_BYTES:
            return None

        def prepare() -> None:
            table = self._built(generations, tenant, entries, former)
            table.all(self._stock)
            self._keep(tenant, table)

        return prepare

    def _keep(self, tenant: TenantId, table: _Table) -> None:
        if tenant not in self._tables and len(self._tables) >= TENANTS_MOST:
            self._tables.pop(next(iter(tuple(self._tables))), None)
        self._tables[tenant] = table

    def _build(self, generations: tuple[int, int], tenant: TenantId, former: _Table | None) -> _Table:
        return self._built(generations, tenant, sharing.served_entries(self._reader, tenant), former)

    def _built(
        self,
        generations: tuple[int, int],
        tenant: TenantId,
        entries: Sequence[CacheEntry],
        former: _Table | None,
    ) -> _Table:
        table = _Table(generations)
        before = former.by_entry if former is not None else {}
        for entry in entries:
            self._add(table, tenant, entry, before)
        return table

    def _add(
        self, table: _Table, tenant: TenantId, entry: CacheEntry, before: dict[int, _CompiledObject]
    ) -> None:
        # The cache holds one entry for each state of a CRD, so the same entry is unchanged.
        known = before.get(id(entry))
        if known is not None and known.entry is entry:
            table.add(known)
            return
        crd = entry.object
        names, group = get(crd, "status", "acceptedNames", default={}), crd["spec"]["group"]
        if is_established(crd) and (group, names.get("plural")) not in self._stock_names:
            compiled, by_webhook = self._compile(tenant, crd), _by_webhook(crd)
            added = _CompiledObject(entry, group, names["plural"], names["kind"], compiled, by_webhook)
            table.add(added)

    def _compile(self, tenant: TenantId, crd: Object) -> CompiledCrd:
        status, by_webhook = crd["status"], _by_webhook(crd)
        identity = [
            crd["spec"],
            status["acceptedNames"],
            status.get("storedVersions"),
            get(crd, "metadata", "deletionTimestamp") is not None,
            tenant if by_webhook else "",
        ]
        encoded = orjson.dumps(identity, option=orjson.OPT_SORT_KEYS)
        digest = hashlib.sha256(encoded).digest()
        compiled = self._compiled.get(digest)
        if compiled is None:
            parts = self._conversion(tenant) if by_webhook and self._conversion is not None else None
            compiled = self._compiled[digest] = CompiledCrd(crd, encoded, self._registry.object_meta, parts)
        return compiled


def _by_webhook(crd: Object) -> bool:
    return bool(get(crd, "spec", "conversion", "strategy") == "Webhook")


def _at(compiled: CompiledCrd | None, version: str) -> Kind | None:
    if compiled is None or version not in compiled.served:
        return None
    return compiled.kinds[version]
