"""What else a write of the status changes: labels and annotations too, as in Kubernetes, and never the rest."""

from typing import Any

import pytest

from alcove.testing.server import Caller

MARKS = {"labels": {"l": "1"}, "annotations": {"a": "1"}, "finalizers": ["example.com/f"]}
DEFAULT = "/api/v1/namespaces/default"
POD: dict[str, Any] = {"containers": [{"name": "c", "image": "none"}]}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": POD}
BACKEND = {"name": "s", "port": {"number": 80}}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def made(caller: Caller, path: str, spec: Any) -> str:
    answer = caller.post(path, {"metadata": {"name": "one"}, "spec": spec})
    assert answer.status == 201, answer.body
    return f"{path}/one"


def marks(obj: Any) -> dict[str, Any]:
    return {field: obj["metadata"][field] for field in MARKS if field in obj["metadata"]}


@pytest.mark.parametrize(
    ("path", "spec"),
    [
        ("/api/v1/namespaces", {}),
        (f"{DEFAULT}/pods", POD),
        (f"{DEFAULT}/services", {"ports": [{"port": 80}]}),
        (f"{DEFAULT}/persistentvolumeclaims", CLAIM),
        (f"{DEFAULT}/resourcequotas", {"hard": {"pods": "1"}}),
        ("/apis/batch/v1/namespaces/default/jobs", {"template": {"spec": {**POD, "restartPolicy": "Never"}}}),
        ("/apis/networking.k8s.io/v1/namespaces/default/ingresses", {"defaultBackend": {"service": BACKEND}}),
    ],
)
def test_metadata_written_beside_a_status_counts(tenant: Caller, path: str, spec: Any) -> None:
    one = made(tenant, path, spec)
    answer = tenant.patch(f"{one}/status", {"metadata": MARKS})
    assert answer.status == 200, answer.body
    shown = marks(tenant.get(one).json)
    assert shown["annotations"]["a"] == "1" and shown["labels"]["l"] == "1"
    assert "example.com/f" in shown["finalizers"]
    [manager] = [each for each in answer.json["metadata"]["managedFields"] if each.get("subresource")]
    assert "f:a" in manager["fieldsV1"]["f:metadata"]["f:annotations"]


def test_a_deployment_keeps_its_labels_and_a_pod_its_owners(tenant: Caller) -> None:
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}
    deployment = made(tenant, "/apis/apps/v1/namespaces/default/deployments", spec)
    shown = marks(tenant.patch(f"{deployment}/status", {"metadata": MARKS}).json)
    assert "labels" not in shown and shown["annotations"] == {"a": "1"}
    pod = made(tenant, f"{DEFAULT}/pods", POD)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "m", "uid": "u"}
    metadata = tenant.patch(f"{pod}/status", {"metadata": {"ownerReferences": [owner]}}).json["metadata"]
    assert "ownerReferences" not in metadata


def test_rules_of_metadata_hold_beside_a_status_too(tenant: Caller) -> None:
    pod = made(tenant, f"{DEFAULT}/pods", POD)
    moved = {"metadata": {"labels": {"arktos.futurewei.com/network": "other"}}}
    answer = tenant.patch(f"{pod}/status", moved)
    assert answer.status == 422 and "the network may not change" in answer.json["message"]
    assert tenant.patch(f"{pod}/status", {"metadata": {"labels": {"bad key!": "x"}}}).status == 422


def test_a_status_that_changes_nothing_makes_no_revision(tenant: Caller) -> None:
    pod = made(tenant, f"{DEFAULT}/pods", POD)
    status = {"status": {"message": "here"}}
    first = tenant.patch(f"{pod}/status", status).json["metadata"]["resourceVersion"]
    assert tenant.patch(f"{pod}/status", status).json["metadata"]["resourceVersion"] == first


def test_a_json_patch_may_put_the_first_thing_into_a_status(tenant: Caller) -> None:
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}
    deployment = made(tenant, "/apis/apps/v1/namespaces/default/deployments", spec)
    assert not tenant.get(deployment).json.get("status")
    patch = [{"op": "add", "path": "/status/replicas", "value": 3}]
    answer = tenant.request(
        "PATCH", f"{deployment}/status", patch, content_type="application/json-patch+json"
    )
    assert answer.status == 200 and answer.json["status"] == {"replicas": 3}
    untouched = [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]
    service = made(tenant, f"{DEFAULT}/services", {"ports": [{"port": 80}]})
    shown = tenant.request("PATCH", service, untouched, content_type="application/json-patch+json").json
    assert shown["metadata"]["labels"] == {"a": "b"} and shown.get("status") in (None, {"loadBalancer": {}})


@pytest.mark.parametrize(
    "field", ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"]
)
@pytest.mark.parametrize("name", ["0/../../../../volumes/pods/x/empty/v/b", "..", "a\0", "a\nb", "x" * 64])
def test_a_container_name_in_a_status_cannot_be_a_path(tenant: Caller, field: str, name: str) -> None:
    pod = made(tenant, f"{DEFAULT}/pods", POD)
    entry = {"name": name, "image": "x", "imageID": "x", "ready": True, "restartCount": 0}
    answer = tenant.patch(f"{pod}/status", {"status": {field: [entry]}})
    assert answer.status == 422 and f"status.{field}[0].name" in answer.json["message"]
