"""Signing in at an identity provider: bound to the browser that began it, to one provider, and to one attempt."""

import asyncio
import base64
import hashlib
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson
import pytest

from alcove.api import destinations
from alcove.api.errors import (
    ApiError,
    BadRequest,
    NotFound,
    ServiceUnavailable,
    TooManyRequests,
    Unauthorized,
)
from alcove.api.ids import TenantId
from alcove.api.kinds.identity import STRATEGIES
from alcove.api.objects import Object
from alcove.api.resources import IDENTITY_PROVIDERS
from alcove.apiserver.auth.oidc.issuer_client import IssuerClient
from alcove.apiserver.auth.oidc.issuer_keys import FetchCounts
from alcove.apiserver.auth.oidc.providers import ProviderParts
from alcove.apiserver.auth.oidc.tenant_providers import TenantProviders
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.console import oidc_sign_in, sessions
from alcove.apiserver.console.oidc_sign_in import SIGN_IN_SECONDS_MAX, BegunSignIn, FinishedSignIn, OidcSignIn
from alcove.apiserver.console.sealing import KEY_BYTES
from alcove.http.turns import ReadingTurns
from alcove.testing.memory_reader import MemoryReader
from alcove.testing.oidc_issuer import DISCOVERY, TOKEN, OidcIssuer
from alcove.testing.webhook_calls import webhook_dialer

ACME = TenantId("acme")
HOST = "api.example:6443"
PATH = "/console/oidc/acme/sso"
CLIENT = "10.0.0.1"


def provider(issuer: OidcIssuer, name: str = "sso", **console: Any) -> Object:
    client = {"clientID": "console", **console}
    return {
        "metadata": {"name": name},
        "spec": {
            "issuer": issuer.configured("console", "kubectl"),
            "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
            "console": client,
        },
    }


class World:
    def __init__(self, issuer: OidcIssuer) -> None:
        self.issuer = issuer
        self.ahead = 0.0
        self.reader = MemoryReader()
        dialer = webhook_dialer(destinations.networks(["127.0.0.0/8"]))
        self.client = IssuerClient(dialer, ReadingTurns(), ComputeThreads())
        clock = lambda: time.time() + self.ahead  # noqa: E731
        parts = ProviderParts(self.client, ComputeThreads(), clock, FetchCounts())
        self.providers = TenantProviders(self.reader, parts)
        self.sign_in = OidcSignIn(self.providers, self.client, b"k" * KEY_BYTES, clock)
        self.reader.put(ACME, IDENTITY_PROVIDERS, provider(issuer, displayName="Acme"))

    async def begin(self, name: str = "sso") -> tuple[BegunSignIn, dict[str, str]]:
        begun = await self.sign_in.begin(ACME, name, HOST)
        return begun, dict(parse_qsl(urlsplit(begun.location).query))

    def answer(self, asked: dict[str, str], **claims: Any) -> dict[str, str]:
        """The query with which the browser comes back, after the provider has made a token for the code."""
        token = self.issuer.token("console", **{"nonce": asked["nonce"], **claims})
        self.issuer.answers[TOKEN] = orjson.dumps({"id_token": token, "access_token": "x"})
        return {"code": "c0de", "state": asked["state"]}


@pytest.fixture
def issuer() -> Iterator[OidcIssuer]:
    with OidcIssuer() as running:
        yield running


@pytest.fixture
async def world(issuer: OidcIssuer) -> AsyncIterator[World]:
    made = World(issuer)
    yield made
    made.client.close()


async def test_the_code_is_exchanged_with_the_verifier_of_this_browser(world: World) -> None:
    begun, asked = await world.begin()
    assert begun.location.startswith(f"{world.issuer.url}/authorize?")
    assert asked["redirect_uri"] == f"https://{HOST}{PATH}"
    assert (asked["response_type"], asked["client_id"]) == ("code", "console")
    assert asked["scope"].split()[0] == "openid"
    done: FinishedSignIn = await world.sign_in.finish(PATH, world.answer(asked), begun.cookie, CLIENT)
    assert done.tenant == ACME and 3500 < done.seconds <= 3600
    (form,) = world.issuer.exchanged
    assert (form["grant_type"], form["code"]) == ("authorization_code", "c0de")
    assert form["redirect_uri"] == asked["redirect_uri"] and form["client_id"] == "console"
    digest = hashlib.sha256(form["code_verifier"].encode()).digest()
    assert asked["code_challenge_method"] == "S256"
    assert asked["code_challenge"] == base64.urlsafe_b64encode(digest).decode().rstrip("=")
    for secret in (form["code_verifier"], asked["nonce"]):
        assert secret not in begun.cookie


async def refused(world: World, path: str, query: dict[str, str], cookie: str) -> ApiError:
    with pytest.raises(ApiError) as error:
        await world.sign_in.finish(path, query, cookie, CLIENT)
    return error.value


async def test_an_answer_to_another_browsers_sign_in_is_refused(world: World) -> None:
    begun, asked = await world.begin()
    other, _ = await world.begin()
    query = world.answer(asked)
    for cookie in ("", "x", other.cookie, begun.cookie[:-4] + "AAAA"):
        assert isinstance(await refused(world, PATH, query, cookie), BadRequest)
    for changed in ({"state": ""}, {"state": "x"}, {"iss": "https://evil.example"}):
        assert isinstance(await refused(world, PATH, {**query, **changed}, begun.cookie), BadRequest)
    assert not world.issuer.exchanged, "no code was sent anywhere"


async def test_a_code_of_one_provider_is_not_sent_to_another(world: World) -> None:
    with OidcIssuer() as evil:
        world.reader.put(ACME, IDENTITY_PROVIDERS, provider(evil, "evil"))
        begun, asked = await world.begin("evil")
        assert asked["redirect_uri"].endswith("/console/oidc/acme/evil")
        query = {"code": "of the honest one", "state": asked["state"]}
        assert isinstance(await refused(world, PATH, query, begun.cookie), BadRequest)
        assert not evil.exchanged and not world.issuer.exchanged


async def test_a_sign_in_that_took_too_long_is_refused(world: World) -> None:
    begun, asked = await world.begin()
    query = world.answer(asked)
    world.ahead = SIGN_IN_SECONDS_MAX
    assert isinstance(await refused(world, PATH, query, begun.cookie), BadRequest)


@pytest.mark.parametrize(
    "claims",
    [{"nonce": "of another sign-in"}, {"nonce": None}, {"aud": "other"}, {"sub": "system:admin"}, {"exp": 1}],
)
async def test_a_token_that_is_not_for_this_sign_in_is_refused(world: World, claims: dict[str, Any]) -> None:
    begun, asked = await world.begin()
    query = world.answer(asked, **claims)
    assert isinstance(await refused(world, PATH, query, begun.cookie), Unauthorized)


@pytest.mark.parametrize(
    "answer",
    [500, 302, b"<html>", b"[]", b"{}", b'{"id_token": 7}', b'{"id_token": "' + b"x" * 3_000 + b'"}'],
)
async def test_a_token_endpoint_that_answers_something_else(world: World, answer: bytes | int) -> None:
    begun, asked = await world.begin()
    query = world.answer(asked)
    world.issuer.answers[TOKEN] = answer
    assert isinstance(await refused(world, PATH, query, begun.cookie), ServiceUnavailable | BadRequest)


async def test_what_the_provider_refuses_is_told(world: World) -> None:
    begun, asked = await world.begin()
    query = {"error": "access_denied", "error_description": "no <b>way</b>" * 100, "state": asked["state"]}
    error = await refused(world, PATH, query, begun.cookie)
    assert "no <b>way</b>" in error.message and len(error.message) < 400


async def test_only_providers_with_a_console_client_are_listed_and_used(world: World) -> None:
    without = provider(world.issuer, "without")
    del without["spec"]["console"]
    world.reader.put(ACME, IDENTITY_PROVIDERS, without)
    assert world.sign_in.listed(ACME) == [{"name": "sso", "displayName": "Acme"}]
    assert world.sign_in.listed(TenantId("missing")) == []
    for tenant, name in ((ACME, "without"), (ACME, "none"), (TenantId("missing"), "sso")):
        with pytest.raises(NotFound):
            await world.sign_in.begin(tenant, name, HOST)


async def test_a_provider_without_a_usable_endpoint_is_refused(world: World) -> None:
    document = {"issuer": world.issuer.url, "jwks_uri": f"{world.issuer.url}/keys"}
    world.issuer.answers[DISCOVERY] = orjson.dumps(
        {**document, "authorization_endpoint": "javascript:alert(1)"}
    )
    with pytest.raises(ServiceUnavailable, match="authorization endpoint"):
        await world.begin()


async def test_strangers_who_come_with_codes_of_their_own_do_not_keep_users_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc_sign_in, "WAITING_MAX", 10)
    begun, asked = await world.begin()
    query = world.answer(asked)
    strangers: list[str] = []
    is_full = asyncio.Event()

    async def flood(client: str) -> None:
        own, _ = await world.begin()
        state = dict(parse_qsl(urlsplit(own.location).query))["state"]
        with pytest.raises(ApiError) as error:
            await world.sign_in.finish(PATH, {"code": "made up", "state": state}, own.cookie, client)
        strangers.append(type(error.value).__name__)
        if isinstance(error.value, TooManyRequests):
            is_full.set()

    async with asyncio.TaskGroup() as tasks:
        for number in range(60):
            tasks.create_task(flood(f"192.0.2.{number % 3}"))
        await is_full.wait()
        done = await world.sign_in.finish(PATH, query, begun.cookie, CLIENT)
        assert done.tenant == ACME
    assert strangers.count("TooManyRequests") >= 60 - 10 - oidc_sign_in.EXCHANGES_MAX


@pytest.mark.parametrize(
    ("console", "field"),
    [
        ({"clientID": ""}, "spec.console.clientID: Required"),
        ({"clientID": "other"}, "spec.console.clientID: Invalid value"),
        ({"displayName": "x" * 65}, "spec.console.displayName"),
        ({"displayName": "a\nb"}, "spec.console.displayName"),
        ({"scopes": ["a b"]}, "spec.console.scopes[0]"),
        ({"scopes": ["a"] * 17}, "spec.console.scopes: Too many"),
        ({"secret": "x"}, "unknown field"),
    ],
)
async def test_bad_console_clients_are_refused(
    issuer: OidcIssuer, console: dict[str, Any], field: str
) -> None:
    errors = STRATEGIES["identityproviders"].validate(provider(issuer, **console))
    assert field in "; ".join(map(str, errors))


def test_the_cookie_is_for_the_way_back_only() -> None:
    name, value = oidc_sign_in.set_cookie("v")
    assert name == b"Set-Cookie"
    for attribute in (b"HttpOnly", b"Secure", b"SameSite=Lax", b"Path=/console/oidc;", b"Max-Age=600"):
        assert attribute in value
    assert sessions.COOKIE.encode() not in value
