"""Built-in roles among stored ones: listed in order, replaced by stored ones, separate for each tenant."""

import orjson
import pytest

from alcove.api.encode import encode
from alcove.api.ids import SYSTEM, GroupResource, Key, Revision, TenantId
from alcove.api.objects import Object
from alcove.apiserver import builtin
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.rbac import defaults
from alcove.apiserver.rbac.defaults import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLES
from alcove.testing.memory_reader import MemoryReader

ACME = TenantId("acme")


def stored(reader: MemoryReader, name: str, revision: int, **labels: str) -> CacheEntry:
    rules = [{"verbs": ["get"], "apiGroups": ["acme.io"], "resources": ["widgets"]}]
    obj: Object = {
        "apiVersion": "v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels},
        "rules": rules,
    }
    reader.put(ACME, CLUSTER_ROLES, obj)
    return CacheEntry(Key(CLUSTER_ROLES, ACME, "", name), Revision(revision), encode(obj))


@pytest.fixture
def reader() -> MemoryReader:
    reader = MemoryReader()
    metadata = {"name": "acme", "creationTimestamp": "2027-01-15T08:00:00Z"}
    reader.put(SYSTEM, GroupResource("", "tenants"), {"metadata": metadata})
    return reader


def test_a_built_in_role_reads_like_any_object(reader: MemoryReader) -> None:
    found = builtin.entry(Key(CLUSTER_ROLES, ACME, "", "view"), reader)
    assert found is not None and builtin.is_built_in(found)
    shown = orjson.loads(found.body)
    assert (shown["apiVersion"], shown["kind"]) == ("rbac.authorization.k8s.io/v1", "ClusterRole")
    assert shown["metadata"]["resourceVersion"] == "0"
    assert shown["metadata"]["creationTimestamp"] == "2027-01-15T08:00:00Z"
    assert shown["metadata"]["tenant"] == "acme"
    assert found.labels["kubernetes.io/bootstrapping"] == "rbac-defaults"


@pytest.mark.parametrize(
    "key",
    [
        Key(CLUSTER_ROLES, ACME, "", "nothing"),
        Key(CLUSTER_ROLES, ACME, "", "system:node"),
        Key(CLUSTER_ROLES, ACME, "default", "view"),
        Key(ROLES, ACME, "default", "view"),
    ],
)
def test_other_roles_are_not_built_in(reader: MemoryReader, key: Key) -> None:
    assert builtin.entry(key, reader) is None


def test_a_list_is_in_order_and_stored_objects_take_the_places_of_built_in_ones(reader: MemoryReader) -> None:
    mine = [stored(reader, "mine", 7), stored(reader, "view", 8)]
    found = list(builtin.merged(mine, ACME, CLUSTER_ROLES, "", reader))
    names = [entry.key.name for entry in found]
    assert names == sorted({*defaults.built_in(ACME, CLUSTER_ROLES), "mine"})
    assert [entry.key.name for entry in found if not builtin.is_built_in(entry)] == ["mine", "view"]


def test_a_page_continues_after_a_name(reader: MemoryReader) -> None:
    every = [entry.key.name for entry in builtin.merged([], ACME, CLUSTER_ROLE_BINDINGS, "", reader)]
    after = [entry.key.name for entry in builtin.merged([], ACME, CLUSTER_ROLE_BINDINGS, every[1], reader)]
    assert after == every[2:]


def test_an_aggregated_role_shows_what_it_gathers_from_stored_ones(reader: MemoryReader) -> None:
    label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    mine = stored(reader, "mine", 7, **label)
    by_get = builtin.entry(Key(CLUSTER_ROLES, ACME, "", "admin"), reader)
    by_list = next(
        found
        for found in builtin.merged([mine], ACME, CLUSTER_ROLES, "", reader)
        if found.key.name == "admin"
    )
    assert by_get is not None
    assert by_get.body == by_list.body
    assert mine.object["rules"][0] in by_get.object["rules"]


def test_a_server_without_the_tenants_object_still_shows_them() -> None:
    found = builtin.entry(Key(CLUSTER_ROLES, ACME, "", "edit"), MemoryReader())
    assert found is not None
    assert found.object["metadata"]["creationTimestamp"] == "1970-01-01T00:00:00Z"
