"""Certificates of hosts, selected by the client's SNI. Keys are never written to a disk."""

import hashlib
import os
import ssl
from collections.abc import Mapping

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from msgspec import Struct

from alcove.agent.ingress.certificate_plan import OwnedHost
from alcove.network.ingress.domains import DomainGrants, star_of

RSA_BITS_MIN, RSA_BITS_MAX = 2_048, 4_096
"""RSA keys of certificates: the time of a handshake grows with the cube of the size. The Ingress with another
key gets the event CertificateUnusable."""
CHAIN_BYTES_MAX = 64 << 10
"""A certificate with its chain in PEM, which is sent in every handshake. An Ingress with a longer one gets the event
CertificateUnusable."""
KEY_BYTES_MAX = 8 << 10
"""A key in PEM; one of RSA with 4,096 bits has 3,300 bytes."""
_PROTOCOLS = ["http/1.1"]


class IngressCertificatePair(Struct, frozen=True):
    """A certificate chain and its key, in PEM."""

    chain: bytes
    key: bytes

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(len(self.chain).to_bytes(8, "big") + self.chain + self.key).digest()


class InvalidKeyPair(Exception):
    """The PEM data is invalid, or the key does not match the certificate."""


def context_of(pair: IngressCertificatePair) -> ssl.SSLContext:
    """Raises InvalidKeyPair."""
    if len(pair.chain) > CHAIN_BYTES_MAX:
        raise InvalidKeyPair(f"the certificate chain has more than {CHAIN_BYTES_MAX} bytes")
    _check_key(pair.key)
    context = _context()
    chain, key = _in_memory(pair.chain), _in_memory(pair.key)
    try:
        # Without a callback OpenSSL would prompt for the password of an encrypted key on the terminal.
        context.load_cert_chain(f"/proc/self/fd/{chain}", f"/proc/self/fd/{key}", password=lambda: b"")
    except (ssl.SSLError, OSError) as error:
        raise InvalidKeyPair(
            error.reason if isinstance(error, ssl.SSLError) and error.reason else str(error)
        ) from error
    finally:
        os.close(chain)
        os.close(key)
    return context


def _check_key(pem: bytes) -> None:
    """Raises InvalidKeyPair for keys whose handshakes would take long, or that clients do not accept."""
    if len(pem) > KEY_BYTES_MAX:
        raise InvalidKeyPair(f"the key has more than {KEY_BYTES_MAX} bytes")
    try:
        # The validation of an RSA key takes much longer than its use. OpenSSL compares it with the certificate.
        key = load_pem_private_key(pem, None, unsafe_skip_rsa_key_validation=True)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InvalidKeyPair("the key is not valid PEM, or it is encrypted") from error
    match key:
        case rsa.RSAPrivateKey() if RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX:
            return
        case ec.EllipticCurvePrivateKey() if isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1):
            return
        case ed25519.Ed25519PrivateKey():
            return
    raise InvalidKeyPair(
        f"the key must be RSA with {RSA_BITS_MIN} to {RSA_BITS_MAX} bits, ECDSA on P-256 or P-384, or Ed25519"
    )


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(_PROTOCOLS)
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context


def _in_memory(data: bytes) -> int:
    descriptor = os.memfd_create("alcove-ingress", os.MFD_CLOEXEC)
    os.write(descriptor, data)
    return descriptor


class IngressCertificates:
    def __init__(self, grants: DomainGrants) -> None:
        self._grants = grants
        self.context = _context()
        """The context of the listening sockets."""
        self.context.sni_callback = self._choose
        self._by_host: dict[OwnedHost, ssl.SSLContext] = {}
        self._by_digest: dict[bytes, ssl.SSLContext] = {}

    def set(self, pairs: Mapping[OwnedHost, IngressCertificatePair]) -> dict[OwnedHost, str]:
        """Replaces the certificates of all hosts. Returns error messages for invalid ones, by host. Takes some
        milliseconds for each new certificate; may be called in any thread, by one caller at a time."""
        by_host: dict[OwnedHost, ssl.SSLContext] = {}
        by_digest: dict[bytes, ssl.SSLContext] = {}
        errors: dict[OwnedHost, str] = {}
        for host, pair in pairs.items():
            digest = pair.digest
            try:
                context = by_digest.get(digest) or self._by_digest.get(digest) or context_of(pair)
            except InvalidKeyPair as error:
                errors[host] = str(error)
                continue
            by_host[host] = by_digest[digest] = context
        self._by_host, self._by_digest = by_host, by_digest
        return errors

    def find(self, name: str) -> ssl.SSLContext | None:
        """The context for a host name in lower case. A certificate of the tenant that owns the name."""
        owner = self._grants.owner(name)
        return self._by_host.get((owner, name)) or self._by_host.get((owner, star_of(name)))

    def _choose(self, connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> int | None:
        context = self.find((name or "").lower())
        if context is None:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        connection.context = context
        connection.alcove_name = (name or "").lower()  # type: ignore[attr-defined]
        return None
