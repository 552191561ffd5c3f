"""What many tenants are served is looked at once."""

from collections.abc import Iterable
from typing import Any

import pytest

from alcove.api import registry
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.objects import Object
from alcove.api.resources import CRDS
from alcove.apiserver.crds.conversion import ConversionParts
from alcove.apiserver.crds.kinds import CustomKinds
from alcove.apiserver.crds.sharing import FORCED, LABEL
from alcove.testing.memory_reader import MemoryReader

REGISTRY = registry.load()
A, B = TenantId("a"), TenantId("b")


class CountingReader(MemoryReader):
    looks = 0

    def list(
        self, tenant: TenantId, resource: GroupResource, namespace: str | None = None
    ) -> Iterable[Object]:
        self.looks += 1
        return super().list(tenant, resource, namespace)


def share(reader: MemoryReader, kinds: CustomKinds, plural: str, **spec: object) -> None:
    """Stores a CRD of ring0 that all tenants are served, as the server does."""
    crd: Object = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com", "tenant": SYSTEM, "labels": {LABEL: FORCED}},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.title()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
            **spec,
        },
    }
    kind = kinds.find(SYSTEM, "apiextensions.k8s.io", "v1", "customresourcedefinitions")
    assert kind is not None
    kind.strategy.default(crd)
    kind.strategy.prepare_create(crd)
    reader.put(SYSTEM, CRDS, crd)


@pytest.mark.parametrize("count", [10, 100])
def test_a_crd_of_ring0_is_looked_at_once_for_all_tenants_without_crds(count: int) -> None:
    reader = CountingReader()
    kinds = CustomKinds(REGISTRY, reader, lambda: 0.0)
    tenants = [TenantId(f"t{number}") for number in range(count)]
    for plural in ("widgets", "gadgets"):
        share(reader, kinds, plural)
        reader.looks = 0
        found = [kinds.find(tenant, "example.com", "v1", plural) for tenant in tenants]
        assert found[0] is not None and all(kind is found[0] for kind in found)
        assert all(kinds.all(tenant) is kinds.all(tenants[0]) for tenant in tenants)
        assert reader.looks <= 2


def test_a_shared_crd_that_a_webhook_converts_is_compiled_for_each_tenant() -> None:
    """The webhook is called on behalf of the tenant."""
    called: list[TenantId] = []

    def conversion(tenant: TenantId) -> ConversionParts:
        called.append(tenant)

        def never(*_arguments: Any, **_options: Any) -> Any:
            raise AssertionError

        return ConversionParts(never, never)

    reader = MemoryReader()
    kinds = CustomKinds(REGISTRY, reader, lambda: 0.0, conversion)
    webhook = {"clientConfig": {"url": "https://h"}, "conversionReviewVersions": ["v1"]}
    share(reader, kinds, "widgets", conversion={"strategy": "Webhook", "webhook": webhook})
    kept = [kinds.find(tenant, "example.com", "v1", "widgets") for tenant in (A, B, A)]
    assert kept[0] is not None and kept[1] is not None and kept[0] is kept[2] is not kept[1]
    assert {A, B} <= set(called)
