"""Certificates of dedicated planes, for the plane controller: an authority per plane, and its users' kubeconfigs."""

from __future__ import annotations

import time

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from alcove.api.ids import TenantId
from alcove.apiserver.auth import certificates, signingkeys
from alcove.apiserver.auth.certificates import (
    AUTHORITY_LIFETIME,
    CLIENT_LIFETIME,
    CertificateAuthority,
    CertificateProfile,
    issued_by,
)
from alcove.apiserver.auth.subjects import Subject
from alcove.cli.kubeconfig import KubeconfigCertificate, render
from alcove.controllers.plane_certificates import (
    CA_BEFORE,
    CA_CERTIFICATE,
    CA_KEY,
    ETCD_CA,
    ETCD_CERTIFICATE,
    ETCD_KEY,
    ETCD_KEYS,
    ETCD_NAME,
    SIGNING_KEY,
    IssuedKubeconfig,
    PlaneCertificates,
    PlaneKeys,
    PlaneUser,
    authorities,
)
from alcove.store import encryption_config

RENEW_SECONDS = CLIENT_LIFETIME.total_seconds() * 2 / 3
AUTHORITY_SECONDS_LEFT = CLIENT_LIFETIME.total_seconds()
"""An authority that is valid for less than this is replaced: its certificates would end with it."""


def plane_certificates() -> PlaneCertificates:
    return PlaneCertificates(
        own_keys=_own_keys,
        encryption=lambda: encryption_config.generate().decode(),
        public_keys=_public_keys,
        kubeconfig=_kubeconfig,
    )


def _own_keys(tenant: TenantId, held: PlaneKeys, has_etcd: bool) -> dict[str, str]:
    now = time.time()
    keys = {**_authority_keys(tenant, held, now), SIGNING_KEY: _signing_key(held)}
    return {**keys, **_etcd_keys(tenant, held, now)} if has_etcd else keys


def _authority_keys(tenant: TenantId, held: PlaneKeys, now: float) -> dict[str, str]:
    """Those of the authority that is held, or of a new one, which goes on trusting the one that it replaces."""
    before = held.get(CA_BEFORE, "")
    try:
        authority = _authority(held)
    except (KeyError, ValueError, TypeError):
        authority = CertificateAuthority.new(f"alcove-ca-{tenant}"[:64], now)
    if _seconds_left(authority.certificate, now) <= AUTHORITY_SECONDS_LEFT:
        before = authority.certificate_pem.decode()
        authority = CertificateAuthority.new(f"alcove-ca-{tenant}"[:64], now)
    keys = {CA_CERTIFICATE: authority.certificate_pem.decode(), CA_KEY: authority.key_pem.decode()}
    return {**keys, CA_BEFORE: before} if _is_valid(before, now) else keys


def _signing_key(held: PlaneKeys) -> str:
    try:
        key = serialization.load_pem_private_key(held[SIGNING_KEY].encode(), password=None)
    except (KeyError, ValueError, TypeError):
        key = None
    is_usable = isinstance(key, ec.EllipticCurvePrivateKey)
    return held[SIGNING_KEY] if is_usable else certificates.to_pem(certificates.new_key()).decode()


def _etcd_keys(tenant: TenantId, held: PlaneKeys, now: float) -> dict[str, str]:
    """The key of their authority is not kept: whoever has a certificate of it may read and write the store."""
    try:
        authority, certificate = (
            x509.load_pem_x509_certificate(held[each].encode()) for each in (ETCD_CA, ETCD_CERTIFICATE)
        )
        key = serialization.load_pem_private_key(held[ETCD_KEY].encode(), password=None)
        is_whole = issued_by(certificate, authority) and key.public_key() == certificate.public_key()
        if is_whole and _seconds_left(certificate, now) > AUTHORITY_SECONDS_LEFT:
            return {each: held[each] for each in ETCD_KEYS}
    except (KeyError, ValueError, TypeError):
        pass
    new_authority = CertificateAuthority.new(f"alcove-etcd-{tenant}"[:64], now)
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    profile = CertificateProfile(usages=usages, names=[x509.DNSName(ETCD_NAME)])
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, ETCD_NAME)])
    new_key = certificates.new_key()
    signed = new_authority.sign(new_key.public_key(), name, profile, now, AUTHORITY_LIFETIME)
    return {
        ETCD_CA: new_authority.certificate_pem.decode(),
        ETCD_CERTIFICATE: certificates.pem(signed).decode(),
        ETCD_KEY: certificates.to_pem(new_key).decode(),
    }


def _seconds_left(certificate: x509.Certificate, now: float) -> float:
    return certificate.not_valid_after_utc.timestamp() - now


def _is_valid(text: str, now: float) -> bool:
    try:
        return _seconds_left(x509.load_pem_x509_certificate(text.encode()), now) > 0
    except ValueError:
        return False


def _public_keys(keys: PlaneKeys) -> str:
    key = serialization.load_pem_private_key(keys[SIGNING_KEY].encode(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return signingkeys.public_pem(key.public_key())


def _kubeconfig(keys: PlaneKeys, server: str, user: PlaneUser) -> IssuedKubeconfig:
    now = time.time()
    issued = _authority(keys).client(Subject(user.tenant, user.name, user.groups), now)
    credential = KubeconfigCertificate(issued.certificate_pem, issued.key_pem)
    text = render(server, authorities(keys).encode(), user.tenant, user.name, credential)
    return IssuedKubeconfig(text, now + RENEW_SECONDS)


def _authority(keys: PlaneKeys) -> CertificateAuthority:
    """Raises KeyError, ValueError, TypeError."""
    certificate = x509.load_pem_x509_certificate(keys[CA_CERTIFICATE].encode())
    key = serialization.load_pem_private_key(keys[CA_KEY].encode(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise ValueError("the authority's key does not belong to its certificate")
    return CertificateAuthority(certificate, key)
