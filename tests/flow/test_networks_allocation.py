"""Allocators on a real API server: several at once, cut off and restarted, never give out one address twice."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, ip_address, ip_network
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client import kubeconfig
from alcove.client.client import Client
from alcove.client.errors import Unreachable
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.client.resources import SUBNETS, VPC_ENDPOINTS
from alcove.client.transport import Transport
from alcove.testing.faults import CALM, FaultyTransport, Odds
from alcove.testing.server import LocalServer
from alcove.vpc import ranges
from alcove.vpc.addressing import AddressPool, EndpointPurpose
from alcove.vpc.allocator import AddressAllocator, AddressRequest
from alcove.vpc.errors import AddressTaken, OutOfRange, RangeFull
from alcove.vpc.vpc_cache import VpcCache

_SCOPES = count(1000)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with LocalServer(tmp_path_factory.mktemp("allocation")) as server:
        yield server.admin_kubeconfig


@asynccontextmanager
async def allocator(path: Path, transport: Transport | None = None) -> AsyncIterator[AddressAllocator]:
    """One with a view of its own, as a process of its own would have it."""
    transport = transport or HttpPool(kubeconfig.load(path))
    async with Planes() as planes:
        cache = VpcCache(planes, lambda: 0.0)
        planes.join(HOME, transport)
        await planes.synced()
        yield AddressAllocator(cache, asyncio.get_running_loop().time)
    await transport.close()


@asynccontextmanager
async def client(path: Path) -> AsyncIterator[Client]:
    transport = HttpPool(kubeconfig.load(path))
    yield Client(transport)
    await transport.close()


def address_pool(cidr: str = "10.0.0.0/24") -> AddressPool:
    scope = next(_SCOPES)
    return AddressPool(vpc="v", net=f"n{scope}", network=ip_network(cidr), scope=scope, vni=scope)


def purpose(number: int) -> EndpointPurpose:
    return EndpointPurpose(owner_uid=f"uid-{number}", what=f"test/{number}")


async def endpoints(path: Path, address_range: AddressPool) -> list[Object]:
    async with client(path) as asked:
        return await asked.list(SYSTEM, VPC_ENDPOINTS, fields=f"spec.net={address_range.net}")


async def test_lowest_first_and_freed_ones_again(path: Path) -> None:
    address_range = address_pool()
    async with allocator(path) as one, client(path) as asked:
        made = [await one.claim(address_range, purpose(number)) for number in range(5)]
        assert [each["spec"]["ip"] for each in made] == [f"10.0.0.{n}" for n in range(2, 7)]
        for each in (made[3], made[1]):
            await asked.delete(SYSTEM, VPC_ENDPOINTS, each["metadata"]["name"])
        pool = one.pool(address_range)
        while pool.used > 3:  # noqa: ASYNC110 - the server's state has no event of its own
            await asyncio.sleep(0.01)
        again = [(await one.claim(address_range, purpose(number)))["spec"]["ip"] for number in range(3)]
        assert again == ["10.0.0.3", "10.0.0.5", "10.0.0.7"]


@pytest.mark.parametrize("chosen", [None, ip_address("10.0.0.9")])
@pytest.mark.parametrize("sees", [True, False])
async def test_who_claims_again_after_a_lost_response_has_one_address(
    path: Path, chosen: IPv4Address | None, sees: bool
) -> None:
    """A pod got a second address, and lost the one that its node had given it already."""
    address_range = address_pool()
    transport = FaultyTransport(HttpPool(kubeconfig.load(path)), random.Random(1))
    async with allocator(path, transport) as one, client(path) as asked:
        first = await one.claim(address_range, purpose(1))
        transport.odds = Odds(lost_after=1.0)
        with pytest.raises(Unreachable):
            await one.claim(address_range, purpose(2), chosen)
        transport.odds = CALM
        await asked.delete(SYSTEM, VPC_ENDPOINTS, first["metadata"]["name"])  # The lowest is another one now.
        pool = one.pool(address_range)
        while sees and (pool.used, pool.is_taken(ip_address("10.0.0.2"))) != (1, False):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        again = await one.claim(address_range, purpose(2), chosen)
        assert again["spec"]["ip"] == str(chosen or "10.0.0.3")
    assert len(await endpoints(path, address_range)) == 1


async def test_chosen_addresses(path: Path) -> None:
    address_range = address_pool()
    async with allocator(path) as one, allocator(path) as other:
        chosen = await one.claim(address_range, purpose(1), ip_address("10.0.0.200"))
        assert chosen["spec"]["ip"] == "10.0.0.200"
        for rival in (one, other):
            with pytest.raises(AddressTaken, match=r"10\.0\.0\.200 is taken"):
                await rival.claim(address_range, purpose(2), ip_address("10.0.0.200"))
        for wrong in ("10.0.0.0", "10.0.0.1", "10.0.0.255", "10.0.1.5", "fd00::5"):
            with pytest.raises(OutOfRange, match=str(address_range.network)):
                await one.claim(address_range, purpose(3), ip_address(wrong))
    assert len(await endpoints(path, address_range)) == 1


async def test_wishes_are_checked_together_before_any_is_fulfilled(path: Path) -> None:
    first, second = address_pool("10.0.0.0/29"), address_pool("10.0.1.0/30")
    async with allocator(path) as one:
        one.check([AddressRequest((first,))] * 5)
        one.check([AddressRequest((first, second))] * 6)
        with pytest.raises(RangeFull, match=r"10\.0\.0\.0/29"):
            one.check([AddressRequest((first,))] * 6)
        with pytest.raises(RangeFull, match=r"10\.0\.0\.0/29.*; .*10\.0\.1\.0/30"):
            one.check([AddressRequest((first, second))] * 7)
        await one.claim(first, purpose(1), ip_address("10.0.0.4"))
        with pytest.raises(AddressTaken):
            one.check([AddressRequest((first,)), AddressRequest((first,), ip_address("10.0.0.4"))])
        assert one.pool(first).used == 1, "asking takes nothing"


@pytest.mark.parametrize("cidr", ["10.0.0.0/25", "fd00::/121"])
async def test_rivals_never_share_an_address_and_find_every_one(path: Path, cidr: str) -> None:
    address_range = address_pool(cidr)
    size = ranges.last_usable(address_range.network) - ranges.first_usable(address_range.network) + 1
    refused = Counter[str]()

    async def take_all(one: AddressAllocator, first: int) -> list[str]:
        taken = []
        for number in range(first, first + size):
            try:
                taken.append((await one.claim(address_range, purpose(number)))["spec"]["ip"])
            except RangeFull:
                refused["full"] += 1
        return taken

    async with allocator(path) as a, allocator(path) as b, allocator(path) as c:
        taken = await asyncio.gather(
            *(take_all(each, number * 1000) for number, each in enumerate((a, b, c)))
        )
    everything = [ip for each in taken for ip in each]
    assert len(everything) == len(set(everything)) == size and refused["full"] == 2 * size
    assert sorted(each["spec"]["ip"] for each in await endpoints(path, address_range)) == sorted(everything)


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_model_with_rivals_crashes_and_restarts(path: Path, seed: int) -> None:
    asyncio.run(_scenario(path, random.Random(seed)))


async def _scenario(path: Path, chance: random.Random) -> None:
    """Workers claim and release; any of them may be cut off in the middle of anything and start anew,
    knowing only what the objects say."""
    address_range = address_pool("10.0.0.0/27")
    owners = count()
    held: dict[str, str] = {}
    """address → owner, of claims that were acknowledged and not yet given back."""

    async def work(one: AddressAllocator, asked: Client) -> None:
        while True:
            if chance.random() < 0.6 or not held:
                number = next(owners)
                try:
                    made = await one.claim(address_range, purpose(number))
                except RangeFull:
                    continue
                ip = made["spec"]["ip"]
                assert ip not in held, f"{ip} was given out twice"
                held[ip] = f"uid-{number}"
            else:
                ip = chance.choice(list(held))
                del held[ip]
                await asked.delete(SYSTEM, VPC_ENDPOINTS, f"{address_range.scope}-{ip}")
            await asyncio.sleep(0)

    async def life() -> None:
        async with allocator(path) as one, client(path) as asked:
            with_limit = asyncio.timeout(chance.uniform(0.02, 0.15))
            try:
                async with with_limit:
                    await work(one, asked)
            except TimeoutError:
                pass  # Cut off, wherever it was.

    async def lives() -> None:
        for _ in range(3):
            await life()

    await asyncio.gather(lives(), lives())
    there = {each["spec"]["ip"]: each for each in await endpoints(path, address_range)}
    for ip, owner in held.items():
        assert there[ip]["metadata"]["labels"]["mizar.com/owner"] == owner, "an acknowledged claim stays"
    async with allocator(path) as last, asyncio.timeout(60):
        pool = last.pool(address_range)
        # What was sent before a cut may still arrive: a new allocator comes to know exactly what the objects say.
        while pool.used != len(await endpoints(path, address_range)):  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.02)


async def test_a_range_of_16_million_addresses_is_not_walked(path: Path) -> None:
    address_range = address_pool("10.0.0.0/8")
    async with allocator(path) as one:
        assert (await one.claim(address_range, purpose(1)))["spec"]["ip"] == "10.0.0.2"
        assert one.pool(address_range).free == 2**24 - 3 - 1


async def test_the_index_of_a_deleted_subnet_is_dropped(path: Path) -> None:
    """An allocator grew with every subnet that had ever been."""
    address_range = address_pool()
    subnet = {
        "metadata": {"name": address_range.net},
        "spec": {"vpc": "v", "ip": "10.0.0.0", "prefix": 24, "vni": address_range.scope},
    }
    async with allocator(path) as one, client(path) as asked:
        await asked.create(SYSTEM, SUBNETS, subnet)
        await one.claim(address_range, purpose(1))
        assert one._pools
        await asked.delete(SYSTEM, SUBNETS, address_range.net)
        async with asyncio.timeout(60):
            while one._pools:  # noqa: ASYNC110 - waits for the mirror
                await asyncio.sleep(0.01)
