"""Every verb, on a real server, and the errors that it raises."""

import asyncio
from itertools import count

import pytest

from alcove.api.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from alcove.api.ids import ALL, SYSTEM, Revision, TenantId
from alcove.api.objects import Object
from alcove.client import retry
from alcove.client.client import Client, ListSelection, Patch, Propagation
from alcove.client.errors import NotPermitted, Unreachable
from alcove.client.kubeconfig import KubeconfigUser
from alcove.client.pool import HttpPool
from alcove.client.resources import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, PODS, SERVICE_ACCOUNTS, Resource
from alcove.client.watch_events import WatchEventType
from alcove.testing.faults import FaultyTransport, Odds

_NUMBERS = count()


@pytest.fixture
def name() -> str:
    return f"client-{next(_NUMBERS)}"


def config(name: str, **data: str) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


async def test_create_read_update_patch_delete(client: Client, name: str) -> None:
    made = await client.create(SYSTEM, CONFIG_MAPS, config(name, a="1"))
    assert made["metadata"]["tenant"] == "system"
    found = await client.get(SYSTEM, CONFIG_MAPS, name, namespace="default")
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    found["data"]["a"] = "2"
    changed = await client.update(SYSTEM, CONFIG_MAPS, found)
    with pytest.raises(Conflict):
        await client.update(SYSTEM, CONFIG_MAPS, made)
    assert changed["data"] == {"a": "2"}
    patched = await client.patch(SYSTEM, CONFIG_MAPS, name, {"data": {"b": "3"}}, namespace="default")
    assert patched["data"] == {"a": "2", "b": "3"}
    operations = [{"op": "remove", "path": "/data/a"}]
    patched = await client.patch(SYSTEM, CONFIG_MAPS, name, operations, namespace="default", kind=Patch.JSON)
    assert patched["data"] == {"b": "3"}
    with pytest.raises(Conflict):
        await client.delete(SYSTEM, CONFIG_MAPS, name, namespace="default", uid="another")
    gone = await client.delete(SYSTEM, CONFIG_MAPS, name, namespace="default", uid=made["metadata"]["uid"])
    assert gone["status"] == "Success"
    with pytest.raises(NotFound):
        await client.get(SYSTEM, CONFIG_MAPS, name, namespace="default")


async def test_refusals_are_the_servers_own_errors(client: Client, name: str) -> None:
    await client.create(SYSTEM, CONFIG_MAPS, config(name))
    with pytest.raises(AlreadyExists):
        await client.create(SYSTEM, CONFIG_MAPS, config(name))
    with pytest.raises(Invalid):
        await client.create(SYSTEM, CONFIG_MAPS, config("NOT a name"))
    with pytest.raises(NotFound, match='tenants "nobody" not found'):
        await client.create(TenantId("nobody"), NAMESPACES, {"metadata": {"name": "x"}})
    with pytest.raises(Forbidden):
        await client.delete(SYSTEM, NAMESPACES, "default")


async def test_apply_and_status(client: Client, name: str) -> None:
    container = {"name": "c", "image": "i"}
    deployment = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }
    applied = await client.apply(SYSTEM, DEPLOYMENTS, deployment, manager="one")
    again = await client.apply(SYSTEM, DEPLOYMENTS, deployment, manager="one")
    assert applied["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]
    applied["status"] = {"replicas": 7, "observedGeneration": 1}
    status = await client.update(SYSTEM, DEPLOYMENTS, applied, subresource="status")
    assert status["status"]["replicas"] == 7
    await client.delete(SYSTEM, DEPLOYMENTS, name, namespace="default", propagation=Propagation.BACKGROUND)


async def test_lists_are_paginated(client: Client) -> None:
    for number in range(5):
        await client.create(
            SYSTEM,
            CONFIG_MAPS,
            {"metadata": {"name": f"page-{number}", "namespace": "default", "labels": {"page": "y"}}},
        )
    selection = ListSelection(CONFIG_MAPS, "default", labels="page=y")
    first = await client.page(SYSTEM, selection, limit=2)
    assert len(first.items) == 2 and first.continue_
    second = await client.page(SYSTEM, selection, limit=2, continue_=first.continue_)
    assert second.revision == first.revision
    everything = await client.list(SYSTEM, CONFIG_MAPS, namespace="default", labels="page=y")
    assert [each["metadata"]["name"] for each in everything] == [f"page-{number}" for number in range(5)]
    metadata = await client.list(ALL, CONFIG_MAPS, labels="page=y", metadata_only=True)
    assert len(metadata) == 5 and "data" not in metadata[0]
    deleted = await client.delete_collection(SYSTEM, selection)
    assert len(deleted) == 5
    assert await client.list(SYSTEM, CONFIG_MAPS, labels="page=y") == []


async def test_a_watch_first_sends_the_existing_objects(client: Client, name: str) -> None:
    await client.create(SYSTEM, CONFIG_MAPS, config(name))
    selection = ListSelection(CONFIG_MAPS, fields=f"metadata.name={name}")
    seen: list[WatchEventType] = []
    async with client.watch(SYSTEM, selection, after=None, seconds_max=30) as watch:
        async for batch in watch.batches():
            for event in batch:
                seen.append(event.happened)
                if event.ends_initial:
                    await client.delete(SYSTEM, CONFIG_MAPS, name, namespace="default")
            if WatchEventType.DELETED in seen:
                break
    assert seen == [WatchEventType.ADDED, WatchEventType.BOOKMARK, WatchEventType.DELETED]


async def test_a_token_is_made_under_a_service_account(client: Client) -> None:
    request: Object = {"spec": {"audiences": []}}
    made = await client.create(
        SYSTEM, SERVICE_ACCOUNTS, request, namespace="default", name="default", subresource="token"
    )
    assert made["status"]["token"].count(".") == 2


async def test_every_write_reports_its_revision(pool: HttpPool, name: str) -> None:
    wrote: list[tuple[TenantId, Resource, Revision]] = []
    client = Client(pool, wrote=lambda *what: wrote.append(what))
    made = await client.create(SYSTEM, CONFIG_MAPS, config(name))
    await client.delete(SYSTEM, CONFIG_MAPS, name, namespace="default")
    revisions = [revision for _, _, revision in wrote]
    assert revisions[0] == int(made["metadata"]["resourceVersion"])
    assert len(revisions) == 2 and revisions[1] > revisions[0]


async def test_without_permission_nothing_is_written(pool: HttpPool, name: str) -> None:
    def refuse() -> None:
        raise NotPermitted("another leads")

    client = Client(pool, permitted=refuse)
    with pytest.raises(NotPermitted):
        await client.create(SYSTEM, CONFIG_MAPS, config(name))
    with pytest.raises(NotFound):
        await client.get(SYSTEM, CONFIG_MAPS, name, namespace="default")


async def test_a_busy_server_is_retried_a_bounded_number_of_times(pool: HttpPool) -> None:
    import random

    faulty = FaultyTransport(pool, random.Random(1), Odds(busy=1.0))
    client = Client(faulty, policy=retry.RetryPolicy(attempts_max=3, first_seconds=0.001))
    with pytest.raises(Exception, match="busy"):
        await client.get(SYSTEM, PODS, "x", namespace="default")
    assert len(faulty.requests) == 3


async def test_a_stopped_server_raises_unreachable(pool: HttpPool, client: Client) -> None:
    user = KubeconfigUser("https://127.0.0.1:1", _ca(pool))
    away = Client(HttpPool(user), policy=retry.RetryPolicy(attempts_max=2, first_seconds=0.001))
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        await away.get(SYSTEM, PODS, "x", namespace="default")


async def test_many_at_once_share_the_connections(client: Client) -> None:
    found = await asyncio.gather(*(client.get(SYSTEM, NAMESPACES, "default") for _ in range(200)))
    assert {each["metadata"]["name"] for each in found} == {"default"}


def _ca(pool: HttpPool) -> bytes:
    import ssl

    der = pool._tls.get_ca_certs(binary_form=True)[0]
    return ssl.DER_cert_to_PEM_cert(der).encode()
