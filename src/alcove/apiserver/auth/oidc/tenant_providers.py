"""The providers that tenants have configured themselves, or ring0 for them: their IdentityProvider objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from alcove.api import objects
from alcove.api.ids import TenantId
from alcove.api.jwt_authenticators import check_authenticator
from alcove.api.kinds.identity import authenticator_of
from alcove.api.resources import IDENTITY_PROVIDERS
from alcove.apiserver.auth.oidc.providers import JwtProvider, ProviderParts
from alcove.apiserver.reader import CacheReader

PROVIDERS_MAX = 8
"""IdentityProviders of a tenant; of more, which two servers may admit together, the first ones by name are used."""


class _Providers(Struct, frozen=True):
    generation: int
    by_name: Mapping[str, JwtProvider]

    def issued_by(self, url: str) -> tuple[JwtProvider, ...]:
        return tuple(each for each in self.by_name.values() if each.authenticator.issuer.url == url)


_NONE = _Providers(0, {})


class TenantProviders:
    """Use it from one event loop only."""

    def __init__(self, reader: CacheReader, parts: ProviderParts) -> None:
        self._reader = reader
        self._parts = parts
        self._known: dict[TenantId, _Providers] = {}
        """Of tenants that have some."""

    def of(self, tenant: TenantId, issuer: str) -> Sequence[JwtProvider]:
        return self._current(tenant).issued_by(issuer)

    def has_any(self, tenant: TenantId) -> bool:
        return bool(self._current(tenant).by_name)

    def named(self, tenant: TenantId) -> Mapping[str, JwtProvider]:
        """All of the tenant's, by name."""
        return self._current(tenant).by_name

    def close(self) -> None:
        for providers in self._known.values():
            for provider in providers.by_name.values():
                provider.close()

    def _current(self, tenant: TenantId) -> _Providers:
        known = self._known.get(tenant, _NONE)
        generation = self._reader.generation(tenant, IDENTITY_PROVIDERS)
        return known if known.generation == generation else self._read(tenant, generation, known)

    def _read(self, tenant: TenantId, generation: int, known: _Providers) -> _Providers:
        """The tenant's providers; those that have not changed stay as they are."""
        stored = sorted(self._reader.list(tenant, IDENTITY_PROVIDERS), key=objects.name)[:PROVIDERS_MAX]
        by_name: dict[str, JwtProvider] = {}
        for obj in stored:
            try:
                authenticator = authenticator_of(obj)
            except msgspec.ValidationError:
                continue  # Stored by a version that knew other fields.
            if check_authenticator(authenticator, "spec"):
                continue
            kept = known.by_name.get(objects.name(obj))
            if kept is None or kept.authenticator != authenticator:
                kept = JwtProvider(tenant, authenticator, self._parts)
            by_name[objects.name(obj)] = kept
        for name, provider in known.by_name.items():
            if by_name.get(name) is not provider:
                provider.close()
        current = _Providers(generation, by_name)
        if by_name:
            self._known[tenant] = current
        else:
            self._known.pop(tenant, None)
        return current
