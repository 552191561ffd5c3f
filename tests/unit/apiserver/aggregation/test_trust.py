"""What extension servers read to trust the front proxy is there, and stays there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
from cryptography import x509

from alcove.api import registry
from alcove.api.encode import encode
from alcove.api.ids import GroupResource, Key, TenantId
from alcove.api.objects import Object
from alcove.api.resources import API_SERVICES, CONFIG_MAPS, NAMESPACES
from alcove.apiserver.admission.base import Attributes, Operation
from alcove.apiserver.aggregation.front_proxy import FrontProxy
from alcove.apiserver.aggregation.trust import NAME, NAMESPACE, READER, ExtensionTrust
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.identity import Identity
from alcove.apiserver.rbac.defaults import ROLE_BINDINGS, ROLES
from alcove.apiserver.watch_hub import WatchHub
from alcove.store.base import WriteOp
from alcove.store.sqlite import SqliteStore

ACME = TenantId("acme")
KINDS = registry.load()
NOW = 1_800_000_000.0
CONFIG_MAP, ROLE = Key(CONFIG_MAPS, ACME, NAMESPACE, NAME), Key(ROLES, ACME, NAMESPACE, READER)


class Rig:
    def __init__(self, store: SqliteStore, cache: Cache, authority: CertificateAuthority) -> None:
        self.store = store
        self.cache = cache
        self._authority = authority
        self.now = NOW
        self.trust = self.server()

    def server(self) -> ExtensionTrust:
        """Another API server's."""
        front_proxy = FrontProxy(self._authority, self.cache, lambda: self.now)
        return ExtensionTrust(
            self.cache, front_proxy, lambda: self.now, self._authority.for_nodes(self.now), "keys"
        )

    async def write(self, *ops: WriteOp) -> None:
        await self.cache.reached(await self.store.write(ops))

    async def repair(self, trust: ExtensionTrust | None = None) -> None:
        await (trust or self.trust)._repair(self.store, ACME)
        await self.cache.reached(await self.store.revision())

    @property
    def config_map(self) -> Object:
        entry = self.cache.entry(CONFIG_MAP)
        assert entry is not None
        return entry.decode()


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Rig]:
    store = await SqliteStore.open(directory / "store.db")
    try:
        async with Cache(store, WatchHub().publish) as cache:
            rig = Rig(store, cache, CertificateAuthority.open(directory / "pki", NOW))
            metadata = {"name": NAMESPACE, "tenant": ACME, "uid": "n"}
            body = encode({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
            await rig.write(WriteOp(Key(NAMESPACES, ACME, "", NAMESPACE), body))
            yield rig
    finally:
        await store.close()


def attributes(resource: GroupResource, namespace: str, obj: Object) -> Attributes:
    kind = KINDS.find(resource.group, "v1", resource.resource)
    assert kind is not None
    return Attributes(
        operation=Operation.CREATE,
        kind=kind,
        tenant=ACME,
        namespace=namespace,
        name="x",
        obj=obj,
        identity=Identity(ACME, "someone"),
    )


async def test_both_are_written_with_the_first_object_that_needs_them(tmp_path: Path) -> None:
    reader, other = ({"roleRef": {"kind": "Role", "name": name}} for name in (READER, "other"))
    async with running(tmp_path) as rig:
        for write in (attributes(API_SERVICES, "", {}), attributes(ROLE_BINDINGS, NAMESPACE, reader)):
            assert rig.trust.handles(Operation.CREATE, write.resource, "")
            await rig.trust.validate(write)
            assert [op.key for op in write.also] == [CONFIG_MAP, ROLE]
        for write in (
            attributes(ROLE_BINDINGS, NAMESPACE, other),
            attributes(ROLE_BINDINGS, "default", reader),
        ):
            await rig.trust.validate(write)
            assert not write.also
        await rig.repair()
        write = attributes(API_SERVICES, "", {})
        await rig.trust.validate(write)
        assert not write.also, "the tenant has them"


async def test_the_config_map_has_what_servers_look_for(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        await rig.repair()
        data = rig.config_map["data"]
        assert orjson.loads(data["requestheader-allowed-names"]) == ["front-proxy-client"]
        for name, value in {
            "requestheader-username-headers": ["X-Remote-User"],
            "requestheader-group-headers": ["X-Remote-Group"],
            "requestheader-uid-headers": ["X-Remote-Uid"],
            "requestheader-extra-headers-prefix": ["X-Remote-Extra-"],
        }.items():
            assert orjson.loads(data[name]) == value
        authorities = [
            x509.load_pem_x509_certificate(data[name].encode())
            for name in ("requestheader-client-ca-file", "client-ca-file")
        ]
        assert authorities[0].public_key() != authorities[1].public_key()


async def test_what_is_deleted_or_changed_is_written_again(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        await rig.repair()
        before = rig.config_map
        await rig.write(WriteOp(CONFIG_MAP, None), WriteOp(ROLE, None))
        await rig.repair()
        assert rig.config_map["data"] == before["data"] and rig.cache.entry(ROLE) is not None
        for change in ({"requestheader-client-ca-file": "x"}, {"requestheader-allowed-names": "[]"}):
            obj = rig.config_map
            obj["data"] = {**obj["data"], **change, "other": "kept"}
            await rig.write(WriteOp(CONFIG_MAP, encode(obj)))
            await rig.repair()
            assert rig.config_map["data"] == {**before["data"], "other": "kept"}


async def test_servers_do_not_write_over_each_other(tmp_path: Path) -> None:
    """Each has certificates of its own for the same authorities."""
    async with running(tmp_path) as rig:
        await rig.repair()
        revision = await rig.store.revision()
        rig.now += 86_400
        for server in (rig.trust, rig.server(), rig.server()):
            await rig.repair(server)
        assert await rig.store.revision() == revision
        rig.now += 10 * 365 * 86_400
        await rig.repair(rig.server())
        assert await rig.store.revision() > revision, "its authority is about to expire"


async def test_a_tenant_without_the_namespace_gets_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        await rig.write(WriteOp(Key(NAMESPACES, ACME, "", NAMESPACE), None))
        await rig.repair()
        assert rig.cache.entry(CONFIG_MAP) is None
