"""Local volumes from claim to wiping, with a node's own rights: provisioned, mounted, grown, wiped, let go."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec import structs

from alcove.agent.lookup import ObjectLookup
from alcove.agent.podkey import PodKey
from alcove.agent.volumes import PodVolumes, VolumeFailure
from alcove.agent.volumes.local import LocalVolume
from alcove.agent.volumes.wiper import ORPHAN_SECONDS, VolumeWiper
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client import kubeconfig
from alcove.client.client import ListSelection
from alcove.client.keys import HOME, ObjectKey
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.client.resources import TENANTS
from alcove.controllers.volumes import (
    ClaimBinder,
    ClaimProtection,
    LocalProvisioner,
    VolumeController,
    VolumeProtection,
)
from alcove.testing.agent import node_kubeconfig
from alcove.testing.controllers import RunningControllers
from alcove.testing.needs import loop_devices
from alcove.testing.server import Caller, LocalServer, wait_until

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(loop_devices()), reason=loop_devices())]
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
PODS = "/api/v1/namespaces/default/pods"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
LOCAL = {
    "provisioner": "alcove.io/local",
    "volumeBindingMode": "WaitForFirstConsumer",
    "allowVolumeExpansion": True,
}
_NUMBERS = count(1)


@pytest.fixture(scope="module", autouse=True)
def running(server: LocalServer) -> Iterator[None]:
    controllers = (ClaimBinder, VolumeController, LocalProvisioner, ClaimProtection, VolumeProtection)
    with RunningControllers(server.admin_kubeconfig, controllers):
        yield


class Node:
    def __init__(self, server: LocalServer, name: str, folder: Path) -> None:
        self.server, self.name, self.folder = server, name, folder
        self.planes = Planes()
        self.now = 0.0

    async def __aenter__(self) -> "Node":
        self.server.system.post("/api/v1/nodes", {"metadata": {"name": self.name}})
        await self.planes.__aenter__()
        self._pool = HttpPool(kubeconfig.load(node_kubeconfig(self.server, self.name)))
        self.planes.join(HOME, self._pool)
        lookup = ObjectLookup(self.planes, seconds=0.0)
        self.volumes = PodVolumes(self.folder, lookup, time.time, node=self.name)
        self.wiper = VolumeWiper(self.volumes, self.planes, self.name, lambda: self.now)
        await self.planes.synced()
        return self

    async def __aexit__(self, *_: object) -> None:
        for key in self.volumes.ids():
            await self.volumes.unmount(key)
        await self.planes.__aexit__(None, None, None)
        await self._pool.close()

    async def wipe_until(self, check: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not check():
                await self.wiper.round()
                await asyncio.sleep(0.02)

    async def hear_until(self, check: Callable[[], bool]) -> None:
        """Only receives events, and does nothing."""
        async with asyncio.timeout(60):
            while not check():  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.02)


@pytest_asyncio.fixture
async def node(server: LocalServer, tmp_path: Path) -> AsyncIterator[Node]:
    name = f"files-{next(_NUMBERS)}"
    made = Node(server, name, tmp_path / "volumes")
    # Entered by hand: a fixture's two halves are not in one task, as a group of tasks wants it.
    async with made:
        yield made


def tenant_of(caller: Caller) -> TenantId:
    return TenantId(caller.get("/api/v1/namespaces/default").json["metadata"]["tenant"])


def claim(tenant: Caller, node: str, name: str = "c", size: str = "16Mi", **spec: Any) -> str:
    """A bound claim; its volume's name."""
    if tenant.get(f"{CLASSES}/local").status == 404:
        assert tenant.post(CLASSES, {"metadata": {"name": "local"}, **LOCAL}).status == 201
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": "local",
        **spec,
    }
    annotations = {"volume.kubernetes.io/selected-node": node}
    body = {"metadata": {"name": name, "annotations": annotations}, "spec": wanted}
    assert tenant.post(CLAIMS, body).status == 201
    wait_until(lambda: tenant.get(f"{CLAIMS}/{name}").json["status"].get("phase") == "Bound")
    return str(tenant.get(f"{CLAIMS}/{name}").json["spec"]["volumeName"])


def use(tenant: Caller, node: str, name: str, claim_name: str = "c", **source: Any) -> tuple[PodKey, Object]:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name, **source}}]
    spec = {
        "containers": [{"name": "c", "image": "i"}],
        "volumes": volumes,
        "nodeName": node,
        "automountServiceAccountToken": False,
    }
    answer = tenant.post(PODS, {"metadata": {"name": name}, "spec": spec})
    assert answer.status == 201, answer.body
    return PodKey.of(ObjectKey(HOME, tenant_of(tenant), "default", name), answer.json), answer.json


def remove(tenant: Caller, name: str) -> None:
    assert tenant.delete(f"{PODS}/{name}?gracePeriodSeconds=0").status == 200


async def test_from_claim_to_wiping(server: LocalServer, tenant: Caller, node: Node) -> None:
    volume = claim(tenant, node.name)
    key, pod = use(tenant, node.name, "web")
    path = (await node.volumes.mount(key, pod))["v"].path
    (path / "file").write_text("kept")
    remove(tenant, "web")
    await node.volumes.unmount(key)
    key, pod = use(tenant, node.name, "again")
    assert ((await node.volumes.mount(key, pod))["v"].path / "file").read_text() == "kept"
    remove(tenant, "again")
    assert tenant.delete(f"{CLAIMS}/c").status == 200
    wait_until(lambda: "deletionTimestamp" in tenant.get(f"{VOLUMES}/{volume}").json["metadata"])
    await node.wiper.round()
    assert (path / "file").exists(), "the pod's volumes are not unmounted yet"
    assert tenant.get(f"{VOLUMES}/{volume}").status == 200
    await node.volumes.unmount(key)
    await node.wipe_until(lambda: tenant.get(f"{VOLUMES}/{volume}").status == 404)
    assert list((node.folder / "local").iterdir()) == []


async def test_a_volume_that_was_never_used_is_let_go(tenant: Caller, node: Node) -> None:
    volume = claim(tenant, node.name)
    assert tenant.delete(f"{CLAIMS}/c").status == 200
    await node.wipe_until(lambda: tenant.get(f"{VOLUMES}/{volume}").status == 404)


async def test_the_size_that_was_claimed_and_then_more(tenant: Caller, node: Node) -> None:
    claim(tenant, node.name)
    key, pod = use(tenant, node.name, "web")
    path = (await node.volumes.mount(key, pod))["v"].path
    with pytest.raises(OSError, match="No space left"):
        (path / "big").write_bytes(bytes(24 << 20))
    (path / "big").unlink()
    more = {"spec": {"resources": {"requests": {"storage": "64Mi"}}}}
    assert tenant.patch(f"{CLAIMS}/c", more).status == 200
    wait_until(lambda: tenant.get(f"{CLAIMS}/c").json["status"]["capacity"]["storage"] == "64Mi")
    await node.volumes.refresh(key, pod)
    await node.volumes.unmount(key)
    path = (await node.volumes.mount(key, pod))["v"].path
    (path / "big").write_bytes(bytes(24 << 20))


async def test_one_pod_only(tenant: Caller, node: Node) -> None:
    claim(tenant, node.name, accessModes=["ReadWriteOncePod"])
    first, first_pod = use(tenant, node.name, "first")
    second, second_pod = use(tenant, node.name, "second")
    await node.volumes.mount(first, first_pod)
    assert await node.volumes.mount(first, first_pod)
    with pytest.raises(VolumeFailure, match="ReadWriteOncePod access mode and is already in use"):
        await node.volumes.mount(second, second_pod)
    await node.volumes.unmount(first)
    assert await node.volumes.mount(second, second_pod)


async def test_two_pods_of_a_node_share_one(tenant: Caller, node: Node) -> None:
    claim(tenant, node.name)
    first, first_pod = use(tenant, node.name, "first")
    second, second_pod = use(tenant, node.name, "second", readOnly=True)
    both = await asyncio.gather(node.volumes.mount(first, first_pod), node.volumes.mount(second, second_pod))
    assert both[0]["v"].path == both[1]["v"].path
    assert (both[0]["v"].read_only, both[1]["v"].read_only) == (False, True)
    await node.volumes.unmount(first)
    assert both[1]["v"].path.exists(), "the other still has it"


async def test_a_volume_of_another_node_is_not_made_up_here(
    server: LocalServer, tenant: Caller, node: Node, tmp_path: Path
) -> None:
    claim(tenant, node.name)
    key, pod = use(tenant, node.name, "web")
    lookup = node.volumes._sources._lookup
    elsewhere = PodVolumes(tmp_path / "elsewhere", lookup, time.time, node="elsewhere")
    with pytest.raises(VolumeFailure, match="not on this node"):
        await elsewhere.mount(key, pod)
    assert elsewhere.local.all() == []


async def test_another_tenants_pod_does_not_get_it_by_its_name(
    server: LocalServer, tenant: Caller, node: Node
) -> None:
    claim(tenant, node.name)
    key, pod = use(tenant, node.name, "web")
    (await node.volumes.mount(key, pod))["v"].path.joinpath("file").write_text("mine")
    other = server.make_tenant(f"other-{next(_NUMBERS)}")
    claim(other, node.name)
    other_key, other_pod = use(other, node.name, "web")
    path = (await node.volumes.mount(other_key, other_pod))["v"].path
    assert list(path.iterdir()) == []
    stolen = structs.replace(other_key, name=key.name, uid=key.uid)
    assert list((await node.volumes.mount(stolen, pod))["v"].path.iterdir()) == []


async def test_claims_that_are_not_ready(tenant: Caller, node: Node) -> None:
    key, pod = use(tenant, node.name, "web")
    with pytest.raises(VolumeFailure, match='persistentvolumeclaim "c" not found'):
        await node.volumes.mount(key, pod)
    assert tenant.post(CLASSES, {"metadata": {"name": "local"}, **LOCAL}).status == 201
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    body = {"metadata": {"name": "c"}, "spec": {**wanted, "storageClassName": "local"}}
    assert tenant.post(CLAIMS, body).status == 201
    with pytest.raises(VolumeFailure, match='PVC "c" is not bound'):
        await node.volumes.mount(key, pod)


async def test_data_without_an_object_goes_after_a_while(
    server: LocalServer, tenant: Caller, node: Node
) -> None:
    volume = claim(tenant, node.name)
    key, pod = use(tenant, node.name, "web")
    await node.volumes.mount(key, pod)
    await node.volumes.unmount(key)
    remove(tenant, "web")
    path = f"/api/v1/tenants/{tenant_of(tenant)}/persistentvolumes/{volume}"
    assert tenant.delete(f"{CLAIMS}/c").status == 200
    wait_until(lambda: "deletionTimestamp" in server.system.get(path).json["metadata"])
    assert server.system.patch(path, {"metadata": {"finalizers": None}}).status == 200
    await node.hear_until(lambda: not node.wiper._mirror.count())
    await node.wiper.round()
    assert len(node.volumes.local.all()) == 1, "one look is not enough"
    node.now += ORPHAN_SECONDS
    await node.wiper.round()
    assert node.volumes.local.all() == []


@pytest.mark.parametrize("mode", ["Dedicated", "Foreign"])
async def test_data_of_a_tenant_with_a_plane_goes_with_the_tenant_after_its_plane_has_left(
    server: LocalServer, node: Node, mode: str
) -> None:
    """It stayed on the disk for good: nothing asked after the plane any more."""
    name, ring0 = f"alone-{next(_NUMBERS)}", server.system
    spec = {"controlPlane": {"mode": mode}}
    assert ring0.post("/api/v1/tenants", {"metadata": {"name": name}, "spec": spec}).status == 201
    volume = LocalVolume(TenantId(name), "pv", "uid", 1 << 24)
    node.volumes.local.mount(volume)
    node.volumes.local.unmount(volume.id)
    tenants = node.planes.mirror(ListSelection(TENANTS), tenant=SYSTEM, only=HOME)
    await node.hear_until(lambda: ObjectKey(HOME, SYSTEM, "", name) in tenants)
    for _ in range(2):
        await node.wiper.round()
        node.now += ORPHAN_SECONDS
    assert len(node.volumes.local.all()) == 1, "the plane may join again"
    assert ring0.delete(f"/api/v1/tenants/{name}").status == 200
    tenant = ring0.get(f"/api/v1/tenants/{name}").json
    tenant["spec"]["finalizers"] = []
    assert ring0.put(f"/api/v1/tenants/{name}/finalize", tenant).status == 200
    await node.hear_until(lambda: ObjectKey(HOME, SYSTEM, "", name) not in tenants)
    await node.wiper.round()
    assert len(node.volumes.local.all()) == 1, "one look is not enough"
    node.now += ORPHAN_SECONDS
    await node.wiper.round()
    assert node.volumes.local.all() == []
