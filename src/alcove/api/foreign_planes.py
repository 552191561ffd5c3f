"""Foreign planes: API servers that ring0 does not run, each joined as the plane of one tenant (`alcove plane join`).

A plane is a Secret in ring0 with the address and the credential by which ring0's processes use it, and nothing else. Its tenant
has the mode `Foreign`; a plane of any other tenant is ignored.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

from msgspec import Struct

from alcove.api import objects
from alcove.api.ids import TenantId
from alcove.api.objects import Object

NAMESPACE = "alcove-planes"
"""Of ring0. Nodes may read the Secrets in it."""
SECRET_TYPE = "alcove.io/plane"
TENANT_LABEL = "alcove.io/tenant"
FIELDS = ("server", "ca.crt", "tls.crt", "tls.key", "token", "kubelet-ca.crt", "kubelet-user")
KUBELET_USER = "kube-apiserver-kubelet-client"
"""The common name that kubeadm gives the certificate by which an API server calls kubelets."""


class ForeignPlane(Struct, frozen=True, kw_only=True):
    name: str
    tenant: TenantId
    server: str
    """`https://host:6443`."""
    authority: bytes
    """Of the server's certificate, in PEM."""
    certificate: bytes = b""
    key: bytes = b""
    token: str = ""
    kubelet_authority: bytes = b""
    """Of the certificate by which the API server calls agents; empty if it may not."""
    kubelet_user: str = KUBELET_USER
    """The common name in that certificate."""


def secret_of(plane: ForeignPlane, tenant_uid: str) -> Object:
    """Owned by the Tenant: the garbage collector deletes it with the tenant."""
    values = (
        plane.server.encode(),
        plane.authority,
        plane.certificate,
        plane.key,
        plane.token.encode(),
        plane.kubelet_authority,
        plane.kubelet_user.encode(),
    )
    owner = {"apiVersion": "v1", "kind": "Tenant", "name": plane.tenant, "uid": tenant_uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": SECRET_TYPE,
        "metadata": {
            "name": plane.name,
            "namespace": NAMESPACE,
            "labels": {TENANT_LABEL: plane.tenant},
            "ownerReferences": [owner],
        },
        "data": {
            field: base64.b64encode(value).decode() for field, value in zip(FIELDS, values, strict=True)
        },
    }


def plane_of(secret: Object) -> ForeignPlane | None:
    """None for a Secret that is no plane."""
    tenant = objects.labels(secret).get(TENANT_LABEL, "")
    if secret.get("type") != SECRET_TYPE or not tenant:
        return None
    data = secret.get("data") or {}
    try:
        server, authority, certificate, key, token, kubelet_authority, kubelet_user = (
            base64.b64decode(data.get(field) or "", validate=True) for field in FIELDS
        )
        return ForeignPlane(
            name=objects.name(secret),
            tenant=TenantId(tenant),
            server=server.decode(),
            authority=authority,
            certificate=certificate,
            key=key,
            token=token.decode(),
            kubelet_authority=kubelet_authority,
            kubelet_user=kubelet_user.decode(),
        )
    except (binascii.Error, UnicodeDecodeError):
        return None


def by_tenant(secrets: Iterable[Object]) -> dict[TenantId, ForeignPlane]:
    """The plane of each tenant. Of several planes of one tenant the one with the first name counts."""
    planes = sorted(filter(None, map(plane_of, secrets)), key=lambda plane: plane.name, reverse=True)
    return {plane.tenant: plane for plane in planes}
