"""Copies of pods that can be created again."""

from alcove.api.kinds.core.pods.copies import unscheduled


def test_a_copy_has_nothing_of_the_place_where_the_pod_ran() -> None:
    metadata = {
        "name": "web",
        "namespace": "default",
        "uid": "u",
        "resourceVersion": "7",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": "web"},
        "annotations": {"mizar.com/vpc": "v", "arktos.futurewei.com/network-readiness": "true", "mine": "1"},
    }
    spec = {"containers": [{"name": "c"}], "nodeName": "n1", "ephemeralContainers": [{"name": "debug"}]}
    copy = unscheduled({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})
    assert copy["metadata"] == {"name": "web", "labels": {"app": "web"}, "annotations": {"mine": "1"}}
    assert copy["spec"] == {"containers": [{"name": "c"}]}
    assert "status" not in copy
    assert spec["nodeName"] == "n1", "the pod itself was changed"
