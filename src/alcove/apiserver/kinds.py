"""The kinds of the registry, the same for every tenant."""

from collections.abc import Sequence

from alcove.api.ids import TenantId
from alcove.api.kind import Kind
from alcove.api.registry import Registry


class StockKinds:
    """Implements `reader.Kinds` without CRDs."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def find(self, tenant: TenantId, group: str, version: str, resource: str) -> Kind | None:
        return self._registry.find(group, version, resource)

    def find_kind(self, tenant: TenantId, group: str, version: str, kind: str) -> Kind | None:
        return self._registry.find_kind(group, version, kind)

    def all(self, tenant: TenantId) -> Sequence[Kind]:
        return self._registry.all()
