"""Whose pods may have of a node what ring0's pods may: privileged containers, its namespaces, paths and ports.

These are ring0's own pods, and those of tenants that ring0 trusts: their Tenants say `spec.podSecurity: privileged`.
The API server's admission refuses the others; the node checks again, since another plane's API server may be anybody's.
"""

from alcove.agent.podkey import PodKey
from alcove.api.ids import SYSTEM
from alcove.api.kinds.core.tenants import is_trusted
from alcove.client.client import ListSelection
from alcove.client.keys import HOME, ObjectKey
from alcove.client.planes import Planes
from alcove.client.resources import TENANTS


def is_ring0(key: PodKey) -> bool:
    """Whether the pod is ring0's. A tenant named `system` on a dedicated plane is not ring0."""
    return key.plane == HOME and key.tenant == SYSTEM


class TrustedTenants:
    def __init__(self, planes: Planes) -> None:
        self._tenants = planes.mirror(ListSelection(TENANTS), tenant=SYSTEM, only=HOME)

    async def synced(self) -> None:
        """Before that, `includes` knows no tenant."""
        await self._tenants.synced()

    def includes(self, key: PodKey) -> bool:
        if is_ring0(key):
            return True
        if key.plane not in (HOME, key.tenant):
            return False
        tenant = self._tenants.get(ObjectKey(HOME, SYSTEM, "", key.tenant))
        return tenant is not None and is_trusted(tenant)
