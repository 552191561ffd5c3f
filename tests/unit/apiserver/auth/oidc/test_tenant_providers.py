"""The providers of tenants: each its own, current with every request, and only as many as are allowed."""

import time

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.api.resources import IDENTITY_PROVIDERS
from alcove.apiserver.auth.oidc.issuer_client import IssuerClient
from alcove.apiserver.auth.oidc.issuer_keys import FetchCounts
from alcove.apiserver.auth.oidc.providers import ProviderParts
from alcove.apiserver.auth.oidc.tenant_providers import PROVIDERS_MAX, TenantProviders
from alcove.apiserver.computing import ComputeThreads
from alcove.http.turns import ReadingTurns
from alcove.testing.memory_reader import MemoryReader
from alcove.testing.webhook_calls import webhook_dialer

ACME, OTHER = TenantId("acme"), TenantId("other")
URL = "https://login.example.com"


def stored(name: str, claim: str = "sub", url: str = URL) -> Object:
    issuer = {"url": url, "audiences": ["a"]}
    return {
        "metadata": {"name": name},
        "spec": {"issuer": issuer, "claimMappings": {"username": {"claim": claim, "prefix": ""}}},
    }


def made(reader: MemoryReader) -> TenantProviders:
    client = IssuerClient(webhook_dialer(), ReadingTurns(), ComputeThreads())
    return TenantProviders(reader, ProviderParts(client, ComputeThreads(), time.time, FetchCounts()))


async def test_a_provider_is_its_tenants_and_changes_with_its_object() -> None:
    reader = MemoryReader()
    providers = made(reader)
    assert not providers.has_any(ACME)
    reader.put(ACME, IDENTITY_PROVIDERS, stored("sso"))
    (first,) = providers.of(ACME, URL)
    assert providers.has_any(ACME) and first.tenant == ACME
    assert not providers.of(OTHER, URL) and not providers.of(ACME, f"{URL}/")
    reader.put(ACME, IDENTITY_PROVIDERS, stored("another", url="https://b.example"))
    assert providers.of(ACME, URL) == (first,), "what it has verified stays"
    reader.put(ACME, IDENTITY_PROVIDERS, stored("sso", "email"))
    (second,) = providers.of(ACME, URL)
    assert second is not first
    reader.remove(ACME, IDENTITY_PROVIDERS, "", "sso")
    assert not providers.of(ACME, URL)
    reader.remove(ACME, IDENTITY_PROVIDERS, "", "another")
    assert not providers.has_any(ACME)


async def test_objects_that_are_not_valid_any_more_and_too_many_are_left_out() -> None:
    reader = MemoryReader()
    providers = made(reader)
    reader.put(ACME, IDENTITY_PROVIDERS, stored("a", url="http://x.example"))
    reader.put(ACME, IDENTITY_PROVIDERS, {"metadata": {"name": "b"}, "spec": {"issuer": 7}})
    assert not providers.has_any(ACME)
    for number in range(PROVIDERS_MAX + 2):
        reader.put(OTHER, IDENTITY_PROVIDERS, stored(f"p{number:02}"))
    assert len(providers.of(OTHER, URL)) == PROVIDERS_MAX
