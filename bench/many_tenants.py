"""A store with as many tenants as wanted, written in minutes: the objects of a tenant that was really made, copied.

The copies have names and uids of their own and are otherwise what the controllers left, so that a start with them finds nothing
to do. They are written by the store itself, in large transactions.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson
import uvloop

from alcove.api.ids import GroupResource, Key, TenantId
from alcove.client import kubeconfig
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.client.resources import ENDPOINT_SLICES
from alcove.processes.apiserver_config import ApiServerConfig
from alcove.store.base import StoreRecord, WriteOp
from alcove.store.sqlite import SqliteStore
from alcove.testing.controlplane import LocalControllers
from alcove.testing.server import LocalServer
from bench.growth_costs import CpuMeter
from bench.tenants import Ready, all_at_once

ORIGINAL = TenantId("t-0000000")
EVENTS, DIVIDERS = GroupResource("", "events"), GroupResource("mizar.com", "dividers")
FIRST_VNI = 1_000_000
POLL_SECONDS = 0.2
AT_ONCE = 64
"""Transactions that are queued together; they share commits."""


def fill(data: Path, objects: int) -> int:
    """Makes the store in an API server's directory have about so many objects, those of whole tenants; returns how many tenants there are."""
    with (
        tempfile.TemporaryDirectory(prefix="alcove-bench-") as name,
        LocalServer(data) as server,
        LocalControllers(server, Path(name)) as controllers,
    ):
        uvloop.run(_make_original(server, controllers))
    return uvloop.run(_copy(ApiServerConfig(data=data).store, objects))


async def _make_original(server: LocalServer, controllers: LocalControllers) -> None:
    pool = HttpPool(kubeconfig.load(server.admin_kubeconfig))
    async with Planes(user_agent="bench") as planes:
        ready = Ready(planes)
        client = planes.join(HOME, pool)
        await planes.synced()
        await all_at_once(client, ready, [ORIGINAL])
        # The last that it gets: its network is ready then.
        while not await client.list(ORIGINAL, ENDPOINT_SLICES):  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)
        await CpuMeter(lambda: [server.pid, controllers.pid]).idle()
    await pool.close()


class Original:
    """The objects of a tenant, and what of them is another for each tenant: its name, its network's VNI, and uids."""

    def __init__(self, records: Sequence[StoreRecord]) -> None:
        # Events expire.
        self.records = [each for each in records if _is_of_original(each) and each.key.resource != EVENTS]
        (divider,) = [each.key.name for each in self.records if each.key.resource == DIVIDERS]
        self._vni = divider.split("-")[1]
        uids = [orjson.loads(each.body)["metadata"]["uid"] for each in self.records]
        self._own = re.compile("|".join((ORIGINAL, rf"\b{self._vni}\b", *uids)))

    def copies(self, number: int) -> Iterator[WriteOp]:
        """The objects of another tenant."""
        name, vni = f"t-{number:07}", str(FIRST_VNI + number)

        def another(found: re.Match[str]) -> str:
            own = found[0]
            return name if own == ORIGINAL else vni if own == self._vni else f"{number:08x}{own[8:]}"

        for record in self.records:
            key = record.key
            tenant, namespace, own = (
                self._own.sub(another, each) for each in (key.tenant, key.namespace, key.name)
            )
            body = self._own.sub(another, record.body.decode()).encode()
            yield WriteOp(Key(key.resource, TenantId(tenant), namespace, own), body)


def _is_of_original(record: StoreRecord) -> bool:
    return ORIGINAL in str(record.key) or ORIGINAL.encode() in record.body


async def _copy(path: Path, objects: int) -> int:
    store = await SqliteStore.open(path)
    try:
        records = (await store.snapshot()).records
        original = Original(records)
        tenants = max(1, (objects - len(records)) // len(original.records) + 1)
        waiting: list[asyncio.Future[object]] = []
        for number in range(1, tenants):
            waiting.append(asyncio.ensure_future(store.write(list(original.copies(number)))))
            if len(waiting) == AT_ONCE:
                await asyncio.gather(*waiting)
                waiting.clear()
        await asyncio.gather(*waiting)
        # What was just written would be history that watches can resume from.
        await store.compact(await store.revision())
    finally:
        await store.close()
    return tenants
