"""Decisions for the deletion of a CRD, whose objects are deleted first. Pure: no I/O.

begin(crd)            with the delete request: adds the finalizer and the condition Terminating
belongings(crd)       the tenants and the resource whose objects are deleted before the CRD
finish(crd, …)        removes the finalizer, and thereby the CRD, if no objects remain
freed(crd)            other CRDs whose names are accepted once this one is deleted
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
    """Adds the finalizer and the condition to a CRD that is being deleted, in place."""
    finalizers = metadata(crd).setdefault("finalizers", [])
    if FINALIZER not in finalizers:
        finalizers.append(FINALIZER)
    message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    _terminating(crd, "True", "InstanceDeletionPending", message, now)


def belongings(tenant: TenantId, crd: Object, tenants: Iterable[TenantId]) -> Iterator[CrdInstances]:
    """The objects to delete with the tenant's CRD. `tenants` are all tenants: each may have objects of a CRD
    that ring0 shares."""
    if not is_established(crd):
        return
    resource = GroupResource(crd["spec"]["group"], crd["status"]["acceptedNames"]["plural"])
    owners = {tenant, *tenants} if tenant == SYSTEM and sharing.is_forced(crd) else {tenant}
    yield from (CrdInstances(owner, resource) for owner in sorted(owners))


def finish(crd: Object, remaining: int, now: str) -> bool:
    """Removes the finalizer, in place, if no object remains. Returns whether it did."""
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
    """CRDs of the group whose status changes once `crd` is deleted, as (current CRD, new status)."""
    rest = [other for other in sharing.served(reader, tenant) if name(other) != name(crd)]
    stock = list(stock)
    for other in rest:
        if get(other, "spec", "group") != get(crd, "spec", "group"):
            continue
        if get(other, "metadata", "tenant") != tenant:
            continue  # Shared by ring0, which alone may change it.
        status = accept(other, rest, stock, now)
        if status != other.get("status"):
            yield other, status


def _terminating(crd: Object, status: str, reason: str, message: str, now: str) -> None:
    with_condition(crd, {"type": "Terminating", "status": status, "reason": reason, "message": message}, now)
