"""All OIDC providers of a server, and the tokens that they verify."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from alcove.api.ids import SYSTEM, TenantId
from alcove.apiserver.auth.oidc.config_file import Ring0Providers
from alcove.apiserver.auth.oidc.oidc_tokens import OidcTokens
from alcove.apiserver.auth.oidc.providers import JwtProvider, ProviderParts
from alcove.apiserver.auth.oidc.tenant_providers import TenantProviders
from alcove.apiserver.metrics import ApiServerMetrics, Labelled, MetricSource
from alcove.apiserver.reader import CacheReader


class OidcAuthentication:
    def __init__(self, path: Path | None, reader: CacheReader, parts: ProviderParts) -> None:
        """`path`: ring0's AuthenticationConfiguration. Raises AuthenticationConfigError."""
        self._parts = parts
        self._file = Ring0Providers(path, parts) if path is not None else None
        self.tenants = TenantProviders(reader, parts)
        self.tokens = OidcTokens(self.providers_of, self._has_any)

    def providers_of(self, tenant: TenantId, issuer: str) -> Sequence[JwtProvider]:
        """The providers of a tenant that accept tokens of this issuer."""
        configured = self._file.of(tenant, issuer) if self._file is not None else ()
        return (*configured, *self.tenants.of(tenant, issuer))

    def _has_any(self, tenant: TenantId) -> bool:
        is_configured = tenant == SYSTEM and self._file is not None and self._file.has_any
        return is_configured or self.tenants.has_any(tenant)

    async def run(self) -> None:
        """Follows the changes of ring0's file."""
        if self._file is not None:
            await self._file.run()

    def add_metrics(self, metrics: ApiServerMetrics) -> None:
        def reloads() -> Labelled:
            counts = self._file.reloads if self._file is not None else {}
            return [((status,), count) for status, count in counts.items()]

        def fetches() -> Labelled:
            counts = self._parts.counts
            return [(("success",), counts.succeeded), (("failure",), counts.failed)]

        name = "apiserver_authentication_config_controller_automatic_reloads"
        text = "Changes of the authentication configuration, by whether they were valid."
        metrics.add(MetricSource(name, text, reloads, ("status",), is_counter=True))
        name, text = "alcove_oidc_key_fetches", "Fetches of OIDC issuers' keys, of all tenants."
        metrics.add(MetricSource(name, text, fetches, ("status",), is_counter=True))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self.tenants.close()
        self._parts.signatures.shutdown(wait=False, cancel_futures=True)
