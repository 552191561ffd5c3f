"""Where the addresses of a network are, as endpoints and nodes change."""

from ipaddress import IPv4Address

from alcove.agent.network.endpoint_index import EndpointIndex
from alcove.api.ids import SYSTEM, Revision
from alcove.api.kinds.mizar import OWNER_LABEL
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.network.endpoints import EndpointAllocation

A, B, C = (IPv4Address(f"192.0.2.{number}") for number in (1, 2, 3))


def endpoint(name: str, ip: str, droplet: str, pod: str = "acme/default/web") -> Object:
    spec = {"type": "simple", "vni": 7, "ip": ip, "droplet": droplet, "pod": pod}
    return {"metadata": {"tenant": SYSTEM, "name": name, "labels": {OWNER_LABEL: pod}}, "spec": spec}


async def test_nodes_without_endpoints_change_nothing() -> None:
    async with Planes() as planes:
        index = EndpointIndex(planes, "spec.vni=7", lambda _: None, lambda: None)
        [mirror] = planes.mirrors()
        plane = mirror.add_plane(HOME)
        plane.put(endpoint("e1", "10.0.0.1", "a"), Revision(1))
        plane.put(endpoint("e2", "10.0.0.2", "b"), Revision(2))
        located = index.endpoints({"a": A})
        assert [each.node for each in located] == [A]
        assert index.endpoints({"a": A, "c": C}) is located
        both = index.endpoints({"a": A, "b": B, "c": C})
        assert [each.node for each in both] == [A, B]
        assert [each.node for each in index.endpoints({"a": C, "b": B})] == [C, B]
        plane.put(endpoint("e2", "10.0.0.2", "c"), Revision(3))
        assert [each.node for each in index.endpoints({"a": A, "b": B, "c": C})] == [A, C]


async def test_an_endpoint_that_changes_its_owner_concerns_both() -> None:
    changed: list[EndpointAllocation] = []
    async with Planes() as planes:
        index = EndpointIndex(planes, "spec.vni=7", changed.append, lambda: None)
        [mirror] = planes.mirrors()
        plane = mirror.add_plane(HOME)
        plane.put(endpoint("e1", "10.0.0.1", "a"), Revision(1))
        plane.put(endpoint("e1", "10.0.0.1", "a", "acme/default/db"), Revision(2))
        assert [each.owner.name for each in changed if each.owner] == ["web", "web", "db"]
        assert not index.for_owner("acme/default/web") and index.for_owner("acme/default/db")
