"""The server's side of TLS: its certificate, which is renewed, and the context that accepts client
certificates.

Clients may send a certificate; it must be issued by the cluster's authority, or the handshake ends with the
alert "unknown ca". kube-apiserver requests a certificate without verifying it in the handshake, and answers
an unknown one with 401. Python's `ssl` cannot: it verifies whatever it requests (CERT_OPTIONAL,
CERT_REQUIRED) and has no callback. So such clients get no Status, and an unknown certificate is rejected even
if the request has a valid token.

OpenSSL does not check dates: an expired certificate passes the handshake and is rejected by authentication,
with a `Status` that says so instead of a broken connection.
"""

import ssl
from collections.abc import Callable, Collection
from pathlib import Path

from cryptography import x509

from alcove.apiserver.auth import certificates, keyfiles
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.auth.keyfiles import KeyFileError

SERVING_CERTIFICATE = "apiserver.crt"
SERVING_KEY = "apiserver.key"

DEFAULT_HOSTS = (
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)

_NO_CHECK_TIME = ssl.VerifyFlags(0x200000)
"""X509_V_FLAG_NO_CHECK_TIME, which the ssl module does not name."""


class ServerCertificate:
    """The server's certificate on disk, and the TLS context that serves it."""

    def __init__(
        self,
        directory: Path,
        authority: CertificateAuthority,
        hosts: Collection[str],
        clock: Callable[[], float],
        more_client_authorities: bytes = b"",
    ) -> None:
        """Issues a certificate if there is none on disk that is valid for all hosts. `more_client_authorities`, in
        PEM, may have signed clients' certificates too. Raises KeyFileError."""
        self._certificate_path = directory / SERVING_CERTIFICATE
        self._key_path = directory / SERVING_KEY
        self._authority = authority
        self._clock = clock
        self._hosts = frozenset((*DEFAULT_HOSTS, *hosts))
        self._client_authorities = authority.certificate_pem + more_client_authorities
        self.context = _server_context(self._client_authorities)
        self._current = self.context
        """What connections use; another one once further authorities are trusted, since OpenSSL cannot remove one."""
        self._loaded: bytes | None = None
        """The certificate that is served."""
        self.renew()

    def trust_clients_of(self, authorities_pem: Collection[str]) -> None:
        """Accepts client certificates of these authorities beside its own, and of no others that were given before,
        from the next connection on. Raises ssl.SSLError."""
        context = _server_context(b"".join((self._client_authorities, *map(str.encode, authorities_pem))))
        context.load_cert_chain(self._certificate_path, self._key_path)
        self._current = context
        # Called in each handshake, also of clients that name no server.
        self.context.sni_callback = self._choose

    def _choose(self, tls: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        tls.context = self._current

    def cover(self, hosts: Collection[str]) -> None:
        """Adds names and addresses of this server to the certificate; new connections get it."""
        self._hosts |= frozenset(hosts)
        self.renew()

    def renew(self) -> bool:
        """Issues and serves a new certificate if it is invalid or at most a third of its lifetime remains.

        Call it periodically. Returns whether a certificate was issued.
        """
        if not self._is_due():
            self.reload()
            return False
        issued = self._authority.serving(sorted(self._hosts), self._clock())
        # The key first: a crash between the two leaves a pair that does not match, which is renewed at the
        # next start.
        keyfiles.replace(self._key_path, issued.key_pem)
        keyfiles.replace(self._certificate_path, issued.certificate_pem)
        self._load()
        return True

    def reload(self) -> None:
        """Serves the certificate on disk, which another worker of this server may have issued. Raises KeyFileError."""
        if keyfiles.read(self._certificate_path) != self._loaded:
            self._load()

    def _load(self) -> None:
        self._loaded = keyfiles.read(self._certificate_path)
        try:
            for context in {self.context, self._current}:
                context.load_cert_chain(self._certificate_path, self._key_path)
        except (ssl.SSLError, OSError) as error:
            raise KeyFileError(
                f"cannot use {self._certificate_path} with {self._key_path}: {error}"
            ) from error

    def _is_due(self) -> bool:
        data, key_data = keyfiles.read(self._certificate_path), keyfiles.read(self._key_path)
        if data is None or key_data is None:
            return True
        certificate = certificates.load_certificate(self._certificate_path, data)
        key = certificates.load_private_key(self._key_path, key_data)
        return (
            certificate.public_key() != key.public_key()
            or not certificates.issued_by(certificate, self._authority.certificate)
            or not _covers(certificate, self._hosts)
            or self._is_old(certificate)
        )

    def _is_old(self, certificate: x509.Certificate) -> bool:
        start = certificate.not_valid_before_utc.timestamp()
        end = certificate.not_valid_after_utc.timestamp()
        return end - self._clock() <= (end - start) / 3


def _covers(certificate: x509.Certificate, hosts: Collection[str]) -> bool:
    try:
        listed = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return set(listed) >= {certificates.general_name(host) for host in hosts}


def _server_context(client_authorities: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_verify_locations(cadata=client_authorities.decode("ascii"))
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= _NO_CHECK_TIME
    # Kubernetes' clients do not resume sessions, and two tickets, which hold the client's certificate, take as long
    # as the rest of a handshake's last step.
    context.num_tickets = 0
    # A second handshake would be computed on the event loop.
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context
