"""Storage: classes, drivers, nodes, attachments, capacities."""

import pytest

from alcove.api.kinds.storage import STRATEGIES
from alcove.api.objects import Object


def messages(resource: str, obj: Object) -> list[str]:
    STRATEGIES[resource].default(obj)
    return [str(error) for error in STRATEGIES[resource].validate(obj)]


TERM = {"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}
LONG = "a" * 64
CASES: list[tuple[str, Object, list[str]]] = [
    ("storageclasses", {"provisioner": "Example.com/nfs"}, []),
    ("storageclasses", {}, ["provisioner: Required value"]),
    ("storageclasses", {"provisioner": "p", "reclaimPolicy": "Recycle", "volumeBindingMode": "Later"}, [
        'reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"',
        'volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"']),
    ("storageclasses", {"provisioner": "p", "parameters": {"": "x"}}, [
        'parameters: Invalid value: "": field can not be empty.']),
    ("storageclasses", {"provisioner": "p", "parameters": {str(n): "" for n in range(513)}}, [
        "parameters: Too long: may not be more than 512 bytes"]),
    ("storageclasses", {"provisioner": "p", "parameters": {"a": "x" * 262144}}, [
        "parameters: Too long: may not be more than 262144 bytes"]),
    ("storageclasses", {"provisioner": "p", "allowedTopologies": [TERM, TERM]}, [
        'allowedTopologies[1].matchLabelExpressions: Duplicate value: ""']),
    ("storageclasses", {"provisioner": "p", "allowedTopologies": [
        {"matchLabelExpressions": [{"key": "zone", "values": ["a", "a"]}, {"key": "zone"}]}]}, [
        'allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "a"',
        "allowedTopologies[0].matchLabelExpressions[1].values: Required value",
        'allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "zone"']),
    ("volumeattributesclasses", {"driverName": "d.io", "parameters": {"iops": "1"}}, []),
    ("volumeattributesclasses", {}, [
        "driverName: Required value",
        "parameters: Required value: must contain at least one key/value pair"]),
    ("csidrivers", {}, []),
    ("csidrivers", {"spec": {"fsGroupPolicy": "Some", "volumeLifecycleModes": ["Short"]}}, [
        'spec.fsGroupPolicy: Unsupported value: "Some": supported values: "File", "None", "ReadWriteOnceWithFSType"',
        'spec.volumeLifecycleModes: Unsupported value: "Short": supported values: "Persistent", "Ephemeral"']),
    ("csidrivers", {"spec": {"tokenRequests": [{"audience": "a", "expirationSeconds": 1}, {"audience": "a"}]}}, [
        "spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes",
        'spec.tokenRequests[1].audience: Duplicate value: "a"']),
    ("csidrivers", {"spec": {"nodeAllocatableUpdatePeriodSeconds": 9, "serviceAccountTokenInSecrets": True}}, [
        "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds",
        "spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no tokenRequests are specified"]),
    ("csinodes", {"spec": {"drivers": [{"name": "d.io", "nodeID": "n", "topologyKeys": ["zone"]}]}}, []),
    ("csinodes", {"spec": {"drivers": [{"name": LONG, "nodeID": "n"}, {"name": "d", "nodeID": "x" * 257}]}}, [
        "spec.drivers[0].name: Too long: may not be more than 63 bytes",
        f'spec.drivers[1].nodeID: Invalid value: "{"x" * 257}": must be 256 characters or less']),
    ("csinodes", {"spec": {"drivers": [
        {"name": "d", "nodeID": "n", "allocatable": {"count": -1}}, {"name": "d", "topologyKeys": ["z", "z"]}]}}, [
        "spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
        "spec.drivers[1].nodeID: Required value",
        'spec.drivers[1].name: Duplicate value: "d"',
        'spec.drivers[1]: Duplicate value: "z"']),
    ("volumeattachments", {"spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}, []),
    ("volumeattachments", {"spec": {"attacher": "d", "nodeName": "n"}}, [
        "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"]),
    ("volumeattachments", {"spec": {"nodeName": "n", "source": {"persistentVolumeName": ""}}}, [
        "spec.attacher: Required value",
        "spec.source.persistentVolumeName: Required value: must specify non empty persistentVolumeName"]),
    ("csistoragecapacities", {"storageClassName": "fast", "capacity": "1Gi"}, []),
    ("csistoragecapacities", {"storageClassName": "fast", "capacity": "-1Gi"}, [
        'capacity: Invalid value: "-1Gi": must be greater than or equal to 0']),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "obj", "expected"), CASES)
def test_validate(resource: str, obj: Object, expected: list[str]) -> None:
    assert messages(resource, obj) == expected


def test_defaults() -> None:
    storage_class: Object = {"provisioner": "p"}
    STRATEGIES["storageclasses"].default(storage_class)
    assert storage_class["reclaimPolicy"] == "Delete"
    assert storage_class["volumeBindingMode"] == "Immediate"
    driver: Object = {"spec": {"attachRequired": False}}
    STRATEGIES["csidrivers"].default(driver)
    assert driver["spec"] == {
        "attachRequired": False,
        "podInfoOnMount": False,
        "storageCapacity": False,
        "requiresRepublish": False,
        "seLinuxMount": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "volumeLifecycleModes": ["Persistent"],
    }


DRIVER = {"name": "d", "nodeID": "n"}
UPDATES: list[tuple[str, Object, Object, list[str]]] = [
    ("storageclasses", {"provisioner": "q", "parameters": {}}, {"provisioner": "p"}, [
        'provisioner: Invalid value: "q": field is immutable']),
    ("storageclasses", {"allowVolumeExpansion": True}, {}, []),
    ("storageclasses", {"parameters": {"a": "b"}}, {}, [
        'parameters: Invalid value: {"a":"b"}: field is immutable']),
    ("volumeattributesclasses", {"driverName": "b", "parameters": {"a": "2"}}, {"driverName": "a"}, [
        "driverName: Forbidden: updates to driverName are forbidden.",
        "parameters: Forbidden: updates to parameters are forbidden."]),
    ("csidrivers", {"spec": {"attachRequired": True, "volumeLifecycleModes": ["Ephemeral"]}}, {"spec": {"attachRequired": False}}, [
        "spec.attachedRequired: Invalid value: true: field is immutable",
        'spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: field is immutable']),
    ("csinodes", {"spec": {"drivers": [{**DRIVER, "allocatable": {"count": 2}}]}}, {"spec": {"drivers": [DRIVER]}}, []),
    ("csinodes", {"spec": {"drivers": [{**DRIVER, "nodeID": "m"}]}}, {"spec": {"drivers": [DRIVER]}}, [
        'spec.drivers: Invalid value: {"name":"d","nodeID":"m"}: field is immutable']),
    ("volumeattachments", {"spec": {"nodeName": "b"}}, {"spec": {"nodeName": "a"}}, [
        'spec: Invalid value: {"nodeName":"b"}: field is immutable']),
    ("csistoragecapacities", {"storageClassName": "b"}, {"storageClassName": "a"}, [
        'storageClassName: Invalid value: "b": field is immutable']),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "new", "old", "expected"), UPDATES)
def test_update(resource: str, new: Object, old: Object, expected: list[str]) -> None:
    assert [str(error) for error in STRATEGIES[resource].validate_update(new, old)] == expected


def test_attachment_status() -> None:
    status = {"attached": True, "attachError": {"message": "x" * 1025, "errorCode": -1}}
    errors = STRATEGIES["volumeattachments"].validate_status({"status": status}, {})
    assert [str(error) for error in errors] == [
        "status.attachError.message: Too long: may not be more than 1024 bytes",
        "status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
    ]
