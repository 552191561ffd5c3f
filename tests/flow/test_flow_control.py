"""FlowSchemas and PriorityLevelConfigurations: a tenant divides its share of the server between its own users."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import orjson
import pytest

from alcove.api.objects import Object
from alcove.testing.server import Caller, LocalServer, ServerResponse, wait_until

ROOT = "/apis/flowcontrol.apiserver.k8s.io/v1"
SCHEMAS, LEVELS = f"{ROOT}/flowschemas", f"{ROOT}/prioritylevelconfigurations"
FLOW_HEADER, LEVEL_HEADER = "x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid"
_NUMBERS = count()


@pytest.fixture(scope="module")
def acme(control_plane: LocalServer) -> Caller:
    return made_tenant(control_plane, "flows")


@pytest.fixture(scope="module")
def untouched(control_plane: LocalServer) -> Caller:
    return made_tenant(control_plane, "no-flows")


def made_tenant(server: LocalServer, name: str) -> Caller:
    server.system.post("/api/v1/tenants", {"metadata": {"name": name}})
    path = f"/apis/rbac.authorization.k8s.io/v1/tenants/{name}/clusterrolebindings/admin-role-binding"
    wait_until(lambda: server.system.get(path).status == 200)
    return server.as_tenant(name)


@pytest.fixture
def name() -> str:
    return f"f{next(_NUMBERS)}"


def level(name: str, shares: int, **limited: Any) -> Object:
    fixed = {"nominalConcurrencyShares": shares, "limitResponse": {"type": "Reject"}}
    return {"metadata": {"name": name}, "spec": {"type": "Limited", "limited": {**fixed, **limited}}}


def schema(name: str, level: str, user: str, precedence: int = 500) -> Object:
    resources = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
    rules: Object = {
        "subjects": [{"kind": "User", "user": {"name": user}}],
        "resourceRules": [{**resources, "clusterScope": True}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    spec = {"matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": level}, "rules": [rules]}
    return {"metadata": {"name": name}, "spec": {**spec, "distinguisherMethod": {"type": "ByUser"}}}


def version_as(caller: Caller, user: str) -> ServerResponse:
    return caller.get("/version", impersonate_user=user, impersonate_group="system:authenticated")


def dangling(caller: Caller, name: str) -> Object | None:
    conditions = caller.get(f"{SCHEMAS}/{name}").json.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == "Dangling"), None)


def test_every_tenant_has_the_objects_of_a_cluster_and_stores_none(
    control_plane: LocalServer, untouched: Caller
) -> None:
    names = {each["metadata"]["name"] for each in untouched.get(SCHEMAS).json["items"]}
    assert {"exempt", "probes", "service-accounts", "global-default", "catch-all"} <= names
    levels = untouched.get(LEVELS).json["items"]
    assert {"exempt", "catch-all", "workload-low"} <= {each["metadata"]["name"] for each in levels}
    stored = control_plane.system.get(f"{ROOT}/tenants/all/flowschemas").json["items"]
    assert not [each for each in stored if each["metadata"]["tenant"] == "no-flows"]
    condition = dangling(untouched, "service-accounts")
    assert condition is not None and condition["status"] == "False"
    assert FLOW_HEADER not in version_as(untouched, "noxu").headers


def test_requests_are_classified_by_user(acme: Caller, name: str) -> None:
    made_level = acme.post(LEVELS, level(name, 1)).json
    made_schema = acme.post(SCHEMAS, schema(name, name, "noxu")).json
    answer = version_as(acme, "noxu")
    assert answer.status == 200 and answer.json["major"] == "1"
    assert answer.headers[FLOW_HEADER] == made_schema["metadata"]["uid"]
    assert answer.headers[LEVEL_HEADER] == made_level["metadata"]["uid"]
    other = version_as(acme, "foo")
    built_in = acme.get(f"{SCHEMAS}/global-default").json["metadata"]["uid"]
    assert other.headers[FLOW_HEADER] == built_in
    assert other.headers[LEVEL_HEADER] == acme.get(f"{LEVELS}/global-default").json["metadata"]["uid"]
    assert acme.delete(f"{SCHEMAS}/{name}").status == 200
    assert version_as(acme, "noxu").headers[FLOW_HEADER] == built_in


def rejected(server: LocalServer) -> float:
    text = server.system.get("/metrics").body.decode()
    series = 'apiserver_flowcontrol_rejected_requests_total{reason="priority-level"} '
    return float(next(line for line in text.splitlines() if line.startswith(series)).split()[-1])


def test_a_level_without_seats_refuses_its_users_only(
    control_plane: LocalServer, acme: Caller, untouched: Caller, name: str
) -> None:
    before = rejected(control_plane)
    acme.post(LEVELS, level(name, 0, borrowingLimitPercent=0))
    acme.post(SCHEMAS, schema(name, name, "greedy"))
    refused = version_as(acme, "greedy")
    assert refused.status == 429 and refused.headers["retry-after"] == "1"
    assert f'priority level "{name}"' in refused.json["message"]
    assert FLOW_HEADER in refused.headers
    assert rejected(control_plane) == before + 1
    assert version_as(acme, "modest").status == 200
    assert acme.get("/api/v1/namespaces").status == 200
    assert version_as(untouched, "greedy").status == 200
    acme.patch(f"{LEVELS}/{name}", {"spec": {"limited": {"nominalConcurrencyShares": 5}}})
    assert version_as(acme, "greedy").status == 200


def test_a_crowd_in_one_level_is_served_or_told_to_wait_and_nobody_else_is(acme: Caller, name: str) -> None:
    queuing = {"type": "Queue", "queuing": {"queues": 4, "handSize": 2, "queueLengthLimit": 10}}
    acme.post(LEVELS, level(name, 1, limitResponse=queuing, borrowingLimitPercent=0))
    acme.post(SCHEMAS, schema(name, name, "crowd"))

    def ask(user: str) -> list[int]:
        caller = Caller(acme.kubeconfig)
        codes = [version_as(caller, user).status for _ in range(20)]
        caller.close()
        return codes

    with ThreadPoolExecutor(9) as pool:
        crowd = [pool.submit(ask, "crowd") for _ in range(8)]
        assert set(pool.submit(ask, "modest").result()) == {200}
        codes = {code for each in crowd for code in each.result()}
    assert 200 in codes and codes <= {200, 429}
    wait_until(lambda: version_as(acme, "crowd").status == 200)


def test_a_schema_says_whether_its_level_exists(acme: Caller, name: str) -> None:
    assert acme.post(SCHEMAS, schema(name, name, "nobody")).status == 201
    condition = wait_until(lambda: dangling(acme, name))
    assert (condition["status"], condition["reason"]) == ("True", "NotFound")
    assert condition["message"].endswith("but there is no such object")
    acme.post(LEVELS, level(name, 1))
    wait_until(lambda: (dangling(acme, name) or {}).get("status") == "False")
    acme.delete(f"{LEVELS}/{name}")
    wait_until(lambda: (dangling(acme, name) or {}).get("status") == "True")
    acme.patch(f"{SCHEMAS}/{name}", {"spec": {"priorityLevelConfiguration": {"name": "workload-low"}}})
    wait_until(lambda: (dangling(acme, name) or {}).get("status") == "False")


def test_the_status_is_a_subresource(acme: Caller, name: str) -> None:
    acme.post(LEVELS, level(name, 2))
    patch = {"status": {"conditions": [{"type": "Mine", "status": "False", "reason": "test"}]}}
    shown = acme.patch(f"{LEVELS}/{name}/status", patch).json
    assert shown["status"]["conditions"][0]["type"] == "Mine"
    assert acme.patch(f"{LEVELS}/{name}", {"status": {}}).json["status"] == shown["status"]


def test_a_tenant_reads_its_own_metrics_only(control_plane: LocalServer, acme: Caller, name: str) -> None:
    acme.post(LEVELS, level(name, 10))
    text = acme.get("/metrics").body.decode()
    line = next(each for each in text.splitlines() if f'"{name}"' in each)
    assert line.startswith("apiserver_flowcontrol_nominal_limit_seats{")
    assert float(line.split()[-1]) > 0
    names = {each.split("{")[0] for each in text.splitlines() if not each.startswith("#")}
    assert names == {"apiserver_flowcontrol_nominal_limit_seats"}
    assert "apiserver_request_total" in control_plane.system.get("/metrics").body.decode()


def test_the_operations_that_kubernetes_own_tests_use(acme: Caller, name: str) -> None:
    label = f"example={name}"
    body = schema("", "global-default", "nobody", 10_000)
    body["metadata"] = {"generateName": "example-", "labels": {"example": name}}
    made = [acme.post(SCHEMAS, body).json for _ in range(3)]
    listed = acme.get(f"{SCHEMAS}?labelSelector={label}").json
    assert len(listed["items"]) == 3
    path = f"{SCHEMAS}/{made[0]['metadata']['name']}"
    patch = {"metadata": {"annotations": {"patched": "true"}}, "spec": {"matchingPrecedence": 9999}}
    patched = acme.patch(path, patch).json
    assert (patched["spec"]["matchingPrecedence"], patched["metadata"]["generation"]) == (9999, 2)
    wait_until(lambda: dangling(acme, made[0]["metadata"]["name"]))
    newest = acme.get(path).json
    newest["spec"]["matchingPrecedence"] = 9000
    assert acme.put(path, newest).json["spec"]["matchingPrecedence"] == 9000
    since = f"resourceVersion={listed['metadata']['resourceVersion']}&labelSelector={label}"
    events = acme.get(f"{SCHEMAS}?watch=1&timeoutSeconds=1&{since}").body.splitlines()
    shown = [orjson.loads(event) for event in events]
    assert {event["type"] for event in shown} == {"MODIFIED"}
    assert any(event["object"]["metadata"].get("annotations") == {"patched": "true"} for event in shown)
    assert acme.delete(path).status == 200
    assert acme.get(path).status == 404
    assert acme.delete(f"{SCHEMAS}?labelSelector={label}").status == 200
    assert acme.get(f"{SCHEMAS}?labelSelector={label}").json["items"] == []


def test_mandatory_objects_cannot_be_changed_or_deleted(acme: Caller) -> None:
    answer = acme.patch(f"{SCHEMAS}/catch-all", {"spec": {"matchingPrecedence": 9000}})
    assert answer.status == 422 and "must equal the fixed value" in answer.json["message"]
    assert acme.delete(f"{LEVELS}/exempt").status == 403
    assert acme.get(f"{LEVELS}/exempt").status == 200


def test_a_suggested_level_can_be_replaced_and_comes_back(acme: Caller) -> None:
    before = acme.get(f"{LEVELS}/workload-high").json
    answer = acme.patch(f"{LEVELS}/workload-high", {"spec": {"limited": {"nominalConcurrencyShares": 70}}})
    assert answer.status == 200
    shown = acme.get(f"{LEVELS}/workload-high").json["spec"]["limited"]["nominalConcurrencyShares"]
    assert shown == 70
    assert acme.delete(f"{LEVELS}/workload-high").status == 200
    assert acme.get(f"{LEVELS}/workload-high").json["spec"] == before["spec"]


def test_a_tenant_stores_a_bounded_number(control_plane: LocalServer, name: str) -> None:
    caller = made_tenant(control_plane, f"many-{name}")
    for number in range(64):
        assert caller.post(LEVELS, level(f"l{number}", 1)).status == 201
    answer = caller.post(LEVELS, level("one-more", 1))
    assert answer.status == 403 and "at most 64" in answer.json["message"]
    assert caller.delete(LEVELS).status == 200
    assert caller.post(LEVELS, level("one-more", 1)).status == 201


def test_kubectl_shows_the_columns_of_a_cluster(untouched: Caller) -> None:
    shown = untouched.kubectl("get", "flowschemas", "catch-all").splitlines()
    assert shown[0].split() == [
        *("NAME", "PRIORITYLEVEL", "MATCHINGPRECEDENCE", "DISTINGUISHERMETHOD", "AGE", "MISSINGPL")
    ]
    assert shown[1].split()[:4] == ["catch-all", "catch-all", "10000", "ByUser"]
    line = untouched.kubectl("get", "prioritylevelconfigurations", "catch-all").splitlines()[1]
    assert line.split()[:4] == ["catch-all", "Limited", "5", "<none>"]
