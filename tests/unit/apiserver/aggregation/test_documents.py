"""Documents of extension servers: who waits for them, and how many are kept."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec.structs import replace

from alcove.api.errors import ServiceUnavailable
from alcove.api.ids import TenantId
from alcove.apiserver.aggregation import documents
from alcove.apiserver.aggregation.documents import ExtensionDocuments
from alcove.apiserver.aggregation.proxying import ExtensionProxy
from alcove.apiserver.aggregation.registrations import ExtensionServer, Registration
from alcove.apiserver.buffers import BufferLimits, TenantBuffers
from alcove.http.client import ReceivedResponse

ACME, BETA = TenantId("acme"), TenantId("beta")
SERVER = ExtensionServer("n", "s", 443, "", False)


def registration(group: str = "x.io") -> Registration:
    return Registration(f"v1.{group}", "u", group, "v1", SERVER, 100, 10, True)


class Servers:
    """Stands for the proxy: what extension servers answer, by path."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer: Callable[[str], bytes | Exception] = lambda path: path.encode()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def fetch(self, _tenant: TenantId, _registration: Any, path: str, *rest: Any) -> ReceivedResponse:
        self.asked.append(path)
        await self.go_on.wait()
        answer = self.answer(path)
        if isinstance(answer, Exception):
            raise answer
        rest[-1](len(answer))
        return ReceivedResponse(200, {}, answer)


class Rig:
    def __init__(self) -> None:
        self.servers = Servers()
        self.now = 0.0
        self.buffers = TenantBuffers(BufferLimits(tenant_bytes_max=1_000_000_000))
        proxy = cast(ExtensionProxy, self.servers)
        self.documents = ExtensionDocuments(proxy, self.buffers, lambda: self.now)

    async def get(
        self, *registered: Registration, tenant: TenantId = ACME, path: str = ""
    ) -> list[bytes | None]:
        return await self.documents.get(tenant, registered or (registration(),), path)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr(documents, "WAIT_SECONDS_MAX", 0.5)
    return Rig()


async def test_a_document_is_fetched_once_and_again_when_it_is_old(rig: Rig) -> None:
    assert await rig.get() == await rig.get() == [b"/apis/x.io/v1"]
    assert len(rig.servers.asked) == 1
    rig.servers.answer = lambda _path: b"new"
    rig.now = documents.KEPT_SECONDS + 1
    assert await rig.get() == [b"/apis/x.io/v1"], "nobody waits for a newer one"
    await asyncio.gather(*rig.documents._fetching.values())
    assert await rig.get() == [b"new"]


async def test_a_document_that_does_not_fit_in_its_tenants_memory_is_missing(rig: Rig) -> None:
    rig.buffers.reserve(ACME, 1_000_000_000)
    assert await rig.get() == [None]
    assert await rig.get(tenant=BETA) == [b"/apis/x.io/v1"]
    assert (rig.buffers.of(ACME), rig.buffers.of(BETA)) == (1_000_000_000, 0)


async def test_only_the_first_request_waits_for_a_server_that_hangs(rig: Rig) -> None:
    rig.servers.go_on.clear()
    loop = asyncio.get_running_loop()
    started = loop.time()
    assert await rig.get() == [None]
    assert loop.time() - started >= documents.WAIT_SECONDS_MAX
    assert len(rig.servers.asked) == 1
    rig.servers.go_on.set()
    await asyncio.gather(*rig.documents._fetching.values())
    assert await rig.get() == [b"/apis/x.io/v1"]


async def test_a_failure_is_kept_for_a_moment_and_nobody_waits_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.servers.answer = lambda _path: ServiceUnavailable("down")
    assert await rig.get() == await rig.get() == [None]
    assert len(rig.servers.asked) == 1
    rig.now = documents.FAILED_SECONDS + 1
    rig.servers.go_on.clear()
    monkeypatch.setattr(documents, "WAIT_SECONDS_MAX", 600.0)
    async with asyncio.timeout(60):
        assert await rig.get() == [None]
    await asyncio.sleep(0)
    assert len(rig.servers.asked) == 2
    await rig.documents.close()


async def test_what_is_not_available_is_not_asked_and_what_is_again_is_asked_at_once(rig: Rig) -> None:
    rig.servers.answer = lambda _path: ServiceUnavailable("down")
    assert await rig.get() == [None]
    assert await rig.get(replace(registration(), is_available=False)) == [None]
    assert len(rig.servers.asked) == 1
    rig.servers.answer = lambda _path: b"up"
    assert await rig.get(replace(registration(), version_priority=11)) == [b"up"]
    assert len(rig.documents._kept[ACME]) == 1, "that of the earlier state is dropped"


async def test_bytes_are_bounded_for_a_tenant_and_in_total(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "TENANT_BYTES_MAX", 4_000)
    monkeypatch.setattr(documents, "TOTAL_BYTES_MAX", 6_000)
    rig.servers.answer = lambda _path: b"x" * 1_000
    await rig.get(registration("b.io"), tenant=BETA)
    for number in range(20):
        await rig.get(registration(f"g{number}.io"))
    assert len(rig.documents._kept[ACME]) == 3
    assert await rig.get(registration("b.io"), tenant=BETA) == [b"x" * 1_000]
    assert len(rig.servers.asked) == 21, "the other tenant's is kept"
    for number in range(4):
        await rig.get(tenant=TenantId(f"t{number}"))
    assert sum(rig.documents._bytes.values()) <= 6_000
    kept = sum(each.size for tenant in rig.documents._kept.values() for each in tenant.values())
    assert kept == sum(rig.documents._bytes.values())
