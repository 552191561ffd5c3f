"""Which flow schema a request goes to: by precedence, by caller, by resource or path."""

from typing import Any

import pytest

from alcove.api.ids import TenantId
from alcove.api.kinds.flowcontrol.defaults import FLOW_SCHEMAS
from alcove.api.objects import Object
from alcove.apiserver.identity import Identity
from alcove.apiserver.paths import RequestTarget, parse
from alcove.apiserver.priority.flowschemas import MATCHES_KEPT_MAX, FlowSchemas

ACME = TenantId("acme")
PODS = parse("/api/v1/namespaces/web/pods")


def caller(user: str, *groups: str) -> Identity:
    return Identity(ACME, user, (*groups, "system:authenticated"))


ANN = caller("ann")
ACCOUNT = caller("system:serviceaccount:ci:builder", "system:serviceaccounts", "system:serviceaccounts:ci")
IN_KUBE_SYSTEM = caller("system:serviceaccount:kube-system:dns", "system:serviceaccounts")

BUILT_IN: list[tuple[Identity, str, str, str]] = [
    (ANN, "get", "/api/v1/namespaces/web/pods/a", "global-default"),
    (ANN, "get", "/version", "global-default"),
    (ANN, "get", "/healthz", "probes"),
    (caller("root", "system:masters"), "delete", "/api/v1/namespaces/web", "exempt"),
    (ACCOUNT, "list", "/api/v1/pods", "service-accounts"),
    (IN_KUBE_SYSTEM, "list", "/api/v1/pods", "kube-system-service-accounts"),
    (
        IN_KUBE_SYSTEM,
        "update",
        "/apis/coordination.k8s.io/v1/namespaces/a/leases/b",
        "system-leader-election",
    ),
    (caller("system:serviceaccount:kube-systems:dns"), "get", "/api/v1/pods", "global-default"),
    (caller("system:node:n", "system:nodes"), "update", "/api/v1/nodes/n/status", "system-node-high"),
    (caller("system:node:n", "system:nodes"), "update", "/api/v1/namespaces/a/pods/b/status", "system-nodes"),
]


@pytest.mark.parametrize(("identity", "verb", "path", "expected"), BUILT_IN)
def test_requests_go_where_a_cluster_puts_them(
    identity: Identity, verb: str, path: str, expected: str
) -> None:
    assert FlowSchemas(FLOW_SCHEMAS.values()).match(identity, verb, parse(path)).name == expected


def schema(name: str, precedence: int, *rules: Object) -> Object:
    spec = {"matchingPrecedence": precedence, "rules": list(rules)}
    return {"metadata": {"name": name}, "spec": {**spec, "priorityLevelConfiguration": {"name": "low"}}}


def rule(**fields: Any) -> Object:
    whole = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], **fields}
    return {"subjects": [{"kind": "User", "user": {"name": "ann"}}], "resourceRules": [whole]}


def url_rule(*urls: str) -> Object:
    paths = {"verbs": ["get"], "nonResourceURLs": list(urls)}
    return {"subjects": [{"kind": "Group", "group": {"name": "*"}}], "nonResourceRules": [paths]}


def is_matched(made: Object, target: RequestTarget, verb: str = "get", identity: Identity = ANN) -> bool:
    schemas = FlowSchemas([*FLOW_SCHEMAS.values(), schema("mine", 10, made)])
    return schemas.match(identity, verb, target).name == "mine"


RULES: list[tuple[Object, str, bool]] = [
    (rule(), "/api/v1/namespaces/web/pods", True),
    (rule(), "/api/v1/nodes", False),
    (rule(clusterScope=True), "/api/v1/nodes", True),
    (rule(namespaces=["web"]), "/api/v1/namespaces/web/pods", True),
    (rule(namespaces=["web"]), "/api/v1/namespaces/db/pods", False),
    (rule(resources=["pods"]), "/api/v1/namespaces/web/pods/a/log", False),
    (rule(resources=["pods/log"]), "/api/v1/namespaces/web/pods/a/log", True),
    (rule(apiGroups=["apps"]), "/api/v1/namespaces/web/pods", False),
    (rule(verbs=["list"]), "/api/v1/namespaces/web/pods", False),
    (rule(), "/version", False),
    (url_rule("/version"), "/version", True),
    (url_rule("/openapi/*"), "/openapi/v3", True),
    (url_rule("/openapi/*"), "/openapis", False),
    (url_rule("/version"), "/api/v1/namespaces/web/pods", False),
]


@pytest.mark.parametrize(("made", "path", "expected"), RULES)
def test_rules_name_resources_and_paths(made: Object, path: str, expected: bool) -> None:
    assert is_matched(made, parse(path)) is expected


def test_the_lowest_precedence_wins_then_the_first_name() -> None:
    made = [schema("c", 20, rule()), schema("b", 10, rule()), schema("a", 10, rule())]
    assert FlowSchemas(made).match(ANN, "get", PODS).name == "a"


def test_what_no_rule_matches_goes_to_the_last_schema() -> None:
    schemas = FlowSchemas([*FLOW_SCHEMAS.values()])
    nobody = Identity(ACME, "nobody", ())
    assert schemas.match(nobody, "get", PODS).name == "catch-all"


def test_flows_are_told_apart_by_user_or_by_namespace() -> None:
    schemas = FlowSchemas(FLOW_SCHEMAS.values())
    by_user = schemas.match(ANN, "get", PODS)
    assert by_user.flow_of(ANN, PODS) != by_user.flow_of(caller("bob"), PODS)
    by_namespace = schemas.match(IN_KUBE_SYSTEM, "get", PODS)
    other = parse("/api/v1/namespaces/db/pods")
    assert by_namespace.flow_of(ANN, PODS) == by_namespace.flow_of(caller("bob"), PODS)
    assert by_namespace.flow_of(ANN, PODS) != by_namespace.flow_of(ANN, other)


def test_remembered_matches_are_bounded() -> None:
    schemas = FlowSchemas(FLOW_SCHEMAS.values())
    for number in range(2 * MATCHES_KEPT_MAX):
        assert schemas.match(caller(f"user-{number}"), "get", PODS).name == "global-default"
    assert len(schemas._matches) <= MATCHES_KEPT_MAX
