"""The usage of objects, by every resource name of a quota."""

from typing import Any

import pytest

from alcove.api.ids import GroupResource
from alcove.api.resources import PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_CLAIMS, SERVICES
from alcove.apiserver.admission.resourcequota import pods, usage


def shown(resource: GroupResource, obj: dict[str, Any]) -> dict[str, str]:
    return {name: str(amount) for name, amount in usage.of(resource, obj).items()}


def container(name: str = "c", **resources: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "resources": resources}


def pod(*containers: dict[str, Any], status: Any = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"containers": list(containers), **spec}, "status": status or {}}


def test_a_pod_without_requests_counts_as_one_pod() -> None:
    assert shown(PODS, pod(container())) == {"count/pods": "1", "pods": "1"}


def test_a_pod_counts_requests_limits_devices_and_huge_pages() -> None:
    requests = {
        "cpu": "100m",
        "memory": "1Mi",
        "ephemeral-storage": "1Gi",
        "hugepages-2Mi": "4Mi",
        "a.com/gpu": "2",
    }
    used = shown(PODS, pod(container(requests=requests, limits={"cpu": "1"})))
    assert used == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "100m",
        "requests.cpu": "100m",
        "memory": "1Mi",
        "requests.memory": "1Mi",
        "ephemeral-storage": "1Gi",
        "requests.ephemeral-storage": "1Gi",
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "4Mi",
        "requests.a.com/gpu": "2",
        "limits.cpu": "1",
    }
    assert all(usage.measure(PODS).counts(name) for name in used)


def test_overhead_counts_with_requests_and_with_limits_that_are_set() -> None:
    given = pod(
        container(requests={"cpu": "1"}, limits={"memory": "1Gi"}), overhead={"cpu": "1", "memory": "1Gi"}
    )
    used = shown(PODS, given)
    assert (used["requests.cpu"], used["requests.memory"]) == ("2", "1Gi")
    assert used["limits.memory"] == "2Gi" and "limits.cpu" not in used


def test_what_a_pod_says_as_a_whole_counts_in_place_of_its_containers() -> None:
    given = pod(
        container(requests={"cpu": "3"}), resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    )
    used = shown(PODS, given)
    assert (used["requests.cpu"], used["limits.cpu"]) == ("1", "2")


def test_the_hungriest_init_container_or_the_sum_whichever_is_more() -> None:
    initial = [
        container("i", requests={"cpu": "5"}),
        {**container("s", requests={"cpu": "1"}), "restartPolicy": "Always"},
    ]
    used = shown(PODS, pod(container(requests={"cpu": "2"}), initContainers=initial))
    assert used["requests.cpu"] == "5"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_ended_pod_is_only_an_object(phase: str) -> None:
    assert shown(PODS, pod(container(requests={"cpu": "1"}), status={"phase": phase})) == {"count/pods": "1"}


def test_a_resize_counts_the_most_of_wish_promise_and_fact() -> None:
    status = {
        "containerStatuses": [
            {
                "name": "c",
                "allocatedResources": {"cpu": "2"},
                "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "4"}},
            }
        ]
    }
    given = pod(container(requests={"cpu": "1"}, limits={"cpu": "1"}), status=status)
    used = shown(PODS, given)
    assert (used["requests.cpu"], used["limits.cpu"]) == ("3", "4")
    given["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "9"}, "limits": {"cpu": "9"}}
    assert shown(PODS, given)["requests.cpu"] == "9"
    status["conditions"] = [{"type": "PodResizePending", "reason": "Infeasible"}]
    assert shown(PODS, given)["requests.cpu"] == "3"


@pytest.mark.parametrize(
    ("scope", "operator", "values", "spec", "is_in"),
    [
        ("Terminating", "Exists", [], {"activeDeadlineSeconds": 0}, True),
        ("Terminating", "Exists", [], {}, False),
        ("NotTerminating", "Exists", [], {}, True),
        ("BestEffort", "Exists", [], {}, True),
        ("NotBestEffort", "Exists", [], {}, False),
        ("PriorityClass", "Exists", [], {"priorityClassName": "a"}, True),
        ("PriorityClass", "Exists", [], {}, False),
        ("PriorityClass", "DoesNotExist", [], {}, True),
        ("PriorityClass", "In", ["a", "b"], {"priorityClassName": "a"}, True),
        ("PriorityClass", "In", ["a"], {}, False),
        ("PriorityClass", "NotIn", ["a"], {}, True),
        ("PriorityClass", "NotIn", ["a"], {"priorityClassName": "a"}, False),
        ("Unknown", "Exists", [], {}, False),
    ],
)
def test_scopes_of_pods(
    scope: str, operator: str, values: list[str], spec: dict[str, Any], is_in: bool
) -> None:
    assert pods.matches(scope, operator, values, pod(container(), **spec)) is is_in


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("term", [{"namespaces": ["a"]}, {"namespaceSelector": {}}, {"topologyKey": "k"}])
def test_pods_that_look_into_other_namespaces(kind: str, term: dict[str, Any]) -> None:
    looks = "topologyKey" not in term
    required = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    preferred = {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": term}]}}
    for affinity in (required, preferred):
        given = pod(container(), affinity=affinity)
        assert pods.matches("CrossNamespacePodAffinity", "Exists", (), given) is looks


def test_what_pods_must_say() -> None:
    given = pod(container("a", limits={"cpu": "1"}), container("b"), initContainers=[container("i")])
    assert pods.unsaid(given, ("pods", "count/pods", "requests.nvidia.com/gpu")) == ""
    assert pods.unsaid(given, ("limits.cpu", "memory")) == (
        "must specify limits.cpu for: b,i; memory for: a,b,i"
    )
    given["spec"]["resources"] = {"requests": {"cpu": "1"}}
    assert pods.unsaid(given, ("limits.cpu", "memory")) == ""


def service(kind: str, ports: int = 2, **spec: Any) -> dict[str, Any]:
    return {"spec": {"type": kind, "ports": [{"port": 80 + number} for number in range(ports)], **spec}}


@pytest.mark.parametrize(
    ("given", "node_ports", "balancers"),
    [
        (service("ClusterIP"), "0", "0"),
        (service("NodePort"), "2", "0"),
        (service("LoadBalancer"), "2", "1"),
        (service("LoadBalancer", allocateLoadBalancerNodePorts=False), "0", "1"),
    ],
)
def test_services(given: dict[str, Any], node_ports: str, balancers: str) -> None:
    assert shown(SERVICES, given) == {
        "count/services": "1",
        "services": "1",
        "services.nodeports": node_ports,
        "services.loadbalancers": balancers,
    }


def test_node_ports_that_are_set_count_where_none_are_given() -> None:
    given = service("LoadBalancer", allocateLoadBalancerNodePorts=False)
    given["spec"]["ports"][0]["nodePort"] = 30000
    assert shown(SERVICES, given)["services.nodeports"] == "1"


def test_volume_claims() -> None:
    spec = {"resources": {"requests": {"storage": "1500m"}}, "storageClassName": "gold"}
    claim: dict[str, Any] = {"metadata": {}, "spec": spec, "status": {}}
    assert shown(PERSISTENT_VOLUME_CLAIMS, claim) == {
        "persistentvolumeclaims": "1",
        "count/persistentvolumeclaims": "1",
        "requests.storage": "2",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "gold.storageclass.storage.k8s.io/requests.storage": "2",
    }
    claim["status"] = {"allocatedResources": {"storage": "5"}}
    assert shown(PERSISTENT_VOLUME_CLAIMS, claim)["requests.storage"] == "5"
    claim["metadata"] = {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}
    assert "old.storageclass.storage.k8s.io/requests.storage" in shown(PERSISTENT_VOLUME_CLAIMS, claim)


def test_claims_in_the_scope_of_an_attributes_class() -> None:
    in_scope = usage.measure(PERSISTENT_VOLUME_CLAIMS).in_scope
    claim = {"metadata": {}, "spec": {"volumeAttributesClassName": "fast"}}
    assert in_scope("VolumeAttributesClass", "In", ("fast",), claim)
    assert not in_scope("VolumeAttributesClass", "In", ("slow",), claim)
    assert not in_scope("BestEffort", "Exists", (), claim)
    assert not in_scope("VolumeAttributesClass", "Exists", (), {"metadata": {}, "spec": {}})


def test_device_claims_count_the_worst_case() -> None:
    requests = [
        {"name": "a", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}},
        {"name": "b", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}},
        {
            "name": "c",
            "firstAvailable": [
                {"deviceClassName": "nic", "allocationMode": "ExactCount", "count": 1},
                {"deviceClassName": "nic", "allocationMode": "ExactCount", "count": 4},
            ],
        },
    ]
    assert shown(RESOURCE_CLAIMS, {"spec": {"devices": {"requests": requests}}}) == {
        "count/resourceclaims.resource.k8s.io": "1",
        "gpu.deviceclass.resource.k8s.io/devices": "34",
        "nic.deviceclass.resource.k8s.io/devices": "4",
    }


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("count/deployments.apps", GroupResource("apps", "deployments")),
        ("count/widgets.example.com", GroupResource("example.com", "widgets")),
        ("count/pods", PODS),
        ("configmaps", GroupResource("", "configmaps")),
        ("requests.cpu", PODS),
        ("requests.storage", PERSISTENT_VOLUME_CLAIMS),
        ("services.nodeports", SERVICES),
    ],
)
def test_each_resource_name_is_measured_by_one_resource(name: str, resource: GroupResource) -> None:
    assert [each.resource for each in usage.measured_by(name)] == [resource]
    assert usage.measure(resource).counts(name)


def test_any_object_is_counted_by_its_resource() -> None:
    assert shown(GroupResource("", "secrets"), {}) == {"count/secrets": "1", "secrets": "1"}
    assert shown(GroupResource("apps", "deployments"), {}) == {"count/deployments.apps": "1"}


def sized(cpu: str) -> dict[str, Any]:
    status = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return pod(container(requests={"cpu": "1"}), status={"phase": "Running", "containerStatuses": [status]})


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        (pod(container()), pod(container(), status={"phase": "Running", "message": "x"}), True),
        (pod(container()), pod(container(), status={"phase": "Failed"}), False),
        (pod(container()), pod(container(requests={"cpu": "1"})), False),
        (pod(container()), pod(container(), activeDeadlineSeconds=5), False),
        (sized("1"), sized("2"), False),
        (sized("1"), sized("1"), True),
    ],
)
def test_equal_determinants_mean_equal_usage(old: dict[str, Any], new: dict[str, Any], is_same: bool) -> None:
    depends_on = usage.measure(PODS).determinants
    assert (depends_on(old) == depends_on(new)) is is_same
    if is_same:
        assert usage.of(PODS, old) == usage.of(PODS, new)
