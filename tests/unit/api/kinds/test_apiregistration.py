"""API services: names, priorities, and CA bundles."""

import pytest

from alcove.api.kinds.apiregistration import STRATEGIES
from alcove.api.objects import Object

STRATEGY = STRATEGIES["apiservices"]


def service(name: str = "v1.example.com", **spec: object) -> Object:
    given = {
        "group": "example.com",
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 10,
        **spec,
    }
    return {"metadata": {"name": name}, "spec": given}


REMOTE = {"namespace": "n", "name": "s"}
CASES: list[tuple[Object, list[str]]] = [
    (service(), []),
    (service(service=dict(REMOTE), caBundle="QQ=="), []),
    (service("v1.", group=""), []),
    (service("v2.", group="", version="v2"), [
        "spec.group: Required value: only v1 may have an empty group and it better be legacy kube"]),
    (service("wrong"), [
        'metadata.name: Invalid value: "wrong": must be `spec.version+"."+spec.group`: "v1.example.com"']),
    (service(groupPriorityMinimum=0, versionPriority=1001), [
        "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
        "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000"]),
    (service(caBundle="QUJD", insecureSkipTLSVerify=True), [
        'spec.caBundle: Invalid value: "3 bytes": local APIServices may not have a caBundle',
        "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify"]),
    (service(service={"port": 70000}), [
        "spec.service.namespace: Required value",
        "spec.service.name: Required value",
        "spec.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive"]),
    (service(service=dict(REMOTE), caBundle="QQ==", insecureSkipTLSVerify=True), [
        "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"]),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), CASES)
def test_validate(obj: Object, expected: list[str]) -> None:
    STRATEGY.default(obj)
    assert [str(error) for error in STRATEGY.validate(obj)] == expected


def test_port_defaults_to_https() -> None:
    obj = service(service=dict(REMOTE))
    STRATEGY.default(obj)
    assert obj["spec"]["service"]["port"] == 443


def test_status() -> None:
    errors = STRATEGY.validate_status({"status": {"conditions": [{"status": "Maybe"}]}}, {})
    assert [str(error) for error in errors] == [
        'status.conditions[0].status: Unsupported value: "Maybe": supported values: "True", "False", "Unknown"'
    ]
