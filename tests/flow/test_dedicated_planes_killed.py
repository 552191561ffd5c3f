"""The controllers die after any write while they create or delete a dedicated plane: the next ones complete it, and
nothing is left of what is deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager

import pytest

from alcove.api.objects import Object
from alcove.client.transport import Stream, Transport
from alcove.controllers.controller import ControllerOptions
from alcove.controllers.garbage import GarbageCollector
from alcove.controllers.planes import PlaneController, manifests
from alcove.controllers.planes import controller as plane_controller
from alcove.controllers.tenants import TenantController
from alcove.controllers.tenants import controller as tenant_controller
from alcove.controllers.volumes import ClaimProtection
from alcove.http.client import ReceivedResponse
from alcove.processes.plane_certificates import plane_certificates
from alcove.testing.cluster import condition
from alcove.testing.controllers import RunningControllers
from alcove.testing.server import Caller, LocalServer, wait_until

CONTROLLERS = (TenantController, PlaneController, GarbageCollector, ClaimProtection)
OPTIONS = ControllerOptions(plane_certificates=plane_certificates())
KUBE_SYSTEM = "/api/v1/namespaces/kube-system"
SETS = "/apis/apps/v1/namespaces/kube-system/statefulsets"
STEPS_MAX = 40
QUICK = (1, 3)
"""The steps of every test run; the others are slow."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with LocalServer(tmp_path_factory.mktemp("killed")) as server:
        wait_until(
            lambda: server.system.get(f"{KUBE_SYSTEM}/configmaps/{plane_controller.TRUST_MAP}").status == 200
        )
        yield server


class Dying:
    """A process that is killed when the server has done its write of that number: it does nothing any more."""

    def __init__(self, inner: Transport, writes: int) -> None:
        self._inner = inner
        self._remaining = writes
        self.is_dead = False

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        if method != "GET":
            if self._remaining <= 0:
                await asyncio.Event().wait()
            self._remaining -= 1
        response = await self._inner.request(method, path, headers, body)
        if method != "GET" and self._remaining <= 0:
            self.is_dead = True
            await asyncio.Event().wait()
        return response

    def stream(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(path, headers)

    async def close(self) -> None:
        await self._inner.close()


class Life:
    """One life of the controllers, which ends after some writes."""

    def __init__(self, home: LocalServer, writes: int) -> None:
        self._dying: list[Dying] = []
        self._writes = writes
        self.controllers = RunningControllers(home.admin_kubeconfig, CONTROLLERS, OPTIONS, through=self._wrap)

    def _wrap(self, inner: Transport) -> Transport:
        self._dying.append(Dying(inner, self._writes))
        return self._dying[0]

    @property
    def is_over(self) -> bool:
        return any(each.is_dead for each in self._dying)


def create(system: Caller, name: str) -> None:
    tenant = {"metadata": {"name": name}, "spec": {"controlPlane": {"mode": "Dedicated"}}}
    assert system.post("/api/v1/tenants", tenant).status == 201


def parts(system: Caller, name: str) -> list[Object]:
    query = f"?labelSelector={manifests.LABEL}%3D{name}".replace("/", "%2F")
    paths = (f"{KUBE_SYSTEM}/secrets", f"{KUBE_SYSTEM}/persistentvolumeclaims", SETS)
    return [each for path in paths for each in system.get(path + query).json["items"]]


def is_created(system: Caller, name: str) -> bool:
    found = system.get(f"/api/v1/tenants/{name}").json
    is_told = (
        condition(found, "CertificatesReady") == "True" and condition(found, "APIServerReady") == "False"
    )
    return is_told and len(parts(system, name)) == 4


def is_gone(system: Caller, name: str) -> bool:
    return system.get(f"/api/v1/tenants/{name}").status == 404 and not parts(system, name)


def live(home: LocalServer, name: str, writes: int, *, deletes: bool) -> bool:
    """Whether the controllers died before all was done."""
    life, done = Life(home, writes), is_gone if deletes else is_created
    with life.controllers:
        wait_until(lambda: life.is_over or done(home.system, name))
    return life.is_over


def step(number: int) -> object:
    return pytest.param(number, marks=() if number in QUICK else (pytest.mark.slow,))


@pytest.mark.parametrize("writes", [step(number) for number in range(1, 12)])
def test_killed_after_any_write_a_plane_is_completed_and_leaves_nothing(
    home: LocalServer, writes: int
) -> None:
    name, system = f"killed-{writes}", home.system
    create(system, name)
    has_died = live(home, name, writes, deletes=False)
    assert has_died or writes > 3, "it should have more steps"
    with RunningControllers(home.admin_kubeconfig, CONTROLLERS, OPTIONS):
        wait_until(lambda: is_created(system, name))
        ports = [manifests.port_of(each) for each in system.get(SETS).json["items"]]
        assert len(ports) == len(set(ports))
    assert system.delete(f"/api/v1/tenants/{name}").status == 200
    live(home, name, writes, deletes=True)
    with RunningControllers(home.admin_kubeconfig, CONTROLLERS, OPTIONS):
        wait_until(lambda: is_gone(system, name))


def test_two_controllers_at_once_make_one_plane_each(home: LocalServer) -> None:
    """As when one does not know yet that it no longer leads."""
    system = home.system
    with (
        RunningControllers(home.admin_kubeconfig, CONTROLLERS, OPTIONS),
        RunningControllers(home.admin_kubeconfig, CONTROLLERS, OPTIONS),
    ):
        names = [f"twice-{number}" for number in range(3)]
        for name in names:
            create(system, name)
        for name in names:
            wait_until(lambda name=name: is_created(system, name))
            assert system.delete(f"/api/v1/tenants/{name}").status == 200
        for name in names:
            wait_until(lambda name=name: is_gone(system, name))


def test_conditions_say_what_is_in_the_way(home: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    system = home.system
    monkeypatch.setattr(manifests, "PORTS", range(16_443, 16_444))
    quota = {"metadata": {"name": "claims"}, "spec": {"hard": {"persistentvolumeclaims": "1"}}}

    def says(name: str, kind: str, reason: str) -> bool:
        found = system.get(f"/api/v1/tenants/{name}").json
        shown = [each for each in found["status"]["conditions"] if each["type"] == kind]
        last = found["status"]["controlPlane"].get("lastError")
        return bool(shown[0]["reason"] == reason and shown[0]["message"] == last)

    with RunningControllers(home.admin_kubeconfig, CONTROLLERS, OPTIONS):
        create(system, "first")
        wait_until(lambda: is_created(system, "first"))
        create(system, "second")
        wait_until(lambda: says("second", "APIServerReady", "NoFreePort"))
        assert system.delete("/api/v1/tenants/first").status == 200
        wait_until(lambda: is_created(system, "second"))
        assert system.post(f"{KUBE_SYSTEM}/resourcequotas", quota).status == 201
        create(system, "third")
        wait_until(lambda: says("third", "StoreReady", "Forbidden"))
        assert system.delete(f"{KUBE_SYSTEM}/resourcequotas/claims").status == 200
        for name in ("second", "third"):
            assert system.delete(f"/api/v1/tenants/{name}").status == 200
            wait_until(lambda name=name: is_gone(system, name))


def test_a_plane_that_does_not_respond_cannot_keep_its_tenant(
    home: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant_controller, "PLANE_DELETION_SECONDS_MAX", 1.0)
    create(home.system, "stuck")
    with RunningControllers(home.admin_kubeconfig, CONTROLLERS, OPTIONS, awaited=["stuck"]):
        wait_until(lambda: is_created(home.system, "stuck"))
        assert home.system.delete("/api/v1/tenants/stuck").status == 200
        wait_until(lambda: is_gone(home.system, "stuck"))
