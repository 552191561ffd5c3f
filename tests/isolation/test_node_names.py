"""What a tenant can learn by guessing names of nodes that none of its pods are on."""

import json
from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.testing.server import Caller, LocalServer

REAL, MISSING = "a-guessed-node", "a-missing-node"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def tenant(server: LocalServer) -> Caller:
    assert server.system.post("/api/v1/nodes", {"metadata": {"name": REAL}}).status == 201
    caller = server.make_tenant("guessing")
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    assert caller.post(accounts, {"metadata": {"name": "default"}}).status in (201, 409)
    return caller


def described(answer: Any, node: str) -> tuple[int, Object]:
    """The answer without what differs between any two objects."""
    body = answer.json
    for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        body.get("metadata", {}).pop(field, None)
    return answer.status, json.loads(json.dumps(body).replace(node, "NODE"))


def test_the_answer_to_a_pod_does_not_tell_whether_its_node_exists(tenant: Caller) -> None:
    answers = []
    for node in (REAL, MISSING):
        containers = [{"name": "c", "image": "x"}]
        spec = {"nodeName": node, "automountServiceAccountToken": False, "containers": containers}
        answers.append(described(tenant.post(PODS, {"metadata": {"name": "guess"}, "spec": spec}), node))
        assert tenant.delete(f"{PODS}/guess?gracePeriodSeconds=0").status == 200
    assert answers[0] == answers[1]
    assert answers[0][0] == 201


@pytest.mark.parametrize("path", ["/api/v1/nodes/{}", "/api/v1/nodes/{}/status", "/api/v1/nodes/{}/proxy/"])
@pytest.mark.parametrize("method", ["get", "delete"])
def test_a_request_for_a_node_does_not_tell_whether_it_exists(tenant: Caller, path: str, method: str) -> None:
    real, missing = (described(getattr(tenant, method)(path.format(node)), node) for node in (REAL, MISSING))
    assert real == missing
    assert real[0] in (403, 404)


def test_lists_of_nodes_have_no_node_without_a_pod_of_the_tenant(tenant: Caller) -> None:
    for query in ("", f"?fieldSelector=metadata.name%3D{REAL}"):
        assert tenant.get(f"/api/v1/nodes{query}").json["items"] == []
