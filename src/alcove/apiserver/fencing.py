"""Fencing: a write that names a lease is taken only while its writer holds that lease.

`Alcove-Fence: LEASE/HOLDER` on a request of ring0's: LEASE is in ring0's `kube-system`. A process that was
paused, and does not know that another took over, is told here, whatever its clock says. What it is told
holds when the write is committed, not only when it was asked: the lease's revision is part of the
transaction. So who takes the lease and then reads, reads all that its holders before will ever have written.
"""

from __future__ import annotations

from alcove.api import objects
from alcove.api.errors import Conflict
from alcove.api.ids import SYSTEM, GroupResource, Key
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.call import ApiCall
from alcove.store.base import WriteOp

HEADER = "alcove-fence"
NAMESPACE = "kube-system"
LEASES = GroupResource("coordination.k8s.io", "leases")
_READS = frozenset({"get", "list", "watch"})


def check(cache: Cache, call: ApiCall) -> WriteOp | None:
    """What the call's transaction must hold for its fence, if it has one. Raises Conflict where the named
    holder does not hold the lease."""
    fence = call.request.headers.get(HEADER)
    if fence is None or call.verb in _READS or not call.identity.is_system:
        return None
    name, _, holder = fence.partition("/")
    key = Key(LEASES, SYSTEM, NAMESPACE, name)
    entry = cache.entry(key)
    if entry is None or not holder or objects.get(entry.object, "spec", "holderIdentity") != holder:
        raise Conflict.of(LEASES, name, f"{holder} does not hold it, another may be at work")
    return WriteOp(key, None, entry.revision, keeps=True)
