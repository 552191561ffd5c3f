"""An object that makes a reconciler raise delays nothing but itself, and its tenant can see why."""

from collections.abc import Iterator

import pytest

from alcove.client.keys import ObjectKey
from alcove.client.resources import CONFIG_MAPS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.testing.controllers import RunningControllers
from alcove.testing.server import Caller, LocalServer, wait_until

PATH = "/api/v1/namespaces/default/configmaps"


class Picky(Controller):
    """Marks every config map, and cannot bear some."""

    name = "picky"
    resource = CONFIG_MAPS
    workers = 2

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._maps = self.mirror(CONFIG_MAPS)
        self.on(self._maps)

    async def reconcile(self, key: ObjectKey) -> Result:
        found = self._maps.get(key)
        if found is None or found.get("data", {}).get("seen"):
            return DONE
        if key.name.startswith("bad"):
            raise KeyError(f"{key} of all things")
        found["data"] = {"seen": "yes"}
        await self.client(key).update(key.tenant, CONFIG_MAPS, found)
        return DONE


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """One without the config maps of other tests, which the controller would have to mark first."""
    with LocalServer(tmp_path_factory.mktemp("failures")) as running:
        yield running


@pytest.fixture(autouse=True)
def running(server: LocalServer) -> Iterator[None]:
    with RunningControllers(server.admin_kubeconfig, (Picky,)):
        yield


def is_seen(caller: Caller, name: str) -> bool:
    return bool(caller.get(f"{PATH}/{name}").json.get("data") == {"seen": "yes"})


def test_it_is_reported_to_its_tenant_and_to_nobody_else(server: LocalServer, tenant: Caller) -> None:
    other = server.make_tenant("bystander")
    for number in range(10):
        assert tenant.post(PATH, {"metadata": {"name": f"bad{number}"}}).status == 201
    for caller in (tenant, other):
        assert caller.post(PATH, {"metadata": {"name": "good"}}).status == 201
    wait_until(lambda: is_seen(tenant, "good") and is_seen(other, "good"))
    output = wait_until(lambda: "bad3" in tenant.kubectl("get", "events") and tenant.kubectl("get", "events"))
    assert "Warning" in output and "ReconcileFailed" in output
    assert "the picky controller cannot handle this object (KeyError)" in output
    assert "of all things" not in output
    assert "No resources found" in other.kubectl("get", "events", check=False)


def test_failures_of_one_object_are_counted_in_one_event(tenant: Caller) -> None:
    tenant.post(PATH, {"metadata": {"name": "bad-again"}})

    def counted() -> bool:
        events = tenant.get("/api/v1/namespaces/default/events").json["items"]
        mine = [each for each in events if each["involvedObject"]["name"] == "bad-again"]
        return len(mine) == 1 and mine[0]["count"] >= 4

    wait_until(counted)


def test_a_mended_object_is_done_at_once(tenant: Caller) -> None:
    tenant.post(PATH, {"metadata": {"name": "bad-repaired"}})
    wait_until(lambda: "bad-repaired" in tenant.kubectl("get", "events"))
    tenant.delete(f"{PATH}/bad-repaired")
    tenant.post(PATH, {"metadata": {"name": "good-after"}})
    wait_until(lambda: is_seen(tenant, "good-after"))
