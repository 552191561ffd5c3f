"""Certificates of dedicated planes, for the plane controller: an authority per plane, and its users' kubeconfigs."""

from __future__ import annotations

import time

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from alcove.api.ids import TenantId
from alcove.apiserver.auth import certificates, signingkeys
from alcove.apiserver.auth.certificates import CLIENT_LIFETIME, CertificateAuthority
from alcove.apiserver.auth.subjects import Subject
from alcove.cli.kubeconfig import KubeconfigCertificate, render
from alcove.controllers.plane_certificates import (
    CA_CERTIFICATE,
    CA_KEY,
    SIGNING_KEY,
    IssuedKubeconfig,
    PlaneCertificates,
    PlaneKeys,
    PlaneUser,
)

RENEW_SECONDS = CLIENT_LIFETIME.total_seconds() * 2 / 3
AUTHORITY_SECONDS_LEFT = CLIENT_LIFETIME.total_seconds()
"""An authority that is valid for less than this is replaced: its certificates would end with it."""


def plane_certificates() -> PlaneCertificates:
    return PlaneCertificates(
        new_keys=_new_keys, are_valid=_are_valid, public_keys=_public_keys, kubeconfig=_kubeconfig
    )


def _new_keys(tenant: TenantId) -> dict[str, str]:
    authority = CertificateAuthority.new(f"alcove-ca-{tenant}"[:64], time.time())
    signing = certificates.to_pem(certificates.new_key())
    return {
        CA_CERTIFICATE: authority.certificate_pem.decode(),
        CA_KEY: authority.key_pem.decode(),
        SIGNING_KEY: signing.decode(),
    }


def _are_valid(keys: PlaneKeys) -> bool:
    try:
        authority = _authority(keys)
        serialization.load_pem_private_key(keys[SIGNING_KEY].encode(), password=None)
    except (KeyError, ValueError, TypeError):
        return False
    return authority.certificate.not_valid_after_utc.timestamp() - time.time() > AUTHORITY_SECONDS_LEFT


def _public_keys(keys: PlaneKeys) -> str:
    key = serialization.load_pem_private_key(keys[SIGNING_KEY].encode(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return signingkeys.public_pem(key.public_key())


def _kubeconfig(keys: PlaneKeys, server: str, user: PlaneUser) -> IssuedKubeconfig:
    now = time.time()
    issued = _authority(keys).client(Subject(user.tenant, user.name, user.groups), now)
    credential = KubeconfigCertificate(issued.certificate_pem, issued.key_pem)
    text = render(server, keys[CA_CERTIFICATE].encode(), user.tenant, user.name, credential)
    return IssuedKubeconfig(text, now + RENEW_SECONDS)


def _authority(keys: PlaneKeys) -> CertificateAuthority:
    """Raises KeyError, ValueError, TypeError."""
    certificate = x509.load_pem_x509_certificate(keys[CA_CERTIFICATE].encode())
    key = serialization.load_pem_private_key(keys[CA_KEY].encode(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise ValueError("the authority's key does not belong to its certificate")
    return CertificateAuthority(certificate, key)
