"""ResourceQuota through a real server: exact whatever happens at once, released with what it was for."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from alcove.testing.server import Caller, LocalServer, ServerResponse

NAMESPACE = "/api/v1/namespaces/default"
PODS = f"{NAMESPACE}/pods"
QUOTAS = f"{NAMESPACE}/resourcequotas"
MAPS = f"{NAMESPACE}/configmaps"
CLAIMS = f"{NAMESPACE}/persistentvolumeclaims"


def pod(name: str, requests: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    resources = {"requests": requests, "limits": requests} if requests else {}
    container = {"name": "c", "image": "nginx", "resources": resources}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def quota(name: str = "q", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def config(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def used(caller: Caller, name: str = "q") -> dict[str, str]:
    used: dict[str, str] = caller.get(f"{QUOTAS}/{name}").json["status"]["used"]
    return used


def must(answer: ServerResponse, status: int = 201) -> Any:
    assert answer.status == status, answer.body
    return answer.json


def at_once(caller: Caller, requests: list[tuple[str, str, Any]], workers: int = 16) -> list[ServerResponse]:
    """All requests, each on one of several connections of the same caller."""

    def run(share: list[tuple[str, str, Any]]) -> list[ServerResponse]:
        own = Caller(caller.kubeconfig)
        answers = [own.request(*each) for each in share]
        own.close()
        return answers

    with ThreadPoolExecutor(workers) as pool:
        shares = pool.map(run, [requests[start::workers] for start in range(workers)])
        return [answer for share in shares for answer in share]


def test_of_64_pods_at_once_exactly_as_many_as_the_quota_allows(tenant: Caller) -> None:
    must(tenant.post(QUOTAS, quota(hard={"pods": "10"})))
    answers = at_once(tenant, [("POST", PODS, pod(f"p{number}")) for number in range(64)], workers=64)
    assert sorted(answer.status for answer in answers) == [201] * 10 + [403] * 54
    refused = next(answer for answer in answers if answer.status == 403)
    assert refused.json["reason"] == "Forbidden"
    assert refused.json["message"].endswith(
        "is forbidden: exceeded quota: q, requested: pods=1, used: pods=10, limited: pods=10"
    )
    assert used(tenant) == {"pods": "10"}
    assert len(tenant.get(PODS).json["items"]) == 10


def test_used_is_what_is_there_after_creates_and_deletes_at_once(tenant: Caller) -> None:
    must(tenant.post(QUOTAS, quota(hard={"pods": "40", "requests.cpu": "8", "count/pods": "100"})))
    asked = {"cpu": "100m"}
    at_once(tenant, [("POST", PODS, pod(f"a{number}", asked)) for number in range(20)])
    mixed: list[tuple[str, str, Any]] = [("DELETE", f"{PODS}/a{number}", None) for number in range(20)]
    mixed += [("POST", PODS, pod(f"b{number}", asked)) for number in range(13)]
    answers = at_once(tenant, mixed)
    assert all(answer.status in (200, 201) for answer in answers)
    assert used(tenant) == {"pods": "13", "requests.cpu": "1300m", "count/pods": "13"}


def test_a_new_quota_counts_what_was_there_before_it(tenant: Caller) -> None:
    for number in range(3):
        must(tenant.post(MAPS, config(f"m{number}")))
    made = must(tenant.post(QUOTAS, quota(hard={"configmaps": "4", "resourcequotas": "2"})))
    assert made["status"] == {
        "hard": {"configmaps": "4", "resourcequotas": "2"},
        "used": {"configmaps": "3", "resourcequotas": "1"},
    }
    must(tenant.post(MAPS, config("m3")))
    assert tenant.post(MAPS, config("m4")).json["message"] == (
        'configmaps "m4" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=4, '
        "limited: configmaps=4"
    )


def test_a_quota_made_while_others_write_ends_up_right(tenant: Caller) -> None:
    requests: list[tuple[str, str, Any]] = [("POST", MAPS, config(f"m{number}")) for number in range(120)]
    requests.insert(50, ("POST", QUOTAS, quota(hard={"configmaps": "1000"})))
    answers = at_once(tenant, requests, workers=24)
    assert all(answer.status == 201 for answer in answers)
    must(tenant.post(MAPS, config("last")))
    assert used(tenant) == {"configmaps": "121"}


def test_what_a_status_says_is_counted_not_believed(tenant: Caller) -> None:
    made = must(tenant.post(QUOTAS, quota(hard={"pods": "1"})))
    must(tenant.post(PODS, pod("p")))
    made["status"]["used"] = {"pods": "0"}
    made["metadata"].pop("resourceVersion")
    body = must(tenant.put(f"{QUOTAS}/q/status", made), 200)
    assert body["status"]["used"] == {"pods": "1"}
    assert tenant.post(PODS, pod("p2")).status == 403


def test_limits_in_a_status_are_shown_and_bind_nobody(tenant: Caller) -> None:
    must(tenant.post(QUOTAS, quota(hard={"pods": "1"})))
    shown = must(tenant.patch(f"{QUOTAS}/q/status", {"status": {"hard": {"pods": "7"}}}), 200)
    assert shown["status"] == {"hard": {"pods": "7"}, "used": {"pods": "0"}}
    assert shown["spec"]["hard"] == {"pods": "1"}
    must(tenant.post(PODS, pod("p")))
    assert "limited: pods=1" in tenant.post(PODS, pod("p2")).json["message"]
    assert tenant.patch(f"{QUOTAS}/q/status", {"status": {"hard": {"pods": "-1"}}}).status == 422


def test_raising_the_limit_lets_more_in_and_counts_what_is_new_in_it(tenant: Caller) -> None:
    must(tenant.post(QUOTAS, quota(hard={"pods": "1"})))
    must(tenant.post(MAPS, config("m")))
    must(tenant.post(PODS, pod("a")))
    assert tenant.post(PODS, pod("b")).status == 403
    patched = must(tenant.patch(f"{QUOTAS}/q", {"spec": {"hard": {"pods": "2", "configmaps": "5"}}}), 200)
    assert patched["status"]["used"] == {"pods": "1", "configmaps": "1"}
    must(tenant.post(PODS, pod("b")))


def test_pods_must_say_what_a_quota_counts(tenant: Caller) -> None:
    must(tenant.post(QUOTAS, quota(hard={"limits.cpu": "2", "requests.memory": "1Gi"})))
    message = tenant.post(PODS, pod("p")).json["message"]
    assert message == (
        'pods "p" is forbidden: failed quota: q: must specify limits.cpu for: c; requests.memory for: c'
    )
    must(tenant.post(PODS, pod("p", {"cpu": "500m", "memory": "256Mi"})))
    assert used(tenant) == {"limits.cpu": "500m", "requests.memory": "256Mi"}
    message = tenant.post(PODS, pod("q", {"cpu": "1600m", "memory": "1Gi"})).json["message"]
    assert message.endswith(
        "exceeded quota: q, requested: limits.cpu=1600m,requests.memory=1Gi, "
        "used: limits.cpu=500m,requests.memory=256Mi, limited: limits.cpu=2,requests.memory=1Gi"
    )


def test_an_ended_pod_uses_only_its_place_among_objects(tenant: Caller) -> None:
    must(tenant.post(QUOTAS, quota(hard={"pods": "1", "count/pods": "2"})))
    must(tenant.post(PODS, pod("job")))
    assert tenant.post(PODS, pod("next")).status == 403
    must(tenant.patch(f"{PODS}/job/status", {"status": {"phase": "Succeeded"}}), 200)
    assert used(tenant) == {"pods": "0", "count/pods": "1"}
    must(tenant.post(PODS, pod("next")))
    assert tenant.post(PODS, pod("third")).status == 403


def test_scopes(tenant: Caller) -> None:
    must(tenant.post(QUOTAS, quota("short", hard={"pods": "1"}, scopes=["Terminating"])))
    must(tenant.post(QUOTAS, quota("long", hard={"pods": "1"}, scopes=["NotTerminating"])))
    must(tenant.post(QUOTAS, quota("best-effort", hard={"pods": "1"}, scopes=["BestEffort"])))
    must(tenant.post(PODS, pod("a", {"cpu": "1m"})))
    assert "exceeded quota: long" in tenant.post(PODS, pod("b", {"cpu": "1m"})).json["message"]
    must(tenant.post(PODS, pod("c", activeDeadlineSeconds=60)))
    assert used(tenant, "short") == {"pods": "1"}
    assert used(tenant, "best-effort") == {"pods": "1"}
    message = tenant.patch(f"{PODS}/a", {"spec": {"activeDeadlineSeconds": 5}}).json["message"]
    assert "exceeded quota: short" in message
    must(tenant.delete(f"{PODS}/c"), 200)
    must(tenant.patch(f"{PODS}/a", {"spec": {"activeDeadlineSeconds": 5}}), 200)
    assert used(tenant, "short") == {"pods": "1"}
    assert used(tenant, "long") == {"pods": "0"}


def test_a_scope_of_priorities(tenant: Caller) -> None:
    priority = {"metadata": {"name": "high"}, "value": 100}
    must(tenant.post("/apis/scheduling.k8s.io/v1/priorityclasses", priority))
    selector = {
        "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}],
    }
    must(tenant.post(QUOTAS, quota(hard={"pods": "1"}, scopeSelector=selector)))
    must(tenant.post(PODS, pod("a", priorityClassName="high")))
    must(tenant.post(PODS, pod("b")))
    assert tenant.post(PODS, pod("c", priorityClassName="high")).status == 403


def test_storage_by_class(tenant: Caller) -> None:
    gold = "gold.storageclass.storage.k8s.io"
    hard = {
        "requests.storage": "10Gi",
        f"{gold}/requests.storage": "2Gi",
        f"{gold}/persistentvolumeclaims": "9",
    }
    must(tenant.post(QUOTAS, quota(hard=hard)))

    def claim(name: str, size: str, storage_class: str) -> dict[str, Any]:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": storage_class,
        }
        return {"metadata": {"name": name}, "spec": spec}

    must(tenant.post(CLAIMS, claim("a", "1Gi", "gold")))
    must(tenant.post(CLAIMS, claim("b", "5Gi", "iron")))
    refused = tenant.post(CLAIMS, claim("c", "2Gi", "gold"))
    assert (
        f"requested: {gold}/requests.storage=2Gi, used: {gold}/requests.storage=1Gi"
        in refused.json["message"]
    )
    assert used(tenant) == {
        "requests.storage": "6Gi",
        f"{gold}/requests.storage": "1Gi",
        f"{gold}/persistentvolumeclaims": "1",
    }


def test_services(tenant: Caller) -> None:
    hard = {"services": "3", "services.nodeports": "2", "services.loadbalancers": "1"}
    must(tenant.post(QUOTAS, quota(hard=hard)))
    services = f"{NAMESPACE}/services"

    def service(name: str, kind: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}]}}

    must(tenant.post(services, service("a", "ClusterIP")))
    must(tenant.post(services, service("b", "LoadBalancer")))
    assert used(tenant) == {"services": "2", "services.nodeports": "1", "services.loadbalancers": "1"}
    assert "services.loadbalancers=1" in tenant.post(services, service("c", "LoadBalancer")).json["message"]
    must(tenant.patch(f"{services}/a", {"spec": {"type": "NodePort"}}), 200)
    assert used(tenant)["services.nodeports"] == "2"
    must(tenant.patch(f"{services}/b", {"spec": {"type": "ClusterIP"}}), 200)
    assert used(tenant) == {"services": "2", "services.nodeports": "1", "services.loadbalancers": "0"}


def test_objects_of_any_kind_by_count(tenant: Caller) -> None:
    must(tenant.post(QUOTAS, quota(hard={"count/roles.rbac.authorization.k8s.io": "1"})))
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
    must(tenant.post(roles, {"metadata": {"name": "a"}, "rules": []}))
    assert tenant.post(roles, {"metadata": {"name": "b"}, "rules": []}).status == 403
    must(tenant.delete(f"{roles}/a"), 200)
    must(tenant.post(roles, {"metadata": {"name": "b"}, "rules": []}))


def test_a_finalizer_holds_the_quota_until_it_is_removed(tenant: Caller) -> None:
    must(tenant.post(QUOTAS, quota(hard={"configmaps": "1"})))
    must(tenant.post(MAPS, {"metadata": {"name": "m", "finalizers": ["example.com/hold"]}}))
    must(tenant.delete(f"{MAPS}/m"), 200)
    assert used(tenant) == {"configmaps": "1"}
    must(tenant.patch(f"{MAPS}/m", {"metadata": {"finalizers": None}}), 200)
    assert used(tenant) == {"configmaps": "0"}


def test_a_dry_run_is_checked_and_charges_nothing(tenant: Caller) -> None:
    must(tenant.post(QUOTAS, quota(hard={"configmaps": "1"})))
    must(tenant.post(f"{MAPS}?dryRun=All", config("m")))
    assert used(tenant) == {"configmaps": "0"}
    must(tenant.post(MAPS, config("m")))
    assert tenant.post(f"{MAPS}?dryRun=All", config("n")).status == 403


def test_another_namespace_is_not_charged(server: LocalServer, tenant: Caller) -> None:
    must(tenant.post(QUOTAS, quota(hard={"configmaps": "0"})))
    must(tenant.post("/api/v1/namespaces/kube-public/configmaps", config("m")))
    assert tenant.post(MAPS, config("m")).status == 403


@pytest.fixture
def limited(server: LocalServer, tenant: Caller) -> str:
    """The path of a Tenant that may hold five config maps and one more namespace than it has."""
    name = tenant.get("/api/v1/namespaces/default").json["metadata"]["tenant"]
    path = f"/api/v1/tenants/{name}"
    hard = {"count/configmaps": "5", "count/namespaces": "4"}
    must(server.system.patch(path, {"spec": {"quota": {"hard": hard}}}), 200)
    return path


def test_a_tenant_as_a_whole(server: LocalServer, tenant: Caller, limited: str) -> None:
    paths = [MAPS, "/api/v1/namespaces/kube-public/configmaps"]
    requests: list[tuple[str, str, Any]] = [
        ("POST", paths[number % 2], config(f"m{number}")) for number in range(12)
    ]
    answers = at_once(tenant, requests, workers=12)
    assert sorted(answer.status for answer in answers) == [201] * 5 + [403] * 7
    refused = next(answer for answer in answers if answer.status == 403)
    assert ": exceeded quota: tenant t" in refused.json["message"]
    must(tenant.post("/api/v1/namespaces", config("more")))
    assert tenant.post("/api/v1/namespaces", config("too-many")).status == 403
    status = server.system.get(limited).json["status"]
    assert status["quota"]["used"] == {"count/configmaps": "5", "count/namespaces": "4"}
    # Whoever writes the tenant's status cannot change what is used.
    must(server.system.patch(f"{limited}/status", {"status": {"quota": None}}), 200)
    assert server.system.get(limited).json["status"]["quota"] == status["quota"]


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[LocalServer]:
    with LocalServer(tmp_path / "own") as running:
        yield running


def test_kill_9_while_charging_leaves_what_is_there(own_server: LocalServer) -> None:
    tenant = own_server.make_tenant("acme")
    must(tenant.post(QUOTAS, quota(hard={"configmaps": "100000"})))

    def write(worker: int) -> None:
        own = Caller(tenant.kubeconfig)
        for number in range(10_000):
            try:
                own.post(MAPS, config(f"m-{worker}-{number}"))
                own.delete(f"{MAPS}/m-{worker}-{number - 3}")
            except OSError:
                return

    with ThreadPoolExecutor(4) as pool:
        for worker in range(4):
            pool.submit(write, worker)
        while len(tenant.get(MAPS).json["items"]) < 10:
            continue
        own_server.kill()
    own_server.start()
    tenant = own_server.as_tenant("acme")
    there = len(tenant.get(MAPS).json["items"])
    assert used(tenant) == {"configmaps": str(there)}


def test_what_quotas_refuse_is_counted_for_the_tenant(tenant: Caller, server: LocalServer) -> None:
    must(tenant.post(QUOTAS, quota(hard={"configmaps": "0"})))
    assert tenant.post(MAPS, config("m")).status == 403
    assert tenant.post(MAPS, {"metadata": {"name": "Bad"}}).status == 422
    name = tenant.get(f"{QUOTAS}/q").json["metadata"]["tenant"]
    text = server.system.get("/metrics").body.decode()
    series = f'alcove_tenant_refused_requests_total{{limit="quota",tenant="{name}"'
    (line,) = [line for line in text.splitlines() if line.startswith(series)]
    assert float(line.split()[-1]) == 1
