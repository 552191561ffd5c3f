"""Fields of pods that a node honours or refuses, on real pods: none is ignored."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from alcove.agent.cgroups import Cgroups
from alcove.agent.hardware import has_apparmor
from alcove.agent.runtime import node_processes
from alcove.api.objects import Object
from alcove.testing.cluster import (
    PODS,
    RealCluster,
    condition,
    create,
    gone,
    lacking,
    log_of,
    pod,
    pod_group,
    ready,
    until,
)
from alcove.testing.server import Caller, wait_until

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(lacking()), reason=lacking() or "-")]

CLASS = "/apis/node.k8s.io/v1/runtimeclasses"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("fields")) as running:
        yield running


@pytest.fixture(scope="module")
def acme(cluster: RealCluster) -> Caller:
    """A tenant that the operator lets choose crun."""
    caller = cluster.make_tenant("acme")
    for each in (caller, cluster.server.system):
        assert each.post(CLASS, {"metadata": {"name": "plain"}, "handler": "crun"}).status == 201
    return caller


def reasons(caller: Caller, name: str) -> set[str]:
    events = caller.get("/api/v1/namespaces/default/events").json["items"]
    return {each["reason"] for each in events if each["involvedObject"]["name"] == name}


@pytest.mark.parametrize("runtime", ["crun", "gvisor"])
def test_pod_level_limits_hold_for_the_whole_pod(cluster: RealCluster, acme: Caller, runtime: str) -> None:
    name = f"whole-{runtime}"
    more = {"runtimeClassName": "plain"} if runtime == "crun" else {}
    uid = create(acme, pod(name, resources={"limits": {"cpu": "500m", "memory": "64Mi"}}, **more))
    ready(acme, name, 120)
    group = pod_group(cluster.nodes[0], "acme", uid)
    process_group = f"{group}/{uid}.main.0" if runtime == "crun" else f"{group}/{uid}.0"
    cgroups, limit = Cgroups.of_machine(), 64 << 20
    assert cgroups.memory_limit(process_group) == limit
    # With the sandbox, and without the service account's files: a few pages.
    files = limit + 2 * node_processes.BYTES_PER_CONTAINER - cgroups.memory_limit(group)
    assert 0 < files < 64 << 10
    acme.delete(f"{PODS}/{name}")
    gone(acme, name)


def test_a_limit_that_gvisor_cannot_enforce_is_told_by_an_event(acme: Caller) -> None:
    wanted = pod("mixed")
    side = {**wanted["spec"]["containers"][0], "name": "side"}
    wanted["spec"]["containers"][0]["resources"] = {"limits": {"memory": "64Mi"}}
    wanted["spec"]["containers"].append(side)
    create(acme, wanted)
    wait_until(lambda: "LimitsNotEnforced" in reasons(acme, "mixed"), 120)
    acme.delete(f"{PODS}/mixed")
    gone(acme, "mixed")


@pytest.mark.skipif(has_apparmor(), reason="the kernel has AppArmor")
@pytest.mark.parametrize(
    "profile", [{"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "x"}]
)
def test_a_pod_does_not_run_unconfined_where_it_asks_for_apparmor(acme: Caller, profile: Object) -> None:
    name = f"armored-{profile['type'].lower()}"
    create(acme, pod(name, runtimeClassName="plain", securityContext={"appArmorProfile": profile}))
    found = until(acme, name, lambda each: each["status"]["phase"] == "Failed", 120)
    assert found["status"]["reason"] == "AppArmor"
    assert "AppArmor is not enabled on the host" in found["status"]["message"]


@pytest.mark.parametrize("runtime", ["crun", "gvisor"])
def test_an_exit_code_restarts_all_containers_of_a_pod_once(acme: Caller, runtime: str) -> None:
    """The second run of the container finds the file of the first, and goes on."""
    name = f"again-{runtime}"
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    more = {"runtimeClassName": "plain"} if runtime == "crun" else {}
    wanted = pod(
        name,
        "test -f /v/x && exec sleep 1000; touch /v/x; until test -e /v/side; do sleep 0.1; done; exit 42",
        restartPolicy="Never",
        **more,
    )
    main = wanted["spec"]["containers"][0]
    main |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    main["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    shared = {"image": main["image"], "volumeMounts": main["volumeMounts"]}
    side = {"name": "side", "command": ["sh", "-c", "touch /v/side; exec sleep 1000"]}
    wanted["spec"]["containers"].append({**shared, **side})
    wanted["spec"]["initContainers"] = [{"name": "init", **shared, "command": ["true"]}]
    wanted["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    create(acme, wanted)

    def is_again(found: Object) -> bool:
        statuses = [*found["status"]["containerStatuses"], *found["status"]["initContainerStatuses"]]
        return [each["restartCount"] for each in statuses] == [1, 1, 1] and condition(
            found, "Ready"
        ) == "True"

    found = until(acme, name, is_again, 180)
    last = found["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert last["exitCode"] == 42
    assert condition(found, "AllContainersRestarting") == "False"
    acme.delete(f"{PODS}/{name}")
    gone(acme, name)


def test_names_and_variables_that_a_pod_defines_itself(cluster: RealCluster, acme: Caller) -> None:
    """The host name is overridden; a variable comes from a file that the init container wrote."""
    wanted = pod("defined", "hostname; echo $V", restartPolicy="Never", hostnameOverride="own.example")
    main = wanted["spec"]["containers"][0]
    ref = {"volumeName": "v", "path": "env", "key": "TOKEN"}
    main["env"] = [{"name": "V", "valueFrom": {"fileKeyRef": ref}}]
    write = ["sh", "-c", "echo \"TOKEN='from a file'\" > /v/env"]
    mounts = [{"name": "v", "mountPath": "/v"}]
    wanted["spec"]["initContainers"] = [
        {"name": "init", "image": main["image"], "command": write, "volumeMounts": mounts}
    ]
    wanted["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    uid = create(acme, wanted)
    until(acme, "defined", lambda each: each["status"]["phase"] == "Succeeded", 120)
    assert log_of(cluster, uid) == ["own.example", "from a file"]
