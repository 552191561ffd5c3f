"""The pods of services, found by looking at those that changed."""

import asyncio
import random

import pytest

from alcove.api.ids import Revision, TenantId
from alcove.api.objects import Object
from alcove.client.changes import ObjectChange
from alcove.client.client import ListSelection
from alcove.client.keys import HOME, ObjectKey
from alcove.client.mirror import Mirror
from alcove.client.plane_mirror import PlaneMirror
from alcove.client.resources import PODS, SERVICES
from alcove.controllers.endpoints.service_members import PODS_AT_ONCE, ServiceMembers
from alcove.controllers.workloads.selector_index import SelectorIndex, plain_selector

WEB = ObjectKey(HOME, TenantId("a"), "default", "web")


class CountingMirror(Mirror):
    decoded = 0

    def get(self, key: ObjectKey) -> Object | None:
        self.decoded += 1
        return super().get(key)


class World:
    def __init__(self) -> None:
        self.pods_mirror = CountingMirror(ListSelection(PODS))
        self.services_mirror = Mirror(ListSelection(SERVICES))
        self._pods = self.pods_mirror.add_plane(HOME)
        self._services = self.services_mirror.add_plane(HOME)
        selectors = SelectorIndex(self.services_mirror, plain_selector)
        self.members = ServiceMembers(self.pods_mirror, selectors, lambda: 0.0)
        self.services_mirror.subscribe(self._service_changed)
        self.pods_mirror.subscribe(self._pod_changed)
        self._revision = 0

    def _service_changed(self, change: ObjectChange) -> None:
        self.members.service_changed(change)

    def _pod_changed(self, change: ObjectChange) -> None:
        self.members.pod_changed(change)

    def service(self, name: str, **selector: str) -> None:
        self._put(self._services, name, {}, {"selector": selector})

    def pod(self, name: str, namespace: str = "default", **labels: str) -> None:
        self._put(self._pods, name, labels, {}, namespace)

    def remove(self, mirror: str, name: str) -> None:
        self._revision += 1
        metadata = {"tenant": "a", "namespace": "default", "name": name}
        plane = self._pods if mirror == "pods" else self._services
        plane.remove({"metadata": metadata}, Revision(self._revision))

    def _put(
        self, mirror: PlaneMirror, name: str, labels: dict[str, str], spec: Object, namespace: str = "default"
    ) -> None:
        self._revision += 1
        metadata = {"tenant": "a", "namespace": namespace, "name": name, "labels": labels}
        mirror.put({"metadata": metadata, "spec": spec}, Revision(self._revision))

    async def found(self, service: str = "web") -> set[str]:
        keys, _ = await self.members.find(WEB.of(service))
        return {key.name for key in keys}


async def test_members_follow_pods_and_selectors() -> None:
    world = World()
    world.service("web", app="web")
    world.pod("one", app="web")
    world.pod("elsewhere", namespace="other", app="web")
    assert await world.found() == {"one"}
    world.pod("two", app="web", tier="back")
    world.pod("three", app="other")
    assert await world.found() == {"one", "two"}
    world.pod("one", app="other")
    assert await world.found() == {"two"}
    world.service("web", app="other")
    world.pod("two", app="other")
    world.service("web", app="web")
    assert await world.found() == set(), "changed while the service selected others"
    world.pod("two", app="web")
    world.remove("pods", "two")
    assert await world.found() == set()
    world.remove("services", "web")
    assert not vars(world.members)["_members"] and not vars(world.members)["_requirements"]


async def test_pods_that_change_while_they_are_searched_are_noticed() -> None:
    world = World()
    world.service("web", app="web")
    for number in range(3 * PODS_AT_ONCE):
        world.pod(f"p{number}", app="web")
    searching = asyncio.create_task(world.found())
    await asyncio.sleep(0)
    world.remove("pods", "p0")
    world.remove("pods", f"p{3 * PODS_AT_ONCE - 1}")
    world.pod("new", app="web")
    expected = {f"p{number}" for number in range(1, 3 * PODS_AT_ONCE - 1)} | {"new"}
    assert await searching == expected
    assert await world.found() == expected


async def test_whatever_changes_the_members_are_the_pods_that_match() -> None:
    chosen = random.Random(5)
    world = World()
    pods: dict[str, dict[str, str]] = {}
    services: dict[str, dict[str, str]] = {}
    for _ in range(500):
        name, app, tier = f"x{chosen.randrange(6)}", chosen.choice("ab"), chosen.choice("ab")
        match chosen.randrange(6):
            case 0 | 1 | 2:
                pods[name] = {"app": app, "tier": tier}
                world.pod(name, app=app, tier=tier)
            case 3:
                pods.pop(name, None)
                world.remove("pods", name)
            case 4:
                services[name] = chosen.choice([{"app": app}, {"tier": app}, {"app": app, "tier": tier}, {}])
                world.service(name, **services[name])
            case _:
                services.pop(name, None)
                world.remove("services", name)
        asked = f"x{chosen.randrange(6)}"
        wanted = services.get(asked)
        expected = {pod for pod, labels in pods.items() if wanted and wanted.items() <= labels.items()}
        assert await world.found(asked) == expected


@pytest.mark.parametrize("others", [50, 500])
async def test_a_change_of_a_pod_costs_its_services_not_the_pods_beside_it(others: int) -> None:
    world = World()
    world.service("web", app="web")
    for number in range(others):
        world.pod(f"other-{number}", app=f"other-{number % 10}")
        world.service(f"other-{number}", app=f"other-{number}")
    world.pod("web-0", app="web")
    await world.found()
    world.pods_mirror.decoded = 0
    for number in range(20):
        world.pod(f"web-{number}", app="web")
        assert len(await world.found()) == number + 1
    assert world.pods_mirror.decoded == 0
