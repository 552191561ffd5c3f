"""Finds who may have issued a token, and has it verified.

A token is tried with the providers of the given tenants, in their order: for a request these are ring0 and the tenant that
its path names. Two tenants may trust the same issuer, so the token alone does not tell them apart. It never makes an identity
of another tenant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from alcove.api.errors import ServiceUnavailable, Unauthorized
from alcove.api.ids import TenantId
from alcove.apiserver.auth.oidc.issuer_client import IssuerError
from alcove.apiserver.auth.oidc.providers import JwtProvider, VerifiedToken, digest_of
from alcove.apiserver.auth.oidc.signatures import TokenRefused, unverified_issuer

ProvidersOf = Callable[[TenantId, str], Sequence[JwtProvider]]
"""The providers of a tenant that accept tokens of this issuer."""


class TokenNotVerified(Unauthorized):
    """It may be valid, and has to be verified first: `await OidcTokens.verify(token, tenants, client)`."""

    def __init__(self, token: str, tenants: Sequence[TenantId]) -> None:
        super().__init__("Unauthorized: the token could not be verified; try again")
        self.token = token
        self.tenants = tenants


class OidcTokens:
    def __init__(self, providers_of: ProvidersOf, has_any: Callable[[TenantId], bool]) -> None:
        """`has_any`: whether a tenant has providers, which is asked with every request."""
        self._providers_of = providers_of
        self._has_any = has_any

    def find(self, token: str, tenants: Sequence[TenantId]) -> VerifiedToken | None:
        """What is known of a token; None if it is of no issuer that these tenants know.

        Raises Unauthorized, TokenNotVerified.
        """
        providers = self._candidates(token, tenants)
        if not providers:
            return None
        digest = digest_of(token)
        refusal = ""
        for provider in providers:
            try:
                verified = provider.find(digest)
            except TokenRefused as error:
                refusal = str(error)
                continue
            if verified is None:
                raise TokenNotVerified(token, tenants)
            return verified
        raise _unauthorized(refusal)

    async def verify(self, token: str, tenants: Sequence[TenantId], client: str) -> None:
        """Has the token of a client verified, so that `find` knows of it. Raises Unauthorized, ServiceUnavailable,
        TooManyRequests."""
        refusal: TokenRefused | None = None
        failure: IssuerError | None = None
        for provider in self._candidates(token, tenants):
            try:
                await provider.verify(token, client)
                return
            except TokenRefused as error:
                refusal = error
            except IssuerError as error:
                failure = error
        if failure is not None:
            raise ServiceUnavailable(
                "the keys of the token's issuer cannot be fetched; try again later"
            ) from failure
        raise _unauthorized(str(refusal or "its issuer is not known")) from refusal

    def _candidates(self, token: str, tenants: Sequence[TenantId]) -> list[JwtProvider]:
        asked = [each for each in dict.fromkeys(tenants) if self._has_any(each)]
        issuer = unverified_issuer(token) if asked else None
        if issuer is None:
            return []
        return [provider for each in asked for provider in self._providers_of(each, issuer)]


def _unauthorized(message: str) -> Unauthorized:
    return Unauthorized(f"Unauthorized: invalid token: {message}")
