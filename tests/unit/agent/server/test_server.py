"""The node's server over TLS on uvloop: which connections stay, and which are closed."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import uvloop

from alcove.agent.cgroups import CgroupUsage as Used
from alcove.agent.podkey import PodKey
from alcove.agent.runtime.base import ContainerId, ContainerRuntime, ContainerSpec
from alcove.agent.runtime.hollow import HollowRuntime
from alcove.agent.server import server as module
from alcove.agent.server.callers import AuthorizedCallers
from alcove.agent.server.requests import NodeRequest
from alcove.agent.server.running_containers import ContainerHandle, RunningContainers
from alcove.agent.server.server import AgentServer
from alcove.agent.server.usage import UsageMeter
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.node_api import API_SERVER_GROUP, API_SERVER_USER, pod_path
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.auth.subjects import Subject
from alcove.client.keys import HOME, PlaneId

PATH = pod_path("system", "acme", "default", "web", "u1", "log")


class Pod:
    def __init__(self, folder: Path) -> None:
        self.key = PodKey(HOME, TenantId("acme"), "default", "web", "u1")
        self.pod = {"metadata": {"name": "web"}}
        self.runtime = cast(ContainerRuntime, HollowRuntime())
        self.log = folder / "0.log"
        self.containers = {"main": ContainerHandle(ContainerId("c"), self.log)}


class Pods:
    def __init__(self, pod: Pod) -> None:
        self.pod = pod

    def find(self, plane: PlaneId, tenant: TenantId, namespace: str, name: str) -> Pod | None:
        key = self.pod.key
        found = (key.plane, key.tenant, key.namespace, key.name) == (plane, tenant, namespace, name)
        return self.pod if found else None

    def all(self) -> list[Pod]:
        return [self.pod]


class ServerLab:
    def __init__(self, folder: Path) -> None:
        now = time.time()
        authority = CertificateAuthority.open(folder / "pki", now)
        serving = authority.serving(["127.0.0.1"], now)
        client = authority.client(Subject(SYSTEM, API_SERVER_USER, (API_SERVER_GROUP,)), now)
        self.pair, self.own = folder / "serving.pem", folder / "client.pem"
        self.pair.write_bytes(serving.certificate_pem + serving.key_pem)
        self.own.write_bytes(client.certificate_pem + client.key_pem)
        self.authority = authority
        self.pod = Pod(folder)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[AgentServer]:
        callers = AuthorizedCallers(self.pair)
        callers.trust(HOME, self.authority.certificate_pem)
        pods = cast(RunningContainers, Pods(self.pod))
        async with AgentServer(pods, callers, "127.0.0.1", 0, UsageMeter(pods, lambda: Used())) as server:
            yield server

    async def ask(self, server: AgentServer, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(cadata=self.authority.certificate_pem.decode())
        context.load_cert_chain(self.own)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: n\r\n\r\n".encode())
        return reader, writer


@pytest.fixture
def lab(tmp_path: Path) -> ServerLab:
    return ServerLab(tmp_path)


def run(work: Callable[[], Awaitable[None]]) -> None:
    """On uvloop, as agents do."""

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


def test_a_follower_stays_while_it_is_there_and_is_noticed_when_it_leaves(
    lab: ServerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WATCH_SECONDS", 0.05)
    lab.pod.log.write_text("2026-01-02T03:04:05.0+00:00 stdout F first\n")

    async def work() -> None:
        await lab.pod.runtime.create(_spec())
        async with lab.serving() as server:
            reader, writer = await lab.ask(server, f"{PATH}?container=main&follow=true")
            await reader.readuntil(b"first\n")
            await asyncio.sleep(0.3)
            with lab.pod.log.open("a") as file:
                file.write("2026-01-02T03:04:06.0+00:00 stdout F second\n")
            await reader.readuntil(b"second\n")
            writer.transport.abort()
            while server.connections:  # noqa: ASYNC110 - there is no callback.
                await asyncio.sleep(0.01)

    run(work)


def test_a_request_for_a_pod_of_another_node_is_not_found(lab: ServerLab) -> None:
    other = pod_path("system", "acme", "default", "web", "u2", "log")
    elsewhere = pod_path("beta", "acme", "default", "web", "u1", "log")

    async def work() -> None:
        async with lab.serving() as server:
            for path, code in (
                (other, 404),
                (elsewhere, 403),
                ("/nothing", 404),
                ("/healthz", 200),
                ("/usage", 200),
            ):
                reader, writer = await lab.ask(server, path)
                assert f"HTTP/1.1 {code} ".encode() in await reader.readuntil(b"\r\n"), path
                writer.close()
            reader, writer = await lab.ask(server, f"{PATH}?container=other")
            assert b"HTTP/1.1 404 " in await reader.readuntil(b"\r\n")
            writer.close()

    run(work)


def test_connections_for_one_tenants_pods_leave_some_for_others(
    lab: ServerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tenants had one number of connections together."""
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 16)
    monkeypatch.setattr(module, "TENANT_CONNECTIONS_MAX", 2)
    other = pod_path("system", "other", "default", "web", "u1", "log")

    async def work() -> None:
        await lab.pod.runtime.create(_spec())
        async with lab.serving() as server:
            held = [await lab.ask(server, f"{PATH}?container=main&follow=true") for _ in range(2)]
            for reader, _ in held:
                await reader.readuntil(b"\r\n\r\n")
            for path, code in ((PATH, 503), (other, 404), ("/healthz", 200)):
                reader, writer = await lab.ask(server, f"{path}?container=main")
                assert f"HTTP/1.1 {code} ".encode() in await reader.readuntil(b"\r\n"), path
                writer.transport.abort()
            for _, writer in held:
                writer.transport.abort()

    run(work)


@pytest.mark.parametrize(
    ("plane", "path", "group"),
    [
        ("system", ("pods", "system", "acme", "default", "web", "u1", "log"), "system/acme"),
        ("system", ("flows", "system", "acme"), "system/acme"),
        ("system", ("healthz",), "ring0"),
        ("evil", ("pods", "evil", "made-up-1", "default", "web", "u1", "log"), "evil/"),
        ("evil", ("networks", "evil", "made-up-2", "default"), "evil/"),
        ("ring0", ("healthz",), "ring0/"),
    ],
)
def test_whose_connection_it_is(plane: str, path: tuple[str, ...], group: str) -> None:
    """A dedicated plane's API server may name any number of tenants, and has one share."""
    request = NodeRequest("GET", path, {}, {})
    assert module._group_of(PlaneId(plane), request) == group


def _spec() -> ContainerSpec:
    return ContainerSpec(ContainerId("c"), ContainerId("c"), {}, Path("/nonexistent"))
