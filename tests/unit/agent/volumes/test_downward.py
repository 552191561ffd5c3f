"""The downward API, by tables."""

import pytest

from alcove.agent.volumes import downward
from alcove.agent.volumes.downward import DownwardMetadata
from alcove.agent.volumes.errors import VolumeFailure
from alcove.api.objects import Object

POD: Object = {
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "uid": "u1",
        "labels": {"b": "2", "a": "1"},
        "annotations": {"x/y": 'a "quoted"\nline\x01 é \u2028'},
    },
    "spec": {
        "nodeName": "n1",
        "serviceAccountName": "sa",
        "initContainers": [{"name": "init"}],
        "containers": [
            {
                "name": "main",
                "resources": {"limits": {"cpu": "1500m", "memory": "100Mi"}, "requests": {"cpu": "1"}},
            }
        ],
    },
    "status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "hostIP": "192.0.2.1"},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "web"),
        ("metadata.namespace", "shop"),
        ("metadata.uid", "u1"),
        ("metadata.labels", 'a="1"\nb="2"'),
        ("metadata.annotations", r'x/y="a \"quoted\"\nline\x01 é \u2028"'),
        ("metadata.labels['a']", "1"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['x/y']", 'a "quoted"\nline\x01 é \u2028'),
        ("spec.nodeName", "n1"),
        ("spec.serviceAccountName", "sa"),
        ("status.podIP", "10.0.0.1"),
        ("status.podIPs", "10.0.0.1,fd00::1"),
        ("status.hostIP", "192.0.2.1"),
    ],
)
def test_fields(path: str, expected: str) -> None:
    assert downward.field(POD, path) == expected


@pytest.mark.parametrize("path", ["", "spec", "metadata.finalizers", "spec.containers[0].name"])
def test_fields_that_are_not_supported(path: str) -> None:
    with pytest.raises(VolumeFailure, match="unsupported fieldPath"):
        downward.field(POD, path)


@pytest.mark.parametrize(
    ("container", "resource", "divisor", "expected"),
    [
        ("main", "limits.cpu", "", "2"),
        ("main", "limits.cpu", "0", "2"),
        ("main", "limits.cpu", "1m", "1500"),
        ("main", "limits.memory", "1Mi", "100"),
        ("main", "limits.memory", "", "104857600"),
        ("main", "requests.cpu", "1", "1"),
        ("main", "requests.memory", "", "0"),
        ("main", "limits.ephemeral-storage", "1Gi", "10"),
        ("init", "limits.cpu", "", "4"),
    ],
)
def test_resources(container: str, resource: str, divisor: str, expected: str) -> None:
    ref = {"containerName": container, "resource": resource, "divisor": divisor}
    allocatable = {"cpu": "4", "ephemeral-storage": "10Gi"}
    assert downward.resource(POD, ref, allocatable) == expected


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ({"containerName": "none", "resource": "limits.cpu"}, "container none not found"),
        ({"containerName": "main", "resource": "cpu"}, "unsupported container resource"),
        ({"containerName": "main"}, "unsupported container resource"),
    ],
)
def test_resources_that_are_not_supported(ref: Object, message: str) -> None:
    with pytest.raises(VolumeFailure, match=message):
        downward.resource(POD, ref, {})


def test_a_limit_that_only_the_pod_has_is_each_containers() -> None:
    pod = {"spec": {"resources": {"limits": {"memory": "64Mi"}}, "containers": [{"name": "app"}]}}
    ref = {"containerName": "app", "resource": "limits.memory", "divisor": "1Mi"}
    assert downward.resource(pod, ref, {"memory": "1Gi"}) == "64"
    assert downward.resource(pod, {**ref, "resource": "limits.cpu", "divisor": "1"}, {"cpu": "4"}) == "4"


@pytest.mark.parametrize(
    ("volume", "is_shown"),
    [
        ({"downwardAPI": {"items": []}}, True),
        ({"projected": {"sources": [{"secret": {"name": "s"}}, {"downwardAPI": {"items": []}}]}}, True),
        ({"projected": {"sources": [{"secret": {"name": "s"}}]}}, False),
        ({"projected": {}}, False),
        ({"configMap": {"name": "c"}}, False),
    ],
)
def test_metadata_counts_only_where_a_volume_can_show_it(volume: Object, is_shown: bool) -> None:
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"volumes": [{"name": "v", **volume}]}}
    assert (downward.metadata(pod) == DownwardMetadata({"a": "b"})) is is_shown
    assert (downward.metadata(pod) == DownwardMetadata()) is not is_shown
