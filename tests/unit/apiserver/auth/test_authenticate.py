"""Authentication: the precedence of credentials, and requests that are unauthorized."""

import base64
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from alcove.api import meta
from alcove.api.errors import Unauthorized
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.resources import SERVICE_ACCOUNTS, TENANTS
from alcove.apiserver.auth import certificates
from alcove.apiserver.auth.authenticate import WEBSOCKET_TOKEN_PROTOCOL, Authenticator
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.auth.clientcert import CertificateIdentity
from alcove.apiserver.auth.signingkeys import SigningKeys
from alcove.apiserver.auth.statictokens import StaticTokens
from alcove.apiserver.auth.subjects import Subject
from alcove.apiserver.auth.tokens import BoundObject, TokenObjectRef, Tokens
from alcove.testing.memory_reader import MemoryReader

ACME, OTHER = TenantId("acme"), TenantId("other")
NOW = 1_800_000_000.0
STATIC = "static-token-of-admin"


class World:
    def __init__(self, directory: Path) -> None:
        self.now = NOW
        self.reader = MemoryReader()
        self.reader.put(
            ACME, SERVICE_ACCOUNTS, {"metadata": {"name": "ci", "namespace": "default", "uid": "u"}}
        )
        self.tokens = Tokens(SigningKeys(certificates.new_key()), self.reader, self.clock)
        self.authority = CertificateAuthority.open(directory / "pki", NOW)
        path = directory / "tokens"
        path.write_text(f"- {{token: {STATIC}, user: root, tenant: system}}")
        static = StaticTokens.open(path, self.clock)
        self.authenticator = Authenticator(self.reader, self.tokens, self.clock, static)

    def clock(self) -> float:
        return self.now

    def token(self, audience: str = "") -> str:
        audiences = [audience] if audience else self.tokens.audiences(ACME)
        return self.tokens.issue(BoundObject(ACME, "default", TokenObjectRef("ci", "u")), audiences, 3600)

    def certified(self, subject: Subject, lifetime: timedelta = timedelta(days=1)) -> CertificateIdentity:
        issued = self.authority.client(subject, self.now, lifetime)
        certificate = x509.load_pem_x509_certificate(issued.certificate_pem)
        return self.authenticator.identity_from_certificate(
            certificate.public_bytes(serialization.Encoding.DER)
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "BEARER   {} ", " Bearer {}"])
def test_a_bearer_token(world: World, form: str) -> None:
    found = world.authenticator.authenticate({"authorization": form.format(world.token())}, None)
    assert (found.tenant, found.user) == ("acme", "system:serviceaccount:default:ci")


def test_a_static_token(world: World) -> None:
    assert world.authenticator.authenticate({"authorization": f"Bearer {STATIC}"}, None).user == "root"


def test_a_token_in_a_websockets_protocol(world: World) -> None:
    encoded = base64.urlsafe_b64encode(world.token().encode()).decode().rstrip("=")
    headers = {"sec-websocket-protocol": f"v4.channel.k8s.io, {WEBSOCKET_TOKEN_PROTOCOL}{encoded}"}
    assert world.authenticator.authenticate(headers, None).tenant == "acme"


def test_a_certificate_takes_precedence_over_a_token(world: World) -> None:
    ann = world.certified(Subject(OTHER, "ann"))
    found = world.authenticator.authenticate({"authorization": f"Bearer {world.token()}"}, ann)
    assert found is ann


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": "Basic YWRtaW46YWRtaW4="},
        {"authorization": "Bearer not-a-token"},
        {"authorization": "Bearer a b"},
        {"authorization": "Bearer \udcff.\udcff.\udcff"},
        {"authorization": STATIC},
        {"authorization": f"Token {STATIC}"},
        {"sec-websocket-protocol": "v4.channel.k8s.io"},
        {"sec-websocket-protocol": f"{WEBSOCKET_TOKEN_PROTOCOL}***"},
        {"sec-websocket-protocol": f"{WEBSOCKET_TOKEN_PROTOCOL}w6nDqQ"},
        {"x-remote-user": "admin", "x-remote-group": "system:masters"},
        {"impersonate-user": "admin"},
    ],
)
def test_requests_without_valid_credentials_are_unauthorized(world: World, headers: dict[str, str]) -> None:
    with pytest.raises(Unauthorized) as refusal:
        world.authenticator.authenticate(headers, None)
    assert refusal.value.message.startswith("Unauthorized: ")
    assert STATIC not in refusal.value.message


def test_an_expired_certificate_closes_its_open_connection(world: World) -> None:
    ann = world.certified(Subject(ACME, "ann"), timedelta(hours=1))
    world.now = NOW + 3600
    assert world.authenticator.authenticate({}, ann) is ann
    world.now = NOW + 3601
    with pytest.raises(Unauthorized, match="expired"):
        world.authenticator.authenticate({}, ann)


def test_a_certificate_of_a_deleted_tenant_is_invalid_in_a_new_tenant_of_the_same_name(world: World) -> None:
    world.reader.put(
        SYSTEM, TENANTS, {"metadata": {"name": "acme", "creationTimestamp": meta.format_time(NOW)}}
    )
    old = world.certified(Subject(ACME, "admin"))
    assert world.authenticator.authenticate({}, old)
    world.reader.remove(SYSTEM, TENANTS, "", "acme")
    world.now = NOW + 100
    born = meta.format_time(world.now)
    world.reader.put(SYSTEM, TENANTS, {"metadata": {"name": "acme", "creationTimestamp": born}})
    with pytest.raises(Unauthorized, match="from an earlier tenant of this name"):
        world.authenticator.authenticate({}, old)
    new = world.certified(Subject(ACME, "admin"))
    assert world.authenticator.authenticate({}, new) is new


async def test_reviews_a_token_of_the_tenant_for_the_audiences_asked(world: World) -> None:
    found = await world.authenticator.review(world.token("vault"), ACME, ["vault", "other"])
    assert found.audiences == ("vault",)
    assert (await world.authenticator.review(world.token(), ACME, [])).identity.user.endswith(":ci")
    assert (await world.authenticator.review(STATIC, SYSTEM, [])).identity.user == "root"


async def test_a_review_reveals_nothing_about_other_tenants_tokens(world: World) -> None:
    for token in (world.token(), STATIC):
        with pytest.raises(Unauthorized) as foreign:
            await world.authenticator.review(token, OTHER, [])
        assert "acme" not in foreign.value.message and "system" not in foreign.value.message
    token = world.token()
    world.reader.remove(ACME, SERVICE_ACCOUNTS, "default", "ci")
    with pytest.raises(Unauthorized) as dead:
        await world.authenticator.review(token, OTHER, [])
    assert dead.value.message == foreign.value.message


async def test_a_review_is_about_the_audiences_asked(world: World) -> None:
    with pytest.raises(Unauthorized, match="another audience"):
        await world.authenticator.review(world.token(), ACME, ["vault"])
    with pytest.raises(Unauthorized, match="another audience"):
        await world.authenticator.review(STATIC, SYSTEM, ["vault"])
