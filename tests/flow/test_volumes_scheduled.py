"""Storage from a tenant's manifest to a placed pod: class, claim, scheduler, provisioner and binder together."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from alcove.api import meta
from alcove.testing.scheduler import LocalScheduler
from alcove.testing.scheduling import node
from alcove.testing.server import Caller, LocalServer, wait_until

PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
BEAT_SECONDS = 5.0


@contextmanager
def heard_of(server: LocalServer, names: tuple[str, ...]) -> Iterator[None]:
    """The nodes say that they are ready, now and then: of a silent one the controllers keep pods away after a minute,
    and on a busy machine the tests below take longer."""
    over = threading.Event()
    ring0 = Caller(server.admin_kubeconfig)

    def beat() -> None:
        while True:
            condition = {
                "type": "Ready",
                "status": "True",
                "lastHeartbeatTime": meta.format_time(time.time()),
            }
            for name in names:
                ring0.patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": [condition]}})
            if over.wait(BEAT_SECONDS):
                return

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        ring0.close()


@pytest.fixture(scope="module")
def nodes(control_plane: LocalServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    names = ("disk-1", "disk-2")
    for name in names:
        made = node(name, cpu="4")
        del made["metadata"]["uid"]
        assert control_plane.system.post("/api/v1/nodes", made).status == 201
    directory: Path = tmp_path_factory.mktemp("scheduler")
    scheduler = LocalScheduler(control_plane.admin_kubeconfig, directory)
    with heard_of(control_plane, names), scheduler:
        yield control_plane
    for name in names:
        control_plane.system.delete(f"/api/v1/nodes/{name}")


def stateful_set(replicas: int) -> dict[str, Any]:
    template = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    container = {
        "name": "db",
        "image": "db",
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "resources": {"requests": {"cpu": "10m"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db",
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [container]}},
            "volumeClaimTemplates": [template],
        },
    }


def placed(caller: Caller) -> dict[str, str]:
    items = caller.get(PODS).json["items"]
    return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in items}


def bound(caller: Caller) -> int:
    return sum(each["status"]["phase"] == "Bound" for each in caller.get(CLAIMS).json["items"])


def test_a_stateful_sets_claims_get_volumes_where_its_pods_are(
    nodes: LocalServer, tenant_admins: Callable[[], Caller]
) -> None:
    for caller in (tenant_admins(), tenant_admins()):
        caller.kubectl("create", "-f", "-", stdin=json.dumps(stateful_set(3)))
        wait_until(lambda: len(placed(caller)) == 3 and all(placed(caller).values()))  # noqa: B023 - called at once
        # A pod is placed when its claim has a volume; the claim's status follows.
        wait_until(lambda: bound(caller) == 3)  # noqa: B023 - called at once
        volumes = {
            each["metadata"]["name"]: each for each in caller.get("/api/v1/persistentvolumes").json["items"]
        }
        assert len(volumes) == 3
        for name, where in placed(caller).items():
            claim = caller.get(f"{CLAIMS}/data-{name}").json
            assert claim["spec"]["storageClassName"] == "local"
            assert volumes[claim["spec"]["volumeName"]]["metadata"]["labels"]["alcove.io/node"] == where
        shown = caller.kubectl("get", "storageclass,persistentvolumeclaims")
        assert "local (default)" in shown and shown.count("Bound") == 3


def test_the_tenant_goes_with_its_volumes(nodes: LocalServer, tenant_admin: Caller) -> None:
    tenant_admin.kubectl("create", "-f", "-", stdin=json.dumps(stateful_set(1)))
    wait_until(lambda: (found := placed(tenant_admin)) and all(found.values()))
    tenant = tenant_admin.get(PODS).json["items"][0]["metadata"]["tenant"]
    nodes.system.delete(f"/api/v1/tenants/{tenant}")
    volumes = f"/api/v1/tenants/{tenant}/persistentvolumes"

    def held() -> list[Any]:
        """Nobody is there to end the pod, nor to wipe the volume: here the node's agent is this test."""
        for each in nodes.system.get(f"/api/v1/tenants/{tenant}/pods").json.get("items", []):
            where = f"/api/v1/tenants/{tenant}/namespaces/default/pods/{each['metadata']['name']}"
            nodes.system.delete(f"{where}?gracePeriodSeconds=0")
        return [
            each["metadata"].get("finalizers") for each in nodes.system.get(volumes).json.get("items", [])
        ]

    wait_until(lambda: held() == [["alcove.io/local-volume"]])
    name = nodes.system.get(volumes).json["items"][0]["metadata"]["name"]
    nodes.system.patch(f"{volumes}/{name}", {"metadata": {"finalizers": []}})
    wait_until(lambda: nodes.system.get(f"/api/v1/tenants/{tenant}").status == 404)
