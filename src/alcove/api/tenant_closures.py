"""The Lease of ring0 by which a tenant is closed on an API server, while it moves or is served by another (`store/closures.py`)."""

from __future__ import annotations

from alcove.api.ids import TenantId

NAMESPACE = "kube-system"
_PREFIX = "closed-tenant."


def closure_name(tenant: TenantId) -> str:
    return _PREFIX + tenant


def tenant_of(name: str) -> TenantId | None:
    """The tenant that a Lease of this name closes; None if it is another Lease."""
    return TenantId(name.removeprefix(_PREFIX)) if name.startswith(_PREFIX) else None
