"""A service that takes long is worked out less often, and reading its pods stops nobody."""

import asyncio

import pytest

from alcove.api.ids import Revision, TenantId
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.events import EventRecorder
from alcove.client.keys import HOME, ObjectKey, PlaneId
from alcove.client.planes import Planes
from alcove.controllers.controller import ControllerContext
from alcove.controllers.endpoints import service_watcher
from alcove.controllers.endpoints.service_members import PODS_AT_ONCE
from alcove.controllers.endpoints.service_watcher import FREE_SECONDS, SHARE, ServicePacing, ServiceWatcher
from alcove.controllers.loop import ControllerLoop, subscribe
from alcove.controllers.metadata_cache import MetadataCache
from alcove.controllers.metrics import LoopMetrics
from alcove.testing.clock import VirtualClock

KEY = ObjectKey(HOME, TenantId("a"), "default", "web")


def test_what_is_quick_never_rests() -> None:
    pace = ServicePacing()
    pace.took(KEY, FREE_SECONDS, 10.0)
    assert pace.wait_seconds(KEY, 10.0) == 0.0


def test_what_takes_long_rests_for_so_long_that_it_has_its_share() -> None:
    pace = ServicePacing()
    pace.took(KEY, 0.1, 10.0)
    assert pace.wait_seconds(KEY, 10.5) == pytest.approx(0.1 / SHARE - 0.5)
    assert pace.wait_seconds(KEY, 10.0 + 0.1 / SHARE) == 0.0
    assert not pace._rests_until, "nothing is kept of what has rested"


def test_nothing_is_kept_of_services_that_are_gone() -> None:
    pace = ServicePacing()
    pace.took(KEY, 1.0, 10.0)
    pace.forget(KEY)
    assert pace.wait_seconds(KEY, 10.0) == 0.0 and not pace._rests_until


class _Watcher(ServiceWatcher):
    name = "watcher"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, self._measured)
        self.settled: list[tuple[float, int]] = []
        self._looks = 0

    def _measured(self) -> float:
        """Every look at some of the pods takes 10 ms."""
        self._looks += 1
        return self._looks * 0.01

    async def sync_service(self, key: ObjectKey, service: Object) -> None:
        found = await self.backends(key, service)
        self.settled.append((asyncio.get_running_loop().time(), len(found)))

    async def on_service_deleted(self, key: ObjectKey) -> None:
        self.settled.append((asyncio.get_running_loop().time(), 0))


def _no_client(_plane: PlaneId) -> Client:
    raise AssertionError


def obj(name: str, **more: object) -> Object:
    metadata = {"tenant": "a", "namespace": "default", "name": name, "uid": name, "labels": {"app": "web"}}
    return {"metadata": metadata, **more}


def watching(planes: Planes, clock: VirtualClock) -> _Watcher:
    return _Watcher(
        ControllerContext(
            planes=planes,
            metadata_cache=MetadataCache(planes),
            recorder=EventRecorder(_no_client, clock),
            clock=clock,
            authorities={},
        )
    )


def test_pods_that_change_one_after_another_are_handled_together() -> None:
    count = 3 * PODS_AT_ONCE
    clock = VirtualClock()

    async def body() -> None:
        async with Planes() as planes:
            watcher = watching(planes, clock)
            pods, services = watcher._pods.add_plane(HOME), watcher._services.add_plane(HOME)
            services.put(obj("web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]}), Revision(1))
            loop = ControllerLoop(watcher, LoopMetrics("watcher"))
            await subscribe([loop])
            running = asyncio.create_task(loop.run())
            for number in range(count):
                status = {"phase": "Running", "podIP": f"10.0.{number // 250}.{number % 250}"}
                pods.put(obj(f"web-{number}", spec={}, status=status), Revision(number + 1))
                await asyncio.sleep(0.01)
            await asyncio.sleep(5)
            assert watcher.settled[-1][1] == count, "all are handled in the end"
            assert len(watcher.settled) <= 25, (
                "3 s of changes, each look 10 to 30 ms: one look every 0.2 to 0.6 s"
            )
            services.remove(obj("web"), Revision(count + 1))
            await asyncio.sleep(0.1)
            assert watcher.settled[-1][1] == 0 and not watcher._pace._rests_until
            running.cancel()
            await asyncio.wait([running])

    clock.run(body())
    assert service_watcher.SHARE <= 0.05
