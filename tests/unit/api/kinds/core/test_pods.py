"""Pods beyond the recorded cases: defaults one by one, QoS, networks, what may change, how they go."""

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
from alcove.api.kinds.core.pods.subresources import (
    prepare_ephemeral_containers,
    prepare_resize,
    validate_binding,
    validate_ephemeral_containers,
    validate_resize,
)
from alcove.api.kinds.core.pods.totals import container_requests, qos_class
from alcove.api.objects import Object

PODS = STRATEGIES["pods"]
DIGEST = "sha256:" + "0" * 64


def told(faults: Any) -> list[str]:
    return [str(fault).split("\n")[0] for fault in faults]


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


def faults_of(obj: Object) -> list[str]:
    faults: list[FieldError] = [*PODS.validate(obj), *PODS.validate_create(obj)]
    return told(faults)


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


def test_a_pod_asks_for_its_containers_and_sidecars_or_its_hungriest_init_container() -> None:
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


def test_a_gated_pod_says_so() -> None:
    made = stored(schedulingGates=[{"name": "a.b/c"}])
    assert made["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
    ]
    assert faults_of(pod(schedulingGates=[{"name": "a.b/c"}], nodeName="x")) == [
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"
    ]


def test_only_a_new_pod_is_refused_ephemeral_containers() -> None:
    made = pod(ephemeralContainers=[{"name": "d", "image": "i"}])
    assert told(PODS.validate_create(made)) == [
        "spec.ephemeralContainers: Forbidden: cannot be set on create"
    ]
    assert told(PODS.validate(made)) == []


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
    assert faults_of(pod(labels, **spec)) == expected


def test_bad_names_of_networks_and_subnets() -> None:
    faults = faults_of(pod(network="Blue", nics=[{"subnet": "S"}]))
    assert [fault.split(":")[0] for fault in faults] == ["spec.network", "spec.nics[0].subnet"]


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
    assert told(PODS.validate_update(new, old)) == [
        f'metadata.labels[{NETWORK}]: Invalid value: "blue": '
        'the network may not change after creation (it is "default")'
    ]
    new["metadata"]["labels"] = {NETWORK: "default"}
    assert told(PODS.validate_update(new, old)) == []


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
    assert told(PODS.validate_update(new, old)) == expected


def test_the_refusal_shows_what_would_change() -> None:
    old = stored()
    new = copy.deepcopy(old)
    new["spec"]["nodeName"] = "n1"
    (fault,) = PODS.validate_update(new, old)
    assert '+ "nodeName": "n1",\n' in fault.body


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
    assert [fault.field for fault in PODS.validate_update(new, old)] == fields


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


def running(**status: Any) -> Object:
    made = stored(restartPolicy="Never")
    made["spec"]["nodeName"] = "n1"
    made["status"].update(phase="Running", **status)
    return made


@pytest.mark.parametrize(
    ("node", "phase", "asked", "expected"),
    [
        ("n1", "Running", None, 30),
        ("n1", "Running", 5, 5),
        ("n1", "Running", 0, 0),
        ("n1", "Running", -3, 1),
        ("n1", "Pending", None, 30),
        ("n1", "Succeeded", None, 0),
        ("n1", "Failed", 60, 0),
        ("", "Pending", 60, 0),
    ],
)
def test_grace(node: str, phase: str, asked: int | None, expected: int) -> None:
    assert PODS.grace_seconds is not None
    made = stored()
    made["spec"]["nodeName"], made["status"]["phase"] = node, phase
    assert PODS.grace_seconds(made, asked) == expected


def test_field_selectors() -> None:
    made = running(podIPs=[{"ip": "10.0.0.5"}], nominatedNodeName="n2")
    made["spec"]["hostNetwork"] = True
    assert {field: read(made) for field, read in PODS.fields.items()} == {
        "spec.nodeName": "n1",
        "spec.restartPolicy": "Never",
        "spec.schedulerName": "default-scheduler",
        "spec.serviceAccountName": "",
        "spec.hostNetwork": "true",
        "status.phase": "Running",
        "status.podIP": "10.0.0.5",
        "status.podIPs": "10.0.0.5",
        "status.nominatedNodeName": "n2",
    }
    assert PODS.fields["status.podIP"]({}) == ""


def test_an_ended_container_stays_ended_unless_it_restarts() -> None:
    ended = [{"name": "c", "state": {"terminated": {"exitCode": 1}}}]
    old = running(containerStatuses=ended)
    new = copy.deepcopy(old)
    new["status"]["containerStatuses"] = [{"name": "c", "state": {"running": {}}}]
    assert told(PODS.validate_status(new, old)) == [
        "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    ]
    old["spec"]["restartPolicy"] = "OnFailure"
    assert told(PODS.validate_status(new, old)) == []
    old["spec"]["restartPolicy"] = "Never"
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}
    old["spec"]["containers"][0].update(restartPolicy="Never", restartPolicyRules=[rule])
    assert told(PODS.validate_status(new, old)) == []


def test_a_status_without_its_qos_class_keeps_it() -> None:
    old = running()
    new = copy.deepcopy(old)
    del new["status"]["qosClass"]
    PODS.prepare_status(new, old)
    assert new["status"]["qosClass"] == "BestEffort"
    new["status"]["qosClass"] = "Guaranteed"
    assert told(PODS.validate_status(new, old)) == [
        'status.qosClass: Invalid value: "Guaranteed": field is immutable'
    ]


def test_ephemeral_containers_are_added_never_changed() -> None:
    old = running()
    old["spec"]["ephemeralContainers"] = [{"name": "d", "image": "i", "terminationMessagePolicy": "File"}]
    new = copy.deepcopy(old)
    new["spec"]["nodeName"] = "elsewhere"
    new["spec"]["ephemeralContainers"].append({"name": "e", "image": "i"})
    PODS.default(new)
    PODS.default(old)
    prepare_ephemeral_containers(new, old)
    assert new["spec"]["nodeName"] == "n1"
    assert validate_ephemeral_containers(new, old) == []
    new["spec"]["ephemeralContainers"][0]["image"] = "j"
    assert told(validate_ephemeral_containers(new, old)) == [
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "d" may not be changed'
    ]
    del new["spec"]["ephemeralContainers"][0]
    assert told(validate_ephemeral_containers(new, old)) == [
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "d" may not be removed'
    ]


def test_resize_changes_cpu_and_memory_only() -> None:
    sized = {"requests": {"cpu": "1", "memory": "1Gi"}}
    old = stored(containers=[{"name": "c", "image": "i", "resources": sized}])
    new = copy.deepcopy(old)
    new["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    new["spec"]["containers"][0]["image"] = "other"
    prepare_resize(new, old)
    assert new["spec"]["containers"][0]["image"] == "i", "what is not about size is not taken"
    assert validate_resize(new, old) == []
    new["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2"}
    assert told(validate_resize(new, old)) == [
        "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"
    ]
    new["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "2", "memory": "2Gi"},
        "limits": {"cpu": "2"},
    }
    assert validate_resize(new, old) == []
    new["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "2", "memory": "2Gi"},
        "limits": {"cpu": "2", "memory": "2Gi"},
    }
    assert told(validate_resize(new, old)) == [
        'spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing'
    ]


def test_bindings() -> None:
    assert validate_binding({"target": {"kind": "Node", "name": "n"}}) == []
    assert validate_binding({"target": {"name": "n"}}) == []
    assert told(validate_binding({"target": {"kind": "Pod"}})) == [
        'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"',
        "target.name: Required value",
    ]


def test_a_pod_spec_is_told_of_at_the_path_it_is_asked_for() -> None:
    spec: Object = {"containers": [{"name": "c"}]}
    default_pod_spec(spec)
    assert told(validate_pod_spec(spec, "spec.jobTemplate.spec.template.spec")) == [
        "spec.jobTemplate.spec.template.spec.containers[0].image: Required value"
    ]


def test_validation_changes_nothing() -> None:
    made = pod({"app": "x"}, nodeSelector={"a": "b"}, tolerations=[{"operator": "Exists"}])
    before = copy.deepcopy(made)
    assert faults_of(made) == []
    assert made == before
