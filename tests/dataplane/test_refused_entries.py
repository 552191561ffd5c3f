"""Entries that the kernel refuses, in real maps that are small."""

from collections.abc import Iterator
from ipaddress import ip_address, ip_network

import pytest

from alcove.dataplane.apply import MapChange, apply
from alcove.dataplane.bpf import Map, create_map
from alcove.dataplane.desired import Entries, endpoint_key
from alcove.dataplane.maps import ENDPOINT, SHAPES, WORD, MapName
from alcove.dataplane.model import PrefixBlock, TrafficProfile, TrafficRule
from alcove.dataplane.policies import compile_profile
from alcove.testing.nodes import lacking

WHY = lacking()
pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(WHY), reason=WHY)]
HASH = 1
ROOM = 4


@pytest.fixture
def maps() -> Iterator[dict[MapName, Map]]:
    names = (MapName.NETWORKS, MapName.POLICY_PEERS, MapName.ENDPOINTS, MapName.DOORS)
    made = {
        name: create_map(name.value, HASH, SHAPES[name].key.size, SHAPES[name].value.size, ROOM)
        for name in names
    }
    yield made
    for each in made.values():
        each.close()


def unseen(_step: str) -> None:
    pass


def test_one_entry_too_many_costs_itself_alone(maps: dict[MapName, Map]) -> None:
    networks = {SHAPES[MapName.NETWORKS].key.pack(vni): WORD.pack(1) for vni in range(ROOM + 2)}
    doors = {bytes([port]) + bytes(19): WORD.pack(1) for port in range(ROOM)}
    held: Entries = {}
    changes = [MapChange(MapName.NETWORKS, puts=networks), MapChange(MapName.DOORS, puts=doors)]
    [refused] = apply(maps, changes, held, unseen)
    assert (refused.name, len(refused.keys)) == (MapName.NETWORKS, 2)
    assert held == {name: one.items() for name, one in maps.items() if name in held}, "held is what is there"
    assert len(held[MapName.NETWORKS]) == ROOM
    assert held[MapName.DOORS] == doors, "a map that comes later"
    gone = tuple(list(held[MapName.NETWORKS])[:2])
    assert apply(maps, [MapChange(MapName.NETWORKS, deletes=gone)], held, unseen) == []
    late = {key: networks[key] for key in refused.keys}
    assert apply(maps, [MapChange(MapName.NETWORKS, puts=late)], held, unseen) == [], "there is room again"


def test_a_policy_that_lacks_an_exception_does_not_come_into_force(maps: dict[MapName, Map]) -> None:
    """The prefix that is missing may be one that denies what a shorter one allows."""
    excepts = tuple(ip_network(f"10.{n}.0.0/16") for n in range(ROOM + 1))
    large = compile_profile(TrafficProfile((TrafficRule((PrefixBlock(ip_network("10.0.0.0/8"), excepts),)),)))

    def endpoint(policy: int) -> bytes:
        return ENDPOINT.pack(bytes(4), 1, bytes(6), 0, 0, policy, 0)

    guarded, free, new = (endpoint_key(7, ip_address(f"10.0.0.{n}")) for n in (1, 2, 3))
    held: Entries = {}
    assert apply(maps, [MapChange(MapName.ENDPOINTS, puts={guarded: endpoint(5)})], held, unseen) == []
    wanted = {guarded: endpoint(large.name), free: endpoint(0), new: endpoint(large.name)}
    changes = [
        MapChange(MapName.POLICY_PEERS, puts=large.peers),
        MapChange(MapName.ENDPOINTS, puts=wanted),
    ]
    [refused] = apply(maps, changes, held, unseen)
    assert refused.name is MapName.POLICY_PEERS
    assert maps[MapName.ENDPOINTS].items() == {guarded: endpoint(5), free: endpoint(0)}
    assert held[MapName.ENDPOINTS] == maps[MapName.ENDPOINTS].items()
