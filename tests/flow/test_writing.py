"""create, update, patch, delete through a real server: names, conflicts, status, generation, finalizers."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from alcove.testing.server import Caller, LocalServer

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def deployment(name: str = "web", **spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "nginx"}]},
    }
    full_spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": full_spec}


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "nginx"}], **spec}}


# create


def test_what_the_server_says_of_a_new_object(tenant: Caller) -> None:
    sent = {
        "metadata": {"name": "a", "uid": "mine", "generation": 9, "creationTimestamp": "2001-01-01T00:00:00Z"}
    }
    made = tenant.post(MAPS, sent).json
    metadata = made["metadata"]
    assert metadata["uid"] != "mine" and metadata["creationTimestamp"] > "2020"
    assert (
        metadata["tenant"]
        and metadata["selfLink"] == f"/api/v1/tenants/{metadata['tenant']}/namespaces/default/configmaps/a"
    )
    again = tenant.post(MAPS, sent)
    assert again.status == 409 and again.json["message"] == 'configmaps "a" already exists'
    assert again.json["reason"] == "AlreadyExists"


def test_generated_names(tenant: Caller) -> None:
    found = {
        tenant.post(MAPS, {"metadata": {"generateName": "job-"}}).json["metadata"]["name"] for _ in range(5)
    }
    assert len(found) == 5 and all(name.startswith("job-") and len(name) == 9 for name in found)
    nameless = tenant.post(MAPS, {"metadata": {}})
    assert nameless.status == 422 and "name or generateName is required" in nameless.json["message"]


def test_dry_run_checks_everything_and_writes_nothing(tenant: Caller) -> None:
    assert tenant.post(f"{MAPS}?dryRun=All", {"metadata": {"name": "ghost"}}).status == 201
    assert tenant.get(f"{MAPS}/ghost").status == 404
    assert tenant.post(f"{MAPS}?dryRun=All", {"metadata": {"name": "BAD NAME"}}).status == 422
    assert tenant.post(f"{MAPS}?dryRun=Some", {"metadata": {"name": "x"}}).status == 422
    tenant.post(MAPS, {"metadata": {"name": "real"}})
    assert tenant.delete(f"{MAPS}/real?dryRun=All").status == 200
    assert tenant.patch(f"{MAPS}/real?dryRun=All", {"data": {"a": "b"}}).json["data"] == {"a": "b"}
    assert "data" not in tenant.get(f"{MAPS}/real").json


def test_where_body_and_path_disagree(tenant: Caller) -> None:
    assert tenant.post(MAPS, {"metadata": {"name": "a", "namespace": "kube-system"}}).status == 400
    assert tenant.post(MAPS, {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a"}}).status == 400
    assert tenant.post("/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "a"}}).status == 404
    tenant.post(MAPS, {"metadata": {"name": "a"}})
    response = tenant.put(f"{MAPS}/a", {"metadata": {"name": "b"}})
    assert response.status == 400 and "does not match the name on the URL" in response.json["message"]


# update


def test_a_stale_update_conflicts(tenant: Caller) -> None:
    first = tenant.post(MAPS, {"metadata": {"name": "a"}, "data": {"n": "0"}}).json
    assert tenant.put(f"{MAPS}/a", {**first, "data": {"n": "1"}}).status == 200
    stale = tenant.put(f"{MAPS}/a", {**first, "data": {"n": "2"}})
    assert stale.status == 409 and stale.json["reason"] == "Conflict"
    assert "the object has been modified" in stale.json["message"]
    assert tenant.put(f"{MAPS}/a", {"metadata": {"name": "a"}, "data": {"n": "3"}}).status == 200
    other = {**first, "metadata": {"name": "a", "uid": "00000000-0000-0000-0000-000000000000"}}
    assert tenant.put(f"{MAPS}/a", other).status == 409


def test_an_update_that_changes_nothing_writes_nothing(tenant: Caller) -> None:
    made = tenant.post(MAPS, {"metadata": {"name": "a"}, "data": {"n": "0"}}).json
    again = tenant.put(f"{MAPS}/a", {"metadata": {"name": "a"}, "data": {"n": "0"}}).json
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_concurrent_patches_all_count(server: LocalServer, tenant: Caller) -> None:
    tenant.post(MAPS, {"metadata": {"name": "a"}, "data": {}})

    def patch(number: int) -> int:
        caller = Caller(tenant.kubeconfig)
        try:
            return caller.patch(f"{MAPS}/a", {"data": {f"k{number}": "v"}}).status
        finally:
            caller.close()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(patch, range(40))) == {200}
    assert len(tenant.get(f"{MAPS}/a").json["data"]) == 40


def test_spec_and_status_are_written_apart(tenant: Caller) -> None:
    made = tenant.post(DEPLOYMENTS, {**deployment(), "status": {"replicas": 7}}).json
    assert made["metadata"]["generation"] == 1 and made.get("status", {}).get("replicas") is None
    body = {"spec": {"replicas": 3}, "status": {"replicas": 5}}
    changed = tenant.patch(f"{DEPLOYMENTS}/web", body).json
    assert (changed["spec"]["replicas"], changed["metadata"]["generation"]) == (3, 2)
    assert changed.get("status", {}).get("replicas") is None
    changed = tenant.patch(
        f"{DEPLOYMENTS}/web/status", {"spec": {"replicas": 9}, "status": {"replicas": 5}}
    ).json
    assert (changed["spec"]["replicas"], changed["status"]["replicas"]) == (3, 5)
    assert changed["metadata"]["generation"] == 2


def test_scale(tenant: Caller) -> None:
    tenant.post(DEPLOYMENTS, deployment(replicas=2))
    scale = tenant.get(f"{DEPLOYMENTS}/web/scale").json
    assert (scale["kind"], scale["spec"]["replicas"], scale["status"]["selector"]) == ("Scale", 2, "app=web")
    assert (
        tenant.put(f"{DEPLOYMENTS}/web/scale", {**scale, "spec": {"replicas": 5}}).json["spec"]["replicas"]
        == 5
    )
    assert tenant.get(f"{DEPLOYMENTS}/web").json["spec"]["replicas"] == 5
    assert tenant.put(f"{DEPLOYMENTS}/web/scale", scale).status == 409
    assert tenant.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": -1}}).status == 422


def test_immutable_fields_are_reported(tenant: Caller) -> None:
    tenant.post(DEPLOYMENTS, deployment())
    response = tenant.patch(f"{DEPLOYMENTS}/web", {"spec": {"selector": {"matchLabels": {"app": "other"}}}})
    assert response.status == 422 and "field is immutable" in response.json["message"]
    assert response.json["details"]["causes"]


# binding, eviction


def test_a_tenant_does_not_bind_pods_unless_ring0_lets_it(server: LocalServer, tenant: Caller) -> None:
    """It could put its pods on nodes that the scheduler keeps for others."""
    name = tenant.post(PODS, pod()).json["metadata"]["tenant"]
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    for path in (f"{PODS}/p/binding", "/api/v1/namespaces/default/bindings"):
        answer = tenant.post(path, binding)
        assert answer.status == 403 and "only the scheduler binds pods" in answer.json["message"]
    assert "nodeName" not in tenant.get(f"{PODS}/p").json["spec"]
    may_bind(server, name)
    assert tenant.post(f"{PODS}/p/binding", binding).status == 201


def may_bind(server: LocalServer, tenant: str) -> None:
    patch = {"metadata": {"annotations": {"alcove.io/may-bind": "true"}}}
    assert server.system.patch(f"/api/v1/tenants/{tenant}", patch).status == 200


def test_binding_once(server: LocalServer, tenant: Caller) -> None:
    may_bind(server, tenant.post(PODS, pod()).json["metadata"]["tenant"])
    target = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "n1"}}
    answer = tenant.post(f"{PODS}/p/binding", {**target, "metadata": {"name": "p"}})
    assert answer.status == 201, answer.body
    bound = tenant.get(f"{PODS}/p").json
    assert bound["spec"]["nodeName"] == "n1" and bound["metadata"]["generation"] == 1
    assert {"PodScheduled": "True"}.items() <= {
        c["type"]: c["status"] for c in bound["status"]["conditions"]
    }.items()
    again = tenant.post(f"{PODS}/p/binding", {**target, "metadata": {"name": "p"}})
    assert again.status == 409 and 'already assigned to node "n1"' in again.json["message"]


def test_eviction_keeps_to_the_budget(tenant: Caller) -> None:
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    labelled = {**pod(), "metadata": {"name": "p", "labels": {"app": "db"}}}
    tenant.post(PODS, labelled)
    tenant.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}}
    tenant.post(budgets, {"metadata": {"name": "db"}, "spec": spec})
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }
    tenant.patch(f"{budgets}/db/status", {"status": status})
    tenant.patch(f"{PODS}/p/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    refused = tenant.post(f"{PODS}/p/eviction", eviction)
    assert refused.status == 429 and "disruption budget" in refused.json["message"]
    assert refused.json["details"]["causes"][0]["reason"] == "DisruptionBudget"
    # Clients try again by themselves while there is a Retry-After: their users were told after a hundred seconds.
    assert "retry-after" not in refused.headers and "retryAfterSeconds" not in refused.json["details"]
    tenant.patch(f"{budgets}/db/status", {"status": {"observedGeneration": 0}})
    unknown = tenant.post(f"{PODS}/p/eviction", eviction)
    assert unknown.status == 429 and unknown.headers["retry-after"] == "10"
    tenant.patch(f"{budgets}/db/status", {"status": {"observedGeneration": 1, "disruptionsAllowed": 1}})
    assert tenant.post(f"{PODS}/p/eviction", eviction).status == 201
    assert tenant.get(f"{PODS}/p").status == 404
    assert tenant.get(f"{budgets}/db").json["status"]["disruptionsAllowed"] == 0


def test_an_evicted_pod_says_why_it_ends(tenant: Caller) -> None:
    """Once: a second eviction changes nothing."""
    tenant.post(PODS, {**pod(), "metadata": {"name": "p", "finalizers": ["example.com/stay"]}})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert tenant.post(f"{PODS}/p/eviction", eviction).status == 201
    evicted = tenant.get(f"{PODS}/p").json
    (condition,) = [each for each in evicted["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert condition["status"] == "True" and condition["lastTransitionTime"]
    assert (condition["reason"], condition["message"]) == ("EvictionByEvictionAPI", "Eviction API: evicting")
    assert tenant.post(f"{PODS}/p/eviction", eviction).status == 201
    assert tenant.get(f"{PODS}/p").json == evicted


# delete


def test_preconditions(tenant: Caller) -> None:
    made = tenant.post(MAPS, {"metadata": {"name": "a"}}).json
    wrong = {"preconditions": {"uid": "other"}}
    assert tenant.delete(f"{MAPS}/a", wrong).status == 409
    assert tenant.delete(f"{MAPS}/a", {"preconditions": {"resourceVersion": "1"}}).status == 409
    right = {
        "preconditions": {
            "uid": made["metadata"]["uid"],
            "resourceVersion": made["metadata"]["resourceVersion"],
        }
    }
    body = tenant.delete(f"{MAPS}/a", right).json
    assert body["status"] == "Success" and body["details"]["uid"] == made["metadata"]["uid"]
    assert tenant.delete(f"{MAPS}/a").status == 404


def test_finalizers_hold_an_object_until_they_are_gone(tenant: Caller) -> None:
    tenant.post(MAPS, {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}})
    held = tenant.delete(f"{MAPS}/a").json
    assert held["metadata"]["deletionTimestamp"] and held["metadata"]["deletionGracePeriodSeconds"] == 0
    more = tenant.patch(f"{MAPS}/a", {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}})
    assert more.status == 422 and "no new finalizers can be added" in more.json["message"]
    assert tenant.patch(f"{MAPS}/a", {"metadata": {"finalizers": None}}).status == 200
    assert tenant.get(f"{MAPS}/a").status == 404


@pytest.mark.parametrize(
    ("policy", "finalizers"),
    [("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"]), ("Background", None)],
)
def test_propagation_policies(tenant: Caller, policy: str, finalizers: list[str] | None) -> None:
    tenant.post(DEPLOYMENTS, deployment())
    assert tenant.delete(f"{DEPLOYMENTS}/web", {"propagationPolicy": policy}).status == 200
    left = tenant.get(f"{DEPLOYMENTS}/web")
    if finalizers is None:
        assert left.status == 404
    else:
        assert left.json["metadata"]["finalizers"] == finalizers
    assert tenant.delete(f"{DEPLOYMENTS}/web", {"propagationPolicy": "Sideways"}).status == 422


def test_a_running_pod_ends_gracefully(server: LocalServer, tenant: Caller) -> None:
    made = tenant.post(PODS, pod(terminationGracePeriodSeconds=30))
    may_bind(server, made.json["metadata"]["tenant"])
    target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    tenant.post(f"{PODS}/p/binding", target)
    ending = tenant.delete(f"{PODS}/p").json
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 30
    shorter = tenant.delete(f"{PODS}/p", {"gracePeriodSeconds": 5}).json
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    longer = tenant.delete(f"{PODS}/p", {"gracePeriodSeconds": 50}).json
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 5
    assert tenant.delete(f"{PODS}/p", {"gracePeriodSeconds": 0}).status == 200
    assert tenant.get(f"{PODS}/p").status == 404


def test_deletecollection_takes_what_is_selected(tenant: Caller) -> None:
    for number in range(6):
        labels = {"half": "left" if number < 3 else "right"}
        tenant.post(MAPS, {"metadata": {"name": f"m{number}", "labels": labels}})
    assert tenant.delete(f"{MAPS}?labelSelector=half%3Dleft").status == 200
    assert [item["metadata"]["name"] for item in tenant.get(MAPS).json["items"]] == ["m3", "m4", "m5"]


# field validation


def test_unknown_and_duplicate_fields(tenant: Caller) -> None:
    raw = b'{"metadata":{"name":"a"},"dta":{},"data":{"x":"1"},"data":{"x":"2"}}'
    strict = tenant.request("POST", f"{MAPS}?fieldValidation=Strict", raw)
    assert strict.status == 400
    assert 'strict decoding error: unknown field "dta", duplicate field "data"' in strict.json["message"]
    warned = tenant.request("POST", f"{MAPS}?fieldValidation=Warn", raw)
    assert warned.status == 201 and "dta" not in warned.json
    assert "unknown field" in warned.headers["warning"] or "duplicate field" in warned.headers["warning"]
    ignored = tenant.request("PUT", f"{MAPS}/a?fieldValidation=Ignore", raw)
    assert ignored.status == 200 and "warning" not in ignored.headers
    assert tenant.request("POST", f"{MAPS}?fieldValidation=Perhaps", raw).status == 422


def test_faults_of_applied_yaml_are_reported_in_its_own_words(tenant: Caller) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\ndata:\n  x: one\n  x: two\n"
    path = f"{MAPS}/twice?fieldManager=me&fieldValidation=Strict"
    answer = tenant.request("PATCH", path, text, content_type="application/apply-patch+yaml")
    assert answer.status == 400 and 'line 5: key "x" already set in map' in answer.json["message"]
    unknown = tenant.request(
        "PATCH", path, b"metadata: {odd: 1}", content_type="application/apply-patch+yaml"
    )
    assert unknown.status == 400
    assert ".metadata.odd: field not declared in schema" in unknown.json["message"]


# server-side apply


def apply(tenant: Caller, body: dict[str, Any], manager: str, query: str = "") -> Any:
    path = f"{MAPS}/a?fieldManager={manager}{query}"
    return tenant.patch(path, {"apiVersion": "v1", "kind": "ConfigMap", **body}, "apply-patch+yaml")


def test_apply_creates_owns_conflicts_and_gives_up(tenant: Caller) -> None:
    made = apply(tenant, {"data": {"x": "1", "y": "1"}}, "first")
    assert made.status == 201
    entry = made.json["metadata"]["managedFields"][0]
    assert (entry["manager"], entry["operation"]) == ("first", "Apply")
    conflict = apply(tenant, {"data": {"x": "2"}}, "second")
    assert conflict.status == 409 and 'conflict with "first"' in conflict.json["message"]
    assert conflict.json["details"]["causes"][0]["field"] == ".data.x"
    assert apply(tenant, {"data": {"x": "2"}}, "second", "&force=true").json["data"] == {"x": "2", "y": "1"}
    assert apply(tenant, {"data": {}}, "first").json["data"] == {"x": "2"}
    assert tenant.patch(f"{MAPS}/a", {}, "apply-patch+yaml").status == 422


# several versions of one resource


def test_both_versions_of_an_autoscaler(tenant: Caller) -> None:
    v1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
    v2 = v1.replace("/v1/", "/v2/")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 70}
    assert tenant.post(v1, {"metadata": {"name": "h"}, "spec": spec}).status == 201
    seen = tenant.get(f"{v2}/h").json
    assert seen["apiVersion"] == "autoscaling/v2"
    assert seen["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 70
    tenant.patch(f"{v2}/h", {"spec": {"maxReplicas": 9}})
    old = tenant.get(f"{v1}/h").json
    assert (old["spec"]["maxReplicas"], old["spec"]["targetCPUUtilizationPercentage"]) == (9, 70)


def test_networks_in_both_groups(tenant: Caller) -> None:
    one, other = "/api/v1/networks", "/apis/arktos.futurewei.com/v1/networks"
    assert (
        tenant.post(one, {"metadata": {"name": "n"}, "spec": {"type": "vpc", "vpc-id": "v1"}}).status == 201
    )
    found = tenant.get(f"{other}/n").json
    assert (found["apiVersion"], found["spec"]["vpcID"]) == ("arktos.futurewei.com/v1", "v1")
    assert [item["metadata"]["name"] for item in tenant.get(one).json["items"]] == ["n"]


def test_a_built_in_role_that_is_back_is_replaced_at_the_revision_it_came_with(tenant: Caller) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/view"
    role = tenant.get(path).json
    role["rules"] = []
    assert tenant.put(path, role).status == 200
    back = tenant.delete(path).json["metadata"]["resourceVersion"]
    role["metadata"] = {"name": "view", "resourceVersion": back}
    assert tenant.put(path, role).status == 200
    role["metadata"]["resourceVersion"] = "1"
    assert tenant.put(path, role).status == 409
    tenant.delete(path)


def test_deleting_what_is_ending_changes_nothing(tenant: Caller) -> None:
    """Otherwise a client that deletes every object of which it gets an event would never finish."""
    pods = "/api/v1/namespaces/default/pods"
    container = {"name": "main", "image": "example.com/app"}
    metadata = {"name": "held", "finalizers": ["example.com/held"]}
    assert tenant.post(pods, {"metadata": metadata, "spec": {"containers": [container]}}).status == 201
    first = tenant.delete(f"{pods}/held?gracePeriodSeconds=30").json["metadata"]
    for query in ("", "?gracePeriodSeconds=30", "?gracePeriodSeconds=60"):
        again = tenant.delete(f"{pods}/held{query}")
        assert (again.status, again.json["metadata"]) == (200, first)
    tenant.patch(f"{pods}/held", {"metadata": {"finalizers": []}})
