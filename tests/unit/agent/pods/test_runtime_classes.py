"""Which runtime a pod gets by its class: never less than its tenant gets anyway, unless ring0 offers it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import orjson
import pytest

from alcove.agent.podkey import PodKey
from alcove.agent.pods.executor import PodSetupError
from alcove.agent.pods.runtime_classes import RuntimeClasses
from alcove.agent.runtime.base import ContainerRuntime, HandlerName, Isolation
from alcove.agent.runtime.handlers import RuntimeHandlers
from alcove.agent.runtime.hollow import HollowRuntime
from alcove.api.ids import SYSTEM, TenantId
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.transport import Stream
from alcove.http.client import ReceivedResponse

ACME = PodKey(HOME, TenantId("acme"), "default", "web", "u")
RING0 = PodKey(HOME, SYSTEM, "default", "web", "u")


class Server:
    """Has runtime classes: (tenant, name) → handler."""

    def __init__(self, classes: dict[tuple[str, str], str]) -> None:
        self._classes = classes
        self.asked = 0

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        self.asked += 1
        parts = path.split("/")
        handler = self._classes.get((parts[5], parts[7]))
        if handler is None:
            return ReceivedResponse(
                404, {}, orjson.dumps({"kind": "Status", "code": 404, "reason": "NotFound"})
            )
        metadata = {"tenant": parts[5], "name": parts[7]}
        return ReceivedResponse(200, {}, orjson.dumps({"metadata": metadata, "handler": handler}))

    @asynccontextmanager
    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[Stream]:
        raise AssertionError("nobody watches")
        yield

    async def close(self) -> None:
        return


def runtime(name: str, isolation: Isolation) -> ContainerRuntime:
    made = HollowRuntime()
    made.handler, made.isolation = HandlerName(name), isolation
    return made


def handlers() -> RuntimeHandlers:
    proven = {
        HandlerName("crun"): runtime("crun", Isolation.NAMESPACES),
        HandlerName("gvisor"): runtime("gvisor", Isolation.SANDBOX),
    }
    return RuntimeHandlers(proven, {})


async def picked(key: PodKey, name: str, server: Server) -> str:
    planes = Planes()
    planes.join(HOME, server)
    spec = {"runtimeClassName": name} if name else {}
    return (await RuntimeClasses(planes, handlers()).pick(key, spec)).handler


async def test_without_a_class() -> None:
    assert await picked(ACME, "", Server({})) == "gvisor"
    assert await picked(RING0, "", Server({})) == "crun"


async def test_a_class_as_strong_as_usual() -> None:
    assert await picked(ACME, "strong", Server({("acme", "strong"): "gvisor"})) == "gvisor"
    assert await picked(RING0, "strong", Server({("system", "strong"): "gvisor"})) == "gvisor"


@pytest.mark.parametrize(
    ("offered", "may"),
    [({}, False), ({("system", "plain"): "runc"}, False), ({("system", "plain"): "crun"}, True)],
)
async def test_a_weaker_one_only_if_ring0_offers_it(offered: dict[tuple[str, str], str], may: bool) -> None:
    server = Server({("acme", "plain"): "crun", **offered})
    if may:
        assert await picked(ACME, "plain", server) == "crun"
    else:
        with pytest.raises(PodSetupError, match="isolates less than the tenant default"):
            await picked(ACME, "plain", server)


async def test_what_is_not_there() -> None:
    with pytest.raises(PodSetupError, match='RuntimeClass "none" not found'):
        await picked(ACME, "none", Server({}))
    with pytest.raises(PodSetupError, match="kata"):
        await picked(ACME, "kata", Server({("acme", "kata"): "kata"}))
    for hostile in ("../../bin/sh", "/bin/sh", "x" * 10_000, "", "\0"):
        server = Server({("acme", "own"): hostile or " "})
        with pytest.raises(PodSetupError, match="is not installed"):
            await picked(ACME, "own", server)


async def test_answers_are_remembered_for_a_while() -> None:
    now = 0.0
    server = Server({("acme", "strong"): "gvisor"})
    async with Planes() as planes:
        planes.join(HOME, server)
        classes = RuntimeClasses(planes, handlers(), lambda: now)
        for _ in range(3):
            await classes.pick(ACME, {"runtimeClassName": "strong"})
        assert server.asked == 1
        now = 60.0
        await classes.pick(ACME, {"runtimeClassName": "strong"})
        assert server.asked == 2


async def test_a_trusted_tenant_gets_what_ring0_gets() -> None:
    planes = Planes()
    planes.join(HOME, Server({("acme", "plain"): "crun"}))
    classes = RuntimeClasses(planes, handlers(), is_trusted=lambda key: key == ACME)
    assert [(await classes.pick(key, {})).handler for key in (ACME, RING0)] == ["crun", "gvisor"]
    assert (await classes.pick(ACME, {"runtimeClassName": "plain"})).handler == "crun"
