"""Ring0's AuthenticationConfiguration: a file with the issuers of ring0's users.

    apiVersion: apiserver.config.k8s.io/v1
    kind: AuthenticationConfiguration
    jwt:
      - issuer: {url: https://login.example.com, audiences: [alcove]}
        claimMappings: {username: {claim: sub, prefix: "sso:"}}

The file is read again when it has changed. One that is not valid is refused as a whole: at the start the server does not
start, later it keeps the configuration that it has.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from alcove.api.fields import FieldError, duplicate, invalid, too_many
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.jwt_authenticators import JwtAuthenticator, check_authenticator
from alcove.apiserver.auth.oidc.providers import JwtProvider, ProviderParts
from alcove.apiserver.auth.tokens import DEFAULT_BASE_URL

log = logging.getLogger(__name__)

API_VERSIONS = tuple(f"apiserver.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
KIND = "AuthenticationConfiguration"
ISSUERS_MAX = 64
"""Issuers in ring0's file, as in Kubernetes."""
FILE_BYTES_MAX = 1 << 20
POLL_SECONDS = 1.0


class AuthenticationConfigError(Exception):
    """The file cannot be used; the message names it and the field."""


class _Anonymous(Struct, frozen=True, forbid_unknown_fields=True):
    enabled: bool = False


class _Configuration(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    jwt: tuple[JwtAuthenticator, ...] = ()
    anonymous: _Anonymous = _Anonymous()


def load(path: Path) -> tuple[JwtAuthenticator, ...]:
    """Raises AuthenticationConfigError."""
    return _parse(path, _read(path))


class Ring0Providers:
    """The providers of the file; those of issuers that have not changed stay as they are."""

    def __init__(self, path: Path, parts: ProviderParts) -> None:
        """Raises AuthenticationConfigError."""
        self._path = path
        self._parts = parts
        self._data = _read(path)
        self.reloads: Counter[str] = Counter({"success": 0, "failure": 0})
        self._error = ""
        self._providers: dict[str, JwtProvider] = {}
        self._use(_parse(path, self._data))

    def of(self, tenant: TenantId, issuer: str) -> Sequence[JwtProvider]:
        provider = self._providers.get(issuer) if tenant == SYSTEM else None
        return () if provider is None else (provider,)

    @property
    def has_any(self) -> bool:
        return bool(self._providers)

    async def run(self) -> None:
        """Follows the file's changes."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await self.reload()

    async def reload(self) -> None:
        """Reads the file; what is not valid is logged and counted, and changes nothing."""
        try:
            data = await asyncio.to_thread(_read, self._path)
            if data == self._data:
                return
            self._data = data
            self._use(await asyncio.to_thread(_parse, self._path, data))
        except AuthenticationConfigError as error:
            if str(error) != self._error:
                self.reloads["failure"] += 1
                log.error(
                    "authentication configuration refused; keeping the old one", extra={"error": str(error)}
                )
            self._error = str(error)
            return
        self._error = ""
        self.reloads["success"] += 1
        log.info("authentication configuration changed", extra={"issuers": len(self._providers)})

    def _use(self, authenticators: Sequence[JwtAuthenticator]) -> None:
        before = self._providers
        self._providers = {}
        for authenticator in authenticators:
            url = authenticator.issuer.url
            kept = before.get(url)
            if kept is None or kept.authenticator != authenticator:
                kept = JwtProvider(SYSTEM, authenticator, self._parts)
            self._providers[url] = kept
        for url, provider in before.items():
            if self._providers.get(url) is not provider:
                provider.close()

    def close(self) -> None:
        for provider in self._providers.values():
            provider.close()


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise AuthenticationConfigError(
            f"cannot read the authentication configuration {path}: {error.strerror}"
        ) from error
    if len(data) > FILE_BYTES_MAX:
        raise AuthenticationConfigError(f"{path}: the file has more than {FILE_BYTES_MAX} bytes")
    return data


def _parse(path: Path, data: bytes) -> tuple[JwtAuthenticator, ...]:
    from alcove.apiserver.auth.oidc.claim_rules import compile_rules

    try:
        configuration = msgspec.yaml.decode(data, type=_Configuration)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise AuthenticationConfigError(f"{path}: {error}") from error
    if configuration.api_version not in API_VERSIONS or configuration.kind != KIND:
        raise AuthenticationConfigError(f"{path}: expected apiVersion {API_VERSIONS[0]} and kind {KIND}")
    errors: list[FieldError] = []
    if configuration.anonymous.enabled:
        errors.append(invalid("anonymous.enabled", True, "there are no anonymous users here"))
    if len(configuration.jwt) > ISSUERS_MAX:
        errors.append(too_many("jwt", len(configuration.jwt), ISSUERS_MAX))
    urls: set[str] = set()
    for index, authenticator in enumerate(configuration.jwt[:ISSUERS_MAX]):
        at = f"jwt[{index}]"
        found = check_authenticator(authenticator, at)
        errors += found or compile_rules(authenticator, at)[1]
        errors += own_issuer_errors(authenticator, at)
        if authenticator.issuer.url in urls:
            errors.append(duplicate(f"{at}.issuer.url", authenticator.issuer.url))
        urls.add(authenticator.issuer.url)
    if errors:
        raise AuthenticationConfigError(f"{path}: " + "; ".join(map(str, errors)))
    return configuration.jwt


def own_issuer_errors(authenticator: JwtAuthenticator, path: str) -> list[FieldError]:
    """An error for this server's own issuers, whose tokens are those of service accounts."""
    url = authenticator.issuer.url
    if url == DEFAULT_BASE_URL or url.startswith(f"{DEFAULT_BASE_URL}/"):
        return [invalid(f"{path}.issuer.url", url, "is the issuer of service account tokens")]
    return []
