"""Services resolve to ready endpoints at the service's target port; hosts are looked up with few threads per
tenant."""

import asyncio
import threading
from ipaddress import ip_address
from typing import Any

import pytest

from alcove.api.ids import TenantId
from alcove.api.resources import ENDPOINT_SLICES, SERVICES
from alcove.apiserver.outbound import resolver as names_module
from alcove.apiserver.outbound.errors import TooManyCalls, WebhookError
from alcove.apiserver.outbound.resolver import LOOKUPS_PER_TENANT, OutboundResolver
from alcove.testing.memory_reader import MemoryReader

ACME, OTHER = TenantId("acme"), TenantId("other")


def service(name: str = "s", **spec: Any) -> dict[str, Any]:
    ports = [{"name": "https", "port": 443}, {"name": "metrics", "port": 9090}]
    return {"metadata": {"name": name, "namespace": "n"}, "spec": {"ports": ports, **spec}}


def endpoints(
    name: str,
    of: str,
    addresses: list[str],
    *,
    ready: bool = True,
    port: int = 8443,
    pod: str = "",
    namespace: str = "n",
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "n", "labels": {"kubernetes.io/service-name": of}}
    endpoint: dict[str, Any] = {"addresses": addresses, "conditions": {"ready": ready}}
    if pod:
        endpoint["targetRef"] = {"kind": "Pod", "name": pod, "uid": "u", "namespace": namespace}
    return {
        "metadata": metadata,
        "ports": [{"name": "https", "port": port}, {"name": "metrics", "port": 1}],
        "endpoints": [endpoint],
    }


@pytest.fixture
def reader() -> MemoryReader:
    reader = MemoryReader()
    reader.put(ACME, SERVICES, service())
    reader.put(ACME, ENDPOINT_SLICES, endpoints("s-1", "s", ["10.0.0.1", "10.0.0.2"]))
    reader.put(ACME, ENDPOINT_SLICES, endpoints("s-2", "s", ["10.0.0.3"], ready=False))
    reader.put(ACME, ENDPOINT_SLICES, endpoints("t-1", "t", ["10.0.0.4"]))
    return reader


def test_a_service_is_its_ready_endpoints(reader: MemoryReader) -> None:
    service = OutboundResolver(reader).service(ACME, "n", "s", 443)
    found = sorted((str(each.address), each.port) for each in service.backends)
    assert found == [("10.0.0.1", 8443), ("10.0.0.2", 8443)]
    assert service.network == "default"


def test_endpoints_of_one_service_may_have_different_ports_and_networks(reader: MemoryReader) -> None:
    reader.put(ACME, SERVICES, service(network="own"))
    reader.put(ACME, ENDPOINT_SLICES, endpoints("s-3", "s", ["10.0.0.9"], port=9443))
    resolved = OutboundResolver(reader).service(ACME, "n", "s", 443)
    assert {(str(each.address), each.port) for each in resolved.backends} >= {
        ("10.0.0.1", 8443),
        ("10.0.0.9", 9443),
    }
    assert resolved.network == "own"


@pytest.mark.parametrize(("namespace", "pod"), [("n", "p"), ("other", "")])
def test_an_endpoint_names_a_pod_of_its_own_namespace(namespace: str, pod: str) -> None:
    reader = MemoryReader()
    reader.put(ACME, SERVICES, service())
    reader.put(ACME, ENDPOINT_SLICES, endpoints("s-1", "s", ["10.0.0.1"], pod="p", namespace=namespace))
    [backend] = OutboundResolver(reader).service(ACME, "n", "s", 443).backends
    assert (backend.pod, backend.pod_uid) == (pod, "u" if pod else "")


@pytest.mark.parametrize(
    ("tenant", "name", "port", "message"),
    [
        (ACME, "ghost", 443, 'service "ghost" not found'),
        (OTHER, "s", 443, 'service "s" not found'),
        (ACME, "s", 80, 'no service port 80 found for service "s"'),
        (ACME, "lonely", 443, 'no endpoints available for service "lonely"'),
    ],
)
def test_services_that_lead_nowhere(
    reader: MemoryReader, tenant: TenantId, name: str, port: int, message: str
) -> None:
    reader.put(ACME, SERVICES, service("lonely"))
    with pytest.raises(WebhookError, match=message):
        OutboundResolver(reader).service(tenant, "n", name, port)


async def test_addresses_need_no_lookup() -> None:
    names = OutboundResolver(MemoryReader())
    assert await names.host(ACME, "192.0.2.7", 8443) == names_module.ResolvedEndpoint(
        (ip_address("192.0.2.7"),), 8443
    )


async def test_a_slow_name_server_delays_its_tenant_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    hang = threading.Event()

    def resolve(host: str) -> tuple[Any, ...]:
        if host.startswith("slow"):
            hang.wait(60)
        return (ip_address("192.0.2.1"),)

    monkeypatch.setattr(names_module, "_resolve", resolve)
    names = OutboundResolver(MemoryReader())
    slow = [asyncio.create_task(names.host(ACME, f"slow{each}", 1)) for each in range(LOOKUPS_PER_TENANT)]
    try:
        await asyncio.sleep(0)
        with pytest.raises(TooManyCalls):
            await names.host(ACME, "quick", 1)
        # Giving up does not give the thread back.
        slow[0].cancel()
        await asyncio.gather(slow[0], return_exceptions=True)
        with pytest.raises(TooManyCalls):
            await names.host(ACME, "quick", 1)
        assert (await names.host(OTHER, "quick", 1)).port == 1
    finally:
        hang.set()
        await asyncio.gather(*slow, return_exceptions=True)
    names._threads.shutdown(wait=True)
    async with asyncio.timeout(60):
        while names._lookups:  # noqa: ASYNC110 - nothing signals that the threads have ended
            await asyncio.sleep(0.01)


async def test_a_lookup_is_kept_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups: list[str] = []

    def resolve(host: str) -> tuple[Any, ...]:
        lookups.append(host)
        return ()

    monkeypatch.setattr(names_module, "_resolve", resolve)
    now = [0.0]
    names = OutboundResolver(MemoryReader(), lambda: now[0])
    for seconds in (0, 1, names_module.KEPT_SECONDS + 1):
        now[0] += seconds
        await names.host(ACME, "a.example.com", 1)
    assert len(lookups) == 2
    names.close()


async def test_a_name_longer_than_dns_has_is_neither_looked_up_nor_remembered(
    reader: MemoryReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant could fill the server's memory with the names of webhooks."""
    asked: list[str] = []

    def look_up(host: str) -> tuple[()]:
        asked.append(host)
        return ()

    monkeypatch.setattr(names_module, "_resolve", look_up)
    resolver = OutboundResolver(reader)
    for length in (253, 100_000):
        assert (await resolver.host(ACME, "a" * length, 443)).addresses == ()
    assert [len(host) for host in asked] == [253] == [len(host) for host in resolver._cached]


def test_of_a_service_with_more_endpoints_than_are_needed_only_some_are_read(
    reader: MemoryReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names_module, "SLICES_BYTES_MAX", 5_000)
    for number in range(100):
        addresses = [f"10.1.{number}.{last}" for last in range(1, 101)]
        reader.put(ACME, ENDPOINT_SLICES, endpoints(f"s-{number:03}", "s", addresses))
        reader.put(ACME, ENDPOINT_SLICES, endpoints(f"a-{number:03}", "other", addresses))
    found = OutboundResolver(reader).service(ACME, "n", "s", 443).backends
    assert 100 <= len(found) <= 500
