"""A tenant moves to an API server of its own and back: its objects, pods and credentials stay what they are."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from alcove.api.objects import Object
from alcove.testing.cluster import PODS, HollowCluster, condition, pod
from alcove.testing.dedicated import DedicatedServer, HollowPlanes
from alcove.testing.server import Caller, wait_until

SECONDS_MAX = 60.0
TENANT = "/api/v1/tenants/acme"
MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
GEARS = "/apis/shared.example/v1/namespaces/default/gears"
"""Of a CRD that ring0 shares with all tenants."""
SHARED = "arktos.futurewei.com/crd-sharing-policy"
KEPT = (
    "/api/v1/namespaces",
    MAPS,
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/serviceaccounts",
    "/api/v1/namespaces/default/services",
    PODS,
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/replicasets",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    DEFINITIONS,
    WIDGETS,
    GEARS,
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HollowCluster]:
    with HollowCluster(tmp_path_factory.mktemp("moving")) as running:
        yield running


def definition(plural: str, kind: str, group: str, **labels: str) -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    spec = {"group": group, "names": names, "scope": "Namespaced", "versions": [version]}
    return {"metadata": {"name": f"{plural}.{group}", "labels": labels}, "spec": spec}


def make_objects(system: Caller, admin: Caller) -> None:
    shared = definition("gears", "Gear", "shared.example", **{SHARED: "forced"})
    assert system.post(DEFINITIONS, shared).status == 201
    wait_until(lambda: admin.post(GEARS, {"metadata": {"name": "one"}, "teeth": 7}).status == 201)
    assert admin.post(DEFINITIONS, definition("widgets", "Widget", "example.com")).status == 201
    wait_until(lambda: admin.post(WIDGETS, {"metadata": {"name": "one"}, "size": 1}).status == 201)
    secret = {"metadata": {"name": "key"}, "stringData": {"password": "hidden"}}
    assert admin.post("/api/v1/namespaces/default/secrets", secret).status == 201
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod("web")["spec"]}
    template["spec"].pop("terminationGracePeriodSeconds")
    web = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    path = "/apis/apps/v1/namespaces/default/deployments"
    assert admin.post(path, {"metadata": {"name": "web"}, "spec": web}).status == 201
    service = {"selector": {"app": "web"}, "ports": [{"port": 80}], "type": "NodePort"}
    service_path = "/api/v1/namespaces/default/services"
    assert admin.post(service_path, {"metadata": {"name": "web"}, "spec": service}).status == 201
    for number in range(300):
        answer = admin.post(MAPS, {"metadata": {"name": f"m{number}"}, "data": {"x": "y" * 500}})
        assert answer.status == 201, answer.body

    def are_running() -> bool:
        pods = admin.get(PODS).json["items"]
        return len(pods) == 2 and all(condition(each, "Ready") == "True" for each in pods)

    wait_until(are_running, SECONDS_MAX)


def kept(admin: Caller) -> dict[str, Object]:
    """What must not change, by path and name."""
    found: dict[str, Object] = {}
    for path in KEPT:
        answer = admin.get(path)
        assert answer.status == 200, (path, answer.body)
        for each in answer.json["items"]:
            each["metadata"].pop("resourceVersion")
            labels = each["metadata"].get("labels") or {}
            is_built_in = "kubernetes.io/bootstrapping" in labels or SHARED in labels
            if each["metadata"]["name"] == "kube-root-ca.crt" or is_built_in:
                continue  # The one has the authority of the API server, the others are the server's.
            found[f"{path}/{each['metadata']['name']}"] = each
    return found


def revision_of(admin: Caller) -> int:
    return int(admin.get(MAPS).json["metadata"]["resourceVersion"])


def endpoints(system: Caller) -> dict[str, str]:
    """The addresses of the tenant's pods and services, in ring0."""
    items = system.get("/apis/mizar.com/v1/endpoints").json["items"]
    return {
        each["metadata"]["uid"]: each["spec"].get("ip", "")
        for each in items
        if str(each["spec"].get("pod", "")).startswith("acme/")
    }


def change_mode(system: Caller, mode: str) -> None:
    answer = system.patch(TENANT, {"spec": {"controlPlane": {"mode": mode, "storage": {"size": "64Mi"}}}})
    assert answer.status == 200, answer.body


def wait_moved(system: Caller, mode: str) -> None:
    def has_moved() -> bool:
        tenant = system.get(TENANT).json
        is_served = tenant["status"]["controlPlane"]["mode"] == mode
        return is_served and condition(tenant, "Moving") == "False"

    try:
        wait_until(has_moved, SECONDS_MAX)
    except AssertionError as error:
        raise AssertionError(system.get(TENANT).json["status"]) from error


def token_of(caller: Caller) -> str:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    answer = caller.post(path, {"spec": {"expirationSeconds": 3600}})
    assert answer.status == 201, answer.body
    return str(answer.json["status"]["token"])


def who_is(caller: Caller, token: str) -> Object:
    review = {"spec": {"token": token}}
    answer = caller.post("/apis/authentication.k8s.io/v1/tenants/acme/tokenreviews", review)
    assert answer.status == 201, answer.body
    found: Object = answer.json["status"]
    return found


def watch(admin: Caller, revision: int) -> str:
    return admin.get(f"{MAPS}?watch=1&resourceVersion={revision}&timeoutSeconds=30").body.decode()


def check_move(cluster: HollowCluster, admin: Caller, before: dict[str, Object], revision: int) -> None:
    """The tenant's objects are the same; its clients list again, and can write."""
    after = kept(admin)
    assert after.keys() == before.keys()
    for path, obj in before.items():
        assert after[path] == obj, path
    assert revision_of(admin) > revision, "revisions go on"
    assert '"code":410' in watch(admin, revision)
    assert admin.patch(f"{MAPS}/m1", {"data": {"x": "changed"}}).status == 200
    before[f"{MAPS}/m1"] = kept(admin)[f"{MAPS}/m1"]
    assert cluster.restarts == 0


def test_a_tenant_moves_to_its_own_api_server_and_back(cluster: HollowCluster, tmp_path: Path) -> None:
    system, admin = cluster.server.system, cluster.make_tenant("acme")
    make_objects(system, admin)
    planes = HollowPlanes(cluster.server, tmp_path)
    addresses = endpoints(system)
    before, revision, token = kept(admin), revision_of(admin), token_of(admin)
    assert addresses
    plane: DedicatedServer | None = None
    try:
        with ThreadPoolExecutor() as threads:
            watching = threads.submit(watch, cluster.server.as_tenant("acme"), revision)
            change_mode(system, "Dedicated")
            plane = planes.start("acme")
            wait_moved(system, "Dedicated")
            assert '"code":410' in watching.result(), "the watch has ended"
        check_move(cluster, admin, before, revision)
        assert who_is(plane.system, token).get("authenticated"), "tokens of before are valid"
        left = system.get(f"{TENANT}/content").json["objects"]
        assert not left, "nothing is left at home"
        assert endpoints(system) == addresses
        revision, token = revision_of(admin), token_of(admin)
        assert not who_is(plane.system, token[:-4] + "AAAA").get("authenticated")
        change_mode(system, "Shared")
        wait_moved(system, "Shared")
    finally:
        if plane is not None:
            plane.stop()
    check_move(cluster, admin, before, revision)
    assert who_is(system, token).get("authenticated")
    assert endpoints(system) == addresses
    assert system.get("/apis/apps/v1/namespaces/kube-system/statefulsets/plane-acme").status == 404
    assert admin.delete(f"{PODS}?labelSelector=app%3Dweb").status == 200
    wait_until(lambda: len(admin.get(PODS).json["items"]) >= 2, SECONDS_MAX)
    assert system.delete(TENANT).status == 200
    wait_until(lambda: system.get(TENANT).status == 404, SECONDS_MAX)
