"""Lists and watches of all tenants can be divided into shards of tenants: each object is in exactly one."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.api.tenant_shards import TenantShard
from alcove.client import kubeconfig
from alcove.client.client import ListSelection
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.client.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, TENANTS
from alcove.testing.server import LocalServer

NAMES = [TenantId(f"t{number}") for number in range(8)]
MAPS = "/api/v1/tenants/all/configmaps"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with LocalServer(tmp_path_factory.mktemp("shards")) as running:
        for name in NAMES:
            running.make_tenant(name)
            make_map(running, name, "one")
            pod = {
                "metadata": {"name": "p"},
                "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"},
            }
            path = f"/api/v1/tenants/{name}/namespaces/default/pods"
            assert running.system.post(path, pod).status == 201
        make_map(running, SYSTEM, "one")
        yield running


def make_map(server: LocalServer, tenant: TenantId, name: str) -> str:
    path = f"/api/v1/tenants/{tenant}/namespaces/default/configmaps"
    answer = server.system.post(path, {"metadata": {"name": name}})
    assert answer.status == 201
    return str(answer.json["metadata"]["resourceVersion"])


def tenants_of(objects: list[Object]) -> list[str]:
    return [each["metadata"]["tenant"] for each in objects]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_each_object_is_listed_in_the_shard_of_its_tenant(server: LocalServer, count: int) -> None:
    whole = server.system.get(MAPS).json["items"]
    parts = [server.system.get(f"{MAPS}?tenantShard={index}/{count}").json["items"] for index in range(count)]
    assert sum(map(len, parts)) == len(whole) >= 9
    for index, part in enumerate(parts):
        assert all(TenantId(each) in TenantShard(index, count) for each in tenants_of(part))


def test_ring0_is_listed_where_it_is_asked_for(server: LocalServer) -> None:
    listed = server.system.get(f"{MAPS}?tenantShard=1/2").json["items"]
    with_system = server.system.get(f"{MAPS}?tenantShard=1/2,system").json["items"]
    assert SYSTEM not in tenants_of(listed)
    assert [each for each in with_system if each["metadata"]["tenant"] != SYSTEM] == listed
    assert SYSTEM in tenants_of(with_system)


def test_pages_of_a_shard_are_of_one_revision(server: LocalServer) -> None:
    """The pages after the first come from the store's history, since there are changes meanwhile."""
    query = "tenantShard=1/2&limit=1"
    expected = server.system.get(f"{MAPS}?tenantShard=1/2").json["items"]
    page = server.system.get(f"{MAPS}?{query}").json
    found = page["items"]
    assert page["metadata"]["remainingItemCount"] == len(expected) - 1
    for name in NAMES:
        make_map(server, name, "between-pages")
    while token := page["metadata"].get("continue"):
        page = server.system.get(f"{MAPS}?{query}&continue={token}").json
        found += page["items"]
    assert found == expected


def test_indexed_fields_are_selected_within_a_shard(server: LocalServer) -> None:
    path = "/api/v1/tenants/all/pods?fieldSelector=spec.nodeName%3Dn"
    parts = [server.system.get(f"{path}&tenantShard={index}/2").json["items"] for index in (0, 1)]
    expected = [[name for name in NAMES if name in TenantShard(index, 2)] for index in (0, 1)]
    assert [tenants_of(part) for part in parts] == expected


def test_a_watch_resumes_with_the_changes_of_its_shard(server: LocalServer) -> None:
    revision = server.system.get(MAPS).json["metadata"]["resourceVersion"]
    for name in NAMES:
        make_map(server, name, "resumed")
    for index in (0, 1):
        query = f"watch=1&timeoutSeconds=1&resourceVersion={revision}&tenantShard={index}/2"
        lines = server.system.get(f"{MAPS}?{query}").body.splitlines()
        found = tenants_of([orjson.loads(line)["object"] for line in lines])
        assert found == [name for name in NAMES if name in TenantShard(index, 2)]


@pytest.mark.parametrize("text", ["2/2", "x", "0/65", "1/2,everybody"])
def test_what_is_not_a_shard_is_refused(server: LocalServer, text: str) -> None:
    answer = server.system.get(f"{MAPS}?tenantShard={text}")
    assert answer.status == 400 and "INDEX/COUNT" in answer.json["message"]


def test_a_shard_is_of_all_tenants_only(server: LocalServer) -> None:
    answer = server.system.get("/api/v1/tenants/t1/configmaps?tenantShard=0/2")
    assert answer.status == 400 and "all tenants" in answer.json["message"]
    own = server.as_tenant("t1")
    assert own.get(f"{MAPS}?tenantShard=0/2").status == 403
    assert own.get("/api/v1/configmaps?tenantShard=0/2").status == 400


async def test_mirrors_have_the_objects_of_their_shard_and_see_their_changes(
    server: LocalServer, tmp_path: Path
) -> None:
    user = kubeconfig.load(server.admin_kubeconfig)
    transport = HttpPool(user)
    try:
        for index in (0, 1):
            shard = TenantShard(index, 2)
            async with Planes(shard=shard) as planes:
                client = planes.join(HOME, transport)
                maps = planes.mirror(ListSelection(CONFIG_MAPS))
                crds = planes.mirror(ListSelection(CUSTOM_RESOURCE_DEFINITIONS))
                tenants = planes.mirror(ListSelection(TENANTS))
                await planes.synced()
                assert {each.tenant for each in maps.spaces()} == {
                    name for name in (*NAMES, SYSTEM) if name in shard
                }
                assert tenants.count() == len(NAMES) + 1
                assert (maps.shard, crds.shard, tenants.shard) == (
                    shard,
                    TenantShard(index, 2, with_system=True),
                    None,
                )
                for name in (*NAMES, SYSTEM):
                    made = {"metadata": {"name": f"live-{index}", "namespace": "default"}}
                    await client.create(name, CONFIG_MAPS, made)
                async with asyncio.timeout(30):
                    for name in (*NAMES, SYSTEM):
                        # Does not wait for what the mirror will never have.
                        await maps.caught_up(HOME, name)
                seen = {key.tenant for key in maps.everything() if key.name == f"live-{index}"}
                assert seen == {name for name in (*NAMES, SYSTEM) if name in shard}
    finally:
        await transport.close()
