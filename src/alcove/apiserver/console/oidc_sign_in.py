"""Signing in to the console at a tenant's identity provider: the authorization code flow with PKCE.

    page ─ POST /console/oidc ─▶ begin: state, nonce and verifier in a sealed cookie; the provider's address
    browser ─▶ the provider, where the user signs in ─▶ GET /console/oidc/TENANT/NAME?code=…&state=…
    finish: the cookie's state must be the same; the code is exchanged for an ID token, which must be valid for the
            provider's rules like any other, and have the cookie's nonce; it becomes the session's token

Each provider has a redirect URI of its own, so a code of one provider is never sent to another.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

import msgspec
import orjson
from msgspec import Struct

from alcove.api.errors import (
    ApiError,
    BadRequest,
    NotFound,
    ServiceUnavailable,
    TooManyRequests,
    Unauthorized,
)
from alcove.api.ids import TenantId
from alcove.api.jwt_authenticators import https_url_error
from alcove.api.kinds.identity import ConsoleClient, IdentityProviderSpec
from alcove.api.objects import Object
from alcove.apiserver.auth.oidc.issuer_client import IssuerClient, IssuerError
from alcove.apiserver.auth.oidc.providers import JwtProvider
from alcove.apiserver.auth.oidc.signatures import TokenRefused
from alcove.apiserver.auth.oidc.tenant_providers import TenantProviders
from alcove.apiserver.console import sessions
from alcove.apiserver.console.sealing import SealedValues
from alcove.component.fair_slots import FairSlots, TooManyWaiting
from alcove.console.files import OIDC

COOKIE = "__Secure-alcove-sign-in"
SIGN_IN_SECONDS_MAX = 600
"""From the console's page to the return from the provider."""
EXCHANGES_MAX = 8
"""Codes of one provider that are exchanged at a time; others wait, in turns between the addresses of clients: anybody may begin to
sign in, and come back with a code of its own making."""
WAITING_MAX = 64
"""Codes of one provider that wait to be exchanged; one more of the address with most gets 429."""
CODE_LENGTH_MAX = 4_096
_SCOPES = ("openid", "profile", "email")


class _SignIn(Struct, frozen=True):
    """A sign-in that was begun, kept by the browser in a sealed cookie."""

    state: str
    nonce: str
    verifier: str
    tenant: TenantId
    provider: str
    redirect_uri: str
    expires: float


class BegunSignIn(Struct, frozen=True):
    location: str
    """The provider's address, where the browser goes next."""
    cookie: str


class FinishedSignIn(Struct, frozen=True):
    tenant: TenantId
    token: str
    seconds: int
    """Until the token expires."""


class OidcSignIn:
    def __init__(
        self, providers: TenantProviders, client: IssuerClient, key: bytes, clock: Callable[[], float]
    ) -> None:
        self._providers = providers
        self._client = client
        self._sealed = SealedValues(key, b"alcove console sign-in")
        self._clock = clock
        self._exchanges: WeakKeyDictionary[JwtProvider, FairSlots[str]] = WeakKeyDictionary()

    def listed(self, tenant: TenantId) -> Sequence[Object]:
        """The providers by which one can sign in to the tenant, for the sign-in page."""
        return [
            {"name": name, "displayName": client.display_name or name}
            for name, provider in self._providers.named(tenant).items()
            if (client := _console_client(provider)) is not None
        ]

    async def begin(self, tenant: TenantId, name: str, host: str) -> BegunSignIn:
        """`host` is the console's, as the browser knows it. Raises ApiError."""
        provider, client = self._find(tenant, name)
        try:
            endpoint = (await provider.document()).authorization_endpoint
        except IssuerError as error:
            raise _unavailable(error) from error
        if message := https_url_error(endpoint.partition("?")[0]):
            raise ServiceUnavailable(f"the provider's authorization endpoint cannot be used: {message}")
        sign_in = _SignIn(
            state=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            tenant=tenant,
            provider=name,
            redirect_uri=f"https://{host}{OIDC}/{tenant}/{name}",
            expires=self._clock() + SIGN_IN_SECONDS_MAX,
        )
        challenge = base64.urlsafe_b64encode(hashlib.sha256(sign_in.verifier.encode()).digest())
        query = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": sign_in.redirect_uri,
            "scope": " ".join(dict.fromkeys(("openid", *(client.scopes or _SCOPES)))),
            "state": sign_in.state,
            "nonce": sign_in.nonce,
            "code_challenge": challenge.decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        location = f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"
        return BegunSignIn(location, self._sealed.seal(msgspec.json.encode(sign_in)))

    async def finish(self, path: str, query: Mapping[str, str], cookie: str, address: str) -> FinishedSignIn:
        """`address` is the client's. Raises ApiError."""
        content = self._sealed.open(cookie) if cookie else None
        sign_in = msgspec.json.decode(content, type=_SignIn) if content is not None else None
        if sign_in is None or self._clock() >= sign_in.expires:
            raise BadRequest("this browser has not begun to sign in, or too long ago; try again")
        if path != f"{OIDC}/{sign_in.tenant}/{sign_in.provider}":
            raise BadRequest("this browser has begun to sign in at another provider; try again")
        if not hmac.compare_digest(query.get("state", "").encode(), sign_in.state.encode()):
            raise BadRequest("the answer is not to this browser's sign-in; try again")
        provider, client = self._find(sign_in.tenant, sign_in.provider)
        if query.get("iss", provider.authenticator.issuer.url) != provider.authenticator.issuer.url:
            raise BadRequest("the answer is from another provider; try again")
        code = query.get("code", "")
        if not code or len(code) > CODE_LENGTH_MAX:
            reason = query.get("error_description") or query.get("error") or "it sent no code"
            raise Unauthorized(f"Unauthorized: the provider refused: {reason[:256]}")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": sign_in.redirect_uri,
            "client_id": client.client_id,
            "code_verifier": sign_in.verifier,
        }
        token = await self._exchange(provider, form, address)
        return await self._accept(sign_in, provider, token, address)

    async def _exchange(self, provider: JwtProvider, form: Mapping[str, str], address: str) -> str:
        slots = self._exchanges.get(provider)
        if slots is None:
            slots = self._exchanges[provider] = FairSlots(EXCHANGES_MAX, waiting_max=WAITING_MAX)
        try:
            async with slots.slot(address):
                endpoint = (await provider.document()).token_endpoint
                answer = await self._client.post_form(
                    provider.tenant, provider.authenticator.issuer, endpoint, urlencode(form).encode()
                )
        except TooManyWaiting as error:
            raise TooManyRequests.after(1, "too many users sign in at the same time; try again") from error
        except IssuerError as error:
            raise _unavailable(error) from error
        return _id_token(answer)

    async def _accept(
        self, sign_in: _SignIn, provider: JwtProvider, token: str, address: str
    ) -> FinishedSignIn:
        try:
            verified = await provider.verify(token, address)
        except TokenRefused as error:
            raise Unauthorized(f"Unauthorized: the provider's token is not accepted: {error}") from error
        except IssuerError as error:
            raise _unavailable(error) from error
        if not hmac.compare_digest(verified.nonce.encode(), sign_in.nonce.encode()):
            raise Unauthorized("Unauthorized: the provider's token is not of this sign-in")
        return FinishedSignIn(verified.identity.tenant, token, int(verified.expires - self._clock()))

    def _find(self, tenant: TenantId, name: str) -> tuple[JwtProvider, ConsoleClient]:
        """Raises NotFound, the same whether or not the tenant exists."""
        provider = self._providers.named(tenant).get(name)
        client = _console_client(provider) if provider is not None else None
        if provider is None or client is None:
            raise NotFound("there is no such identity provider for the console")
        return provider, client


def set_cookie(value: str, seconds: int = SIGN_IN_SECONDS_MAX) -> tuple[bytes, bytes]:
    """The header that sets the cookie, or with 0 seconds removes it. Lax: the way back from the provider is a navigation from
    another site."""
    attributes = f"Path={OIDC}; Max-Age={seconds}; HttpOnly; Secure; SameSite=Lax"
    return b"Set-Cookie", f"{COOKIE}={value}; {attributes}".encode("ascii")


def _console_client(provider: JwtProvider) -> ConsoleClient | None:
    spec = provider.authenticator
    return spec.console if isinstance(spec, IdentityProviderSpec) else None


def _id_token(answer: bytes) -> str:
    try:
        token = orjson.loads(answer)["id_token"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ServiceUnavailable("the provider answered without an ID token") from error
    if not isinstance(token, str):
        raise ServiceUnavailable("the provider answered without an ID token")
    if len(token) > sessions.TOKEN_LENGTH_MAX:
        raise BadRequest(f"a token of more than {sessions.TOKEN_LENGTH_MAX} characters fits in no session")
    return token


def _unavailable(error: IssuerError) -> ApiError:
    return ServiceUnavailable(f"the provider cannot be used now: {error}")
