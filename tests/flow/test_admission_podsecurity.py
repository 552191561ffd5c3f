"""Pod Security through a real server: levels by label, the tenants' ceiling, warnings."""

from typing import Any

import pytest

from alcove.testing.server import Caller, LocalServer, ServerResponse

PREFIX = "pod-security.kubernetes.io"
PODS = "/api/v1/namespaces/default/pods"
RESTRICTED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def pod(name: str = "p", security: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", "image": "nginx"}
    if security is not None:
        container["securityContext"] = security
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def label(caller: Caller, namespace: str = "default", **labels: str) -> ServerResponse:
    prefixed = {f"{PREFIX}/{key.replace('_', '-')}": value for key, value in labels.items()}
    return caller.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": prefixed}})


def warnings(answer: ServerResponse) -> str:
    return answer.headers.get("warning", "")


def tenant_of(caller: Caller) -> str:
    return str(caller.get("/api/v1/namespaces/default").json["metadata"]["tenant"])


def test_a_tenants_pods_never_get_past_the_ceiling(tenant: Caller) -> None:
    answer = label(tenant, enforce="privileged")
    assert answer.status == 200
    assert 'PodSecurity \\"baseline:latest\\" is enforced' in warnings(answer)
    refused = tenant.post(PODS, pod(security={"privileged": True}))
    assert refused.status == 403
    assert refused.json["message"] == (
        'pods "p" is forbidden: violates PodSecurity "baseline:latest": '
        'privileged (container "c" must not set securityContext.privileged=true)'
    )
    mounted = pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}], hostNetwork=True, hostPID=True)
    assert (
        tenant.post(PODS, mounted)
        .json["message"]
        .endswith('host namespaces (hostNetwork=true, hostPID=true), hostPath volumes (volume "v")')
    )
    assert tenant.post(PODS, pod()).status == 201


def test_an_old_version_in_a_label_does_not_get_around_the_ceiling(tenant: Caller) -> None:
    label(tenant, enforce="restricted", enforce_version="v1.7")
    probed = pod(security=RESTRICTED)
    probed["spec"]["containers"][0]["livenessProbe"] = {"httpGet": {"host": "10.0.0.1", "port": 80}}
    assert "probe or lifecycle host" in tenant.post(PODS, probed).json["message"]


def test_ring0_may_raise_or_lower_a_tenants_ceiling(server: LocalServer, tenant: Caller) -> None:
    path = f"/api/v1/tenants/{tenant_of(tenant)}"
    server.system.patch(path, {"spec": {"podSecurity": "privileged"}})
    assert tenant.post(PODS, pod("a", security={"privileged": True})).status == 201
    server.system.patch(path, {"spec": {"podSecurity": "restricted"}})
    assert tenant.post(PODS, pod("b")).status == 403
    assert tenant.post(PODS, pod("b", security=RESTRICTED)).status == 201
    # A level that means nothing is refused.
    answer = server.system.patch(path, {"spec": {"podSecurity": "privilegd"}})
    assert (answer.status, "spec.podSecurity" in answer.json["message"]) == (422, True)
    assert tenant.post(PODS, pod("c")).status == 403


def test_ring0s_own_pods_are_privileged_if_they_ask(server: LocalServer) -> None:
    assert (
        server.system.post(PODS, pod("root", security={"privileged": True}, hostNetwork=True)).status == 201
    )
    server.system.delete(f"{PODS}/root?gracePeriodSeconds=0")


def test_restricted_reports_all_violations_at_once(tenant: Caller) -> None:
    label(tenant, enforce="restricted")
    assert tenant.post(PODS, pod()).json["message"] == (
        'pods "p" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false '
        '(container "c" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities '
        '(container "c" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or '
        'container "c" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "c" must '
        'set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
    )
    assert tenant.post(PODS, pod(security=RESTRICTED)).status == 201


def test_warn_and_templates(tenant: Caller) -> None:
    label(tenant, warn="restricted", warn_version="v1.20")
    answer = tenant.post(PODS, pod())
    assert answer.status == 201
    assert 'would violate PodSecurity \\"restricted:v1.20\\": allowPrivilegeEscalation' in warnings(answer)
    template = {"metadata": {"labels": {"app": "a"}}, "spec": pod(security={"privileged": True})["spec"]}
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    body = {"metadata": {"name": "a"}, "spec": spec}
    answer = tenant.post("/apis/apps/v1/namespaces/default/deployments", body)
    assert answer.status == 201
    assert 'would violate PodSecurity \\"restricted:v1.20\\": privileged' in warnings(answer)
    label(tenant, warn="privileged")
    body["metadata"] = {"name": "b"}
    answer = tenant.post("/apis/apps/v1/namespaces/default/deployments", body)
    assert 'would violate PodSecurity \\"baseline:latest\\": privileged' in warnings(answer)


def test_ephemeral_containers_are_held_to_the_level(tenant: Caller) -> None:
    tenant.post(PODS, pod())
    debug = {"name": "d", "image": "busybox", "securityContext": {"privileged": True}}
    answer = tenant.patch(
        f"{PODS}/p/ephemeralcontainers",
        {"spec": {"ephemeralContainers": [debug]}},
        "strategic-merge-patch+json",
    )
    assert answer.status == 403, answer.body
    assert 'container "d" must not set' in answer.json["message"]


def test_what_was_let_in_may_still_be_labelled_under_a_stricter_level(tenant: Caller) -> None:
    tenant.post(PODS, pod())
    answer = label(tenant, enforce="restricted")
    assert 'existing pods in namespace \\"default\\" violate the new' in warnings(answer)
    assert "p: allowPrivilegeEscalation != false, unrestricted capabilities" in warnings(answer)
    assert tenant.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}).status == 200
    changed = [{"op": "replace", "path": "/spec/containers/0/image", "value": "nginx:2"}]
    assert tenant.patch(f"{PODS}/p", changed, "json-patch+json").status == 403


@pytest.mark.parametrize("labels", [{"enforce": "strict"}, {"warn_version": "1.24"}])
def test_a_wrong_label_is_refused(tenant: Caller, labels: dict[str, str]) -> None:
    answer = label(tenant, **labels)
    assert answer.status == 422
    assert answer.json["message"].startswith(f'Namespace "default" is invalid: metadata.labels[{PREFIX}/')
