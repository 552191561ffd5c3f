"""Certificates of authorities that are about to expire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def aged(certificate: str, key: str, remaining: timedelta) -> str:
    """The authority's certificate, in PEM, with the same name and key, and little time left."""
    before = x509.load_pem_x509_certificate(certificate.encode())
    private = serialization.load_pem_private_key(key.encode(), password=None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    end = datetime.now(UTC) + remaining
    builder = (
        x509.CertificateBuilder()
        .subject_name(before.subject)
        .issuer_name(before.issuer)
        .public_key(before.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - timedelta(days=3_652))
        .not_valid_after(end)
    )
    for extension in before.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    return builder.sign(private, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
