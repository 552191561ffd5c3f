"""The identity in a client certificate.

The TLS handshake has verified the chain and the key; this module checks the subject, the key usage and the
dates. A certificate does not outlive its tenant: one that was issued before the tenant was created belongs to
an earlier tenant of the same name, and `authenticate.py` rejects it, as it does those that were revoked.
"""

from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID

from alcove.api import meta
from alcove.api.errors import Unauthorized
from alcove.apiserver.auth import subjects
from alcove.apiserver.auth.certificates import BACKDATE
from alcove.apiserver.auth.subjects import SubjectError
from alcove.apiserver.identity import ALL_AUTHENTICATED, Identity

IDENTITIES_MAX = 4_096
"""Certificates whose identity is cached: to read one takes half a millisecond, and most clients come again."""
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"


class CertificateIdentity(Identity, frozen=True, kw_only=True):
    """An identity that is valid as long as its certificate; times are epoch seconds."""

    issued: float
    expires: float
    serial: int = 0


def identify(der: bytes, now: float) -> CertificateIdentity:
    """The identity in a verified certificate. Raises Unauthorized."""
    identity = _read(der)
    begins = identity.issued - BACKDATE.total_seconds()
    if now < begins:
        raise Unauthorized(
            f"Unauthorized: the client certificate is not valid before {meta.format_time(begins)}; check the clocks"
        )
    check_current(identity, now)
    return identity


@lru_cache(IDENTITIES_MAX)
def _read(der: bytes) -> CertificateIdentity:
    """The identity in a certificate, whatever its dates are. Raises Unauthorized."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        subject = subjects.from_name(certificate.subject)
        is_for_clients = _is_for_clients(certificate)
    except SubjectError as error:
        raise Unauthorized(f"Unauthorized: the client certificate's subject: {error}") from error
    except (ValueError, x509.DuplicateExtension) as error:
        raise Unauthorized("Unauthorized: the client certificate cannot be read") from error
    if not is_for_clients:
        raise Unauthorized("Unauthorized: the certificate is not for client authentication")
    return CertificateIdentity(
        subject.tenant,
        subject.user,
        tuple(dict.fromkeys((*subject.groups, ALL_AUTHENTICATED))),
        extra={CREDENTIAL_ID: (f"X509SHA256={certificate.fingerprint(hashes.SHA256()).hex()}",)},
        issued=(certificate.not_valid_before_utc + BACKDATE).timestamp(),
        expires=certificate.not_valid_after_utc.timestamp(),
        serial=certificate.serial_number,
    )


def check_current(identity: CertificateIdentity, now: float) -> None:
    """Raises Unauthorized once the certificate has expired."""
    if now > identity.expires:
        ended = meta.format_time(identity.expires)
        raise Unauthorized(f"Unauthorized: the client certificate expired at {ended}; get a new one")


def _is_for_clients(certificate: x509.Certificate) -> bool:
    """Whether it is no CA certificate and allows client authentication (as without the extended key
    usage)."""
    for extension in certificate.extensions:
        if isinstance(extension.value, x509.ExtendedKeyUsage):
            if ExtendedKeyUsageOID.CLIENT_AUTH not in extension.value:
                return False
        elif isinstance(extension.value, x509.BasicConstraints) and extension.value.ca:
            return False
    return True
