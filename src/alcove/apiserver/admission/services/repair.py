"""Claims the cluster IPs of services that were stored before claims were, once when the server starts: a version that
did not know IPAddress objects may have written them."""

from collections.abc import Iterator

from alcove.api.objects import Object
from alcove.api.resources import SERVICES
from alcove.apiserver.admission.services.clusterips import ClusterIps
from alcove.apiserver.cache.cache import Cache
from alcove.store.base import RevisionMismatch, Store, WriteOp
from alcove.store.closures import TenantClosed


def missing_claims(cache: Cache, cluster_ips: ClusterIps) -> Iterator[WriteOp]:
    for entry in cache.entries(None, SERVICES):
        service: Object = entry.decode()  # Not kept: the services of all tenants are read.
        for key in cluster_ips.held(entry.key.tenant, service):
            if cache.entry(key) is None:
                yield cluster_ips.claim(key, service)


async def claim_missing(store: Store, cache: Cache, cluster_ips: ClusterIps) -> None:
    for op in list(missing_claims(cache, cluster_ips)):
        try:
            await store.write([op])
        except (RevisionMismatch, TenantClosed):
            continue  # Another server, or another service with the same address, was first; or the tenant moves.
