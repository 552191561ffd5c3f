"""Fencing: a write that names a lease succeeds only while its writer holds that lease.

Ring0's components send the header `Alcove-Fence: LEASE/HOLDER`; LEASE is in ring0's namespace `kube-system`.
A process that was paused and does not know of a new leader gets a Conflict, whatever its clock says. The
check holds at the commit, not only when the request arrives: the lease's revision is part of the transaction.
A new leader that takes the lease and then reads therefore sees every write of earlier leaders.
"""

from __future__ import annotations

from alcove.api import objects
from alcove.api.errors import Conflict
from alcove.api.ids import SYSTEM, Key
from alcove.api.resources import LEASES
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.call import ApiCall
from alcove.store.base import WriteOp

HEADER = "alcove-fence"
NAMESPACE = "kube-system"
_READS = frozenset({"get", "list", "watch"})


def check(cache: Cache, call: ApiCall) -> WriteOp | None:
    """The operation by which the call's transaction checks its fence; None if it has no fence.

    Raises Conflict if the named holder does not hold the lease.
    """
    fence = call.request.headers.get(HEADER)
    if fence is None or call.verb in _READS or not call.identity.is_system:
        return None
    name, _, holder = fence.partition("/")
    key = Key(LEASES, SYSTEM, NAMESPACE, name)
    entry = cache.entry(key)
    if entry is None or not holder or objects.get(entry.object, "spec", "holderIdentity") != holder:
        raise Conflict.of(LEASES, name, f"{holder} does not hold the lease")
    return WriteOp(key, None, entry.revision, keeps=True)
