"""Volumes and claims; limit ranges, quotas, controllers: what may change and what is filled in."""

import copy
from typing import Any

import pytest

from alcove.api.kinds.core import STRATEGIES
from alcove.api.objects import Object

CLAIMS, VOLUMES = STRATEGIES["persistentvolumeclaims"], STRATEGIES["persistentvolumes"]
LIMITS, QUOTAS = STRATEGIES["limitranges"], STRATEGIES["resourcequotas"]
CONTROLLERS = STRATEGIES["replicationcontrollers"]


def messages(errors: Any) -> list[str]:
    return [str(error).split("\n")[0] for error in errors]


def claim(**spec: Any) -> Object:
    made: Object = {
        "metadata": {"name": "c", "namespace": "n"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "2Gi"}},
            "storageClassName": "fast",
            **spec,
        },
    }
    CLAIMS.default(made)
    CLAIMS.prepare_create(made)
    return made


IMMUTABLE = (
    "spec: Forbidden: spec is immutable after creation except resources.requests and "
    "volumeAttributesClassName for bound claims"
)


@pytest.mark.parametrize(
    ("phase", "changes", "expected"),
    [
        ("Bound", {}, []),
        ("Bound", {"resources": {"requests": {"storage": "3Gi"}}}, []),
        ("Pending", {"resources": {"requests": {"storage": "3Gi"}}}, [IMMUTABLE]),
        ("Bound", {"resources": {"requests": {"storage": "1536Mi"}}}, []),
        ("Bound", {"resources": {"requests": {"storage": "1Gi"}}}, [
            "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
        ]),
        ("Pending", {"volumeName": "v"}, []),
        ("Bound", {"storageClassName": "slow"}, [IMMUTABLE]),
        ("Bound", {"storageClassName": ""}, [IMMUTABLE]),
        ("Bound", {"accessModes": ["ReadOnlyMany"]}, [IMMUTABLE]),
        ("Bound", {"volumeMode": "Block"}, [IMMUTABLE, 'volumeMode: Invalid value: "Block": field is immutable']),
    ],
)  # fmt: skip
def test_claims(phase: str, changes: Object, expected: list[str]) -> None:
    old = claim()
    old["status"] = {"phase": phase, "capacity": {"storage": "1Gi"}}
    new = copy.deepcopy(old)
    new["spec"].update(changes)
    CLAIMS.default(new)
    CLAIMS.prepare_update(new, old)
    assert messages(CLAIMS.validate_update(new, old)) == expected


def test_a_claim_without_a_class_may_get_one_once() -> None:
    old = claim()
    del old["spec"]["storageClassName"]
    new = copy.deepcopy(old)
    new["spec"]["storageClassName"] = "fast"
    assert messages(CLAIMS.validate_update(new, old)) == []
    assert messages(CLAIMS.validate_update(old, new)) == [IMMUTABLE]


def test_the_two_data_sources_agree() -> None:
    made = claim(dataSource={"kind": "PersistentVolumeClaim", "name": "x"})
    assert made["spec"]["dataSourceRef"] == {"kind": "PersistentVolumeClaim", "name": "x"}
    made = claim(dataSourceRef={"apiGroup": "a.b", "kind": "Thing", "name": "x"})
    assert made["spec"]["dataSource"] == {"apiGroup": "a.b", "kind": "Thing", "name": "x"}
    made = claim(dataSource={"apiGroup": "a.b", "kind": "Thing", "name": "x"})
    assert "dataSource" not in made["spec"], "the older field takes only claims and snapshots"
    made = claim(dataSourceRef={"kind": "PersistentVolumeClaim", "name": "x", "namespace": "m"})
    assert "dataSource" not in made["spec"]


def volume(**spec: Any) -> Object:
    made: Object = {
        "metadata": {"name": "v"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **spec},
    }
    VOLUMES.default(made)
    return made


def test_defaults_of_volumes() -> None:
    made = volume(hostPath={"path": "/x"}, iscsi={"targetPortal": "p"})
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert made["spec"]["volumeMode"] == "Filesystem"
    assert made["spec"]["hostPath"]["type"] == ""
    assert made["spec"]["iscsi"]["iscsiInterface"] == "default"


def test_the_source_of_a_volume_stays() -> None:
    old = volume(hostPath={"path": "/x"})
    new = volume(hostPath={"path": "/y"})
    assert messages(VOLUMES.validate_update(new, old)) == [
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"
    ]
    new = volume(hostPath={"path": "/x"}, persistentVolumeReclaimPolicy="Delete")
    assert messages(VOLUMES.validate_update(new, old)) == []


def test_a_csi_volume_may_get_the_secret_for_its_expansion() -> None:
    csi = {"driver": "d", "volumeHandle": "h"}
    secret = {"name": "s", "namespace": "n"}
    with_secret = volume(csi={**csi, "controllerExpandSecretRef": secret})
    assert messages(VOLUMES.validate_update(with_secret, volume(csi=csi))) == []
    assert len(VOLUMES.validate_update(volume(csi=csi), with_secret)) == 1


def affinity(key: str) -> Object:
    expression = {"key": key, "operator": "In", "values": ["z"]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def test_node_affinity_may_move_to_the_new_names_of_labels_only() -> None:
    beta, ga = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
    old = volume(local={"path": "/x"}, nodeAffinity=affinity(beta))
    assert (
        messages(VOLUMES.validate_update(volume(local={"path": "/x"}, nodeAffinity=affinity(ga)), old)) == []
    )
    (error,) = VOLUMES.validate_update(volume(local={"path": "/x"}, nodeAffinity=affinity("other")), old)
    assert error.field == "nodeAffinity"
    assert error.body.endswith("field is immutable, except for updating from beta label to GA")


def test_limit_ranges_fill_in_what_follows() -> None:
    limits: Object = {
        "spec": {
            "limits": [
                {"type": "Container", "max": {"cpu": "2", "memory": "1Gi"}, "min": {"cpu": "1", "pods": "1"}},
                {"type": "Pod", "max": {"cpu": "2"}},
            ]
        }
    }
    LIMITS.default(limits)
    container, pod = limits["spec"]["limits"]
    assert container["default"] == {"cpu": "2", "memory": "1Gi"}
    assert container["defaultRequest"] == {"cpu": "2", "memory": "1Gi", "pods": "1"}
    assert "default" not in pod


def test_the_scopes_of_a_quota_stay() -> None:
    old: Object = {"spec": {"scopes": ["BestEffort", "Terminating"]}}
    assert messages(QUOTAS.validate_update({"spec": {"scopes": ["Terminating", "BestEffort"]}}, old)) == []
    assert messages(QUOTAS.validate_update({"spec": {"scopes": []}}, old)) == [
        "spec.scopes: Invalid value: []: field is immutable"
    ]


def test_a_quota_cannot_count_what_its_scope_leaves_out() -> None:
    quota = {"spec": {"hard": {"pods": "1", "services": "1"}, "scopes": ["BestEffort", "NotBestEffort"]}}
    assert messages(QUOTAS.validate(quota)) == [
        'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: unsupported scope applied to resource',
        'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: unsupported scope applied to resource',
        'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes',
    ]


def test_a_controller_takes_selector_and_labels_from_its_template() -> None:
    controller: Object = {
        "spec": {
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }
        }
    }
    CONTROLLERS.default(controller)
    assert controller["metadata"]["labels"] == controller["spec"]["selector"] == {"app": "x"}
    assert controller["spec"]["replicas"] == 1
    assert messages(CONTROLLERS.validate(controller)) == []
    controller["spec"]["selector"] = {"app": "y"}
    assert messages(CONTROLLERS.validate(controller)) == [
        'spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`'
    ]
    CONTROLLERS.prepare_create(controller)
    assert CONTROLLERS.fields["status.replicas"](controller) == "0"
