"""Pull policies, back-off and credentials, against a real registry and a real API server."""

import base64
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import orjson
import pytest
import pytest_asyncio

from alcove.agent.images import builtin
from alcove.agent.images.model import ImageUnavailable, ToolMissing
from alcove.agent.images.pull_policy import ImagePuller, owner
from alcove.agent.images.store import ImageStore
from alcove.agent.images.tools import ImageTools
from alcove.agent.podkey import PodKey
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME, PlaneId
from alcove.testing.lookups import in_default, looking_up, make_pod
from alcove.testing.registry import LocalImageRegistry
from alcove.testing.server import LocalServer


def _lacking() -> str:
    if os.geteuid() != 0:
        return "needs root"
    try:
        builtin.find()
    except ToolMissing as error:
        return str(error)
    missing = [name for name in ("skopeo", "umoci") if shutil.which(name) is None]
    return f"needs {' and '.join(missing)}" if missing else ""


_NUMBERS = count(1)
pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(_lacking()), reason=_lacking() or "-")]


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("image") / "layout"
    for command in (["init", "--layout", path], ["new", "--image", f"{path}:v1"]):
        subprocess.run(["umoci", *command], check=True, capture_output=True)
    return path


class World:
    """A store, a registry, pods of two tenants, and a clock that the test sets."""

    def __init__(
        self,
        server: LocalServer,
        store: ImageStore,
        pulls: ImagePuller,
        registry: LocalImageRegistry,
        tenants: tuple[str, str],
    ) -> None:
        self.acme, self.bolt = tenants
        self.server, self.store, self.pulls, self.registry = server, store, pulls, registry
        self.now = 1000.0
        self.events: list[tuple[str, str, str]] = []

    @property
    def image(self) -> str:
        return f"{self.registry.host}/shop/web:v1"

    def record_event(self, kind: str, reason: str, message: str) -> None:
        self.events.append((kind, reason, message))

    def reasons(self) -> list[str]:
        reasons = [reason for _, reason, _ in self.events]
        self.events.clear()
        return reasons

    async def ensure(self, key: PodKey, pod: Object, image: str = "", how: str = "IfNotPresent") -> str:
        """The reason of the failure; empty: it is there."""
        try:
            await self.pulls.ensure(
                key, pod, {"image": image or self.image, "imagePullPolicy": how}, self.record_event
            )
        except ImageUnavailable as failure:
            return failure.reason
        return ""

    def make_secret(self, tenant: str, name: str, host: str, password: str) -> None:
        auths = {"auths": {host: {"username": "me", "password": password}}}
        data = {".dockerconfigjson": base64.b64encode(orjson.dumps(auths)).decode()}
        secret = {"metadata": {"name": name}, "type": "kubernetes.io/dockerconfigjson", "data": data}
        assert self.server.system.post(in_default(tenant, "secrets"), secret).status == 201


@pytest_asyncio.fixture
async def world(server: LocalServer, layout: Path, tmp_path: Path) -> AsyncIterator[World]:
    number = next(_NUMBERS)
    tenants = (f"acme-{number}", f"bolt-{number}")
    for tenant in tenants:
        server.make_tenant(tenant)
    with LocalImageRegistry({"shop/web": layout}, "right") as registry:
        async with looking_up(server) as lookup:
            store = ImageStore(tmp_path / "images", ImageTools([registry.host]))
            made: list[World] = []
            pulls = ImagePuller(store, lookup, lambda: made[0].now)
            made.append(World(server, store, pulls, registry, tenants))
            yield made[0]


async def test_never_and_if_not_present(world: World) -> None:
    key, pod = make_pod(world.server, world.acme, {})
    assert await world.ensure(key, pod, "alcove/busybox", "Never") == "ErrImageNeverPull"
    assert world.events == [
        (
            "Warning",
            "ErrImageNeverPull",
            'Container image "alcove/busybox" is not present with pull policy of Never',
        )
    ]
    world.store.add_builtin()
    for how in ("Never", "IfNotPresent", "Always"):
        assert await world.ensure(key, pod, "alcove/busybox", how) == ""
    assert set(world.reasons()) == {"ErrImageNeverPull", "Pulled"}


@pytest.mark.parametrize("name", ["", "UPPER", "UPPER/a", "a b", "../x"])
async def test_what_is_no_name(world: World, name: str) -> None:
    key, pod = make_pod(world.server, world.acme, {})
    for policy in ("", "Always", "IfNotPresent", "Never"):
        with pytest.raises(ImageUnavailable) as failure:
            await world.pulls.ensure(key, pod, {"image": name, "imagePullPolicy": policy})
        assert failure.value.reason == "InvalidImageName"


async def test_a_tenants_credentials_are_its_own(world: World) -> None:
    world.make_secret(world.acme, "pull", world.registry.host, "right")
    acme, acme_pod = make_pod(world.server, world.acme, {"imagePullSecrets": [{"name": "pull"}]})
    bolt, bolt_pod = make_pod(world.server, world.bolt, {"imagePullSecrets": [{"name": "pull"}]})
    assert await world.ensure(acme, acme_pod) == ""
    assert world.reasons() == ["Pulling", "Pulled"]
    assert await world.ensure(bolt, bolt_pod) == "ErrImagePull"
    assert world.reasons() == ["Pulling", "FailedToRetrieveImagePullSecret", "Failed", "Failed"]
    again, again_pod = make_pod(world.server, world.acme, {})
    assert await world.ensure(again, again_pod) == "", "its tenant has it already"
    assert await world.ensure(again, again_pod, how="Always") == "ErrImagePull", "and may not ask for it anew"


async def test_each_secret_is_tried_and_sent_only_where_it_belongs(world: World) -> None:
    world.make_secret(world.acme, "elsewhere", "other.example", "not-for-this-host")
    world.make_secret(world.acme, "old", world.registry.host, "wrong")
    world.make_secret(world.acme, "new", "127.0.*.1:" + world.registry.host.partition(":")[2], "right")
    names = [{"name": name} for name in ("elsewhere", "old", "new")]
    key, pod = make_pod(world.server, world.acme, {"imagePullSecrets": names})
    assert await world.ensure(key, pod) == ""
    assert world.registry.asked_as == {"me:wrong", "me:right"}


async def test_failures_back_off_and_time_forgives(world: World) -> None:
    key, pod = make_pod(world.server, world.acme, {})
    waits = []
    for _ in range(7):
        assert await world.ensure(key, pod) == "ErrImagePull"
        with pytest.raises(ImageUnavailable, match=r'Back-off pulling image ".*": ErrImagePull: ') as failure:
            await world.pulls.ensure(key, pod, {"image": world.image}, world.record_event)
        assert failure.value.reason == "ImagePullBackOff"
        waits.append(round(failure.value.retry_seconds))
        world.now += failure.value.retry_seconds
    assert waits == [10, 20, 40, 80, 160, 300, 300]
    other, other_pod = make_pod(world.server, world.acme, {})
    assert await world.ensure(other, other_pod) == "ErrImagePull", (
        "another pod does not wait for this one's turn"
    )
    world.now += 1_000
    assert await world.ensure(key, pod) == "ErrImagePull"
    world.now += 10
    world.registry.password = ""
    assert await world.ensure(key, pod) == "", "after a long while it begins with short waits again"
    world.pulls.forget(key)


async def test_a_server_that_is_away_is_no_pull(world: World, server: LocalServer) -> None:
    key, pod = make_pod(world.server, world.acme, {"imagePullSecrets": [{"name": "pull"}]})
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    closure = {"metadata": {"name": f"closed-tenant.{world.acme}"}}
    assert server.system.post(leases, closure).status == 201
    try:
        assert await world.ensure(key, pod) == "ErrImagePull"
    finally:
        server.system.delete(f"{leases}/closed-tenant.{world.acme}")
    assert "is moving to another API server" in world.events[-2][2]


async def test_ring0_is_told_that_a_node_has_no_etcd(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, pod = make_pod(world.server, SYSTEM, {})
    monkeypatch.setenv("PATH", str(tmp_path))
    for expected in ("ErrImagePull", "ImagePullBackOff"):
        with pytest.raises(ImageUnavailable, match="etcd is not installed on this node") as refused:
            await world.pulls.ensure(key, pod, {"image": "alcove/etcd:node"}, world.record_event)
        assert refused.value.reason == expected


def test_whose_names_count() -> None:
    def whose(plane: PlaneId, tenant: TenantId) -> TenantId:
        return owner(PodKey(plane, tenant, "ns", "pod", "uid"))

    acme = TenantId("acme")
    assert whose(HOME, acme) == whose(PlaneId("acme"), acme) == acme
    assert whose(PlaneId("bolt"), acme) != acme
    assert whose(PlaneId("bolt"), SYSTEM) != SYSTEM
