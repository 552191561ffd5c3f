"""Devices: claims of them, classes, slices."""

import copy

import pytest

from alcove.api.kinds.resource import STRATEGIES
from alcove.api.objects import Object


def messages(resource: str, spec: Object) -> list[str]:
    obj = {"metadata": {"name": "x"}, "spec": copy.deepcopy(spec)}
    STRATEGIES[resource].default(obj)
    return [str(error) for error in STRATEGIES[resource].validate(obj)]


GPU = {"deviceClassName": "gpu"}


def claim(*requests: Object, **devices: object) -> Object:
    return {"devices": {"requests": list(requests), **devices}}


REQUEST = "spec.devices.requests[0]"
NOT_A_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
SETTINGS = {"opaque": {"driver": "gpu.example.com", "parameters": {"kind": "P"}}}
CLAIMS: list[tuple[Object, list[str]]] = [
    ({}, []),
    (claim({"name": "r", "exactly": GPU}), []),
    (claim({"name": "r", "firstAvailable": [{"name": "a", **GPU}, {"name": "b", **GPU}]}, config=[{"requests": ["r/b"], **SETTINGS}]), []),
    (claim({"name": "r"}), [f"{REQUEST}: Required value: exactly one of `exactly` or `firstAvailable` is required"]),
    (claim({"name": "r", "exactly": GPU, "firstAvailable": [{"name": "a", **GPU}]}), [
        f"{REQUEST}: Invalid value: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"]),
    (claim({"name": "r", "exactly": {}}), [f"{REQUEST}.exactly.deviceClassName: Required value"]),
    (claim({"name": "r", "exactly": {**GPU, "allocationMode": "All", "count": 2}}), [
        f"{REQUEST}.exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'"]),
    (claim({"name": "r", "exactly": {**GPU, "count": -1}}), [
        f"{REQUEST}.exactly.count: Invalid value: -1: must be greater than zero"]),
    (claim({"name": "r", "exactly": {**GPU, "allocationMode": "Some"}}), [
        f'{REQUEST}.exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"']),
    (claim({"name": "r", "exactly": {**GPU, "selectors": [{}, {"cel": {"expression": "x" * 10241}}]}}), [
        f"{REQUEST}.exactly.selectors[0].cel: Required value",
        f"{REQUEST}.exactly.selectors[1].cel.expression: Too long: may not be more than 10240 bytes"]),
    (claim({"name": "r", "exactly": {**GPU, "tolerations": [{"operator": "Exists", "value": "v"}, {}]}}), [
        f'{REQUEST}.exactly.tolerations[0].value: Invalid value: "v": must be empty for operator `Exists`',
        f"{REQUEST}.exactly.tolerations[1].operator: Required value"]),
    (claim({"name": "r", "exactly": GPU}, {"name": "r", "exactly": GPU}), ['spec.devices.requests[1]: Duplicate value: "r"']),
    (claim(*[{"name": f"r{n}", "exactly": GPU} for n in range(33)]), [
        "spec.devices.requests: Too many: 33: must have at most 32 items"]),
    (claim({"name": "r", "exactly": GPU}, constraints=[{"requests": ["r", "q", "r"], "matchAttribute": "model"}, {}]), [
        f'spec.devices.constraints[0].requests[1]: Invalid value: "q": {NOT_A_REQUEST}',
        'spec.devices.constraints[0].requests[2]: Duplicate value: "r"',
        'spec.devices.constraints[0].matchAttribute: Invalid value: "model": a fully qualified name must be a domain and a name separated by a slash',
        'spec.devices.constraints[1]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is required']),
    (claim({"name": "r", "exactly": GPU}, config=[{}, {"opaque": {"driver": "d", "parameters": []}}]), [
        "spec.devices.config[0].opaque: Required value",
        'spec.devices.config[1].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object']),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), CLAIMS)
def test_claim(spec: Object, expected: list[str]) -> None:
    assert messages("resourceclaims", spec) == expected
    inside = [error.replace("spec.", "spec.spec.", 1) for error in expected]
    assert messages("resourceclaimtemplates", {"spec": spec}) == inside


def test_one_device_by_default() -> None:
    obj = {
        "spec": claim({"name": "r", "exactly": dict(GPU)}, {"name": "s", "firstAvailable": [{"name": "a"}]})
    }
    STRATEGIES["resourceclaims"].default(obj)
    requests = obj["spec"]["devices"]["requests"]
    assert requests[0]["exactly"] == {**GPU, "allocationMode": "ExactCount", "count": 1}
    assert requests[1]["firstAvailable"][0] == {"name": "a", "allocationMode": "ExactCount", "count": 1}


@pytest.mark.parametrize("resource", ["resourceclaims", "resourceclaimtemplates"])
def test_what_is_claimed_stays(resource: str) -> None:
    old, new = {"spec": claim()}, {"spec": claim({"name": "r", "exactly": GPU})}
    [error] = STRATEGIES[resource].validate_update(new, old)
    assert error.field == "spec"
    assert not STRATEGIES[resource].validate_update(old, old)


RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
USER = {"resource": "pods", "name": "p", "uid": "u"}


def allocated(*results: Object, **status: object) -> Object:
    return {
        "spec": claim({"name": "r", "exactly": GPU}),
        "status": {"allocation": {"devices": {"results": list(results)}}, **status},
    }


def test_claim_status() -> None:
    check = STRATEGIES["resourceclaims"].validate_status
    free: Object = {"spec": claim({"name": "r", "exactly": GPU})}
    assert not check(allocated(RESULT, reservedFor=[USER]), free)
    assert [str(error) for error in check(allocated({**RESULT, "request": "q", "pool": ""}), free)] == [
        f'status.allocation.devices.results[0].request: Invalid value: "q": {NOT_A_REQUEST}',
        "status.allocation.devices.results[0].pool: Required value",
    ]
    assert [str(error) for error in check({**free, "status": {"reservedFor": [USER, USER]}}, free)] == [
        'status.reservedFor[1]: Duplicate value: "u"',
        "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
    ]
    [error] = check(allocated({**RESULT, "device": "gpu-1"}), allocated(RESULT))
    assert error.field == "status.allocation"
    leaving = {
        **allocated(RESULT, reservedFor=[USER]),
        "metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"},
    }
    [error] = check(leaving, allocated(RESULT))
    assert error.body.startswith("Forbidden: new entries may not be added while")
    assert not check(leaving, leaving)


def test_device_class() -> None:
    assert not messages(
        "deviceclasses", {"selectors": [{"cel": {"expression": "true"}}], "config": [SETTINGS]}
    )
    assert messages("deviceclasses", {"extendedResourceName": "cpu"}) == [
        'spec.extendedResourceName: Invalid value: "cpu": must be a valid extended resource name'
    ]


POOL = {"name": "node-1", "resourceSliceCount": 1}


def node_slice(**spec: object) -> Object:
    return {"driver": "gpu.example.com", "pool": POOL, "nodeName": "node-1", **spec}


def device(name: str = "gpu-0", **fields: object) -> Object:
    return {"name": name, **fields}


DEVICE = "spec.devices[0]"
ONE_OF = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
SLICES: list[tuple[Object, list[str]]] = [
    (node_slice(devices=[device(attributes={"model": {"string": "A"}, "example.com/v": {"version": "1.2.3"}}, capacity={"memory": {"value": "1Gi"}})]), []),
    (node_slice(driver="", pool={}), [
        "spec.driver: Required value",
        "spec.pool.name: Required value",
        "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero"]),
    (node_slice(nodeName=""), [
        'spec.nodeName: Invalid value: "": must be either unset or set to a non-empty string',
        f"spec: Required value: {ONE_OF}"]),
    (node_slice(allNodes=True), [
        f'spec: Invalid value: "{{`nodeName`, `allNodes`}}": {ONE_OF}, but multiple fields are set']),
    (node_slice(allNodes=False), ["spec.allNodes: Invalid value: false: must be either unset or set to true"]),
    (node_slice(devices=[device(), device()]), ['spec.devices[1]: Duplicate value: "gpu-0"']),
    (node_slice(devices=[device(attributes={"a b": {"bool": True}})]), [
        f"{DEVICE}.attributes[a b]: Invalid value: \"a b\": a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"]),
    (node_slice(devices=[device(attributes={"a": {}, "b": {"bool": True, "int": 1}, "c": {"version": "1.x"}, "d": {"strings": []}})]), [
        f'{DEVICE}.attributes[a]: Invalid value: "": exactly one value must be specified',
        f'{DEVICE}.attributes[b]: Invalid value: {{"bool":true,"int":1}}: exactly one value must be specified',
        f'{DEVICE}.attributes[c].version: Invalid value: "1.x": must be a string compatible with semver.org spec 2.0.0',
        f"{DEVICE}.attributes[d].strings: Invalid value: []: must not be empty if specified"]),
    (node_slice(devices=[device(taints=[{"key": "k"}])]), [f"{DEVICE}.taints[0].effect: Required value"]),
    (node_slice(devices=[device(f"d{n}", taints=[{"key": "k", "effect": "NoSchedule"}]) for n in range(65)]), [
        "spec.devices: Too many: 65: must have at most 64 items"]),
    (node_slice(sharedCounters=[{"name": "c", "counters": {"memory": {"value": "-1"}}}, {"name": "d"}]), [
        'spec.sharedCounters[0].counters[memory].value: Invalid value: "-1": must be greater than or equal to 0',
        "spec.sharedCounters[1].counters: Required value"]),
    (node_slice(sharedCounters=[], devices=[]), [
        'spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed']),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), SLICES)
def test_slice(spec: Object, expected: list[str]) -> None:
    assert messages("resourceslices", spec) == expected


def test_slice_stays_where_it_is() -> None:
    new = {"spec": node_slice(driver="other", nodeName="node-2", pool={**POOL, "name": "node-2"})}
    errors = STRATEGIES["resourceslices"].validate_update(new, {"spec": node_slice()})
    assert [error.field for error in errors] == ["spec.pool.name", "spec.driver", "spec.nodeName"]
    fields = STRATEGIES["resourceslices"].fields
    assert fields["spec.nodeName"]({"spec": node_slice()}) == "node-1"
    assert fields["spec.driver"]({}) == ""
