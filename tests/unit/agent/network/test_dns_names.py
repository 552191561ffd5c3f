"""The names of a network, as its services and their endpoints change."""

import asyncio
from ipaddress import ip_address

from alcove.agent.network.dns_names import DnsNames
from alcove.api.objects import Object
from alcove.client.planes import Planes
from alcove.dns.names import name_of
from alcove.dns.records import ADDRESSES_MAX, RecordType
from alcove.testing.loop_holds import LoopHolds
from alcove.testing.network_node import BACKING, NetworkNode

PER_SLICE = 1_000
SLICES = ADDRESSES_MAX // PER_SLICE + 1
HELD_MS_MAX = 25.0
"""It is a few milliseconds, on a busy machine some more; on the loop it would be a hundred and more."""
"""By one slice of 1,000 endpoints that is read. The whole service held the loop for 100 ms, at each change of one endpoint."""
DB = name_of("db.default.svc.cluster.local")


def put_service(node: NetworkNode, name: str, **more: object) -> None:
    spec: Object = {"clusterIP": "None", "network": BACKING.owner.name, **more}
    node.put("services", name, "default", metadata={"uid": f"uid-{name}"}, spec=spec)


def put_slice(node: NetworkNode, number: int, count: int = PER_SLICE, service: str = "db") -> None:
    first = 0x0A000000 + number * PER_SLICE
    endpoints = [
        {"addresses": [str(ip_address(first + at))], "hostname": f"h{number}-{at}"} for at in range(count)
    ]
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    metadata = {"labels": {"kubernetes.io/service-name": service}}
    more: Object = {"addressType": "IPv4", "endpoints": endpoints, "ports": ports}
    node.put("endpointslices", f"s{number}", "default", metadata=metadata, **more)


def addresses(node: NetworkNode, name: str = "db") -> int:
    sets = node.view.names.zone.find(name_of(f"{name}.default.svc.cluster.local")) or {}
    return len(sets.get(RecordType.A, ()))


async def until(node: NetworkNode, count: int) -> None:
    async with asyncio.timeout(60):
        while addresses(node) != count:  # noqa: ASYNC110 - a zone has no event
            await asyncio.sleep(0.001)


async def test_a_service_of_thousands_of_endpoints_does_not_hold_the_loop() -> None:
    async with Planes() as planes:
        node = NetworkNode(planes)
        put_service(node, "db")
        put_slice(node, 0)
        await until(node, PER_SLICE)
        async with LoopHolds() as holds:
            for number in range(SLICES):
                put_slice(node, number)
                await asyncio.sleep(0)
            await until(node, ADDRESSES_MAX)
            put_slice(node, 1, 0)
            put_slice(node, 2, PER_SLICE // 2)
            await until(node, (SLICES - 2) * PER_SLICE + PER_SLICE // 2)
            node.remove("services", "db", "default")
            await until(node, 0)
        assert holds.longest_ms < HELD_MS_MAX
        zone = node.view.names.zone
        assert zone.find(DB) is None and len(zone) == 2 and not zone._slices
        node.close()


async def test_only_endpoints_of_headless_services_of_the_network_are_kept() -> None:
    """Every network of a tenant kept every slice of it, parsed."""
    async with Planes() as planes:
        node = NetworkNode(planes)
        zone = node.view.names.zone
        put_slice(node, 0, 3)
        assert not zone._slices and not addresses(node)
        put_service(node, "db", network="another")
        assert not zone._slices and not addresses(node)
        put_service(node, "db", clusterIP="10.96.0.9", clusterIPs=["10.96.0.9"])
        assert not zone._slices and addresses(node) == 1
        put_service(node, "db")
        assert len(zone._slices) == 1 and addresses(node) == 3
        put_slice(node, 1, 2)
        assert addresses(node) == 5
        put_slice(node, 1, 2, "other")
        assert len(zone._slices) == 1 and addresses(node) == 3
        put_service(node, "db", clusterIP="10.96.0.9", clusterIPs=["10.96.0.9"])
        assert not zone._slices and addresses(node) == 1
        node.close()


async def test_a_network_that_comes_later_has_the_names_of_all_services() -> None:
    async with Planes() as planes:
        node = NetworkNode(planes)
        for number in range(500):
            put_service(node, f"s{number}")
            put_slice(node, number, 1, f"s{number}")
        filled = asyncio.Event()
        later = DnsNames(node.tenant, BACKING, "cluster.local", node.work, node.budget, filled.set)
        later.begin_filling()
        assert not later.is_filled(), "pods would not find what is not filled"
        async with asyncio.timeout(30):
            await filled.wait()
        assert later.is_filled() and len(later.zone) == len(node.view.names.zone) == 2 + 5 * 500
        later.close()
        node.close()


async def test_a_service_that_does_not_fit_has_no_names_until_it_fits() -> None:
    async with Planes() as planes:
        node = NetworkNode(planes, records_max=2 * 65, tenant_max=64)
        names = node.view.names
        put_service(node, "db")
        put_slice(node, 0, 8)  # An address, a name, a pointer, two ports at two names: 56 records.
        assert addresses(node) == 8 and names.refused() == []
        put_service(node, "more")
        put_slice(node, 1, 3, "more")
        assert addresses(node, "more") == 0
        assert names.refused() == [("default", "more")] and names.refused() == [], "told once"
        assert addresses(node) == 8, "the others keep theirs"
        put_slice(node, 0, 2)
        assert names.refused() == [] and addresses(node, "more") == 3, "tried again at the next pass"
        put_slice(node, 0, 9)
        assert addresses(node) == 0 and names.refused() == [("default", "db")]
        node.remove("services", "more", "default")
        node.remove("services", "db", "default")
        assert names.refused() == [] and node.budget.used(BACKING.owner.tenant) == 2
        node.close()
        assert node.budget.used(BACKING.owner.tenant) == 0
