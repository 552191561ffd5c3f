"""Images of deleted tenants are removed, with a real API server."""

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path

from alcove.agent.images.owners import ImageOwners
from alcove.agent.images.store import ALL_TENANTS, ImageStore
from alcove.api.ids import SYSTEM, TenantId
from alcove.client import kubeconfig
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.testing.agent import node_kubeconfig
from alcove.testing.server import LocalServer

_NUMBERS = count(1)


def name_for(store: ImageStore, *owners: str) -> None:
    with store._catalogue.edit() as names:
        for owner in owners:
            names[TenantId(owner)] = {"x:1": "sha256:0"}


async def _until(check: Callable[[], bool]) -> None:
    for _ in range(3_000):
        if check():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("not so within 60 s")


def _make(server: LocalServer) -> str:
    name = f"owner-{next(_NUMBERS)}"
    assert server.system.post("/api/v1/tenants", {"metadata": {"name": name}}).status == 201
    return name


def _remove(server: LocalServer, name: str) -> None:
    assert server.system.delete(f"/api/v1/tenants/{name}").status in (200, 202)
    found = server.system.get(f"/api/v1/tenants/{name}")
    if found.status == 200:  # No controller is here to end it.
        tenant = found.json
        tenant["spec"]["finalizers"] = []
        assert server.system.put(f"/api/v1/tenants/{name}/finalize", tenant).status == 200
    assert server.system.get(f"/api/v1/tenants/{name}").status == 404


async def test_a_tenant_of_the_same_name_has_nothing_of_the_one_before(
    server: LocalServer, tmp_path: Path
) -> None:
    pool = HttpPool(kubeconfig.load(node_kubeconfig(server, "owners")))
    store = ImageStore(tmp_path / "images")
    stays, goes, returns = _make(server), _make(server), _make(server)
    name_for(store, ALL_TENANTS, SYSTEM, stays, goes, returns, "never", f"{stays}:other", f"{goes}:other")
    async with Planes() as planes:
        planes.join(HOME, pool)
        owners = ImageOwners(store, planes)
        await planes.synced()
        owners.round()
        assert store.owners() == {
            ALL_TENANTS,
            SYSTEM,
            stays,
            goes,
            returns,
            f"{stays}:other",
            f"{goes}:other",
        }
        running = asyncio.create_task(owners.run())
        _remove(server, goes)
        await _until(lambda: store.owners() == {ALL_TENANTS, SYSTEM, stays, returns, f"{stays}:other"})
        running.cancel()
        await asyncio.wait({running})
    _remove(server, returns)  # While no agent runs.
    assert server.system.post("/api/v1/tenants", {"metadata": {"name": returns}}).status == 201
    async with Planes() as planes:
        planes.join(HOME, pool)
        owners = ImageOwners(store, planes)
        await planes.synced()
        owners.round()
        assert store.owners() == {ALL_TENANTS, SYSTEM, stays, f"{stays}:other"}
    await pool.close()
