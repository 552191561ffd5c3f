"""More clients of others, unchanged: kubernetes' informer, election and dynamic client, kubernetes_asyncio, kr8s, pykube.

Each as its users have it: list in pages, watch and resume, every kind of patch, apply, election, kinds of their own.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import kr8s
import kr8s.asyncio
import kubernetes
import kubernetes_asyncio
import pykube
import pytest
from kr8s.asyncio.objects import new_class
from kubernetes import dynamic, informer, utils
from kubernetes_asyncio.dynamic import DynamicClient as AsyncDynamicClient
from kubernetes_asyncio.leaderelection import electionconfig as async_electionconfig
from kubernetes_asyncio.leaderelection import leaderelection as async_leaderelection
from kubernetes_asyncio.leaderelection.resourcelock import leaselock as async_leaselock

from alcove.testing.server import Caller, wait_until

ROOT = Path(__file__).parents[2]
untyped: Any = kubernetes
# What they have no types for.
informers: Any = informer
dynamics: Any = dynamic
manifests: Any = utils
untyped_async: Any = kubernetes_asyncio
WIDGETS = ("example.com", "v1", "default", "widgets")
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"size": {"type": "integer", "maximum": 9}},
                            },
                            "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
                        },
                    }
                },
            }
        ],
    },
}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def widget(name: str, size: int) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": size},
    }


def define(tenant: Caller) -> None:
    """The kind is there, and served."""
    assert tenant.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION).status == 201
    wait_until(lambda: tenant.get("/apis/example.com/v1/namespaces/default/widgets").status == 200)


# kubernetes: https://github.com/kubernetes-client/python


@pytest.fixture
def blocking(tenant: Caller) -> Iterator[Any]:
    with untyped.config.new_client_from_config(str(tenant.kubeconfig)) as api:
        yield api


def test_kubernetes_informer_follows(tenant: Caller, blocking: Any) -> None:
    core = untyped.client.CoreV1Api(blocking)
    core.create_namespaced_config_map("default", config_map("before", n="1"))
    events: list[tuple[str, str]] = []
    following = informers.SharedInformer(
        core.list_namespaced_config_map, namespace="default", resync_period=1
    )
    for kind in (informers.ADDED, informers.MODIFIED, informers.DELETED):
        following.add_event_handler(kind, lambda each, kind=kind: events.append((kind, each.metadata.name)))
    following.start()
    try:
        wait_until(lambda: ("ADDED", "before") in events)
        core.create_namespaced_config_map("default", config_map("later", n="1"))
        core.patch_namespaced_config_map("before", "default", {"data": {"n": "2"}})
        core.delete_namespaced_config_map("later", "default")
        wait_until(lambda: ("DELETED", "later") in events)
        wait_until(lambda: [each.data for each in following.cache.list()] == [{"n": "2"}])
        time.sleep(1.2)  # It lists once more, and finds nothing new.
        assert events.count(("ADDED", "before")) == 1
    finally:
        following.stop()


CANDIDATE = """
import sys, time
from kubernetes import config
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

config.load_kube_config()

def lead():
    print("leading", flush=True)
    time.sleep(1000)

lock = LeaseLock("election", "default", sys.argv[1])
wanted = electionconfig.Config(lock, 4, 3, 1, lead, None)
leaderelection.LeaderElection(wanted).run()
"""


def test_kubernetes_elects_one_leader_and_the_next(tenant: Caller) -> None:
    environment = {"KUBECONFIG": str(tenant.kubeconfig), "PATH": "/usr/bin:/bin"}
    first, second = (
        subprocess.Popen(
            [sys.executable, "-c", CANDIDATE, identity],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for identity in ("one", "other")
    )
    candidates = {"one": first, "other": second}
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/election"

    def holder() -> str:
        answer = tenant.get(path)
        return str(answer.json["spec"]["holderIdentity"]) if answer.status == 200 else ""

    try:
        leader = wait_until(holder)
        candidates[leader].kill()
        wait_until(lambda: holder() != leader)
        follower = candidates[holder()]
        assert follower.stdout is not None and follower.stdout.readline() == "leading\n"
    finally:
        for each in (first, second):
            each.kill()
            each.communicate()


def test_kubernetes_dynamic_client_and_kinds_of_ones_own(tenant: Caller, blocking: Any) -> None:
    define(tenant)
    client = dynamics.DynamicClient(blocking)
    widgets = client.resources.get(api_version="example.com/v1", kind="Widget")
    widgets.create(namespace="default", body=widget("a", 1))
    applied = widgets.server_side_apply(
        namespace="default", name="a", body=widget("a", 2), field_manager="tests", force_conflicts=True
    )
    assert applied.spec.size == 2
    widgets.status.patch(
        namespace="default",
        name="a",
        body={"status": {"size": 2}},
        content_type="application/merge-patch+json",
    )
    assert [each.status.size for each in widgets.get(namespace="default").items] == [2]
    events = [
        (event["type"], event["object"].spec.size) for event in widgets.watch(namespace="default", timeout=1)
    ]
    assert events == [("ADDED", 2)]
    custom = untyped.client.CustomObjectsApi(blocking)
    assert custom.patch_namespaced_custom_object_scale(*WIDGETS, "a", {"spec": {"replicas": 3}})["spec"] == {
        "replicas": 3
    }
    with pytest.raises(untyped.client.ApiException) as refused:
        custom.create_namespaced_custom_object(*WIDGETS, widget("big", 10))
    assert refused.value.status == 422
    custom.delete_collection_namespaced_custom_object(*WIDGETS)
    assert not custom.list_namespaced_custom_object(*WIDGETS)["items"]


def test_kubernetes_creates_from_manifests(tenant: Caller, blocking: Any) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "made"}}
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": pod},
    }
    manifests.create_from_yaml(
        blocking, yaml_objects=[config_map("a"), account, deployment], namespace="default"
    )
    apps = untyped.client.AppsV1Api(blocking)
    apps.patch_namespaced_deployment_scale("web", "default", {"spec": {"replicas": 3}})
    found = apps.read_namespaced_deployment("web", "default")
    assert found.spec.replicas == 3 and found.spec.strategy.type == "RollingUpdate"


# kubernetes_asyncio: https://github.com/tomplus/kubernetes_asyncio


@pytest.fixture
async def running(tenant: Caller) -> AsyncIterator[Any]:
    api = await untyped_async.config.new_client_from_config(str(tenant.kubeconfig))
    async with api:
        yield api


async def test_asyncio_lists_in_pages_and_resumes_a_watch(running: Any) -> None:
    core = untyped_async.client.CoreV1Api(running)
    for number in range(5):
        await core.create_namespaced_config_map("default", config_map(f"m{number}", n="0"))
    page = await core.list_namespaced_config_map("default", limit=3)
    rest = await core.list_namespaced_config_map("default", limit=3, _continue=page.metadata._continue)
    assert [len(page.items), len(rest.items), page.metadata.remaining_item_count] == [3, 2, 2]
    await core.patch_namespaced_config_map("m0", "default", {"data": {"n": "1"}})
    await core.delete_namespaced_config_map("m1", "default")
    seen: list[tuple[str, str]] = []
    since = rest.metadata.resource_version
    for _ in range(2):  # The second goes on where the first ended.
        watch = untyped_async.watch.Watch()
        arguments = {"resource_version": since, "timeout_seconds": 60}
        async with watch.stream(core.list_namespaced_config_map, "default", **arguments) as stream:
            event = await anext(stream)
            seen.append((event["type"], event["object"].metadata.name))
            since = watch.resource_version
    assert seen == [("MODIFIED", "m0"), ("DELETED", "m1")]


PATCHES = {
    "application/json-patch+json": [{"op": "add", "path": "/data/n", "value": "2"}],
    "application/merge-patch+json": {"data": {"n": "2", "gone": None}},
    "application/strategic-merge-patch+json": {"data": {"n": "2"}},
}


@pytest.mark.parametrize("kind", PATCHES)
async def test_asyncio_patches(running: Any, kind: str) -> None:
    core = untyped_async.client.CoreV1Api(running)
    await core.create_namespaced_config_map("default", config_map("a", n="1"))
    patched = await core.patch_namespaced_config_map("a", "default", PATCHES[kind], _content_type=kind)
    assert patched.data == {"n": "2"}


async def test_asyncio_applies_with_the_dynamic_client(running: Any) -> None:
    client = await AsyncDynamicClient(running)
    maps = await client.resources.get(api_version="v1", kind="ConfigMap")
    for manager, data in (("one", {"a": "1"}), ("other", {"b": "2"})):
        made = await maps.server_side_apply(
            body=config_map("a", **data), namespace="default", field_manager=manager
        )
    assert made.data.to_dict() == {"a": "1", "b": "2"}
    # This client gives refusals back as it gives objects.
    refused = await maps.server_side_apply(
        body=config_map("a", a="3"), namespace="default", field_manager="other"
    )
    assert (refused.code, refused.reason) == (409, "Conflict")


async def test_asyncio_elects_one_leader_and_the_next(running: Any) -> None:
    leading: asyncio.Queue[str] = asyncio.Queue()

    async def stopped() -> None:
        pass

    async def run(identity: str) -> None:
        held = async_leaselock.LeaseLock("election", "default", identity, running)
        config = async_electionconfig.Config(
            held,
            lease_duration=3,
            renew_deadline=2,
            retry_period=1,
            onstarted_leading=lambda: leading.put(identity),
            onstopped_leading=stopped,
        )
        await async_leaderelection.LeaderElection(config).run()

    tasks = {identity: asyncio.create_task(run(identity)) for identity in ("one", "other")}
    try:
        async with asyncio.timeout(90):
            first = await leading.get()
            tasks[first].cancel()
            assert {first, await leading.get()} == {"one", "other"}
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


# kr8s: https://kr8s.org


@pytest.fixture
async def kr8(tenant: Caller) -> Any:
    return await kr8s.asyncio.api(kubeconfig=str(tenant.kubeconfig))


async def test_kr8s(tenant: Caller, kr8: Any) -> None:
    define(tenant)
    assert await kr8.whoami() == "admin"
    assert {each["name"] async for each in _each(await kr8.api_resources())} >= {"pods", "widgets"}
    made = await kr8s.asyncio.objects.ConfigMap(config_map("a", n="1"), api=kr8)
    await made.create()
    await made.patch({"data": {"n": "2"}})
    await made.patch([{"op": "replace", "path": "/data/n", "value": "3"}], type="json")
    await made.label({"team": "red"})
    assert [each.raw.data.n async for each in kr8.get("configmaps", label_selector={"team": "red"})] == ["3"]
    own = new_class("Widget", "example.com/v1", asyncio=True)
    first = await own(widget("w", 1), api=kr8)
    await first.create()
    await first.set_owner(made)
    assert [each.name async for each in kr8.get("widgets.example.com")] == ["w"]
    await first.delete()
    assert not await first.exists()


async def test_kr8s_watch_resumes(kr8: Any) -> None:
    made = await kr8s.asyncio.objects.ConfigMap(config_map("a", n="1"), api=kr8)
    await made.create()
    since = made.metadata.resourceVersion
    await made.patch({"data": {"n": "2"}})
    await made.delete()
    seen = []
    async with asyncio.timeout(90):
        async for kind, each in kr8.watch("configmaps", namespace="default", since=since):
            seen.append((kind, each.raw.data.n))
            if kind == "DELETED":
                break
    assert seen == [("MODIFIED", "2"), ("DELETED", "2")]


async def _each(found: Any) -> AsyncIterator[Any]:
    for each in found:
        yield each


# pykube-ng: https://pykube.readthedocs.io


def test_pykube(tenant: Caller) -> None:
    define(tenant)
    api = pykube.HTTPClient(pykube.KubeConfig.from_file(str(tenant.kubeconfig)))
    made = pykube.ConfigMap(api, config_map("a", n="1"))
    made.create()
    made.patch({"data": {"n": "2"}})
    made.obj["data"]["m"] = "3"
    made.update()
    assert pykube.ConfigMap.objects(api).get_by_name("a").obj["data"] == {"n": "2", "m": "3"}
    table = pykube.ConfigMap.objects(api).filter(namespace="default").as_table()
    assert [each["name"] for each in table.columns] == ["Name", "Data", "Age"] and len(table.rows) == 1
    widgets = pykube.object_factory(api, "example.com/v1", "Widget")
    first = widgets(api, widget("w", 1))
    first.create()
    since = widgets.objects(api).filter(namespace="default").response["metadata"]["resourceVersion"]
    first.reload()
    first.obj["spec"]["size"] = 2
    first.update(is_strategic=False)
    first.delete("Background")
    seen = []
    for event in (
        widgets.objects(api).filter(namespace="default").watch(since=since, params={"timeoutSeconds": "60"})
    ):
        seen.append((event.type, event.object.obj["spec"]["size"]))
        if event.type == "DELETED":
            break
    assert seen[0] == ("MODIFIED", 2) and seen[-1] == ("DELETED", 2)
    with pytest.raises(pykube.exceptions.ObjectDoesNotExist):
        widgets.objects(api).get_by_name("w")


# The examples


@pytest.mark.parametrize(
    "program", sorted((ROOT / "examples" / "clients").glob("*.py")), ids=lambda path: path.stem
)
def test_an_example_follows_pods(tenant: Caller, program: Path) -> None:
    pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert tenant.post("/api/v1/namespaces/default/pods", pod).status == 201
    environment = {"KUBECONFIG": str(tenant.kubeconfig), "PATH": "/usr/bin:/bin"}
    following = subprocess.Popen(
        [sys.executable, "-W", "ignore", str(program)], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert following.stdout is not None
        assert following.stdout.readline() == "ADDED web Pending\n"
        tenant.delete("/api/v1/namespaces/default/pods/web?gracePeriodSeconds=0")
        assert following.stdout.readline().split()[1] == "web"
    finally:
        following.kill()
        following.communicate()
