"""A node admits what fits, refuses the rest with the kubelet's reasons, and counts nothing twice."""

import pytest

from alcove.agent.podkey import PodKey
from alcove.agent.pods.admission import NodeAdmission
from alcove.agent.pods.executor import PodRejected
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME

NODE = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "pods": "3"}


def key(name: str) -> PodKey:
    return PodKey(HOME, TenantId("acme"), "default", name, f"uid-of-{name}")


def pod(name: str = "main", spec: Object | None = None, **requests: str) -> Object:
    return {"spec": {"containers": [{"name": name, "resources": {"requests": requests}}], **(spec or {})}}


@pytest.mark.parametrize(
    ("resource", "value"),
    [("cpu", "4001m"), ("cpu", "256"), ("memory", "1Ti"), ("ephemeral-storage", "11Gi")],
)
def test_a_pod_that_asks_for_more_than_the_node_has_is_refused(resource: str, value: str) -> None:
    admission = NodeAdmission(NODE)
    with pytest.raises(PodRejected) as refused:
        admission.admit(key("a"), pod(spec={"overhead": {resource: value}}))
    assert refused.value.reason == f"OutOf{resource}"
    admission.admit(key("b"), pod(cpu="4", memory="8Gi"))


def test_a_pod_that_does_not_fit_beside_the_others_is_refused_until_they_go() -> None:
    admission = NodeAdmission(NODE)
    admission.admit(key("a"), pod(cpu="3"))
    with pytest.raises(PodRejected, match="requested: 2, used: 3, capacity: 4"):
        admission.admit(key("b"), pod(cpu="2"))
    admission.admit(key("a"), pod(cpu="3"))
    admission.release(key("a"))
    admission.release(key("a"))
    admission.admit(key("b"), pod(cpu="2"))


def test_the_number_of_pods_is_limited() -> None:
    admission = NodeAdmission(NODE)
    for name in "abc":
        admission.admit(key(name), pod())
    with pytest.raises(PodRejected) as refused:
        admission.admit(key("d"), pod())
    assert refused.value.reason == "OutOfpods"


def test_what_runs_already_is_counted_whether_it_fits_or_not() -> None:
    admission = NodeAdmission(NODE)
    admission.adopt(key("a"), pod(cpu="6"))
    with pytest.raises(PodRejected):
        admission.admit(key("b"), pod(cpu="1m"))


def test_overhead_and_requests_of_the_pod_as_a_whole_count() -> None:
    admission = NodeAdmission(NODE)
    with pytest.raises(PodRejected):
        admission.admit(key("a"), pod(cpu="4", spec={"overhead": {"cpu": "1m"}}))
    with pytest.raises(PodRejected):
        admission.admit(key("a"), pod(cpu="1", spec={"resources": {"requests": {"cpu": "5"}}}))


def test_extended_resources_that_the_node_does_not_know_are_the_schedulers_business() -> None:
    NodeAdmission(NODE).admit(key("a"), {"spec": pod()["spec"] | {"overhead": {"example.com/gpu": "1"}}})


@pytest.mark.parametrize("name", ["", "..", "a/b", "0/../../volumes", "a\0", "a\n", "A", "x" * 64])
def test_a_container_whose_name_could_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(PodRejected) as refused:
        NodeAdmission(NODE).admit(key("a"), pod(name))
    assert refused.value.reason == "InvalidPod"
