"""Warnings through a real server: sent with the response, printed by kubectl, sent once, and not where nothing changed."""

import json
from typing import Any

from alcove.testing.server import Caller, ServerResponse

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
OS = 'spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \\"kubernetes.io/os\\" instead'


def deployment(**spec: Any) -> dict[str, Any]:
    pod = {
        "containers": [{"name": "c", "image": "nginx"}],
        "nodeSelector": {"beta.kubernetes.io/os": "linux"},
    }
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {**pod, **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
    }


def warnings(answer: ServerResponse) -> str:
    assert answer.status in (200, 201), answer.body
    return answer.headers.get("warning", "")


def test_a_template_is_warned_of_when_it_is_new_or_changes(tenant: Caller) -> None:
    assert OS in warnings(tenant.post(DEPLOYMENTS, deployment()))
    assert OS not in warnings(tenant.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 2}}))
    assert OS not in warnings(tenant.get(f"{DEPLOYMENTS}/web"))
    changed = tenant.patch(f"{DEPLOYMENTS}/web", {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}})
    assert warnings(changed).count(OS) == 1
    status = {"status": {"observedGeneration": 1}}
    assert OS not in warnings(tenant.patch(f"{DEPLOYMENTS}/web/status", status))


def test_apply_and_dry_runs_are_warned_too(tenant: Caller) -> None:
    applied = tenant.patch(f"{DEPLOYMENTS}/web?fieldManager=me", deployment(), "apply-patch+yaml")
    assert applied.status == 201 and OS in warnings(applied)
    assert OS in warnings(
        tenant.post(f"{DEPLOYMENTS}?dryRun=All", {**deployment(), "metadata": {"name": "x"}})
    )


def test_who_is_refused_is_warned_too(tenant: Caller) -> None:
    # The name is taken: that is found out last.
    tenant.post(DEPLOYMENTS, deployment())
    again = tenant.post(DEPLOYMENTS, deployment())
    assert again.status == 409 and OS in again.headers["warning"]


def test_an_ordinary_object_is_not_warned_of(tenant: Caller) -> None:
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    assert warnings(tenant.post(SERVICES, service)) == ""
    service = {"metadata": {"name": "t"}, "spec": {"ports": [{"port": 80}], "externalIPs": ["1.2.3.4"]}}
    assert "spec.externalIPs is deprecated" in warnings(tenant.post(SERVICES, service))
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert warnings(tenant.post(PODS, pod)) == ""


def test_deprecated_kinds_are_warned_of_with_every_answer(tenant: Caller) -> None:
    message = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    assert message in warnings(tenant.get("/api/v1/namespaces/default/endpoints"))


def test_kubectl_shows_them(tenant: Caller) -> None:
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    given = deployment(containers=[{"name": "c", "image": "nginx", "env": env}])
    message = tenant.kubectl("apply", "-f", "-", stdin=json.dumps(given), check=False)
    assert (
        "Warning: spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14" in message
    )
    assert 'Warning: spec.template.spec.containers[0].env[1]: hides previous definition of "A"' in message
