"""The objects that a pod refers to, for every field that can refer to one."""

import pytest

from alcove.api.objects import Object
from alcove.apiserver.rbac.podreferences import references, token_audiences, volume_secrets


def named(spec: Object, status: Object | None = None) -> set[str]:
    pod = {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec, "status": status or {}}
    found = references(pod)
    assert {namespace for _, namespace, _ in found} <= {"ns"}
    return {f"{resource}/{name}" for resource, _, name in found}


def variable(field: str, name: str) -> Object:
    return {"env": [{"name": "V", "valueFrom": {field: {"name": name, "key": "k"}}}]}


@pytest.mark.parametrize("containers", ["containers", "initContainers", "ephemeralContainers"])
@pytest.mark.parametrize(
    ("container", "expected"),
    [
        (variable("secretKeyRef", "x"), {"secrets/x"}),
        (variable("configMapKeyRef", "x"), {"configmaps/x"}),
        (variable("fieldRef", "x"), set()),
        ({"envFrom": [{"secretRef": {"name": "x"}}]}, {"secrets/x"}),
        ({"envFrom": [{"configMapRef": {"name": "x"}}]}, {"configmaps/x"}),
        ({"env": [{"name": "V", "value": "x"}], "envFrom": [{"prefix": "x"}]}, set()),
    ],
)
def test_containers(containers: str, container: Object, expected: set[str]) -> None:
    assert named({containers: [{"name": "c", **container}]}) == expected


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"secret": {"secretName": "x"}}, {"secrets/x"}),
        ({"configMap": {"name": "x"}}, {"configmaps/x"}),
        ({"persistentVolumeClaim": {"claimName": "x"}}, {"persistentvolumeclaims/x"}),
        ({"ephemeral": {"volumeClaimTemplate": {}}}, {"persistentvolumeclaims/p-v"}),
        ({"azureFile": {"secretName": "x"}}, {"secrets/x"}),
        ({"cephfs": {"secretRef": {"name": "x"}}}, {"secrets/x"}),
        ({"rbd": {"secretRef": {"name": "x"}}}, {"secrets/x"}),
        ({"iscsi": {"secretRef": {"name": "x"}}}, {"secrets/x"}),
        ({"flexVolume": {"secretRef": {"name": "x"}}}, {"secrets/x"}),
        ({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "x"}}}, {"secrets/x"}),
        ({"projected": {"sources": [{"secret": {"name": "x"}}]}}, {"secrets/x"}),
        ({"projected": {"sources": [{"configMap": {"name": "x"}}]}}, {"configmaps/x"}),
        ({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}, set()),
        ({"emptyDir": {}}, set()),
        ({"hostPath": {"path": "/x"}}, set()),
    ],
)
def test_volumes(volume: Object, expected: set[str]) -> None:
    assert named({"volumes": [{"name": "v", **volume}]}) == expected


def test_accounts_pull_secrets_and_devices() -> None:
    spec = {
        "serviceAccountName": "robot",
        "imagePullSecrets": [{"name": "pull"}, {}],
        "resourceClaims": [{"name": "a", "resourceClaimName": "gpu"}, {"name": "b"}],
    }
    status = {
        "resourceClaimStatuses": [{"name": "b", "resourceClaimName": "made"}, {"name": "c"}],
        "extendedResourceClaimStatus": {"resourceClaimName": "extended"},
    }
    expected = {"serviceaccounts/robot", "secrets/pull"}
    expected |= {f"resourceclaims/{name}" for name in ("gpu", "made", "extended")}
    assert named(spec, status) == expected
    assert named({}) == set()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"csi": {"nodeStageSecretRef": {"name": "x", "namespace": "far"}}}, {("secrets", "far", "x")}),
        ({"csi": {"controllerExpandSecretRef": {"name": "x", "namespace": "far"}}}, set()),
        ({"rbd": {"secretRef": {"name": "x"}}}, {("secrets", "ns", "x")}),
        ({"azureFile": {"secretName": "x"}}, {("secrets", "ns", "x")}),
        ({"azureFile": {"secretName": "x", "secretNamespace": "far"}}, {("secrets", "far", "x")}),
        ({"nfs": {"server": "s"}, "capacity": {"storage": "1Gi"}}, set()),
    ],
)
def test_secrets_of_persistent_volumes(source: Object, expected: set[tuple[str, str, str]]) -> None:
    volume = {"spec": {"claimRef": {"namespace": "ns", "name": "c"}, **source}}
    assert set(volume_secrets(volume)) == expected


def test_audiences_of_tokens() -> None:
    sources = [{"serviceAccountToken": {"path": "t"}}, {"serviceAccountToken": {"audience": "vault"}}]
    pod = {"spec": {"volumes": [{"name": "v", "projected": {"sources": sources}}, {"name": "e"}]}}
    assert token_audiences(pod) == {"", "vault"}
    assert token_audiences({"spec": {}}) == set()
