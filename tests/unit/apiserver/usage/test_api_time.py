"""The API server's report of the time that tenants take."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from alcove.api import meta, registry, usage
from alcove.api.encode import encode
from alcove.api.ids import SYSTEM, Key, TenantId
from alcove.api.objects import Object
from alcove.api.resources import USAGE_REPORTS
from alcove.apiserver.admission.chain import Chain
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.crds.kinds import CustomKinds
from alcove.apiserver.services import ApiServerServices
from alcove.apiserver.usage.api_time import ApiTimeMeter
from alcove.apiserver.watch_hub import WatchHub
from alcove.store.base import WriteOp
from alcove.store.sqlite import SqliteStore

KINDS = registry.load()
RED = TenantId("red")
BEGIN = meta.parse_time("2026-11-16T14:59:00Z")
H14, H15 = "2026-11-16T14:00:00Z", "2026-11-16T15:00:00Z"


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[ApiServerServices]:
    store = await SqliteStore.open(directory / "store.db")
    hub = WatchHub()
    try:
        async with Cache(store, hub.publish) as cache:
            kinds = CustomKinds(KINDS, cache, lambda: 0.0)
            yield ApiServerServices(store, cache, hub, KINDS, kinds, Chain(()), lambda: 0.0)
    finally:
        await store.close()


async def reported(services: ApiServerServices, meter: ApiTimeMeter) -> Object:
    await services.cache.reached(await services.store.revision())
    entry = services.cache.entry(Key(USAGE_REPORTS, SYSTEM, "", meter.name))
    return entry.decode() if entry is not None else {}


async def test_time_is_reported_by_hour_until_it_is_summed_up(tmp_path: Path) -> None:
    now = BEGIN
    meter = ApiTimeMeter(lambda: now)
    charged: list[float] = []
    count = meter.counting(lambda _tenant, seconds: charged.append(seconds))
    async with running(tmp_path) as services:
        await meter.report(services)
        assert await reported(services, meter) == {}, "nothing is written for nothing"
        meter.add(RED, 0.25)
        count(RED, 0.5)
        now += 30
        await meter.report(services)
        report = await reported(services, meter)
        assert report["spec"]["hours"] == {H14: {"red": {"apiNanoseconds": 750_000_000}}}
        assert charged == [0.5]
        now += 3600
        meter.add(RED, 1.0)
        await meter.report(services)
        report = await reported(services, meter)
        assert set(report["spec"]["hours"]) == {H14, H15}
        settled = encode({**report, "status": {"settledThrough": H14}})
        await services.store.write([WriteOp(Key(USAGE_REPORTS, SYSTEM, "", meter.name), settled)])
        await reported(services, meter)
        await meter.report(services)
        report = await reported(services, meter)
        assert usage.decode_hours(report["spec"]["hours"]).keys() == {usage.parse_hour(H15)}
