"""CRDs of ring0 that are served in every tenant.

A CRD in the system tenant with the label `arktos.futurewei.com/crd-sharing-policy: forced` appears in every
tenant, hides the tenant's CRD of the same name, and can be changed by ring0 only. The objects of such a CRD
belong to each tenant separately.
"""

from alcove.api.errors import Details, Forbidden
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object, labels
from alcove.api.resources import CRDS
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.reader import CacheReader

LABEL = "arktos.futurewei.com/crd-sharing-policy"
FORCED = "forced"


def is_forced(crd: Object) -> bool:
    """Whether a CRD of ring0 is shared."""
    return labels(crd).get(LABEL) == FORCED


def shared(reader: CacheReader, tenant: TenantId, crd_name: str) -> Object | None:
    """Ring0's shared CRD of this name, for a tenant that is not ring0; else None."""
    if tenant == SYSTEM:
        return None
    crd = reader.get(SYSTEM, CRDS, "", crd_name)
    return crd if crd is not None and is_forced(crd) else None


def served(reader: CacheReader, tenant: TenantId) -> list[Object]:
    """All CRDs that the tenant is served: ring0's shared ones, then the tenant's that are not hidden."""
    return [entry.object for entry in served_entries(reader, tenant)]


def served_entries(reader: CacheReader, tenant: TenantId) -> list[CacheEntry]:
    """The cache's entries of the same, without decoding them."""
    own = _entries(reader, tenant)
    if tenant == SYSTEM:
        return own
    forced = [entry for entry in _entries(reader, SYSTEM) if entry.labels.get(LABEL) == FORCED]
    hidden = {entry.key.name for entry in forced}
    return forced + [entry for entry in own if entry.key.name not in hidden]


def _entries(reader: CacheReader, tenant: TenantId) -> list[CacheEntry]:
    return sorted(reader.snapshot(tenant, (CRDS,)).entries(CRDS), key=lambda entry: entry.key.name)


def check_write(reader: CacheReader, tenant: TenantId, verb: str, crd_name: str) -> None:
    """Raises Forbidden if the tenant would change a CRD that ring0 shares.

    `verb` is create, update, patch or delete. Call it before the object is looked up, because the tenant may
    have none of this name.
    """
    if shared(reader, tenant, crd_name) is None:
        return
    message = f"{crd_name} is a system CRD, you cannot overwrite it"
    if verb == "delete":
        message = f"Forbidden: {crd_name} is a system CRD, it can only be deleted by a cluster admin."
    raise Forbidden(message, Details(name=crd_name, group=CRDS.group, kind=CRDS.resource))
