"""Which secrets a node reads for the certificates of Ingresses, with a share of them for every tenant. Pure: no
I/O."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from alcove.agent.shares import Pool, shares
from alcove.api.ids import TenantId
from alcove.client.keys import ObjectKey, TenantKey
from alcove.network.ingress.ingress_spec import DesiredIngress

CERTIFICATES_MAX = 2_048
"""Certificates that a node holds. Where its tenants together have more, all get the same number; the Ingresses
with further ones get the event TooManyCertificates."""
CERTIFICATES_PER_TENANT_MAX = 128
"""Certificates of one tenant that a node holds: those of its oldest Ingresses. The Ingresses with further ones
get the event TooManyCertificates, and their hosts are not served by HTTPS."""

OwnedHost = tuple[TenantId, str]


class CertificateRequest(Struct, frozen=True):
    """The secret that an Ingress names for a host."""

    secret: ObjectKey
    tenant_key: TenantKey
    ingress: DesiredIngress


class CertificatePlan(Struct, frozen=True):
    by_host: dict[OwnedHost, CertificateRequest]
    left_out: dict[OwnedHost, CertificateRequest]
    """Those over the tenant's share."""

    @property
    def secrets(self) -> list[ObjectKey]:
        return list(dict.fromkeys(each.secret for each in self.by_host.values()))


def plan(
    desired: Mapping[TenantKey, Iterable[DesiredIngress]], served: Mapping[TenantKey, frozenset[str]]
) -> CertificatePlan:
    """`served` has the hosts of each tenant that the node serves."""
    requests = [
        _of_tenant(tenant_key, ingresses, served[tenant_key]) for tenant_key, ingresses in desired.items()
    ]
    secrets = [list(dict.fromkeys(each.secret for each in hosts.values())) for hosts in requests]
    [share] = shares(
        [(len(each),) for each in secrets], [Pool(CERTIFICATES_MAX, CERTIFICATES_PER_TENANT_MAX)]
    )
    planned = CertificatePlan({}, {})
    for hosts, of_tenant in zip(requests, secrets, strict=True):
        chosen = frozenset(of_tenant[:share])
        for host, request in hosts.items():
            (planned.by_host if request.secret in chosen else planned.left_out)[host] = request
    return planned


def _of_tenant(
    tenant_key: TenantKey, ingresses: Iterable[DesiredIngress], served: frozenset[str]
) -> dict[OwnedHost, CertificateRequest]:
    """The tenant's hosts with a certificate, the ones of its oldest Ingress first."""
    requests: dict[OwnedHost, CertificateRequest] = {}
    for ingress in sorted(ingresses, key=lambda each: each.age):
        for each in ingress.certificates:
            secret = ObjectKey(tenant_key.plane, tenant_key.tenant, ingress.namespace, each.secret)
            for host in each.hosts or ingress.hosts:
                if host in served:
                    request = CertificateRequest(secret, tenant_key, ingress)
                    requests.setdefault((tenant_key.tenant, host), request)
    return requests
