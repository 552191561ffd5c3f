"""Fencing: a write that names a lease is taken only while its writer holds that lease.

`Alcove-Fence: LEASE/HOLDER` on a request of ring0's: LEASE is in ring0's `kube-system`. A process that was
paused, and does not know that another took over, is told here, whatever its clock says.
"""

from __future__ import annotations

from alcove.api import objects
from alcove.api.errors import Conflict
from alcove.api.ids import SYSTEM, GroupResource
from alcove.apiserver.call import Call
from alcove.apiserver.reader import Reader

HEADER = "alcove-fence"
NAMESPACE = "kube-system"
LEASES = GroupResource("coordination.k8s.io", "leases")
_READS = frozenset({"get", "list", "watch"})


def check(reader: Reader, call: Call) -> None:
    """Raises Conflict where the named holder no longer holds the lease."""
    fence = call.request.headers.get(HEADER)
    if fence is None or call.verb in _READS or not call.identity.is_system:
        return
    name, _, holder = fence.partition("/")
    lease = reader.get(SYSTEM, LEASES, NAMESPACE, name) or {}
    if not holder or objects.get(lease, "spec", "holderIdentity") != holder:
        raise Conflict.of(LEASES, name, f"{holder} does not hold it, another may be at work")
