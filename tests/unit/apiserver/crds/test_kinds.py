"""What many tenants are served is looked at once."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from alcove.api import registry
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.objects import Object
from alcove.api.resources import CRDS
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.cache.snapshot import CacheSnapshot
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.crds.conversion import ConversionParts
from alcove.apiserver.crds.kinds import CustomKinds
from alcove.apiserver.crds.sharing import FORCED, LABEL
from alcove.testing.memory_reader import MemoryReader

REGISTRY = registry.load()
A, B = TenantId("a"), TenantId("b")


class CountingReader(MemoryReader):
    looks = 0

    def snapshot(self, tenant: TenantId, resources: Sequence[GroupResource]) -> CacheSnapshot:
        self.looks += 1
        return super().snapshot(tenant, resources)


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


class CountedEntries:
    """Counts how often CRDs are decoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decoded: list[str] = []
        self.threads: set[str] = set()

        def decode(entry: CacheEntry) -> Any:
            self.decoded.append(entry.key.name)
            self.threads.add(threading.current_thread().name)
            return entry.decode()

        monkeypatch.setattr(CacheEntry, "object", property(decode))


def test_when_a_crd_changes_no_other_is_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant with many large ones would stop the server at each change of one."""
    reader = MemoryReader()
    kinds = CustomKinds(REGISTRY, reader, lambda: 0.0)
    for plural in ("gadgets", "widgets"):
        share(reader, kinds, plural)
    counted = CountedEntries(monkeypatch)
    assert kinds.find(SYSTEM, "example.com", "v1", "widgets") is not None
    assert sorted(counted.decoded) == ["gadgets.example.com", "widgets.example.com"]
    share(reader, kinds, "things")  # The write itself looks at all of them.
    counted.decoded.clear()
    assert kinds.find(SYSTEM, "example.com", "v1", "widgets") is not None
    assert counted.decoded == ["things.example.com"]


async def test_many_new_crds_are_compiled_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a start of the server."""
    reader = MemoryReader()
    kinds = CustomKinds(REGISTRY, reader, lambda: 0.0)
    share(reader, kinds, "widgets")
    assert kinds.preparation(SYSTEM) is None
    fields = {f"f{number}": {"type": "string"} for number in range(2_000)}
    schema = {"openAPIV3Schema": {"type": "object", "properties": fields}}
    for plural in ("gadgets", "things"):
        version = {"name": "v1", "served": True, "storage": True, "schema": schema}
        share(reader, kinds, plural, versions=[version])
    prepare = kinds.preparation(SYSTEM)
    assert prepare is not None
    counted = CountedEntries(monkeypatch)
    await ComputeThreads().run(SYSTEM, prepare)
    assert kinds.preparation(SYSTEM) is None and kinds.find(SYSTEM, "example.com", "v1", "things") is not None
    assert len(kinds.all(SYSTEM)) > 3
    assert threading.current_thread().name not in counted.threads and len(counted.decoded) == 3
