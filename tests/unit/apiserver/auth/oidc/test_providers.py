"""Tokens of a real HTTPS issuer: what is accepted, what is refused, and how often the issuer is asked."""

import asyncio
import base64
import contextlib
import hmac
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import jwt
import msgspec
import orjson
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import RSAAlgorithm

from alcove.api import destinations
from alcove.api.errors import TooManyRequests
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.jwt_authenticators import JwtAuthenticator
from alcove.apiserver.auth.oidc import issuer_client, issuer_keys, jwk_sets, providers, signatures
from alcove.apiserver.auth.oidc.issuer_client import IssuerClient, IssuerError
from alcove.apiserver.auth.oidc.issuer_keys import FetchCounts
from alcove.apiserver.auth.oidc.providers import JwtProvider, ProviderParts, digest_of
from alcove.apiserver.auth.oidc.signatures import TokenRefused
from alcove.apiserver.computing import ComputeThreads
from alcove.http.turns import ReadingTurns
from alcove.testing.oidc_issuer import DISCOVERY, KEYS, OidcIssuer
from alcove.testing.webhook_calls import webhook_dialer

ACME = TenantId("acme")
CLIENT = "10.0.0.1"
LOOPBACK = destinations.networks(["127.0.0.0/8"])


class World:
    def __init__(self, issuer: OidcIssuer, *allowed: destinations.Network) -> None:
        self.issuer = issuer
        self.ahead = 0.0
        self.client = IssuerClient(webhook_dialer(allowed), ReadingTurns(), ComputeThreads())
        self.counts = FetchCounts()
        self.parts = ProviderParts(
            self.client,
            ComputeThreads(),
            lambda: time.time() + self.ahead,
            self.counts,
            lambda: time.monotonic() + self.ahead,
        )

    def provider(self, tenant: TenantId = ACME, **fields: Any) -> JwtProvider:
        given = {
            "issuer": self.issuer.configured("cluster"),
            "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
            **fields,
        }
        return JwtProvider(tenant, msgspec.convert(given, JwtAuthenticator), self.parts)


@pytest.fixture
def issuer() -> Iterator[OidcIssuer]:
    with OidcIssuer() as running:
        yield running


@pytest.fixture
async def world(issuer: OidcIssuer) -> AsyncIterator[World]:
    made = World(issuer, *LOOPBACK)
    yield made
    made.client.close()


async def refusal(provider: JwtProvider, token: str) -> str:
    with pytest.raises(TokenRefused) as error:
        await provider.verify(token, CLIENT)
    return str(error.value)


async def test_a_token_is_its_user_and_is_verified_once(world: World, issuer: OidcIssuer) -> None:
    provider, token = world.provider(), issuer.token("cluster", sub="ann", nonce="n")
    assert provider.find(digest_of(token)) is None
    verified = await provider.verify(token, CLIENT)
    assert (verified.identity.tenant, verified.identity.user, verified.nonce) == (ACME, "ann", "n")
    assert provider.find(digest_of(token)) == verified
    assert issuer.requests == {DISCOVERY: 1, KEYS: 1}
    world.ahead = providers.VERIFIED_SECONDS + 1
    assert provider.find(digest_of(token)) is None, "it is verified again: the key may be withdrawn"
    world.ahead = 4_000
    with pytest.raises(TokenRefused, match="expired"):
        provider.find(digest_of(token))


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"iss": "https://other.example"}, "another issuer"),
        ({"aud": "other"}, "another audience"),
        ({"aud": ["other", "others"]}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"aud": {"cluster": True}}, "another audience"),
        ({"exp": None}, "no expiry"),
        ({"exp": 1}, "expired"),
        ({"exp": True}, "not a time"),
        ({"exp": "tomorrow"}, "signature is not valid|not a time"),
        ({"exp": 1e300}, "not a time"),
        ({"nbf": 1 << 36}, "not valid yet"),
        ({"iat": 1 << 36}, "not valid yet"),
        ({"sub": None}, 'no claim "sub"'),
        ({"sub": "system:admin"}, "cannot be named"),
    ],
)
async def test_claims_that_are_refused(world: World, claims: dict[str, Any], message: str) -> None:
    payload = {"iss": world.issuer.url, "aud": "cluster", "sub": "a", "exp": int(time.time()) + 60, **claims}
    present = {name: value for name, value in payload.items() if value is not None}
    token = jwt.PyJWS().encode(orjson.dumps(present), world.issuer.key, "ES256", headers={"kid": "first"})
    with pytest.raises(TokenRefused, match=message):
        await world.provider().verify(token, CLIENT)


async def test_an_audience_of_several_is_enough(world: World, issuer: OidcIssuer) -> None:
    assert await world.provider().verify(issuer.token("", aud=["x", "cluster"]), CLIENT)


def part(fields: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(fields)).decode().rstrip("=")


def hmac_signed(secret: bytes, text: str) -> str:
    """As an attacker does it: PyJWT refuses such a key."""
    digest = hmac.digest(secret, text.encode(), "sha256")
    return f"{text}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


async def test_forged_tokens_are_refused(world: World, issuer: OidcIssuer) -> None:
    provider = world.provider()
    good = issuer.token("cluster")
    head, payload, signature = good.split(".")
    public = issuer.key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    other = ec.generate_private_key(ec.SECP256R1())
    claims = orjson.loads(base64.urlsafe_b64decode(payload + "=="))
    forged = {
        "unsigned": f"{part({'alg': 'none', 'kid': 'first'})}.{payload}.",
        "public key as secret": hmac_signed(public, f"{part({'alg': 'HS256', 'kid': 'first'})}.{payload}"),
        "another key": jwt.encode(claims, other, "ES256", headers={"kid": "first"}),
        "its own key in the header": jwt.encode(claims, other, "ES256", headers={"kid": "x", "jwk": {}}),
        "changed payload": f"{head}.{part({**claims, 'sub': 'eve'})}.{signature}",
        "no signature": f"{head}.{payload}.",
        "critical header": f"{part({'alg': 'ES256', 'kid': 'first', 'crit': ['b64']})}.{payload}.{signature}",
        "key id that is no text": f"{part({'alg': 'ES256', 'kid': {}})}.{payload}.{signature}",
        "no algorithm": f"{part({})}.{payload}.{signature}",
        "no JSON": f"AAAA.{payload}.{signature}",
    }
    for what, token in forged.items():
        assert await refusal(provider, token), what
    assert await provider.verify(good, CLIENT)


async def test_keys_of_an_issuer_are_read_beside_the_event_loop(
    world: World, issuer: OidcIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A set of 64 keys takes 10 ms."""
    threads: list[str] = []
    parse = jwk_sets.parse

    def watched(data: bytes) -> jwk_sets.JwkSet:
        threads.append(threading.current_thread().name)
        return parse(data)

    monkeypatch.setattr(jwk_sets, "parse", watched)
    assert await world.provider().verify(issuer.token("cluster"), CLIENT)
    assert len(threads) == 1 and threads != [threading.current_thread().name]


async def test_rsa_tokens_are_verified_with_the_keys_own_algorithms(world: World, issuer: OidcIssuer) -> None:
    key = rsa.generate_private_key(65537, 2048)
    issuer.more_keys = [{**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": "r"}]
    claims = {"iss": issuer.url, "aud": "cluster", "sub": "a", "exp": int(time.time()) + 60}
    provider = world.provider()
    for algorithm in ("RS256", "PS384"):
        assert await provider.verify(jwt.encode(claims, key, algorithm, headers={"kid": "r"}), CLIENT)


async def test_unknown_key_ids_do_not_each_ask_the_issuer(world: World, issuer: OidcIssuer) -> None:
    provider = world.provider()
    await provider.verify(issuer.token("cluster"), CLIENT)
    for number in range(20):
        issuer.key_id = f"unknown-{number}"
        assert "key that its issuer does not have" in await refusal(provider, issuer.token("cluster"))
    assert issuer.requests[KEYS] == 1


async def test_a_rotated_key_is_found_after_a_moment(world: World, issuer: OidcIssuer) -> None:
    provider, old = world.provider(), issuer.token("cluster", sub="old")
    await provider.verify(old, CLIENT)
    issuer.rotate("second")
    world.ahead = issuer_keys.AGAIN_SECONDS
    assert (await provider.verify(issuer.token("cluster", sub="new"), CLIENT)).identity.user == "new"
    world.ahead = providers.VERIFIED_SECONDS + issuer_keys.AGAIN_SECONDS
    assert "does not have" in await refusal(provider, old), "its key was withdrawn"


async def test_many_tokens_at_once_share_one_fetch(world: World, issuer: OidcIssuer) -> None:
    provider = world.provider()
    tokens = [issuer.token("cluster", sub=f"user-{number}") for number in range(10)]
    found = await asyncio.gather(*(provider.verify(each, CLIENT) for each in tokens))
    assert len({each.identity.user for each in found}) == 10
    assert issuer.requests == {DISCOVERY: 1, KEYS: 1}


async def test_an_issuer_that_fails_is_asked_again_after_a_while(world: World, issuer: OidcIssuer) -> None:
    provider, token = world.provider(), issuer.token("cluster")
    issuer.answers[KEYS] = 500
    for _ in range(5):
        with pytest.raises(IssuerError, match="status 500"):
            await provider.verify(token, CLIENT)
    assert issuer.requests[KEYS] == 1 and world.counts.failed == 1
    del issuer.answers[KEYS]
    world.ahead = issuer_keys.BACKOFF_SECONDS_MIN
    assert await provider.verify(token, CLIENT)


async def test_an_issuer_that_is_gone_does_not_end_its_users_work(world: World, issuer: OidcIssuer) -> None:
    provider = world.provider()
    await provider.verify(issuer.token("cluster"), CLIENT)
    issuer.answers |= {DISCOVERY: 500, KEYS: 500}
    world.ahead = issuer_keys.CURRENT_SECONDS + 1
    assert await provider.verify(issuer.token("cluster", sub="b", exp=int(time.time()) + 200_000), CLIENT)
    world.ahead = issuer_keys.KEPT_SECONDS + 1
    late = issuer.token("cluster", sub="c", exp=int(time.time()) + 200_000)
    with pytest.raises(IssuerError):
        await provider.verify(late, CLIENT)


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        (DISCOVERY, b"<html>"),
        (DISCOVERY, b"[]"),
        (DISCOVERY, b'{"issuer": "https://evil.example", "jwks_uri": "https://evil.example/keys"}'),
        (DISCOVERY, 404),
        (DISCOVERY, 302),
        (KEYS, 302),
        (KEYS, b"{}"),
        (KEYS, b" " * (issuer_client.DOCUMENT_BYTES_MAX + 1)),
    ],
)
async def test_a_hostile_issuers_documents_are_refused(
    world: World, issuer: OidcIssuer, path: str, answer: bytes | int
) -> None:
    issuer.answers[path] = answer
    with pytest.raises(IssuerError):
        await world.provider().verify(issuer.token("cluster"), CLIENT)


@pytest.mark.parametrize("uri", ["http://127.0.0.1/keys", "file:///etc/passwd", "", "https://"])
async def test_keys_are_fetched_by_https_only(world: World, issuer: OidcIssuer, uri: str) -> None:
    issuer.answers[DISCOVERY] = orjson.dumps({"issuer": issuer.url, "jwks_uri": uri})
    with pytest.raises(IssuerError, match="not an https URL"):
        await world.provider().verify(issuer.token("cluster"), CLIENT)


@pytest.mark.parametrize("name", ["jwks_uri", "authorization_endpoint", "token_endpoint"])
async def test_an_issuer_does_not_fill_logs_with_endpoints_without_end(
    world: World, issuer: OidcIssuer, name: str
) -> None:
    document = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys", name: f"{issuer.url}/{'x' * 100_000}"}
    issuer.answers[DISCOVERY] = orjson.dumps(document)
    with pytest.raises(IssuerError, match="an endpoint has more than") as error:
        await world.provider().verify(issuer.token("cluster"), CLIENT)
    assert len(str(error.value)) < 1_000


async def test_a_tenants_issuer_is_not_dialled_inside_the_cluster(issuer: OidcIssuer) -> None:
    inside = World(issuer)
    with pytest.raises(IssuerError, match="not allowed there"):
        await inside.provider().verify(issuer.token("cluster"), CLIENT)
    assert not issuer.requests
    assert await inside.provider(SYSTEM).verify(issuer.token("cluster"), CLIENT), "ring0's may be anywhere"
    inside.client.close()


async def test_a_discovery_document_does_not_lead_inside_the_cluster(issuer: OidcIssuer) -> None:
    outside = World(issuer, *destinations.networks(["127.0.0.1/32"]))
    issuer.answers[DISCOVERY] = orjson.dumps(
        {"issuer": issuer.url, "jwks_uri": "https://169.254.169.254/latest/meta-data"}
    )
    with pytest.raises(IssuerError, match="not allowed there"):
        await outside.provider().verify(issuer.token("cluster"), CLIENT)
    outside.client.close()


async def test_the_issuers_certificate_is_verified(world: World, issuer: OidcIssuer) -> None:
    with OidcIssuer() as other:
        wrong = {**issuer.configured("cluster"), "certificateAuthority": other.authority}
        with pytest.raises(IssuerError, match="unknown authority"):
            await world.provider(issuer=wrong).verify(issuer.token("cluster"), CLIENT)


async def test_what_is_remembered_is_bounded(
    world: World, issuer: OidcIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(providers, "VERIFIED_BYTES_MAX", 3 * providers.ENTRY_BYTES)
    monkeypatch.setattr(providers, "REFUSED_MAX", 2)
    provider = world.provider()
    tokens = [issuer.token("cluster", sub=f"user-{number}") for number in range(4)]
    for token in tokens:
        await provider.verify(token, CLIENT)
    assert [provider.find(digest_of(token)) is None for token in tokens] == [True, True, False, False]
    bad = [f"{token}x" for token in tokens]
    for token in bad:
        await refusal(provider, token)
    assert provider.find(digest_of(bad[0])) is None, "the oldest refusal is forgotten"
    with pytest.raises(TokenRefused):
        provider.find(digest_of(bad[3]))


async def test_a_flood_of_tokens_is_refused(
    world: World, issuer: OidcIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(providers, "WAITING_MAX", 2)
    provider = world.provider()
    await provider.verify(issuer.token("cluster"), CLIENT)
    tokens = [issuer.token("cluster", sub=f"user-{number}") for number in range(6)]
    verifying = (provider.verify(each, CLIENT) for each in tokens)
    found = await asyncio.gather(*verifying, return_exceptions=True)
    assert sum(isinstance(each, TooManyRequests) for each in found) == 2, "two are verified, two wait"


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tokens whose signatures were verified, in this order."""
    found: list[str] = []
    verify = signatures.verified_claims

    def recorded(token: str, algorithm: str, key: jwk_sets.VerificationKey) -> dict[str, Any]:
        found.append(token)
        return verify(token, algorithm, key)

    monkeypatch.setattr(signatures, "verified_claims", recorded)
    return found


async def test_strangers_who_send_many_tokens_do_not_make_a_tenants_own_users_wait(
    world: World, issuer: OidcIssuer, verified: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(providers, "WAITING_MAX", 50)
    provider, user = world.provider(), issuer.token("cluster", sub="ann")
    await provider.verify(issuer.token("cluster", sub="first"), CLIENT)
    verified.clear()

    async def flood(client: str, token: str) -> None:
        with contextlib.suppress(TokenRefused, TooManyRequests):
            await provider.verify(token, client)

    async with asyncio.TaskGroup() as tasks:
        for number in range(200):
            forged = f"{issuer.token('cluster', sub=f'u{number}')[:-6]}AAAAAA"
            tasks.create_task(flood(f"192.0.2.{number % 4}", forged))
        await asyncio.sleep(0)
        assert (await provider.verify(user, CLIENT)).identity.user == "ann"
    assert len(verified) > 50, "the strangers' were verified too"
    assert verified.index(user) <= 12, "after those that had begun, and one of each of the other addresses"


async def test_tokens_that_the_issuer_has_not_signed_take_none_of_the_tenants_time(
    issuer: OidcIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged: list[TenantId] = []
    world = World(issuer, *LOOPBACK)
    threads = ComputeThreads(charge=lambda tenant, _seconds: charged.append(tenant))
    monkeypatch.setattr(world, "parts", msgspec.structs.replace(world.parts, threads=threads))
    provider = world.provider()
    for number in range(5):
        assert await refusal(provider, f"{issuer.token('cluster', sub=f'u{number}')[:-6]}AAAAAA")
        assert await refusal(provider, issuer.token("other", sub=f"u{number}"))
    assert charged == []
    assert await provider.verify(issuer.token("cluster"), CLIENT)
    assert charged == [ACME]
    world.client.close()


async def test_a_token_that_several_requests_have_is_verified_a_few_times(
    world: World, issuer: OidcIssuer, verified: list[str]
) -> None:
    provider, token = world.provider(), issuer.token("cluster")
    found = await asyncio.gather(*(provider.verify(token, CLIENT) for _ in range(50)))
    assert {each.identity.user for each in found} == {"ann"}
    assert len(verified) <= 2 * providers.VERIFYING_MAX
