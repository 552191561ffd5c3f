"""What deleting a CRD takes along: its objects go first, held by a finalizer. Pure decisions.

begin(crd)            with the delete: the finalizer that holds the CRD, and a condition that tells
belongings(crd)       whose objects of which resource have to be deleted before it may go
finish(crd, …)        whether none are left: then the finalizer goes, and so does the CRD
freed(crd)            neighbours that get names which the CRD had
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.kind import Kind
from alcove.api.objects import Object, get, metadata, name
from alcove.apiserver.crds import sharing
from alcove.apiserver.crds.acceptance import accept, is_established, with_condition
from alcove.apiserver.reader import CacheReader

FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


class CrdInstances(Struct, frozen=True):
    """All objects of a resource in a tenant."""

    tenant: TenantId
    resource: GroupResource


def begin(crd: Object, now: str) -> None:
    """Prepares a CRD that is deleted, in place, before its finalizers are looked at."""
    finalizers = metadata(crd).setdefault("finalizers", [])
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)
    message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    _terminating(crd, "True", "InstanceDeletionPending", message, now)


def belongings(tenant: TenantId, crd: Object, tenants: Iterable[TenantId]) -> Iterator[CrdInstances]:
    """What has to be deleted with the tenant's CRD. `tenants` are all there are: objects of a CRD that
    ring0 shares are in every one of them."""
    if not is_established(crd):
        return
    resource = GroupResource(crd["spec"]["group"], crd["status"]["acceptedNames"]["plural"])
    owners = {tenant, *tenants} if tenant == SYSTEM and sharing.is_forced(crd) else {tenant}
    yield from (CrdInstances(owner, resource) for owner in sorted(owners))


def progress(crd: Object, now: str) -> None:
    """Tells that objects are being deleted, in place."""
    _terminating(crd, "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress", now)


def finish(crd: Object, remaining: int, now: str) -> bool:
    """Takes the finalizer off, in place, if no object is left. Returns whether it did."""
    if remaining and is_established(crd):
        message = f"could not confirm zero CustomResources remaining: {remaining} left"
        _terminating(crd, "True", "InstanceDeletionCheck", message, now)
        return False
    if is_established(crd):
        _terminating(crd, "False", "InstanceDeletionCompleted", "removed all instances", now)
    else:
        _terminating(crd, "False", "NeverEstablished", "resource was never established", now)
    meta = metadata(crd)
    meta["finalizers"] = [each for each in meta.get("finalizers") or () if each != FINALIZER]
    return True


def freed(
    reader: CacheReader, tenant: TenantId, crd: Object, stock: Iterable[Kind], now: str
) -> Iterator[tuple[Object, Object]]:
    """CRDs of the group whose status changes once `crd` is gone: (CRD as it is, its new status)."""
    rest = [other for other in sharing.served(reader, tenant) if name(other) != name(crd)]
    stock = list(stock)
    for other in rest:
        if get(other, "spec", "group") != get(crd, "spec", "group"):
            continue
        if get(other, "metadata", "tenant") != tenant:
            continue  # shared by ring0: not this tenant's to change
        status = accept(other, rest, stock, now)
        if status != other.get("status"):
            yield other, status


def _terminating(crd: Object, status: str, reason: str, message: str, now: str) -> None:
    with_condition(crd, {"type": "Terminating", "status": status, "reason": reason, "message": message}, now)
