"""Client certificates for a tenant's users: a CertificateSigningRequest that is approved and signed.

The key is generated locally and not sent. The ring0 caller impersonates the tenant's administrator, since no
signer signs for another tenant than the requester's.
"""

from __future__ import annotations

import base64
import secrets

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from alcove.api.errors import InternalError
from alcove.api.objects import Object
from alcove.cli.connection import CliConnection
from alcove.cli.kubeconfig import KubeconfigCertificate

SIGNER = "kubernetes.io/kube-apiserver-client"
ADMIN = "admin"


def issue(
    connection: CliConnection, tenant: str, user: str, groups: tuple[str, ...]
) -> KubeconfigCertificate:
    """A certificate for `user` of `tenant`. Raises ApiError, ConnectionFailed."""
    connection.request("GET", f"/api/v1/tenants/{tenant}")
    key = ec.generate_private_key(ec.SECP256R1())
    path = f"/apis/certificates.k8s.io/v1/tenants/{tenant}/certificatesigningrequests"
    impersonation = {"Impersonate-User": ADMIN, "Impersonate-Tenant": tenant}
    request = connection.request("POST", path, _request(key, tenant, user, groups), impersonation)
    name = request["metadata"]["name"]
    try:
        request["status"] = {"conditions": [_APPROVED]}
        signed = connection.request("PUT", f"{path}/{name}/approval", request, impersonation)
    finally:
        connection.request("DELETE", f"{path}/{name}", headers=impersonation)
    certificate = signed.get("status", {}).get("certificate")
    if not certificate:
        raise InternalError(f"the certificate request was not signed: {signed.get('status')}")
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KubeconfigCertificate(base64.b64decode(certificate), pem)


_APPROVED = {"type": "Approved", "status": "True", "reason": "AlcoveTenantKubeconfig"}


def _request(key: ec.EllipticCurvePrivateKey, tenant: str, user: str, groups: tuple[str, ...]) -> Object:
    names = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, f"tenant:{tenant}"),
        *(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, group) for group in groups),
        x509.NameAttribute(NameOID.COMMON_NAME, user),
    ]
    csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    pem = csr.public_bytes(serialization.Encoding.PEM)
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": f"kubeconfig-{secrets.token_hex(5)}"},
        "spec": {
            "signerName": SIGNER,
            "usages": ["client auth"],
            "request": base64.b64encode(pem).decode(),
        },
    }
