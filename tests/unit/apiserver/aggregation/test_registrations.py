"""Which group versions are served by extension servers."""

from typing import Any

import pytest

from alcove.api import registry
from alcove.api.ids import ALL, SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.api.resources import API_SERVICES, CRDS
from alcove.apiserver.aggregation.registrations import Registrations
from alcove.apiserver.crds.kinds import CustomKinds
from alcove.apiserver.crds.sharing import FORCED, LABEL
from alcove.apiserver.paths import parse
from alcove.testing.memory_reader import MemoryReader

ACME, BETA = TenantId("acme"), TenantId("beta")
KINDS = registry.load()


def api_service(group: str, version: str = "v1", available: str = "True", **spec: Any) -> Object:
    given = {"group": group, "version": version, "service": {"namespace": "n", "name": "s"}, **spec}
    conditions = [{"type": "Available", "status": available}]
    metadata = {"name": f"{version}.{group}", "uid": "u"}
    return {"metadata": metadata, "spec": given, "status": {"conditions": conditions}}


def crd(group: str, labels: dict[str, str] | None = None) -> Object:
    names = {"plural": "things", "singular": "thing", "kind": "Thing"}
    versions = [
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    ]
    return {
        "metadata": {"name": f"things.{group}", "uid": "c", "labels": labels or {}},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": versions},
        "status": {
            "acceptedNames": names,
            "storedVersions": ["v1"],
            "conditions": [{"type": "Established", "status": "True"}],
        },
    }


@pytest.fixture
def reader() -> MemoryReader:
    return MemoryReader()


@pytest.fixture
def registrations(reader: MemoryReader) -> Registrations:
    return Registrations(reader, CustomKinds(KINDS, reader, lambda: 0.0))


def test_a_registration_is_its_tenants_only(reader: MemoryReader, registrations: Registrations) -> None:
    reader.put(ACME, API_SERVICES, api_service("x.io", caBundle="QQ=="))
    for path in (
        "/apis/x.io/v1",
        "/apis/x.io/v1/namespaces/n/things/a/b",
        "/apis/x.io/v1/namespaces/n/pods/*/m",
    ):
        found = registrations.find(ACME, parse(path))
        assert found is not None and found.server.name == "s.n.svc" and found.server.port == 443
        for tenant in (BETA, SYSTEM, ALL):
            assert registrations.find(tenant, parse(path)) is None
    for path in (
        "/apis/x.io",
        "/apis/x.io/v2/things",
        "/api/v1/things",
        "/apis/apps/v1/deployments",
        "/apis",
    ):
        assert registrations.find(ACME, parse(path)) is None


def test_changes_are_seen_at_once(reader: MemoryReader, registrations: Registrations) -> None:
    target = parse("/apis/x.io/v1/things")
    assert registrations.find(ACME, target) is None
    reader.put(ACME, API_SERVICES, api_service("x.io", available="False"))
    found = registrations.find(ACME, target)
    assert found is not None and not found.is_available
    reader.put(ACME, API_SERVICES, api_service("x.io"))
    found = registrations.find(ACME, target)
    assert found is not None and found.is_available
    reader.remove(ACME, API_SERVICES, "", "v1.x.io")
    assert registrations.find(ACME, target) is None


@pytest.mark.parametrize("owner", [ACME, SYSTEM])
def test_what_this_server_serves_is_never_an_extension_servers(
    reader: MemoryReader, registrations: Registrations, owner: TenantId
) -> None:
    """Also if a CRD comes later: one that ring0 shares is not checked against every tenant's APIServices."""
    reader.put(ACME, API_SERVICES, api_service("x.io"))
    reader.put(ACME, API_SERVICES, api_service("apps"))
    assert registrations.find(ACME, parse("/apis/apps/v1/deployments")) is None
    assert registrations.find(ACME, parse("/apis/x.io/v1/things")) is not None
    reader.put(owner, CRDS, crd("x.io", {LABEL: FORCED} if owner == SYSTEM else {}))
    assert registrations.find(ACME, parse("/apis/x.io/v1/things")) is None


def test_a_local_one_registers_nothing(reader: MemoryReader, registrations: Registrations) -> None:
    reader.put(ACME, API_SERVICES, api_service("x.io", service=None))
    assert registrations.every(ACME) == ()
