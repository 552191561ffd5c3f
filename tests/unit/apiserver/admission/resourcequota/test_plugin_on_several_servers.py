"""Several API servers on one store, each with its own cache and locks, charge one quota."""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

from alcove.api import registry
from alcove.api.encode import encode
from alcove.api.errors import Forbidden
from alcove.api.ids import Key, TenantId
from alcove.api.resources import CONFIG_MAPS, RESOURCE_QUOTAS
from alcove.apiserver.admission.base import Attributes, Operation
from alcove.apiserver.admission.chain import Chain
from alcove.apiserver.admission.resourcequota.plugin import ResourceQuota
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.call import ApiCall
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.crds.kinds import CustomKinds
from alcove.apiserver.identity import Identity
from alcove.apiserver.paths import parse
from alcove.apiserver.resources import writing
from alcove.apiserver.services import ApiServerServices
from alcove.apiserver.watch_hub import WatchHub
from alcove.http.messages import HttpRequest
from alcove.store.base import ABSENT, Store, WriteOp
from alcove.store.sqlite import SqliteStore

ACME = TenantId("acme")
KINDS = registry.load()
PATH = "/api/v1/namespaces/n/configmaps"
CALL = ApiCall(HttpRequest("POST", PATH, "", {}), parse(PATH), 0.0)


class Server:
    """The part of an API server that a write passes between validation and the store."""

    def __init__(self, store: Store, cache: Cache) -> None:
        chain = Chain([ResourceQuota(cache, time.time, ComputeThreads())])
        kinds = CustomKinds(KINDS, cache, time.time)
        self._services = ApiServerServices(store, cache, WatchHub(), KINDS, kinds, chain, time.time)

    async def create(self, name: str) -> bool:
        kind = KINDS.find("", "v1", "configmaps")
        assert kind is not None
        metadata = {"name": name, "namespace": "n", "uid": name}
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        attributes = Attributes(
            operation=Operation.CREATE,
            kind=kind,
            tenant=ACME,
            namespace="n",
            name=name,
            obj=obj,
            identity=Identity(ACME, "admin"),
        )
        try:
            await self._services.admission.validate(attributes)
            op = WriteOp(Key(CONFIG_MAPS, ACME, "n", name), encode(obj), ABSENT)
            await writing.commit(self._services, CALL, op, (), attributes.joins)
        except Forbidden:
            return False
        return True


async def test_together_they_let_in_exactly_as_many_as_the_quota_says(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "store.db")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        caches = [await stack.enter_async_context(Cache(store, lambda _events: None)) for _ in range(3)]
        hard = {"configmaps": "25"}
        metadata = {"name": "q", "namespace": "n", "uid": "q", "creationTimestamp": "2020-01-01T00:00:00Z"}
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": metadata,
            "spec": {"hard": hard},
            "status": {"hard": hard, "used": {"configmaps": "0"}},
        }
        revision = await store.write([WriteOp(Key(RESOURCE_QUOTAS, ACME, "n", "q"), encode(quota))])
        for cache in caches:
            await cache.reached(revision)
        servers = [Server(store, cache) for cache in caches]
        outcomes = await asyncio.gather(
            *(server.create(f"m{index}-{each}") for each in range(20) for index, server in enumerate(servers))
        )
        assert outcomes.count(True) == 25
        await caches[0].reached(await store.revision())
        assert caches[0].count(ACME, CONFIG_MAPS, "n") == 25
        entry = caches[0].entry(Key(RESOURCE_QUOTAS, ACME, "n", "q"))
        assert entry is not None and entry.object["status"]["used"] == {"configmaps": "25"}
