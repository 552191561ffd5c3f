"""The store of an API server: etcd, an embedded one of its own, or that of the process whose worker it is."""

from __future__ import annotations

from alcove.processes.apiserver_config import ApiServerConfig
from alcove.processes.worker_context import WorkerContext
from alcove.store.base import Store
from alcove.store.remote import RemoteStore
from alcove.store.sqlite import SqliteStore
from alcove.store.sqlite_commits import Observe


async def open_store(config: ApiServerConfig, observe: Observe, worker: WorkerContext | None) -> Store:
    """Raises StoreOpenError."""
    if config.etcd:
        # Imported on demand: gRPC takes 20 MB.
        from alcove.store.etcd import EtcdStore
        from alcove.store.grpc_channel import Tls

        tls = Tls.of(config.etcd_pki, config.etcd_server_name) if config.etcd_pki else None
        return await EtcdStore.open(config.etcd, tls=tls)
    if worker is not None:
        return await RemoteStore.open(worker.channel, worker.revision)
    return await SqliteStore.open(config.store, observe=observe)
