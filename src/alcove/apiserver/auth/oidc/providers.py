"""A JWT authenticator in use: its issuer's keys, its compiled rules, and the tokens that it has verified or refused.

Anybody may send tokens that name a tenant's issuer. Until the issuer's signature is verified, which is done in a thread that counts as no
tenant's, they are their sender's: clients have turns by their addresses. What its issuer has signed is the tenant's, and so is the time of its rules.

A changed configuration makes a new provider, so that nothing that was decided by the old one outlives it.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from msgspec import Struct, field

from alcove.api import meta
from alcove.api.errors import TooManyRequests
from alcove.api.ids import TenantId
from alcove.api.jwt_authenticators import JwtAuthenticator
from alcove.apiserver.auth.oidc import signatures
from alcove.apiserver.auth.oidc.issuer_client import DiscoveryDocument, IssuerClient
from alcove.apiserver.auth.oidc.issuer_keys import FetchCounts, IssuerKeys, UnknownKey
from alcove.apiserver.auth.oidc.jwk_sets import VerificationKey
from alcove.apiserver.auth.oidc.signatures import TokenHeader, TokenRefused
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.identity import Identity
from alcove.component.fair_slots import FairSlots, TooManyWaiting

VERIFIED_BYTES_MAX = 512 << 10
"""Memory for verified tokens of one provider, each of which counts as ENTRY_BYTES and its names; the oldest is verified
again at its next use."""
ENTRY_BYTES = 1_024
VERIFIED_SECONDS = 300.0
"""A token is verified again after this time: its issuer may have withdrawn the key."""
VERIFYING_MAX = 4
"""Tokens of one provider whose signatures are verified at a time, and as many whose claims are; others wait, in turns between
the addresses of clients."""
WAITING_MAX = 256
"""Tokens of one provider that wait for either; one more of the address with most gets 429."""
REFUSED_MAX = 256
REFUSED_SECONDS = 10.0


class VerifiedToken(Struct, frozen=True):
    identity: Identity
    nonce: str
    """Of the sign-in that the token was made for; empty if it names none."""
    expires: float
    until: float
    """When it must be verified again."""

    @property
    def size_bytes(self) -> int:
        identity = self.identity
        extra = sum(len(value) for values in identity.extra.values() for value in values)
        return ENTRY_BYTES + len(identity.user) + sum(map(len, identity.groups)) + extra


class _SignedClaims(Struct, frozen=True):
    claims: dict[str, Any]
    expires: float


class ProviderParts(Struct, frozen=True):
    """What all providers of a server share."""

    client: IssuerClient
    threads: ComputeThreads
    clock: Callable[[], float]
    """Epoch seconds."""
    counts: FetchCounts
    monotonic: Callable[[], float] = time.monotonic
    signatures: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, 1, "oidc-signatures"))
    """Verifies signatures: one at a time, of all tenants."""


class JwtProvider:
    """Use it from one event loop only."""

    def __init__(self, tenant: TenantId, authenticator: JwtAuthenticator, parts: ProviderParts) -> None:
        """`authenticator` must be valid."""
        self.tenant = tenant
        self.authenticator = authenticator
        self._parts = parts
        self._keys = IssuerKeys(tenant, authenticator.issuer, parts.client, parts.monotonic, parts.counts)
        self._identify: Callable[[dict[str, Any]], Identity] | None = None
        self._verified: OrderedDict[bytes, VerifiedToken] = OrderedDict()
        self._verified_bytes = 0
        self._refused: OrderedDict[bytes, tuple[float, str]] = OrderedDict()
        self._signatures: FairSlots[str] = FairSlots(VERIFYING_MAX, waiting_max=WAITING_MAX)
        self._rules: FairSlots[str] = FairSlots(VERIFYING_MAX, waiting_max=WAITING_MAX)

    def close(self) -> None:
        self._keys.close()

    async def document(self) -> DiscoveryDocument:
        """Raises IssuerError."""
        return await self._keys.document()

    def find(self, digest: bytes) -> VerifiedToken | None:
        """What is known of the token of this digest; None if it has to be verified. Raises TokenRefused."""
        now = self._parts.clock()
        verified = self._verified.get(digest)
        if verified is not None:
            if now >= verified.expires:
                raise TokenRefused(f"it expired at {meta.format_time(verified.expires)}; get a new one")
            return verified if now < verified.until else None
        until, message = self._refused.get(digest, (0.0, ""))
        if now < until:
            raise TokenRefused(message)
        return None

    async def verify(self, token: str, client: str) -> VerifiedToken:
        """`client`: whoever has sent it, by address. Raises TokenRefused, IssuerError, TooManyRequests."""
        digest = digest_of(token)
        try:
            header = signatures.header(token)
            key = await self._keys.find(header.key_id, header.algorithm)
            async with self._signatures.slot(client):
                if (known := self.find(digest)) is not None:
                    return known  # By another request, meanwhile.
                loop = asyncio.get_running_loop()
                signed = await loop.run_in_executor(
                    self._parts.signatures, self._signed_claims, token, header, key
                )
            async with self._rules.slot(client):
                verified: VerifiedToken = await self._parts.threads.run(
                    self.tenant, partial(self._verified_token, signed)
                )
        except TooManyWaiting as error:
            message = f'too many tokens for tenant "{self.tenant}" are being verified'
            raise TooManyRequests.after(1, message) from error
        except UnknownKey as error:
            raise self._refuse(digest, "it was signed with a key that its issuer does not have") from error
        except TokenRefused as error:
            raise self._refuse(digest, str(error)) from error
        self._keep(digest, verified)
        return verified

    def _signed_claims(self, token: str, header: TokenHeader, key: VerificationKey) -> _SignedClaims:
        claims = signatures.verified_claims(token, header.algorithm, key)
        return _SignedClaims(
            claims, signatures.check_claims(claims, self.authenticator.issuer, self._parts.clock())
        )

    def _verified_token(self, signed: _SignedClaims) -> VerifiedToken:
        """In a thread: expressions take long."""
        if self._identify is None:
            self._identify = self._compile()
        identity = self._identify(signed.claims)
        nonce = signed.claims.get("nonce")
        until = self._parts.clock() + VERIFIED_SECONDS
        return VerifiedToken(identity, nonce if isinstance(nonce, str) else "", signed.expires, until)

    def _compile(self) -> Callable[[dict[str, Any]], Identity]:
        # Imported on demand: CEL is used by few.
        from alcove.apiserver.auth.oidc.claim_rules import compile_rules, identity_of

        rules, errors = compile_rules(self.authenticator, "jwt")
        if errors:
            raise TokenRefused(f"its issuer's configuration is not valid: {errors[0]}")
        return partial(identity_of, rules, self.tenant)

    def _keep(self, digest: bytes, verified: VerifiedToken) -> None:
        self._forget(digest)
        self._refused.pop(digest, None)
        self._verified[digest] = verified
        self._verified_bytes += verified.size_bytes
        while self._verified_bytes > VERIFIED_BYTES_MAX:
            self._forget(next(iter(self._verified)))

    def _refuse(self, digest: bytes, message: str) -> TokenRefused:
        self._forget(digest)
        self._refused[digest] = (self._parts.clock() + REFUSED_SECONDS, message)
        if len(self._refused) > REFUSED_MAX:
            self._refused.popitem(last=False)
        return TokenRefused(message)

    def _forget(self, digest: bytes) -> None:
        before = self._verified.pop(digest, None)
        if before is not None:
            self._verified_bytes -= before.size_bytes


def digest_of(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
