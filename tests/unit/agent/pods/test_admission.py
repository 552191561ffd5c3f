"""A node admits pods that fit and cannot access it, and rejects others with the kubelet's reasons."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from alcove.agent.podkey import PodKey
from alcove.agent.pods.admission import CachedNode, NodeAdmission, check_apparmor, check_security
from alcove.agent.pods.executor import PodRejected
from alcove.agent.runtime.base import Isolation
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME

NODE = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "pods": "3"}
PRIVILEGED: Object = {"name": "a", "securityContext": {"privileged": True}}


def key(name: str) -> PodKey:
    return PodKey(HOME, TenantId("acme"), "default", name, f"uid-of-{name}")


def pod(name: str = "main", spec: Object | None = None, **requests: str) -> Object:
    return {"spec": {"containers": [{"name": name, "resources": {"requests": requests}}], **(spec or {})}}


@pytest.mark.parametrize(
    ("resource", "value"),
    [("cpu", "4001m"), ("cpu", "256"), ("memory", "1Ti"), ("ephemeral-storage", "11Gi")],
)
async def test_a_pod_that_asks_for_more_than_the_node_has_is_refused(resource: str, value: str) -> None:
    admission = NodeAdmission(NODE)
    with pytest.raises(PodRejected) as refused:
        await admission.admit(key("a"), pod(spec={"overhead": {resource: value}}))
    assert refused.value.reason == f"OutOf{resource}"
    await admission.admit(key("b"), pod(cpu="4", memory="8Gi"))


async def test_a_pod_that_does_not_fit_beside_the_others_is_refused_until_they_go() -> None:
    admission = NodeAdmission(NODE)
    await admission.admit(key("a"), pod(cpu="3"))
    with pytest.raises(PodRejected, match="requested: 2, used: 3, capacity: 4"):
        await admission.admit(key("b"), pod(cpu="2"))
    await admission.admit(key("a"), pod(cpu="3"))
    admission.release(key("a"))
    admission.release(key("a"))
    await admission.admit(key("b"), pod(cpu="2"))


def with_port(**port: object) -> Object:
    return {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, **port}]}]}}


@pytest.mark.parametrize(
    ("other", "is_free"),
    [
        ({"hostPort": 8080}, False),
        ({"hostPort": 8080, "hostIP": "0.0.0.0"}, False),
        ({"hostPort": 8080, "hostIP": "192.0.2.1"}, False),
        ({"hostPort": 8080, "hostIP": "127.0.0.1"}, True),
        ({"hostPort": 8080, "protocol": "UDP"}, True),
        ({"hostPort": 8081}, True),
        ({}, True),
    ],
)
async def test_a_host_port_that_another_pod_has_is_refused_until_that_pod_goes(
    other: Object, is_free: bool
) -> None:
    admission = NodeAdmission(NODE)
    admission.adopt(key("a"), with_port(hostPort=8080, hostIP="192.0.2.1"))
    if not is_free:
        with pytest.raises(PodRejected) as refused:
            await admission.admit(key("b"), with_port(**other))
        assert refused.value.reason == "NodePorts"
        admission.release(key("a"))
    await admission.admit(key("b"), with_port(**other))
    await admission.admit(key("b"), with_port(**other))


async def test_the_number_of_pods_is_limited() -> None:
    admission = NodeAdmission(NODE)
    for name in "abc":
        await admission.admit(key(name), pod())
    with pytest.raises(PodRejected) as refused:
        await admission.admit(key("d"), pod())
    assert refused.value.reason == "OutOfpods"


async def test_what_runs_already_is_counted_whether_it_fits_or_not() -> None:
    admission = NodeAdmission(NODE)
    admission.adopt(key("a"), pod(cpu="6"))
    with pytest.raises(PodRejected):
        await admission.admit(key("b"), pod(cpu="1m"))


async def test_overhead_and_requests_of_the_pod_as_a_whole_count() -> None:
    admission = NodeAdmission(NODE)
    with pytest.raises(PodRejected):
        await admission.admit(key("a"), pod(cpu="4", spec={"overhead": {"cpu": "1m"}}))
    with pytest.raises(PodRejected):
        await admission.admit(key("a"), pod(cpu="1", spec={"resources": {"requests": {"cpu": "5"}}}))


async def test_extended_resources_that_the_node_does_not_know_are_the_schedulers_business() -> None:
    await NodeAdmission(NODE).admit(
        key("a"), {"spec": pod()["spec"] | {"overhead": {"example.com/gpu": "1"}}}
    )


@pytest.mark.parametrize("name", ["", "..", "a/b", "0/../../volumes", "a\0", "a\n", "A", "x" * 64])
async def test_a_container_whose_name_could_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(PodRejected) as refused:
        await NodeAdmission(NODE).admit(key("a"), pod(name))
    assert refused.value.reason == "InvalidPod"


class Nodes:
    """Answers GET of the node with the objects given, one after the other."""

    def __init__(self, *nodes: Object) -> None:
        self.nodes = list(nodes)

    async def get(self, _tenant: TenantId, _resource: object, _name: str) -> Object:
        return self.nodes.pop(0) if len(self.nodes) > 1 else self.nodes[0]


def named(taints: Sequence[Object] = (), **labels: str) -> Object:
    return {"metadata": {"name": "n1", "labels": labels}, "spec": {"taints": list(taints)}}


def required(key: str, *values: str) -> Object:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": terms}}


EVICTING, CORDON = {"key": "k", "effect": "NoExecute"}, {"key": "k", "effect": "NoSchedule"}
TOLERATES = {"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute"}]}


@pytest.mark.parametrize(
    ("spec", "node", "reason"),
    [
        ({}, named(disk="ssd"), ""),
        ({"nodeSelector": {"disk": "ssd"}}, named(disk="ssd"), ""),
        ({"nodeSelector": {"disk": "ssd"}}, named(disk="hdd"), "NodeAffinity"),
        ({"nodeSelector": {"kubernetes.io/arch": "arm64"}}, named(), "NodeAffinity"),
        (required("disk", "ssd", "nvme"), named(disk="ssd"), ""),
        (required("disk", "nvme"), named(disk="ssd"), "NodeAffinity"),
        ({}, named([EVICTING]), "TaintToleration"),
        (TOLERATES, named([EVICTING]), ""),
        ({}, named([CORDON]), ""),
        ({"os": {"name": "linux"}}, named(), ""),
        ({"os": {"name": "windows"}}, named(), "PodOSNotSupported"),
    ],
)
async def test_a_pod_bound_past_the_scheduler_is_admitted_as_by_the_kubelet(
    spec: Object, node: Object, reason: str
) -> None:
    admission = NodeAdmission(NODE, CachedNode(Nodes(node), "n1"))  # type: ignore[arg-type]
    if not reason:
        await admission.admit(key("a"), pod(spec=spec))
        return
    with pytest.raises(PodRejected) as refused:
        await admission.admit(key("a"), pod(spec={**spec, "overhead": {"cpu": "4"}}))
    assert refused.value.reason == reason


async def test_a_label_that_was_just_added_counts() -> None:
    cached = CachedNode(Nodes(named(), named(disk="ssd")), "n1")  # type: ignore[arg-type]
    await cached.get()
    await NodeAdmission(NODE, cached).admit(key("a"), pod(spec={"nodeSelector": {"disk": "ssd"}}))


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"hostNetwork": True}, "PodForbidden"),
        ({"hostPID": True}, "PodForbidden"),
        ({"hostIPC": True}, "PodForbidden"),
        ({"containers": [PRIVILEGED]}, "PodForbidden"),
        ({"initContainers": [PRIVILEGED]}, "PodForbidden"),
        ({"ephemeralContainers": [PRIVILEGED]}, "PodForbidden"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "PodForbidden"),
        ({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, "SysctlForbidden"),
    ],
)
@pytest.mark.parametrize("isolation", [Isolation.NAMESPACES, Isolation.SANDBOX])
def test_tenants_pods_that_reach_the_node(spec: Object, reason: str, isolation: Isolation) -> None:
    with pytest.raises(PodRejected) as raised:
        check_security(spec, isolation, is_trusted=False)
    assert raised.value.reason == reason
    check_security(spec, Isolation.NAMESPACES, is_trusted=True)


@pytest.mark.parametrize("field", ["hostPID", "hostIPC"])
def test_what_a_sandbox_cannot_give_is_not_left_out_silently(field: str) -> None:
    with pytest.raises(PodRejected, match="crun or runc"):
        check_security({field: True}, Isolation.SANDBOX, is_trusted=True)


def test_ordinary_pods() -> None:
    check_security(
        {"containers": [{"name": "a", "ports": [{"containerPort": 80}]}]}, Isolation.SANDBOX, is_trusted=False
    )


LOCAL, DEFAULT = {"type": "Localhost", "localhostProfile": "tight"}, {"type": "RuntimeDefault"}
UNCONFINED = {"type": "Unconfined"}


@pytest.mark.parametrize(
    ("of_pod", "of_container", "has_apparmor", "isolation", "works"),
    [
        (None, None, False, Isolation.NAMESPACES, True),
        (UNCONFINED, None, False, Isolation.NAMESPACES, True),
        (LOCAL, None, False, Isolation.NAMESPACES, False),
        (DEFAULT, None, False, Isolation.SANDBOX, False),
        (None, LOCAL, False, Isolation.NAMESPACES, False),
        (LOCAL, None, True, Isolation.NAMESPACES, True),
        (DEFAULT, LOCAL, True, Isolation.SANDBOX, False),
        (DEFAULT, None, True, Isolation.SANDBOX, True),
    ],
)
def test_a_pod_whose_apparmor_profile_cannot_be_enforced_is_refused(
    of_pod: Object | None, of_container: Object | None, has_apparmor: bool, isolation: Isolation, works: bool
) -> None:
    spec: Object = {"containers": [{"name": "a"}]}
    for holder, profile in ((spec, of_pod), (spec["containers"][0], of_container)):
        if profile is not None:
            holder["securityContext"] = {"appArmorProfile": profile}
    if works:
        check_apparmor(spec, isolation, has_apparmor=has_apparmor)
        return
    with pytest.raises(PodRejected, match="Cannot enforce AppArmor") as raised:
        check_apparmor(spec, isolation, has_apparmor=has_apparmor)
    assert raised.value.reason == "AppArmor"


def test_the_nodes_proc_is_not_unmasked_for_a_tenants_root() -> None:
    container = {"name": "a", "securityContext": {"procMount": "Unmasked"}}
    with pytest.raises(PodRejected, match="hostUsers: false"):
        check_security({"containers": [container]}, Isolation.NAMESPACES, is_trusted=False)
    check_security({"containers": [container], "hostUsers": False}, Isolation.NAMESPACES, is_trusted=False)
