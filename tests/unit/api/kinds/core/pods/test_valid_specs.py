from copy import deepcopy
from typing import Any

import pytest

from alcove.api.kinds.core.pods.create import validate_pod
from alcove.api.kinds.core.pods.valid_specs import SPEC_BYTES_MAX, ValidSpecs, key_of

SPEC: dict[str, Any] = {
    "containers": [
        {
            "name": "app",
            "image": "registry.example/app:1",
            "imagePullPolicy": "Always",
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
    ],
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "terminationGracePeriodSeconds": 30,
}


def pod(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web", "tenant": "acme", **metadata}, "spec": spec}


def test_a_spec_like_a_valid_one_is_checked_again_if_anything_in_it_differs() -> None:
    assert validate_pod(pod(SPEC)) == []
    assert validate_pod(pod(deepcopy(SPEC), name="other")) == []
    changed = deepcopy(SPEC)
    changed["containers"][0]["image"] = " registry.example/app:1"
    assert [error.field for error in validate_pod(pod(changed))] == ["spec.containers[0].image"]
    without = {name: value for name, value in SPEC.items() if name != "restartPolicy"}
    assert [error.field for error in validate_pod(pod(without))] == ["spec.restartPolicy"]


def test_errors_are_found_again() -> None:
    invalid = SPEC | {"dnsPolicy": "Sometimes"}
    first, second = validate_pod(pod(invalid)), validate_pod(pod(invalid))
    assert first == second != []


def test_what_is_outside_of_the_spec_is_checked_each_time() -> None:
    assert validate_pod(pod(SPEC)) == []
    profile = {"container.apparmor.security.beta.kubernetes.io/none": "runtime/default"}
    assert validate_pod(pod(SPEC, annotations=profile)) != []


def test_a_volume_whose_claim_has_the_pods_name_is_checked_for_each_name() -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    volume = {"name": "data", "ephemeral": {"volumeClaimTemplate": template}}
    spec = SPEC | {"volumes": [volume]}
    assert key_of("acme", spec) is None
    assert validate_pod(pod(spec)) == []
    assert validate_pod(pod(spec, name="w" * 253)) != []


@pytest.mark.parametrize("extra", [{"hostname": "x" * SPEC_BYTES_MAX}, {"big": 1 << 70}])
def test_long_and_strange_specs_are_not_remembered(extra: dict[str, Any]) -> None:
    assert key_of("acme", SPEC | extra) is None


def test_each_tenant_has_its_own_and_who_fills_the_pool_loses_its_oldest() -> None:
    known = ValidSpecs(bytes_max=1000)
    key = key_of("acme", SPEC)
    assert key is not None
    known.add(key)
    assert key in known
    assert key_of("other", SPEC) not in known
    many = [("other", b"%0100d" % number) for number in range(20)]
    for each in many:
        known.add(each)
    assert key in known
    assert [each in known for each in many].count(True) < 10
    assert many[-1] in known
