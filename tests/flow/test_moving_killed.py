"""Controllers or API servers are killed after any write while a tenant moves: the move goes on or goes back, no object is lost
or doubled, and the tenant is never open on both API servers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http.client import HTTPException
from pathlib import Path

import pytest
from msgspec import structs

from alcove.api.objects import Object
from alcove.client import kubeconfig
from alcove.client.client import Client
from alcove.client.plane_joining import PlaneJoining
from alcove.client.planes import Planes
from alcove.client.pool import DEDICATED, HttpPool
from alcove.client.transport import Stream, Transport
from alcove.component.tasks import BackgroundTasks
from alcove.controllers.controller import ControllerOptions
from alcove.controllers.garbage import GarbageCollector
from alcove.controllers.planes import PlaneController, moving
from alcove.controllers.planes import controller as plane_controller
from alcove.controllers.planes.moving import TenantMove
from alcove.controllers.tenants import TenantController
from alcove.controllers.volumes import ClaimProtection
from alcove.http.client import ReceivedResponse
from alcove.processes.plane_certificates import plane_certificates
from alcove.processes.plane_follower import PlaneFollower, TenantPlanes
from alcove.testing.cluster import condition
from alcove.testing.controllers import RunningControllers
from alcove.testing.dedicated import DedicatedServer, HollowPlanes
from alcove.testing.server import Caller, LocalServer, wait_until

CONTROLLERS = (TenantController, PlaneController, GarbageCollector, ClaimProtection)
KUBE_SYSTEM = "/api/v1/namespaces/kube-system"
STEPS = range(1, 24)
QUICK = (8,)
"""The steps of every test run; the others are slow."""
SECONDS_MAX = 20.0
NO_END = 1_000_000


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with LocalServer(tmp_path_factory.mktemp("home")) as server:
        trust = f"{KUBE_SYSTEM}/configmaps/{plane_controller.TRUST_MAP}"
        wait_until(lambda: server.system.get(trust).status == 200)
        server.make_namespace("system", "kube-system")
        # The server's own is written anew at each start.
        kubeconfig_of(server).write_bytes(server.admin_kubeconfig.read_bytes())
        yield server


class WritesLeft:
    """How many writes the controllers make before something is killed, right after the last one."""

    def __init__(self, count: int, kill: Callable[[], None] | None = None) -> None:
        """`kill` kills another process, and starts it again; without it the controllers are dead."""
        self.count = count
        self.is_dead = False
        self._kill = kill

    async def reach(self) -> None:
        if self._kill is None:
            self.is_dead = True
            await asyncio.Event().wait()
        else:
            kill, self._kill, self.count = self._kill, None, NO_END
            await asyncio.to_thread(kill)


class Dying:
    def __init__(self, inner: Transport, left: WritesLeft) -> None:
        self._inner = inner
        self._left = left

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        if self._left.is_dead:
            await asyncio.Event().wait()
        if method != "GET":
            self._left.count -= 1
        response = await self._inner.request(method, path, headers, body)
        if method != "GET" and self._left.count <= 0:
            await self._left.reach()
        return response

    def stream(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(path, headers)

    async def close(self) -> None:
        await self._inner.close()


def kubeconfig_of(server: LocalServer) -> Path:
    return server.directory / "controllers.kubeconfig"


def living(home: LocalServer, left: WritesLeft) -> RunningControllers:
    """Controllers that end after some writes."""

    @asynccontextmanager
    async def connect(url: str, authority: str) -> AsyncIterator[Client]:
        user = structs.replace(kubeconfig.load(kubeconfig_of(home)), server=url, ca_pem=authority.encode())
        pool = HttpPool(user, DEDICATED)
        try:
            yield Client(Dying(pool, left))
        finally:
            await pool.close()

    async def follow(planes: Planes, tasks: BackgroundTasks) -> None:
        joining = PlaneJoining(planes, tasks)
        source = TenantPlanes(planes, kubeconfig_of(home))
        tasks.fatal("planes", PlaneFollower(source, joining, lambda _plane, _user: None).run())

    options = ControllerOptions(plane_certificates=plane_certificates(), connect_plane=connect)
    return RunningControllers(
        kubeconfig_of(home),
        CONTROLLERS,
        options,
        through=lambda transport: Dying(transport, left),
        follow=follow,
    )


def content(caller: Caller, tenant: str) -> dict[str, Object]:
    found: dict[str, Object] = {}
    for resource in ("namespaces", "namespaces/default/configmaps", "namespaces/default/serviceaccounts"):
        answer = caller.get(f"/api/v1/tenants/{tenant}/{resource}")
        assert answer.status == 200, answer.body
        for each in answer.json["items"]:
            each["metadata"].pop("resourceVersion")
            found[f"{resource}/{each['metadata']['name']}"] = each
    return found


def is_open(system: Caller, tenant: str) -> bool:
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/closed-tenant."
    return system.get(path + tenant).status == 404


class Move:
    """One tenant's move, whose API server this test runs, as a node would."""

    def __init__(self, home: LocalServer, tenant: str, directory: Path) -> None:
        self.tenant = tenant
        # A caller of its own: a thread that kills the server closes the server's.
        self.system = Caller(kubeconfig_of(home))
        self.planes = HollowPlanes(home, directory)
        self.plane: DedicatedServer | None = None
        self.on_plane: Caller | None = None

    def stop(self) -> None:
        if self.plane is not None:
            self.plane.stop()

    def found(self) -> Object:
        tenant: Object = self.system.get(f"/api/v1/tenants/{self.tenant}").json
        return tenant

    def request(self, mode: str) -> None:
        spec = {"spec": {"controlPlane": {"mode": mode}}}
        assert self.system.patch(f"/api/v1/tenants/{self.tenant}", spec).status == 200

    def has_moved(self, mode: str) -> bool:
        try:
            return self._has_moved(mode)
        except (OSError, HTTPException):
            return False  # A server was killed, and is starting.

    def _has_moved(self, mode: str) -> bool:
        self.act_as_node()
        self.check_one_side()
        tenant = self.found()
        is_served = tenant["status"]["controlPlane"]["mode"] == mode
        return is_served and condition(tenant, "Moving") == "False"

    def wait(self, mode: str, left: WritesLeft) -> None:
        """Until the tenant has moved, or the controllers are dead."""
        try:
            wait_until(lambda: left.is_dead or self.has_moved(mode), SECONDS_MAX)
        except AssertionError as error:
            raise AssertionError(self.found().get("status")) from error

    def act_as_node(self) -> None:
        """Runs the API server while there is a StatefulSet, says of its pod that it is ready, and deletes it afterwards."""
        system, pods = self.system, f"{KUBE_SYSTEM}/pods"
        path = f"/apis/apps/v1/namespaces/kube-system/statefulsets/plane-{self.tenant}"
        found = system.get(path)
        if found.status != 200 or "deletionTimestamp" in found.json["metadata"]:
            system.delete(f"{pods}/plane-{self.tenant}-0", {"gracePeriodSeconds": 0})
            return
        if self.plane is None:
            self.plane = self.planes.start(self.tenant)
            self.on_plane = Caller(self.plane.admin_kubeconfig)
            found = system.get(path)  # It has the port that the server has here.
        template = found.json["spec"]["template"]
        name = f"plane-{self.tenant}-0"
        template["metadata"]["name"] = name
        template["spec"] = {**template["spec"], "volumes": [], "hostNetwork": False}
        for container in template["spec"]["containers"]:
            container["volumeMounts"] = []
            container["ports"] = [{**each, "hostPort": 0} for each in container["ports"]]
        made = system.post(pods, {"metadata": template["metadata"], "spec": template["spec"]})
        assert made.status in (201, 409), made.body
        ready = {"type": "Ready", "status": "True"}
        status = {"phase": "Running", "hostIP": "127.0.0.1", "conditions": [ready]}
        system.patch(f"{pods}/{name}/status", {"status": status})

    def check_one_side(self) -> None:
        """A tenant that is open at home is not open on its plane. It may have moved between the two questions."""
        plane, tenant = self.on_plane, self.tenant
        if plane is not None and is_open(plane, tenant) and is_open(self.system, tenant):
            assert not is_open(plane, tenant) or not is_open(self.system, tenant)


def prepared(home: LocalServer, tenant: str, directory: Path) -> tuple[Move, dict[str, Object]]:
    """A shared tenant with some objects, and what it has."""
    home.make_tenant(tenant)
    for number in range(20):
        path = f"/api/v1/tenants/{tenant}/namespaces/default/configmaps"
        assert home.system.post(path, {"metadata": {"name": f"m{number}"}}).status == 201
    move = Move(home, tenant, directory)
    with living(home, WritesLeft(NO_END)):
        wait_until(lambda: condition(move.found(), "Initialized") == "True", SECONDS_MAX)
    return move, content(home.system, tenant)


def quick_or_slow(steps: Sequence[int], quick: Sequence[int]) -> list[object]:
    return [step if step in quick else pytest.param(step, marks=pytest.mark.slow) for step in steps]


@pytest.mark.parametrize("step", quick_or_slow(STEPS, QUICK))
def test_controllers_killed_in_a_move_lose_nothing(home: LocalServer, tmp_path: Path, step: int) -> None:
    move, before = prepared(home, f"t{step}", tmp_path)
    try:
        for mode in ("Dedicated", "Shared"):
            move.request(mode)
            for left in (WritesLeft(step), WritesLeft(NO_END)):
                with living(home, left):
                    move.wait(mode, left)
            assert content(home.system, move.tenant) == before
    finally:
        move.stop()
    assert is_open(home.system, move.tenant)


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS[::3])
@pytest.mark.parametrize("which", ["home", "plane"])
def test_api_servers_killed_in_a_move_lose_nothing(
    home: LocalServer, tmp_path: Path, which: str, step: int
) -> None:
    move, before = prepared(home, f"{which}{step}", tmp_path)

    def kill() -> None:
        server = home if which == "home" else move.plane
        if server is not None:
            server.stop(signal.SIGKILL)
            server.start()

    try:
        for mode in ("Dedicated", "Shared"):
            move.request(mode)
            left = WritesLeft(step, kill)
            with living(home, left):
                move.wait(mode, left)
            assert content(home.system, move.tenant) == before
    finally:
        move.stop()


@pytest.mark.slow
@pytest.mark.parametrize("position", range(len(moving.STEPS) + 1))
@pytest.mark.parametrize("which", ["home", "plane"])
def test_an_api_server_killed_between_any_two_steps_loses_nothing(
    home: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str, position: int
) -> None:
    """In both directions, before the first step and after the last one too."""
    move, before = prepared(home, f"{which}-step{position}", tmp_path)
    killed: list[str] = []

    def kill() -> None:
        server = home if which == "home" else move.plane
        assert server is not None
        server.stop(signal.SIGKILL)
        server.start()

    async def kill_once(_move: TenantMove) -> None:
        if mode not in killed:
            killed.append(mode)
            await asyncio.to_thread(kill)

    steps = (*moving.STEPS[:position], kill_once, *moving.STEPS[position:])
    monkeypatch.setattr(moving, "STEPS", steps)
    try:
        for mode in ("Dedicated", "Shared"):
            move.request(mode)
            left = WritesLeft(NO_END)
            with living(home, left):
                move.wait(mode, left)
            assert content(home.system, move.tenant) == before
    finally:
        move.stop()
    assert killed == ["Dedicated", "Shared"] and is_open(home.system, move.tenant)
