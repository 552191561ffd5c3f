"""Admission webhooks through a real server, with real webhooks: TLS, matching, changes, failures, bounds."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from alcove.testing.server import Caller, LocalServer, ServerResponse
from alcove.testing.webhook_server import WebhookServer, allowed, denied, patched

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
_NUMBERS = count(1)


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """One that lets tenants' webhooks be on loopback, where the tests' are."""
    directory: Path = tmp_path_factory.mktemp("webhooks")
    with LocalServer(directory, "--webhook-network", "127.0.0.0/8") as running:
        running.make_namespace("system", "default")
        yield running


@pytest.fixture
def acme(own_server: LocalServer) -> Caller:
    return own_server.make_tenant(f"w{next(_NUMBERS)}")


def hook(webhook: WebhookServer | None = None, path: str = "/", **fields: Any) -> dict[str, Any]:
    rules = [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    ]
    given: dict[str, Any] = {
        "name": "check.example.com",
        "rules": rules,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
        **fields,
    }
    if webhook is not None:
        given["clientConfig"] = webhook.client(path)
    return given


def rule(
    operations: str, resources: str, groups: str = "*", versions: str = "*", **more: Any
) -> dict[str, Any]:
    return {
        "apiGroups": groups.split(","),
        "apiVersions": versions.split(","),
        "operations": operations.split(","),
        "resources": resources.split(","),
        **more,
    }


def install(caller: Caller, kind: str, *hooks: dict[str, Any], name: str = "hooks") -> ServerResponse:
    body = {"metadata": {"name": name}, "webhooks": list(hooks)}
    answer = caller.post(f"{CONFIGURATIONS}/{kind}webhookconfigurations", body)
    assert answer.status == 201, answer.body
    return answer


def config(name: str = "m", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": fields.pop("labels", {})}
    return {"metadata": metadata, **fields}


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


# What is sent


def test_a_review_says_all_about_the_write(acme: Caller) -> None:
    with WebhookServer(lambda _path, review: allowed(review)) as webhook:
        install(acme, "validating", hook(webhook, "/v", rules=[rule("*", "configmaps")]))
        acme.post(f"{MAPS}?fieldManager=me", config(data={"a": "1"}))
        acme.patch(f"{MAPS}/m", {"data": {"a": "2"}})
        acme.delete(f"{MAPS}/m")
        created, updated, deleted = webhook.seen
    assert webhook.paths[0] == "/v?timeout=30s"
    assert (created["apiVersion"], created["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    request = created["request"]
    assert request["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert request["requestKind"] == request["kind"] and request["requestResource"] == request["resource"]
    assert (request["name"], request["namespace"], request["operation"]) == ("m", "default", "CREATE")
    assert request["userInfo"]["username"] == "admin"
    assert "system:authenticated" in request["userInfo"]["groups"]
    assert request["object"]["data"] == {"a": "1"} and request["oldObject"] is None
    assert request["dryRun"] is False
    assert request["options"]["kind"] == "CreateOptions" and request["options"]["fieldManager"] == "me"
    assert updated["request"]["oldObject"]["data"] == {"a": "1"}
    assert updated["request"]["object"]["data"] == {"a": "2"}
    assert deleted["request"]["object"] is None and deleted["request"]["oldObject"]["data"] == {"a": "2"}
    assert deleted["request"]["options"]["kind"] == "DeleteOptions"


def test_connections_are_used_again(acme: Caller) -> None:
    with WebhookServer(lambda _path, review: allowed(review)) as webhook:
        install(acme, "validating", hook(webhook))
        for number in range(10):
            assert acme.post(MAPS, config(f"m{number}")).status == 201
        assert (len(webhook.seen), webhook.connections) == (10, 1)


def test_subresources_show_what_was_posted(own_server: LocalServer, acme: Caller) -> None:
    with WebhookServer(lambda _path, review: allowed(review)) as webhook:
        rules = [rule("*", "deployments/scale,pods/binding,pods/eviction,pods/status")]
        install(acme, "validating", hook(webhook, rules=rules))
        template = {
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
        acme.post(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
        acme.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 5}})
        made = acme.post(PODS, {"metadata": {"name": "p"}, "spec": template["spec"]})
        tenant = f"/api/v1/tenants/{made.json['metadata']['tenant']}"
        own_server.system.patch(tenant, {"metadata": {"annotations": {"alcove.io/may-bind": "true"}}})
        acme.patch(f"{PODS}/p/status", {"status": {"message": "hi"}})
        acme.post(f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}})
        acme.post(f"{PODS}/p/eviction", {"metadata": {"name": "p"}})
        requests = [
            (each["request"]["operation"], each["request"]["subResource"], each["request"]["object"]["kind"])
            for each in webhook.seen
        ]
    assert requests == [
        ("UPDATE", "scale", "Scale"),
        ("UPDATE", "status", "Pod"),
        ("CREATE", "binding", "Binding"),
        ("CREATE", "eviction", "Eviction"),
    ]
    assert webhook.seen[0]["request"]["object"]["spec"] == {"replicas": 5}
    assert webhook.seen[2]["request"]["object"]["target"]["name"] == "n"


def test_an_equivalent_version_is_shown_as_the_rules_name_it(acme: Caller) -> None:
    scalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    body = {
        "metadata": {"name": "h"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            "maxReplicas": 3,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                }
            ],
        },
    }

    def double(_path: str, review: dict[str, Any]) -> dict[str, Any]:
        return patched(review, add("/spec/targetCPUUtilizationPercentage", 75))

    with WebhookServer(double) as webhook:
        of_v1 = [rule("CREATE", "horizontalpodautoscalers", "autoscaling", "v1")]
        install(acme, "mutating", hook(webhook, rules=of_v1, matchPolicy="Equivalent"))
        made = acme.post(scalers, body).json
        request = webhook.seen[0]["request"]
        assert request["kind"]["version"] == "v1" and request["requestKind"]["version"] == "v2"
        assert request["object"]["apiVersion"] == "autoscaling/v1"
        assert request["object"]["spec"]["targetCPUUtilizationPercentage"] == 50
        assert made["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 75
        exact = hook(webhook, rules=of_v1, matchPolicy="Exact")
        acme.delete(f"{CONFIGURATIONS}/mutatingwebhookconfigurations/hooks")
        install(acme, "mutating", exact)
        body["metadata"] = {"name": "h2"}
        assert acme.post(scalers, body).status == 201
        assert len(webhook.seen) == 1


# Which writes


@pytest.mark.parametrize(
    ("fields", "is_called"),
    [
        ({"rules": [rule("CREATE", "configmaps", "", "v1")]}, True),
        ({"rules": [rule("UPDATE", "configmaps", "", "v1")]}, False),
        ({"rules": [rule("*", "*/*")]}, True),
        ({"rules": [rule("*", "*")]}, True),
        ({"rules": [rule("*", "*/status")]}, False),
        ({"rules": [rule("*", "configmaps", "apps")]}, False),
        ({"rules": [rule("*", "configmaps", "", "v2")]}, False),
        ({"rules": [rule("*", "configmaps", scope="Namespaced")]}, True),
        ({"rules": [rule("*", "configmaps", scope="Cluster")]}, False),
        ({"rules": []}, False),
        ({"objectSelector": {"matchLabels": {"app": "web"}}}, True),
        ({"objectSelector": {"matchLabels": {"app": "db"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"]}]}}, False),
        ({"matchConditions": [{"name": "a", "expression": "object.metadata.labels.app == 'web'"}]}, True),
        ({"matchConditions": [{"name": "a", "expression": "request.userInfo.username != 'admin'"}]}, False),
        ({"matchConditions": [{"name": "a", "expression": "true"}, {"name": "b", "expression": "1 > 2"}]}, False),
        ({"matchConditions": [{"name": "a", "expression": "object.data.missing == 'x'"}], "failurePolicy": "Ignore"}, False),
        ({"matchConditions": [{"name": "a", "expression": "authorizer.group('').resource('pods').check('create').allowed()"}]}, True),
    ],
)  # fmt: skip
def test_which_writes_a_webhook_is_asked_about(acme: Caller, fields: dict[str, Any], is_called: bool) -> None:
    with WebhookServer(lambda _path, review: denied(review, message="no")) as webhook:
        install(acme, "validating", hook(webhook, **fields))
        answer = acme.post(MAPS, config(labels={"app": "web"}))
        assert (answer.status, len(webhook.seen)) == ((400, 1) if is_called else (201, 0)), answer.body


def test_a_condition_that_cannot_be_evaluated_refuses(acme: Caller) -> None:
    with WebhookServer(lambda _path, review: allowed(review)) as webhook:
        conditions = [{"name": "a", "expression": "object.data.missing == 'x'"}]
        install(acme, "validating", hook(webhook, matchConditions=conditions))
        answer = acme.post(MAPS, config(data={"a": "1"}))
        assert answer.status == 403 and "no such key: missing" in answer.json["message"]
        assert not webhook.seen


def test_a_condition_that_does_not_compile_is_not_stored(acme: Caller) -> None:
    given = hook(matchConditions=[{"name": "a", "expression": "object."}])
    given["clientConfig"] = {"url": "https://example.com"}
    body = {"metadata": {"name": "hooks"}, "webhooks": [given]}
    answer = acme.post(f"{CONFIGURATIONS}/validatingwebhookconfigurations", body)
    assert answer.status == 422
    assert answer.json["details"]["causes"][0]["field"] == "webhooks[0].matchConditions[0].expression"


def test_configurations_themselves_are_never_shown(acme: Caller) -> None:
    with WebhookServer(lambda _path, review: denied(review, message="no")) as webhook:
        install(acme, "validating", hook(webhook, rules=[rule("*", "*/*")]))
        install(acme, "mutating", hook(webhook, rules=[rule("*", "*/*")]))
        assert acme.post(MAPS, config()).status == 400
        seen = len(webhook.seen)
        for kind in ("validating", "mutating"):
            assert acme.delete(f"{CONFIGURATIONS}/{kind}webhookconfigurations/hooks").status == 200
        assert len(webhook.seen) == seen
        assert acme.post(MAPS, config()).status == 201


# Refusals and changes


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (
            {"message": "not today"},
            400,
            'admission webhook "check.example.com" denied the request: not today',
        ),
        ({}, 400, 'admission webhook "check.example.com" denied the request without explanation'),
        (
            {"code": 403, "reason": "Forbidden"},
            403,
            'admission webhook "check.example.com" denied the request: Forbidden',
        ),
        (
            {"code": 200, "message": "x"},
            400,
            'admission webhook "check.example.com" denied the request: x',
        ),
    ],
)
def test_a_refusal_is_reported_with_its_own_code(
    acme: Caller, status: dict[str, Any], code: int, message: str
) -> None:
    with WebhookServer(lambda _path, review: denied(review, **status)) as webhook:
        install(acme, "validating", hook(webhook))
        answer = acme.post(MAPS, config())
    assert (answer.status, answer.json["message"], answer.json["code"]) == (code, message, code)
    assert acme.get(f"{MAPS}/m").status == 404


def test_changes_are_defaulted_checked_and_in_the_order_of_names(acme: Caller) -> None:
    def change(path: str, review: dict[str, Any]) -> dict[str, Any]:
        if path == "/sidecar":
            sidecar = {"name": "sidecar", "image": "side"}
            return patched(review, add("/spec/containers/-", sidecar), warnings=["injected"])
        names = [each["name"] for each in review["request"]["object"]["spec"]["containers"]]
        return patched(review, add("/metadata/labels", {"containers": ".".join(names)}))

    with WebhookServer(change) as webhook:
        rules = [rule("CREATE", "pods")]
        install(acme, "mutating", hook(webhook, "/label", rules=rules), name="b")
        install(acme, "mutating", hook(webhook, "/sidecar", rules=rules), name="a")
        answer = acme.post(
            PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        )
    made = answer.json
    assert answer.status == 201, answer.body
    assert made["metadata"]["labels"] == {"containers": "c.sidecar"}
    assert "injected" in answer.headers["warning"]
    sidecar = made["spec"]["containers"][1]
    assert sidecar["terminationMessagePolicy"] == "File"
    # The plugins ran once more: the new container has its token mounted too.
    assert [each["mountPath"] for each in sidecar["volumeMounts"]] == [
        "/var/run/secrets/kubernetes.io/serviceaccount"
    ]


def test_what_a_webhook_makes_is_validated(acme: Caller) -> None:
    with WebhookServer(lambda _path, review: patched(review, add("/data", {"bad key": "x"}))) as webhook:
        install(acme, "mutating", hook(webhook))
        answer = acme.post(MAPS, config())
    assert answer.status == 422 and "bad key" in answer.json["message"]


def test_a_webhook_cannot_change_what_only_the_server_says(acme: Caller) -> None:
    def forge(_path: str, review: dict[str, Any]) -> dict[str, Any]:
        return patched(
            review,
            add("/metadata/tenant", "system"),
            add("/metadata/namespace", "kube-system"),
            add("/metadata/name", "other"),
            add("/metadata/uid", "mine"),
            add("/metadata/managedFields", []),
            add("/status", {"phase": "Running", "hostIP": "1.1.1.1"}),
            add("/metadata/annotations", {"a": "b"}),
        )

    with WebhookServer(forge) as webhook:
        install(acme, "mutating", hook(webhook, rules=[rule("CREATE,UPDATE", "pods")]))
        body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        made = acme.post(PODS, body).json
        changed = acme.patch(f"{PODS}/p", {"metadata": {"labels": {"x": "y"}}}).json
    for obj in (made, changed):
        metadata = obj["metadata"]
        assert (metadata["name"], metadata["namespace"]) == ("p", "default")
        assert metadata["tenant"] != "system" and metadata["uid"] != "mine" and metadata["managedFields"]
        assert metadata["annotations"]["a"] == "b"
        assert obj["status"]["phase"] == "Pending" and "hostIP" not in obj["status"]
    assert made["metadata"]["uid"] == changed["metadata"]["uid"]


def test_a_webhook_of_status_changes_nothing_else(acme: Caller) -> None:
    def change(_path: str, review: dict[str, Any]) -> dict[str, Any]:
        return patched(review, add("/status/message", "hello"), add("/metadata/labels", {"a": "b"}))

    with WebhookServer(change) as webhook:
        body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        acme.post(PODS, body)
        install(acme, "mutating", hook(webhook, rules=[rule("UPDATE", "pods/status")]))
        made = acme.patch(f"{PODS}/p/status", {"status": {"reason": "why"}}).json
    assert (made["status"]["message"], made["status"]["reason"]) == ("hello", "why")
    assert "labels" not in made["metadata"]


@pytest.mark.parametrize("subresource", ["ephemeralcontainers", "resize"])
def test_a_webhook_of_a_subresource_cannot_change_the_rest_of_a_pod(acme: Caller, subresource: str) -> None:
    def forge(_path: str, review: dict[str, Any]) -> dict[str, Any]:
        return patched(
            review,
            add("/spec/hostNetwork", True),
            add("/spec/nodeName", "somewhere"),
            add("/spec/containers/0/image", "other"),
            add("/spec/containers/0/securityContext", {"privileged": True}),
        )

    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}
    acme.post(PODS, {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    changes: dict[str, Any] = {
        "ephemeralcontainers": {"ephemeralContainers": [{"name": "d", "image": "busybox"}]},
        "resize": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
    }
    with WebhookServer(forge) as webhook:
        install(acme, "mutating", hook(webhook, rules=[rule("UPDATE", f"pods/{subresource}")]))
        body = {"spec": changes[subresource]}
        answer = acme.patch(f"{PODS}/p/{subresource}", body, "strategic-merge-patch+json")
        assert webhook.seen and answer.status == 200, answer.body
    spec = acme.get(f"{PODS}/p").json["spec"]
    assert not spec.get("hostNetwork") and "nodeName" not in spec
    assert spec["containers"][0]["image"] == "i" and "securityContext" not in spec["containers"][0]
    if subresource == "resize":
        assert spec["containers"][0]["resources"]["requests"]["cpu"] == "2"
    else:
        assert spec["ephemeralContainers"][0]["name"] == "d"


def test_a_scale_can_be_changed(acme: Caller) -> None:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    acme.post(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
    cap = {"op": "replace", "path": "/spec/replicas", "value": 3}
    with WebhookServer(lambda _path, review: patched(review, cap)) as webhook:
        install(acme, "mutating", hook(webhook, rules=[rule("UPDATE", "deployments/scale")]))
        assert acme.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 50}}).json["spec"] == {
            "replicas": 3
        }
    assert acme.get(f"{DEPLOYMENTS}/d").json["spec"]["replicas"] == 3


@pytest.mark.parametrize(
    ("change", "seen", "message"),
    [
        (add("/command/-", "-l"), ["ls", "-l"], "does not have a host assigned"),
        (add("/tail", 5), ["ls"], "does not have a host assigned"),
        (add("/command", "ls -l"), None, "returned an invalid object"),
        (add("/kind", "PodAttachOptions"), None, "the kind of an object cannot be changed"),
    ],
)
def test_what_a_connection_asks_for_can_be_changed(
    acme: Caller, change: dict[str, Any], seen: list[str] | None, message: str
) -> None:
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert acme.post(PODS, body).status == 201

    def respond(path: str, review: Any) -> Any:
        return patched(review, change) if path.startswith("/change") else allowed(review)

    with WebhookServer(respond) as webhook:
        rules = [rule("CONNECT", "pods/exec")]
        install(acme, "mutating", hook(webhook, "/change", rules=rules))
        install(acme, "validating", hook(webhook, "/check", rules=rules))
        answer = acme.request("POST", f"{PODS}/p/exec?command=ls", connection="Upgrade", upgrade="SPDY/3.1")
        checked = [review["request"]["object"] for review in webhook.seen[1:]]
    # The pod is nowhere, so the error comes after admission.
    assert message in answer.json["message"], answer.body
    wanted = {"apiVersion": "v1", "kind": "PodExecOptions", "command": seen}
    assert checked == ([] if seen is None else [wanted])


def test_a_webhook_is_asked_again_if_needed_and_only_then(acme: Caller) -> None:
    calls: list[str] = []

    def change(path: str, review: dict[str, Any]) -> dict[str, Any]:
        calls.append(path)
        data = review["request"]["object"].get("data") or {}
        return patched(review, add("/data", {**data, path.strip("/"): str(len(data))}))

    with WebhookServer(change) as webhook:
        install(
            acme,
            "mutating",
            hook(webhook, "/a", name="a.example.com", reinvocationPolicy="IfNeeded"),
            hook(webhook, "/b", name="b.example.com", reinvocationPolicy="Never"),
            hook(webhook, "/c", name="c.example.com", reinvocationPolicy="IfNeeded"),
        )
        made = acme.post(MAPS, config()).json
    # a and b changed the object after a was asked; nothing changed after c but a's second change.
    assert calls == ["/a", "/b", "/c", "/a", "/c"]
    assert set(made["data"]) == {"a", "b", "c"}


# Failures


def slow(seconds: float) -> Any:
    def respond(_path: str, review: dict[str, Any]) -> dict[str, Any]:
        time.sleep(seconds)
        return allowed(review)

    return respond


@pytest.mark.parametrize(
    ("respond", "message"),
    [
        (lambda _path, _review: 500, "failed to call webhook: the webhook answered with status 500, not 200"),
        (lambda _path, _review: b"nonsense", "received invalid webhook response: it is not JSON"),
        (lambda _path, _review: {}, "received invalid webhook response: webhook response was absent"),
        (
            lambda _path, review: {**allowed(review), "response": {"uid": "other", "allowed": True}},
            'expected response.uid="',
        ),
        (
            lambda _path, review: {**allowed(review), "apiVersion": "v1"},
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got v1, Kind=AdmissionReview",
        ),
        (
            lambda _path, review: patched(review, add("/data", {})),
            "validating webhook may not return response.patch",
        ),
        (lambda _path, _review: b" " * (4 << 20), "the webhook's response has more than 3145728 bytes"),
        (slow(10), "context deadline exceeded"),
    ],
    ids=["500", "garbage", "empty", "uid", "version", "patch", "huge", "slow"],
)
def test_a_webhook_that_fails(acme: Caller, respond: Any, message: str) -> None:
    seconds = 1 if "deadline" in message else 30
    with WebhookServer(respond) as webhook:
        install(acme, "validating", hook(webhook, timeoutSeconds=seconds))
        answer = acme.post(MAPS, config())
        assert answer.status == 500
        assert answer.json["message"].startswith(
            'Internal error occurred: failed calling webhook "check.example.com": '
        )
        assert message in answer.json["message"], answer.json["message"]
        path = f"{CONFIGURATIONS}/validatingwebhookconfigurations/hooks"
        ignore = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]
        assert acme.patch(path, ignore, "json-patch+json").status == 200
        assert acme.post(MAPS, config()).status == 201


def test_a_patch_that_does_not_apply(acme: Caller) -> None:
    with WebhookServer(
        lambda _path, review: patched(review, {"op": "remove", "path": "/nothing"})
    ) as webhook:
        install(acme, "mutating", hook(webhook, failurePolicy="Ignore"))
        answer = acme.post(MAPS, config())
    assert answer.status == 500
    assert 'admission webhook "check.example.com" returned an invalid object' in answer.json["message"]


def test_an_authority_that_did_not_sign_is_not_trusted(acme: Caller) -> None:
    with (
        WebhookServer(lambda _path, review: allowed(review)) as webhook,
        WebhookServer(lambda _path, review: allowed(review)) as other,
    ):
        given = hook()
        given["clientConfig"] = {**webhook.client(), "caBundle": other.authority}
        install(acme, "validating", given)
        answer = acme.post(MAPS, config())
        assert answer.status == 500 and "tls: failed to verify certificate" in answer.json["message"]
        assert not webhook.seen


def test_several_refusals_come_at_once_and_the_first_counts(acme: Caller) -> None:
    together = threading.Barrier(5)

    def respond(path: str, review: dict[str, Any]) -> dict[str, Any]:
        together.wait(30)
        return denied(review, message=path)

    with WebhookServer(respond) as webhook:
        hooks = [hook(webhook, f"/{number}", name=f"h{number}.example.com") for number in range(5)]
        install(acme, "validating", *hooks)
        answer = acme.post(MAPS, config())
    assert answer.json["message"] == 'admission webhook "h0.example.com" denied the request: /0'
    assert len(webhook.seen) == 5


def test_a_dry_run_says_so(acme: Caller) -> None:
    with WebhookServer(lambda _path, review: allowed(review)) as webhook:
        install(acme, "validating", hook(webhook, sideEffects="NoneOnDryRun"))
        assert acme.post(f"{MAPS}?dryRun=All", config()).status == 201
        assert webhook.seen[0]["request"]["dryRun"] is True
        assert webhook.seen[0]["request"]["options"]["dryRun"] == ["All"]


def test_a_flood_of_slow_calls_is_refused_and_never_let_past(own_server: LocalServer, acme: Caller) -> None:
    is_refusing = threading.Event()

    def respond(_path: str, review: dict[str, Any]) -> dict[str, Any]:
        is_refusing.wait(30)
        return allowed(review)

    with WebhookServer(respond) as webhook:
        install(acme, "validating", hook(webhook, failurePolicy="Ignore", timeoutSeconds=30))

        def post(number: int) -> int:
            own = Caller(acme.kubeconfig)
            status = own.post(MAPS, config(f"m{number}")).status
            own.close()
            if status == 429:
                is_refusing.set()
            return status

        with ThreadPoolExecutor(90) as pool:
            outcomes = list(pool.map(post, range(90)))
            assert set(outcomes) == {201, 429}
        assert outcomes.count(201) == len(webhook.seen)


@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_a_namespace_that_ends_while_a_webhook_thinks_takes_nothing_more(acme: Caller, kind: str) -> None:
    other = Caller(acme.kubeconfig)

    def respond(_path: str, review: dict[str, Any]) -> dict[str, Any]:
        assert other.delete("/api/v1/namespaces/short").status == 200
        return allowed(review)

    assert acme.post("/api/v1/namespaces", {"metadata": {"name": "short"}}).status == 201
    with WebhookServer(respond) as webhook:
        install(acme, kind, hook(webhook))
        answer = acme.post("/api/v1/namespaces/short/configmaps", config())
    assert answer.status == 403 and "is being terminated" in answer.json["message"]
    other.close()


# Whose webhooks, and where they may be


def test_a_tenants_webhooks_see_only_that_tenant(own_server: LocalServer, acme: Caller) -> None:
    other = own_server.make_tenant(f"w{next(_NUMBERS)}")
    with WebhookServer(lambda _path, review: denied(review, message="no")) as webhook:
        install(acme, "validating", hook(webhook, rules=[rule("*", "*/*")]))
        assert acme.post(MAPS, config()).status == 400
        seen = len(webhook.seen)
        assert other.post(MAPS, config()).status == 201
        assert own_server.system.post(MAPS, config()).status == 201
        own_server.system.delete(f"{MAPS}/m")
        assert len(webhook.seen) == seen
    # Ring0's own are for ring0 alone.
    with WebhookServer(lambda _path, review: denied(review, message="no")) as webhook:
        install(own_server.system, "validating", hook(webhook))
        try:
            assert own_server.system.post(MAPS, config()).status == 400
            assert other.post(MAPS, config("n")).status == 201
        finally:
            own_server.system.delete(f"{CONFIGURATIONS}/validatingwebhookconfigurations/hooks")


def test_a_tenant_cannot_refuse_to_be_deleted(own_server: LocalServer, acme: Caller) -> None:
    acme.post(MAPS, config())
    name = acme.get(f"{MAPS}/m").json["metadata"]["tenant"]
    full = f"/api/v1/tenants/{name}/namespaces/default/configmaps/m"
    with WebhookServer(lambda _path, review: denied(review, message="never")) as webhook:
        install(acme, "validating", hook(webhook, rules=[rule("*", "*")]))
        assert own_server.system.delete(full).status == 400
        assert own_server.system.delete(f"/api/v1/tenants/{name}").status in (200, 202)
        assert own_server.system.delete(full).status == 200


@pytest.mark.parametrize("client", ["url", "name", "service", "external"])
def test_a_tenants_webhook_never_reaches_inside(server: LocalServer, tenant: Caller, client: str) -> None:
    """Against a server that allows nothing special: a listener on loopback must not see a connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.3)
        port = listener.getsockname()[1]
        given = hook()
        services = "/api/v1/namespaces/default/services"
        spec: dict[str, Any]
        match client:
            case "url":
                given["clientConfig"] = {"url": f"https://127.0.0.1:{port}/"}
            case "name":
                given["clientConfig"] = {"url": f"https://localhost:{port}/"}
            case "service":
                spec = {"ports": [{"name": "https", "port": 443, "targetPort": port}]}
                assert tenant.post(services, {"metadata": {"name": "s"}, "spec": spec}).status == 201
                slice_: dict[str, Any] = {
                    "metadata": {"name": "s-1", "labels": {"kubernetes.io/service-name": "s"}},
                    "addressType": "IPv4",
                    "endpoints": [{"addresses": ["10.255.255.1"]}],
                    "ports": [{"name": "https", "port": port}],
                }
                path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
                assert tenant.post(path, slice_).status == 201
                given["clientConfig"] = {"service": {"namespace": "default", "name": "s"}}
            case "external":
                spec = {"type": "ExternalName", "externalName": "localhost"}
                assert tenant.post(services, {"metadata": {"name": "s"}, "spec": spec}).status == 201
                given["clientConfig"] = {"service": {"namespace": "default", "name": "s", "port": port}}
        install(tenant, "validating", given)
        answer = tenant.post(MAPS, config())
        assert answer.status == 500
        reason = (
            "no node has a pod in network" if client == "service" else "of this tenant are not allowed there"
        )
        assert reason in answer.json["message"]
        with pytest.raises(TimeoutError):
            listener.accept()


def test_an_unknown_name_and_a_forbidden_one_are_reported_alike(tenant: Caller) -> None:
    messages: list[str] = []
    for number, host in enumerate(("no-such-host.invalid", "localhost")):
        given = hook(rules=[rule("CREATE", "configmaps")])
        given["clientConfig"] = {"url": f"https://{host}/"}
        install(tenant, "validating", given, name=f"h{number}")
        answer = tenant.post(MAPS, config()).json["message"]
        messages.append(answer.replace(host, "HOST"))
        tenant.delete(f"{CONFIGURATIONS}/validatingwebhookconfigurations/h{number}")
    assert messages[0] == messages[1]


def test_a_service_of_ring0_is_called_by_its_name(own_server: LocalServer) -> None:
    system = own_server.system
    services = "/api/v1/namespaces/default/services"

    def refuse(_path: str, review: dict[str, Any]) -> dict[str, Any]:
        return denied(review, message="reached")

    with WebhookServer(refuse, "hook.default.svc") as webhook:
        spec = {"type": "ExternalName", "externalName": "localhost"}
        assert system.post(services, {"metadata": {"name": "hook"}, "spec": spec}).status == 201
        reference = {"namespace": "default", "name": "hook", "port": webhook.port, "path": "/check"}
        given = hook()
        given["clientConfig"] = {"service": reference, "caBundle": webhook.authority}
        install(system, "validating", given)
        try:
            assert "reached" in system.post(MAPS, config()).json["message"]
            assert webhook.paths == ["/check?timeout=30s"]
        finally:
            system.delete(f"{CONFIGURATIONS}/validatingwebhookconfigurations/hooks")
