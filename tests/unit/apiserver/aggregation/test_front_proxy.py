"""The front proxy's certificates are each tenant's own, and its headers say who the caller is."""

import subprocess
import sys

import pytest
from cryptography import x509

from alcove.api.errors import BadRequest
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.resources import TENANTS
from alcove.apiserver.aggregation.front_proxy import FrontProxy, identity_headers
from alcove.apiserver.auth import subjects
from alcove.apiserver.auth.certificates import CertificateAuthority, issued_by
from alcove.apiserver.auth.subjects import SubjectError
from alcove.apiserver.identity import Identity
from alcove.testing.memory_reader import MemoryReader

ACME, BETA = TenantId("acme"), TenantId("beta")
NOW = 1_800_000_000.0


@pytest.fixture
def reader() -> MemoryReader:
    made = MemoryReader()
    for tenant in (ACME, BETA):
        made.put(SYSTEM, TENANTS, {"metadata": {"name": tenant, "uid": f"uid-{tenant}"}})
    return made


@pytest.fixture
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority.open(tmp_path_factory.mktemp("pki"), NOW)


def certificate(proxy: FrontProxy, tenant: TenantId) -> x509.Certificate:
    return x509.load_pem_x509_certificate(proxy.credentials(tenant).issued.certificate_pem)


def test_a_certificate_is_of_the_tenants_authority_only(
    reader: MemoryReader, authority: CertificateAuthority
) -> None:
    proxy = FrontProxy(authority, reader, lambda: NOW)
    mine = certificate(proxy, ACME)
    assert issued_by(mine, proxy.credentials(ACME).authority.certificate)
    for other in (
        authority,
        authority.for_nodes(NOW),
        proxy.credentials(ACME).client_authority,
        proxy.credentials(BETA).authority,
        proxy.credentials(SYSTEM).authority,
    ):
        assert not issued_by(mine, other.certificate)
    with pytest.raises(SubjectError):
        subjects.from_name(mine.subject)


def test_all_servers_have_the_same_authority_for_a_tenant(
    reader: MemoryReader, authority: CertificateAuthority
) -> None:
    first, second = (FrontProxy(authority, reader, lambda: NOW) for _ in range(2))
    assert issued_by(certificate(first, ACME), second.credentials(ACME).authority.certificate)


def test_a_later_tenant_of_the_same_name_has_another_authority(
    reader: MemoryReader, authority: CertificateAuthority
) -> None:
    proxy = FrontProxy(authority, reader, lambda: NOW)
    before = certificate(proxy, ACME)
    reader.put(SYSTEM, TENANTS, {"metadata": {"name": ACME, "uid": "another"}})
    assert not issued_by(before, proxy.credentials(ACME).authority.certificate)


def test_a_certificate_is_renewed_before_it_expires(
    reader: MemoryReader, authority: CertificateAuthority
) -> None:
    now = [NOW]
    proxy = FrontProxy(authority, reader, lambda: now[0])
    first = certificate(proxy, ACME)
    assert certificate(proxy, ACME) == first
    now[0] += 25 * 86_400
    assert certificate(proxy, ACME) != first
    assert issued_by(first, proxy.credentials(ACME).authority.certificate)


def test_openssl_accepts_the_chain(reader: MemoryReader, authority: CertificateAuthority) -> None:
    """By its own check, in a process with nothing of this project."""
    proxy = FrontProxy(authority, reader, lambda: NOW)
    credentials = proxy.credentials(ACME)
    code = """
import ssl, sys, tempfile
ca, pair = sys.argv[1:]
server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
server.verify_mode = ssl.CERT_REQUIRED
server.verify_flags |= ssl.VerifyFlags(0x200000)
server.load_verify_locations(cadata=ca)
with tempfile.NamedTemporaryFile("w") as file:
    file.write(pair)
    file.flush()
    for context in (server, client):
        context.load_cert_chain(file.name)
client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
ends = [server.wrap_bio(a, b, server_side=True), client.wrap_bio(b, a)]
for _ in range(6):
    for end in ends:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            pass
print(ends[0].getpeercert()["subject"])
"""
    ca, pair = credentials.authority.certificate_pem, credentials.issued
    arguments = [ca.decode(), (pair.certificate_pem + pair.key_pem).decode()]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    assert "front-proxy-client" in done.stdout


def test_headers_say_who_the_caller_is() -> None:
    identity = Identity(ACME, "Zoë", ("a", "b"), "u1", {"scopes.io/x y": ("1", "2")})
    assert list(identity_headers(identity, ACME)) == [
        ("X-Remote-User", "Zoë".encode().decode("latin-1")),
        ("X-Remote-Uid", "u1"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-scopes.io%2Fx%20y", "1"),
        ("X-Remote-Extra-scopes.io%2Fx%20y", "2"),
    ]


def test_users_of_ring0_are_not_the_tenants_users_of_the_same_name() -> None:
    identity = Identity(SYSTEM, "admin", ("dev",))
    assert list(identity_headers(identity, ACME)) == [
        ("X-Remote-User", "system:ring0:admin"),
        ("X-Remote-Group", "system:masters"),
        ("X-Remote-Group", "system:authenticated"),
    ]
    assert ("X-Remote-User", "admin") in identity_headers(identity, SYSTEM)


@pytest.mark.parametrize("name", ["a\r\nX-Remote-User: root", "a\nb", "\x00", "\x7f"])
def test_a_name_cannot_add_headers(name: str) -> None:
    for identity in (
        Identity(ACME, name),
        Identity(ACME, "u", (name,)),
        Identity(ACME, "u", (), "", {"k": (name,)}),
    ):
        with pytest.raises(BadRequest):
            list(identity_headers(identity, ACME))
