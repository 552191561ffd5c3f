"""Real TLS handshakes: which clients are accepted, which errors others get, and renewal of the certificate."""

import socket
import ssl
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from alcove.api.errors import Unauthorized
from alcove.api.ids import SYSTEM, TenantId
from alcove.apiserver.auth import clientcert
from alcove.apiserver.auth.certificates import CertificateAuthority, IssuedCertificate
from alcove.apiserver.auth.subjects import Subject
from alcove.apiserver.auth.tls import ServerCertificate

NOW = 1_800_000_000.0
YEAR = timedelta(days=365).total_seconds()


class Handshake:
    """Both ends of one connection over a socket pair."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost") -> None:
        self.peer: bytes | None = None
        self.server_error: Exception | None = None
        self.client_error: Exception | None = None
        self.served: bytes | None = None
        self.has_ticket = False
        """Whether the client could resume the session."""
        ends = socket.socketpair()
        for end in ends:
            end.settimeout(10)
        thread = threading.Thread(target=self._serve, args=(server, ends[0]))
        thread.start()
        try:
            with client.wrap_socket(ends[1], server_hostname=host) as connection:
                self.served = connection.getpeercert(binary_form=True)
                connection.sendall(b"?")
                connection.recv(1)
                self.has_ticket = connection.session is not None and connection.session.has_ticket
        except (ssl.SSLError, OSError) as error:
            self.client_error = error
        thread.join()

    def _serve(self, context: ssl.SSLContext, end: socket.socket) -> None:
        try:
            with context.wrap_socket(end, server_side=True) as connection:
                connection.recv(1)
                self.peer = connection.getpeercert(binary_form=True)
                connection.sendall(b"!")
        except (ssl.SSLError, OSError) as error:
            self.server_error = error


def trusting(
    authority: CertificateAuthority, shown: IssuedCertificate | None, directory: Path
) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    context.verify_flags |= ssl.VerifyFlags(0x200000)  # The tests' clock is not the machine's.
    if shown is not None:
        certificate, key = directory / "client.crt", directory / "client.key"
        certificate.write_bytes(shown.certificate_pem)
        key.write_bytes(shown.key_pem)
        context.load_cert_chain(certificate, key)
    return context


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority.open(tmp_path / "pki", NOW)


@pytest.fixture
def serving(tmp_path: Path, authority: CertificateAuthority) -> ServerCertificate:
    return ServerCertificate(tmp_path / "pki", authority, ["api.example.com", "192.0.2.7"], lambda: NOW)


def test_a_client_certificate_reaches_the_server(
    tmp_path: Path, authority: CertificateAuthority, serving: ServerCertificate
) -> None:
    shown = authority.client(Subject(TenantId("acme"), "ann", ("dev",)), NOW)
    done = Handshake(serving.context, trusting(authority, shown, tmp_path))
    assert done.server_error is None and done.client_error is None
    assert done.peer is not None
    assert clientcert.identify(done.peer, NOW).user == "ann"


def test_a_handshake_computes_no_session_tickets(
    tmp_path: Path, authority: CertificateAuthority, serving: ServerCertificate
) -> None:
    client = trusting(authority, None, tmp_path)
    assert not Handshake(serving.context, client).has_ticket
    serving.context.num_tickets = 1
    assert Handshake(serving.context, client).has_ticket


def test_no_certificate_is_no_failure(
    tmp_path: Path, authority: CertificateAuthority, serving: ServerCertificate
) -> None:
    done = Handshake(serving.context, trusting(authority, None, tmp_path))
    assert done.server_error is None
    assert done.peer is None


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "::1", "kubernetes.default.svc", "api.example.com", "192.0.2.7"]
)
def test_answers_to_its_names(
    tmp_path: Path, authority: CertificateAuthority, serving: ServerCertificate, host: str
) -> None:
    assert Handshake(serving.context, trusting(authority, None, tmp_path), host).client_error is None


def test_does_not_answer_to_other_names(
    tmp_path: Path, authority: CertificateAuthority, serving: ServerCertificate
) -> None:
    done = Handshake(serving.context, trusting(authority, None, tmp_path), "evil.example.com")
    assert isinstance(done.client_error, ssl.SSLCertVerificationError)


def test_an_expired_certificate_passes_the_handshake_and_is_then_refused(
    tmp_path: Path, authority: CertificateAuthority, serving: ServerCertificate
) -> None:
    shown = authority.client(Subject(TenantId("acme"), "ann"), NOW - 10_000, timedelta(seconds=100))
    done = Handshake(serving.context, trusting(authority, shown, tmp_path))
    assert done.server_error is None and done.peer is not None
    with pytest.raises(Unauthorized, match="expired at 2027-01-15T05:15:00Z"):
        clientcert.identify(done.peer, NOW)


def test_a_certificate_of_another_authority_fails_the_handshake(
    tmp_path: Path, authority: CertificateAuthority, serving: ServerCertificate
) -> None:
    forger = CertificateAuthority.open(tmp_path / "forger", NOW)
    shown = forger.client(Subject(SYSTEM, "admin", ("system:masters",)), NOW)
    done = Handshake(serving.context, trusting(authority, shown, tmp_path))
    assert isinstance(done.server_error, ssl.SSLError)
    assert done.peer is None


def test_an_authority_is_trusted_until_it_is_no_longer_given(
    tmp_path: Path, authority: CertificateAuthority, serving: ServerCertificate
) -> None:
    other = CertificateAuthority.new("other", NOW)
    shown = other.client(Subject(TenantId("big"), "ann", ()), NOW)
    client = trusting(authority, shown, tmp_path)

    def is_accepted() -> bool:
        return Handshake(serving.context, client).peer is not None

    assert not is_accepted()
    serving.trust_clients_of([other.certificate_pem.decode()])
    assert is_accepted()
    before = Handshake(serving.context, client).served
    serving.cover(["another.example.com"])
    after = Handshake(serving.context, client)
    assert after.peer is not None and after.served != before
    serving.trust_clients_of([])
    assert not is_accepted()
    own = trusting(authority, authority.client(Subject(TenantId("acme"), "ann", ()), NOW), tmp_path)
    assert Handshake(serving.context, own).peer is not None


def test_a_server_certificate_is_no_client_certificate(
    tmp_path: Path, authority: CertificateAuthority, serving: ServerCertificate
) -> None:
    done = Handshake(serving.context, trusting(authority, authority.serving(["localhost"], NOW), tmp_path))
    assert isinstance(done.server_error, ssl.SSLError)


def test_old_protocols_are_refused(
    tmp_path: Path, authority: CertificateAuthority, serving: ServerCertificate
) -> None:
    client = trusting(authority, None, tmp_path)
    with pytest.warns(DeprecationWarning):
        client.minimum_version = ssl.TLSVersion.TLSv1_1
        client.maximum_version = ssl.TLSVersion.TLSv1_1
    client.set_ciphers("ALL:@SECLEVEL=0")
    assert Handshake(serving.context, client).server_error is not None


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def test_renews_before_it_expires_without_a_restart(tmp_path: Path, authority: CertificateAuthority) -> None:
    clock = Clock()
    serving = ServerCertificate(tmp_path / "pki", authority, [], clock)
    client = trusting(authority, None, tmp_path)
    first = Handshake(serving.context, client).served
    clock.now = NOW + YEAR / 2
    assert not serving.renew()
    assert Handshake(serving.context, client).served == first
    clock.now = NOW + YEAR * 0.7
    assert serving.renew()
    second = Handshake(serving.context, client).served
    assert second is not None and second != first


def test_a_restart_shows_the_same_certificate(
    tmp_path: Path, authority: CertificateAuthority, serving: ServerCertificate
) -> None:
    again = ServerCertificate(tmp_path / "pki", authority, ["api.example.com"], lambda: NOW)
    client = trusting(authority, None, tmp_path)
    assert Handshake(again.context, client).served == Handshake(serving.context, client).served


def test_a_new_address_is_in_the_certificate_immediately(
    tmp_path: Path, authority: CertificateAuthority, serving: ServerCertificate
) -> None:
    client = trusting(authority, None, tmp_path)
    serving.cover(["10.96.0.1"])
    assert Handshake(serving.context, client, "10.96.0.1").client_error is None
    assert Handshake(serving.context, client, "api.example.com").client_error is None


@pytest.mark.parametrize("damage", ["half a pair", "another authority"])
def test_an_unusable_key_pair_is_replaced(
    tmp_path: Path, authority: CertificateAuthority, serving: ServerCertificate, damage: str
) -> None:
    other = CertificateAuthority.open(tmp_path / "other", NOW).serving(["localhost"], NOW)
    (tmp_path / "pki" / "apiserver.key").write_bytes(other.key_pem)
    if damage == "another authority":
        (tmp_path / "pki" / "apiserver.crt").write_bytes(other.certificate_pem)
    again = ServerCertificate(tmp_path / "pki", authority, [], lambda: NOW)
    assert Handshake(again.context, trusting(authority, None, tmp_path)).client_error is None
