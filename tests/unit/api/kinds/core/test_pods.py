"""Pods beyond the recorded cases: defaults one by one, QoS, networks, what may change."""

import copy
from typing import Any

import pytest

from alcove.api.errors import BadRequest
from alcove.api.fields import FieldError
from alcove.api.kinds.core import STRATEGIES
from alcove.api.kinds.core.pods import (
    default_pod_spec,
    default_pod_template,
    validate_pod_spec,
    validate_pod_template,
)
from alcove.api.kinds.core.pods.defaults import default_pull_policy, image_tag
from alcove.api.kinds.core.pods.totals import container_requests, qos_class
from alcove.api.objects import Object

PODS = STRATEGIES["pods"]
DIGEST = "sha256:" + "0" * 64


def messages(errors: Any) -> list[str]:
    return [str(error).split("\n")[0] for error in errors]


def pod(labels: dict[str, str] | None = None, **spec: Any) -> Object:
    made: Object = {
        "metadata": {"name": "p", "namespace": "n", "labels": labels or {}},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }
    PODS.default(made)
    return made


def stored(**spec: Any) -> Object:
    made = pod(**spec)
    PODS.prepare_create(made)
    return made


def errors_of(obj: Object) -> list[str]:
    errors: list[FieldError] = [*PODS.validate(obj), *PODS.validate_create(obj)]
    return messages(errors)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("nginx", "latest"),
        ("nginx:latest", "latest"),
        ("nginx:1.25", "1.25"),
        ("host:5000/nginx", "latest"),
        ("host:5000/a/b:v1", "v1"),
        ("[::1]:5000/a:v1", "v1"),
        (f"nginx@{DIGEST}", ""),
        (f"nginx:latest@{DIGEST}", "latest"),
        ("Nginx", ""),
        ("", ""),
        ("a b", ""),
        ("0" * 64, ""),
        ("nginx:" + "t" * 129, ""),
        ("a" * 256, ""),
    ],
)
def test_the_tag_of_an_image(image: str, expected: str) -> None:
    assert image_tag(image) == expected
    assert default_pull_policy(image) == ("Always" if expected == "latest" else "IfNotPresent")


def test_defaults_of_a_plain_pod() -> None:
    assert pod()["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "imagePullPolicy": "Always",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "resources": {},
            }
        ],
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "enableServiceLinks": True,
    }


def test_defaults_are_filled_in_once() -> None:
    once = pod(
        volumes=[{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}}],
        containers=[
            {
                "name": "c",
                "image": "i",
                "ports": [{"containerPort": 1}],
                "livenessProbe": {"httpGet": {"port": 1}},
                "resources": {"limits": {"cpu": "1500u"}},
            }
        ],
    )
    again = copy.deepcopy(once)
    PODS.default(again)
    assert again == once
    assert once["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "2m"}, "requests": {"cpu": "2m"}}


def test_templates_get_fewer_defaults_than_pods() -> None:
    template: Object = {
        "spec": {
            "hostNetwork": True,
            "containers": [
                {"name": "c", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}}}
            ],
        }
    }
    default_pod_template(template)
    spec = template["spec"]
    assert "enableServiceLinks" not in spec
    assert spec["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    assert "hostPort" not in spec["containers"][0]["ports"][0]
    assert pod(**spec)["spec"]["containers"][0]["ports"][0]["hostPort"] == 80


def test_the_old_name_of_the_service_account_is_an_alias() -> None:
    for given in (
        {"serviceAccount": "a"},
        {"serviceAccountName": "a"},
        {"serviceAccount": "x", "serviceAccountName": "a"},
    ):
        spec: Object = dict(given)
        default_pod_spec(spec)
        assert (spec["serviceAccount"], spec["serviceAccountName"]) == ("a", "a")


def container(limits: dict[str, str] | None = None, requests: dict[str, str] | None = None) -> Object:
    resources = {"limits": limits or {}, "requests": requests or {}}
    return {
        "name": "c",
        "image": "i",
        "resources": {side: given for side, given in resources.items() if given},
    }


FULL = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [container()]}, "BestEffort"),
        ({"containers": [container({"cpu": "0"})]}, "BestEffort"),
        ({"containers": [container({"example.com/gpu": "1"})]}, "BestEffort"),
        ({"containers": [container(FULL)]}, "Guaranteed"),
        ({"containers": [container(FULL, FULL), container(FULL)]}, "Guaranteed"),
        ({"containers": [container(FULL, {"cpu": "1000m", "memory": "1024Mi"})]}, "Guaranteed"),
        ({"containers": [container(FULL, {"cpu": "500m"})]}, "Burstable"),
        ({"containers": [container(FULL), container()]}, "Burstable"),
        ({"containers": [container({"cpu": "1"})]}, "Burstable"),
        ({"containers": [container(None, {"memory": "1"})]}, "Burstable"),
        ({"containers": [container(FULL)], "initContainers": [container()]}, "Burstable"),
        ({"containers": [container()], "resources": {"limits": FULL}}, "Guaranteed"),
        ({"containers": [container(FULL)], "resources": {"requests": {"cpu": "1"}}}, "Burstable"),
    ],
)
def test_qos_class(spec: Object, expected: str) -> None:
    made = pod(**copy.deepcopy(spec))
    PODS.prepare_create(made)
    assert made["status"]["qosClass"] == expected
    assert made["status"]["phase"] == "Pending"


def test_a_pod_requests_the_sum_of_its_containers_or_its_largest_init_container() -> None:
    def asks(cpu: str, **more: Any) -> Object:
        return {"name": "x", "resources": {"requests": {"cpu": cpu}}, **more}

    spec: Object = {
        "containers": [asks("1"), asks("500m")],
        "initContainers": [asks("1", restartPolicy="Always"), asks("4"), asks("2", restartPolicy="Always")],
    }
    assert str(container_requests(spec)["cpu"]) == "5"
    spec["initContainers"][1]["resources"]["requests"]["cpu"] = "1"
    assert str(container_requests(spec)["cpu"]) == "4500m"
    assert qos_class({"containers": []}) == "BestEffort"


def test_a_gated_pod_has_the_condition() -> None:
    made = stored(schedulingGates=[{"name": "a.b/c"}])
    assert made["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
    ]
    assert errors_of(pod(schedulingGates=[{"name": "a.b/c"}], nodeName="x")) == [
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"
    ]


def test_only_a_new_pod_is_refused_ephemeral_containers() -> None:
    made = pod(ephemeralContainers=[{"name": "d", "image": "i"}])
    assert messages(PODS.validate_create(made)) == [
        "spec.ephemeralContainers: Forbidden: cannot be set on create"
    ]
    assert messages(PODS.validate(made)) == []


NETWORK = "arktos.futurewei.com/network"


@pytest.mark.parametrize(
    ("labels", "spec", "expected"),
    [
        ({}, {"network": "blue"}, []),
        ({NETWORK: "blue"}, {"network": "blue"}, []),
        ({NETWORK: "blue"}, {}, []),
        ({}, {"nics": [{"subnet": "s", "ip": "10.0.0.5"}, {"name": "x"}]}, []),
        (
            {},
            {"nics": [{"ip": "10.0.0.256"}, {"ip": "010.0.0.1"}]},
            [
                'spec.nics[0].ip: Invalid value: "10.0.0.256": must be a valid IP address, '
                "(e.g. 10.9.8.7 or 2001:db8::ffff)",
                'spec.nics[1].ip: Invalid value: "010.0.0.1": must not have leading 0s',
            ],
        ),
    ],
)
def test_networks_of_pods(labels: dict[str, str], spec: Object, expected: list[str]) -> None:
    assert errors_of(pod(labels, **spec)) == expected


def test_invalid_names_of_networks_and_subnets() -> None:
    errors = errors_of(pod(network="Blue", nics=[{"subnet": "S"}]))
    assert [error.split(":")[0] for error in errors] == ["spec.network", "spec.nics[0].subnet"]


def test_two_different_networks_are_a_bad_request() -> None:
    with pytest.raises(BadRequest) as raised:
        PODS.validate(pod({NETWORK: "red"}, network="blue"))
    assert raised.value.message == (
        f'spec.network is "blue" but the label {NETWORK} is "red": name one network, or the same one in both'
    )
    template: Object = {"metadata": {"labels": {NETWORK: "red"}}, "spec": pod(network="blue")["spec"]}
    with pytest.raises(BadRequest):
        validate_pod_template(template, "spec.template")


def test_a_pod_stays_in_its_network() -> None:
    old = stored()
    new = copy.deepcopy(old)
    new["metadata"]["labels"] = {NETWORK: "blue"}
    assert messages(PODS.validate_update(new, old)) == [
        f'metadata.labels[{NETWORK}]: Invalid value: "blue": '
        'the network may not change after creation (it is "default")'
    ]
    new["metadata"]["labels"] = {NETWORK: "default"}
    assert messages(PODS.validate_update(new, old)) == []


OTHER_FIELDS = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"containers": [{"name": "c", "image": "other", "imagePullPolicy": "Always"}]}, []),
        ({"hostNetwork": False, "volumes": []}, []),
        ({"activeDeadlineSeconds": 5}, []),
        ({"activeDeadlineSeconds": 11}, [
            "spec.activeDeadlineSeconds: Invalid value: 11: must be less than or equal to previous value"
        ]),
        ({"activeDeadlineSeconds": None}, [
            "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value",
        ]),
        ({"tolerations": [{"key": "a", "operator": "Exists"}, {"operator": "Exists"}]}, []),
        ({"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 5}]}, []),
        ({"tolerations": []}, [
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
        ]),
        ({"nodeName": "n1"}, [OTHER_FIELDS]),
        ({"hostNetwork": True}, [OTHER_FIELDS]),
        ({"terminationGracePeriodSeconds": 5}, [OTHER_FIELDS]),
        ({"containers": []}, ["spec.containers: Forbidden: pod updates may not add or remove containers"]),
        ({"schedulingGates": [{"name": "new"}]}, [
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, "
            "but found new scheduling gate 'new'"
        ]),
    ],
)  # fmt: skip
def test_what_may_change(changes: Object, expected: list[str]) -> None:
    old = stored(activeDeadlineSeconds=10, tolerations=[{"key": "a", "operator": "Exists"}])
    new = copy.deepcopy(old)
    new["spec"].update(changes)
    new["spec"] = {field: value for field, value in new["spec"].items() if value is not None}
    PODS.default(new)
    assert messages(PODS.validate_update(new, old)) == expected


def test_the_refusal_shows_what_would_change() -> None:
    old = stored()
    new = copy.deepcopy(old)
    new["spec"]["nodeName"] = "n1"
    (error,) = PODS.validate_update(new, old)
    assert '+ "nodeName": "n1",\n' in error.body


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def affinity(*values: str) -> Object:
    terms = [{"matchExpressions": [{"key": "k", "operator": "In", "values": [value]} for value in values]}]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"nodeSelector": {"a": "b", "c": "d"}}, []),
        ({"nodeSelector": {"a": "x"}}, ["spec.nodeSelector"]),
        ({"affinity": affinity("v", "w")}, []),
        ({"affinity": affinity("w")}, [f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0]"]),
        ({"affinity": {}}, [f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"]),
        ({"affinity": {**affinity("v"), "podAffinity": {REQUIRED: [{"topologyKey": "z"}]}}}, ["spec"]),
        ({"schedulingGates": []}, []),
    ],
)
def test_a_gated_pod_may_be_placed_more_narrowly(changes: Object, fields: list[str]) -> None:
    old = stored(schedulingGates=[{"name": "g"}], nodeSelector={"a": "b"}, affinity=affinity("v"))
    new = copy.deepcopy(old)
    new["spec"].update(changes)
    assert [error.field for error in PODS.validate_update(new, old)] == fields


def test_label_keys_are_merged_into_selectors_on_creation() -> None:
    made = pod(
        {"app": "x"},
        affinity={
            "podAntiAffinity": {
                REQUIRED: [
                    {
                        "topologyKey": "z",
                        "labelSelector": {},
                        "matchLabelKeys": ["app", "absent"],
                        "mismatchLabelKeys": ["app"],
                    }
                ]
            }
        },
    )
    PODS.prepare_create(made)
    term = made["spec"]["affinity"]["podAntiAffinity"][REQUIRED][0]
    assert term["labelSelector"]["matchExpressions"] == [
        {"key": "app", "operator": "In", "values": ["x"]},
        {"key": "app", "operator": "NotIn", "values": ["x"]},
    ]


def test_errors_of_a_pod_spec_have_the_given_path() -> None:
    spec: Object = {"containers": [{"name": "c"}]}
    default_pod_spec(spec)
    assert messages(validate_pod_spec(spec, "spec.jobTemplate.spec.template.spec")) == [
        "spec.jobTemplate.spec.template.spec.containers[0].image: Required value"
    ]


def test_validation_changes_nothing() -> None:
    made = pod({"app": "x"}, nodeSelector={"a": "b"}, tolerations=[{"operator": "Exists"}])
    before = copy.deepcopy(made)
    assert errors_of(made) == []
    assert made == before
