from ipaddress import ip_address

import orjson
import pytest

from alcove.api.ids import SYSTEM, GroupResource, Key, Revision, TenantId
from alcove.api.objects import Object
from alcove.api.resources import NODES
from alcove.apiserver.cache.entries import CacheEntry, CacheEvent, CacheEventType
from alcove.apiserver.outbound.node_addresses import NodeAddresses
from alcove.testing.memory_reader import MemoryReader


class CountingReader(MemoryReader):
    read = 0

    def get(self, tenant: TenantId, resource: GroupResource, namespace: str, name: str) -> Object | None:
        self.read += 1
        return super().get(tenant, resource, namespace, name)


def node(name: str, *addresses: str) -> Object:
    listed = [{"type": "InternalIP", "address": each} for each in addresses]
    return {"metadata": {"name": name}, "status": {"addresses": listed}}


def change(obj: Object, kind: CacheEventType = CacheEventType.MODIFIED) -> list[CacheEvent]:
    key = Key(NODES, SYSTEM, "", obj["metadata"]["name"])
    return [CacheEvent(kind, CacheEntry(key, Revision(1), orjson.dumps(obj)), None)]


def test_addresses_come_and_go_with_nodes() -> None:
    reader = MemoryReader()
    reader.put(SYSTEM, NODES, node("a", "192.0.2.1", "not an address"))
    addresses = NodeAddresses(reader)
    assert set(addresses.current()) == {ip_address("192.0.2.1")}
    addresses.notice(change(reader.put(SYSTEM, NODES, node("b", "192.0.2.1", "2001:db8::1"))))
    addresses.notice(change(reader.put(SYSTEM, NODES, node("a", "192.0.2.2"))))
    expected = {ip_address(each) for each in ("192.0.2.1", "192.0.2.2", "2001:db8::1")}
    assert set(addresses.current()) == expected
    reader.remove(SYSTEM, NODES, "", "b")
    addresses.notice(change(node("b"), CacheEventType.DELETED))
    assert set(addresses.current()) == {ip_address("192.0.2.2")}


@pytest.mark.parametrize("nodes", [50, 500])
def test_a_connection_looks_only_at_nodes_that_changed(nodes: int) -> None:
    reader = CountingReader()
    for number in range(nodes):
        reader.put(SYSTEM, NODES, node(f"n{number}", f"192.0.{number // 250}.{number % 250}"))
    addresses = NodeAddresses(reader)
    addresses.current()
    reader.read = 0
    addresses.notice(change(reader.put(SYSTEM, NODES, node("n7", "198.51.100.7"))))
    for _ in range(100):
        assert ip_address("198.51.100.7") in addresses.current()
    assert reader.read == 1
