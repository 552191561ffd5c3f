"""The APIServices of built-in kinds, which every tenant is shown."""

import orjson

from alcove.api import registry
from alcove.api.encode import encode
from alcove.api.ids import SYSTEM, Key, Revision, TenantId
from alcove.api.resources import API_SERVICES
from alcove.apiserver import builtin
from alcove.apiserver.aggregation import local_services
from alcove.apiserver.cache.entries import CacheEntry
from alcove.testing.memory_reader import MemoryReader

ACME = TenantId("acme")
KINDS = registry.load()
READER = MemoryReader()


def names(tenant: TenantId, after: str = "", stored: tuple[CacheEntry, ...] = ()) -> list[str]:
    return [each.key.name for each in local_services.merged(KINDS, stored, tenant, after, READER)]


def test_every_group_version_that_the_tenant_sees_has_one() -> None:
    found = names(ACME)
    assert {"v1.", "v1.apps", "v2.autoscaling", "v1beta1.metrics.k8s.io"} <= set(found)
    assert "v1.mizar.com" not in found and "v1.mizar.com" in names(SYSTEM)
    assert found == sorted(found)


def test_they_are_among_the_stored_ones_in_order_and_in_pages() -> None:
    key = Key(API_SERVICES, ACME, "", "v1.between.io")
    stored = CacheEntry(
        key, Revision(7), encode({"apiVersion": "v1", "kind": "X", "metadata": {"name": key.name}})
    )
    whole = names(ACME, stored=(stored,))
    assert whole == sorted(whole) and key.name in whole
    assert names(ACME, key.name, (stored,)) == whole[whole.index(key.name) + 1 :]


def test_one_reads_like_any_object_and_is_valid() -> None:
    key = Key(API_SERVICES, ACME, "", "v2.autoscaling")
    entry = local_services.entry(KINDS, key, READER)
    assert entry is not None and builtin.is_built_in(entry)
    shown = orjson.loads(entry.body)
    assert shown["spec"]["group"] == "autoscaling" and "service" not in shown["spec"]
    assert shown["status"]["conditions"][0]["reason"] == "Local"
    kind = KINDS.find("apiregistration.k8s.io", "v1", "apiservices")
    assert kind is not None and not kind.strategy.validate(shown)
    again = local_services.entry(KINDS, key, READER)
    assert again is not None and again.body == entry.body
    other = local_services.entry(KINDS, Key(API_SERVICES, TenantId("beta"), "", key.name), READER)
    assert other is not None and orjson.loads(other.body)["metadata"]["uid"] != shown["metadata"]["uid"]


def test_newer_versions_are_preferred() -> None:
    specs = {
        each.key.name: each.object["spec"] for each in local_services.merged(KINDS, (), ACME, "", READER)
    }
    assert specs["v2.autoscaling"]["versionPriority"] > specs["v1.autoscaling"]["versionPriority"]
    assert specs["v1."]["groupPriorityMinimum"] > specs["v1.apps"]["groupPriorityMinimum"]
