"""Keys of objects as controllers pass them around: they name the plane and the tenant, always."""

from typing import NewType

from msgspec import Struct

from alcove.api.ids import SYSTEM, TenantId

PlaneId = NewType("PlaneId", str)
"""One API server (or several over one store): the home plane, or a dedicated tenant's, which has its name."""

HOME = PlaneId(SYSTEM)
"""Serves ring0 and all shared tenants. No dedicated tenant can be named `system`."""


class TenantKey(Struct, frozen=True, order=True):
    """One tenant on one plane: what fairness is between."""

    plane: PlaneId
    tenant: TenantId


class ObjectKey(Struct, frozen=True, order=True):
    """An object of a resource that the context names. `namespace` is empty for objects that have none."""

    plane: PlaneId
    tenant: TenantId
    namespace: str
    name: str

    @property
    def tenant_key(self) -> TenantKey:
        return TenantKey(self.plane, self.tenant)

    def of(self, name: str, namespace: str | None = None) -> "ObjectKey":
        """Another object of the same tenant; in the same namespace unless told."""
        return ObjectKey(self.plane, self.tenant, self.namespace if namespace is None else namespace, name)

    def __str__(self) -> str:
        parts = [self.tenant, self.namespace, self.name] if self.namespace else [self.tenant, self.name]
        return "/".join(parts) if self.plane == HOME else f"{self.plane}:{'/'.join(parts)}"
