"""Keys of objects for controllers: every key has a plane and a tenant."""

from typing import NewType

from msgspec import Struct

from alcove.api.ids import SYSTEM, TenantId

PlaneId = NewType("PlaneId", str)
"""One API server (or several with one store): the home plane, or a dedicated plane, which has its tenant's
name."""

HOME = PlaneId(SYSTEM)
"""Serves ring0 and all shared tenants. No dedicated tenant can be named `system`."""


class TenantKey(Struct, frozen=True, order=True):
    """One tenant on one plane: the unit of fairness."""

    plane: PlaneId
    tenant: TenantId


class ObjectKey(Struct, frozen=True, order=True):
    """The key of an object; the resource follows from the context. `namespace` is empty for objects without
    one."""

    plane: PlaneId
    tenant: TenantId
    namespace: str
    name: str

    @property
    def tenant_key(self) -> TenantKey:
        return TenantKey(self.plane, self.tenant)

    def of(self, name: str, namespace: str | None = None) -> "ObjectKey":
        """The key of another object of the same tenant, by default in the same namespace."""
        return ObjectKey(self.plane, self.tenant, self.namespace if namespace is None else namespace, name)

    def __str__(self) -> str:
        parts = [self.tenant, self.namespace, self.name] if self.namespace else [self.tenant, self.name]
        return "/".join(parts) if self.plane == HOME else f"{self.plane}:{'/'.join(parts)}"
