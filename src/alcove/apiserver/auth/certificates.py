"""The certificate authority, created at the first start, and the certificates it issues.

Files `ca.crt` and `ca.key` of the key directory. The certificate is always created from the key on disk, so a
start that was interrupted between the two is completed by the next one. Issued certificates are valid from
`BACKDATE` before their issue, to tolerate slow clocks.
"""

import ipaddress
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from alcove.apiserver.auth import keyfiles, subjects
from alcove.apiserver.auth.keyfiles import KeyFileError
from alcove.apiserver.auth.subjects import Subject

AUTHORITY_LIFETIME = timedelta(days=3652)
CLIENT_LIFETIME = timedelta(days=365)
SERVING_LIFETIME = timedelta(days=365)
BACKDATE = timedelta(minutes=5)

CA_CERTIFICATE = "ca.crt"
CA_KEY = "ca.key"

_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey


class IssuedCertificate(Struct, frozen=True):
    certificate_pem: bytes
    key_pem: bytes


class CertificateProfile(Struct, frozen=True):
    """The usages and alternative names of a certificate."""

    usages: Sequence[x509.ObjectIdentifier]
    names: Sequence[x509.GeneralName] = ()
    key_encipherment: bool = False


class CertificateAuthority:
    """Signs certificates. Never signs a CA certificate."""

    def __init__(self, certificate: x509.Certificate, key: PrivateKey) -> None:
        self.certificate = certificate
        self._key = key

    @classmethod
    def open(cls, directory: Path, now: float) -> "CertificateAuthority":
        """The directory's authority, created if it does not exist. Raises KeyFileError."""
        certificate_path, key_path = directory / CA_CERTIFICATE, directory / CA_KEY
        if keyfiles.read(key_path) is None and keyfiles.read(certificate_path) is not None:
            raise KeyFileError(
                f"{certificate_path} exists but {key_path} does not; restore the key, "
                "or remove the certificate to create a new authority (all credentials become invalid)"
            )
        key = load_private_key(key_path, keyfiles.read_or_create(key_path, lambda: to_pem(new_key())))
        data = keyfiles.read_or_create(certificate_path, lambda: pem(_self_signed(key, now)))
        return cls(_checked(certificate_path, data, key, now), key)

    @classmethod
    def new(cls, common_name: str, now: float) -> "CertificateAuthority":
        """A new authority, which nobody keeps."""
        key = new_key()
        return cls(_self_signed(key, now, common_name), key)

    def for_nodes(self, now: float) -> "CertificateAuthority":
        """The authority of nodes' serving certificates, which only API servers trust: with such a certificate
        nobody can pose as an API server."""
        return self.derived("alcove-node-ca", b"alcove-node-ca", now)

    def derived(self, common_name: str, purpose: bytes, now: float) -> "CertificateAuthority":
        """Another authority, whose key is derived from this authority's key, so that all API servers have the same
        one for a purpose."""
        key = self._key
        number = (
            key.private_numbers().private_value
            if isinstance(key, ec.EllipticCurvePrivateKey)
            else key.private_numbers().d
        )
        secret = number.to_bytes((number.bit_length() + 7) // 8, "big")
        # 48 bytes, so that reducing them to the curve's order (32 bytes) leaves no bias.
        derived = HKDF(hashes.SHA256(), 48, salt=None, info=purpose).derive(secret)
        value = int.from_bytes(derived, "big") % (_P256_ORDER - 1) + 1
        derived_key = ec.derive_private_key(value, ec.SECP256R1())
        return CertificateAuthority(_self_signed(derived_key, now, common_name), derived_key)

    @property
    def certificate_pem(self) -> bytes:
        return pem(self.certificate)

    @property
    def key_pem(self) -> bytes:
        return to_pem(self._key)

    def client(
        self, subject: Subject, now: float, lifetime: timedelta = CLIENT_LIFETIME
    ) -> IssuedCertificate:
        """A new key and a client certificate for `subject`. Raises SubjectError."""
        key = new_key()
        profile = CertificateProfile(usages=[ExtendedKeyUsageOID.CLIENT_AUTH])
        signed = self.sign(key.public_key(), subjects.to_name(subject), profile, now, lifetime)
        return IssuedCertificate(pem(signed), to_pem(key))

    def serving(
        self, hosts: Collection[str], now: float, lifetime: timedelta = SERVING_LIFETIME
    ) -> IssuedCertificate:
        """A new key and a server's certificate. Its subject names no tenant, so it is invalid for clients."""
        key = new_key()
        profile = CertificateProfile(
            usages=[ExtendedKeyUsageOID.SERVER_AUTH], names=[general_name(h) for h in hosts]
        )
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "alcove-apiserver")])
        signed = self.sign(key.public_key(), name, profile, now, lifetime)
        return IssuedCertificate(pem(signed), to_pem(key))

    def sign(
        self, key: PublicKey, name: x509.Name, profile: CertificateProfile, now: float, lifetime: timedelta
    ) -> x509.Certificate:
        """A certificate valid from `BACKDATE` ago for `lifetime`, but no longer than the authority's
        certificate."""
        start = datetime.fromtimestamp(int(now), UTC)
        authority = self.certificate
        end = min(start + lifetime, authority.not_valid_after_utc)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(authority.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(start - BACKDATE)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(key_encipherment=profile.key_encipherment), critical=True)
            .add_extension(x509.ExtendedKeyUsage(profile.usages), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(_authority_identifier(authority), critical=False)
        )
        if profile.names:
            builder = builder.add_extension(x509.SubjectAlternativeName(profile.names), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def to_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def load_private_key(path: Path, data: bytes) -> PrivateKey:
    """The key in a PEM file. Raises KeyFileError."""
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError) as error:
        raise KeyFileError(f"{path} holds no unencrypted PEM private key") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise KeyFileError(f"{path} must hold an ECDSA or RSA key")
    return key


def load_certificate(path: Path, data: bytes) -> x509.Certificate:
    """The first certificate in a PEM file. Raises KeyFileError."""
    try:
        return x509.load_pem_x509_certificate(data)
    except ValueError as error:
        raise KeyFileError(f"{path} holds no PEM certificate") from error


def general_name(host: str) -> x509.GeneralName:
    """An address or a DNS name, as a certificate lists it."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _self_signed(key: PrivateKey, now: float, common_name: str = "alcove-ca") -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    start = datetime.fromtimestamp(int(now), UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - BACKDATE)
        .not_valid_after(start + AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _checked(path: Path, data: bytes, key: PrivateKey, now: float) -> x509.Certificate:
    certificate = load_certificate(path, data)
    if certificate.public_key() != key.public_key():
        raise KeyFileError(f"{path} does not belong to {path.with_name(CA_KEY)}: restore the pair together")
    if not _is_authority(certificate):
        raise KeyFileError(f"{path} is not a CA certificate")
    if certificate.not_valid_after_utc.timestamp() <= now:
        raise KeyFileError(
            f"the authority in {path} expired on {certificate.not_valid_after_utc:%Y-%m-%d}; "
            "remove the certificate (keep the key) to create a new one"
        )
    return certificate


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _authority_identifier(authority: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    try:
        key_identifier = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        key = authority.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey)
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(key)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_identifier)


def _key_usage(*, authority: bool = False, key_encipherment: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=key_encipherment,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
