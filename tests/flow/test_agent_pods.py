"""Pods that really run on a node, in gVisor and in crun: what users see of them, and what is left when they are gone."""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Iterator

import pytest

from alcove.agent.cgroups import Cgroups
from alcove.api.objects import Object
from alcove.dataplane import namespaces
from alcove.testing.cluster import (
    PODS,
    RealCluster,
    condition,
    create,
    ended,
    gone,
    lacking,
    log_of,
    pod,
    pod_group,
    ready,
    traces,
    until,
)
from alcove.testing.server import Caller, wait_until

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(lacking()), reason=lacking() or "-")]

CLASS = "/apis/node.k8s.io/v1/runtimeclasses"
PATIENT = {"periodSeconds": 1, "timeoutSeconds": 30}
"""For probes: on a busy machine a command takes seconds to begin."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("pods"), 1, "--usage-interval", "2") as running:
        yield running


@pytest.fixture(scope="module")
def acme(cluster: RealCluster) -> Caller:
    """A tenant that the operator lets choose crun."""
    caller = cluster.make_tenant("acme")
    for each in (caller, cluster.server.system):
        assert each.post(CLASS, {"metadata": {"name": "plain"}, "handler": "crun"}).status == 201
    return caller


def plain(name: str, command: str = "sleep 1000", **spec: object) -> Object:
    """In crun, which starts faster."""
    return pod(name, command, runtimeClassName="plain", **spec)


def terminated(found: Object, number: int = 0, state: str = "state") -> Object:
    status: Object = found["status"]["containerStatuses"][number][state]["terminated"]
    return status


def reasons(caller: Caller, name: str) -> set[str]:
    events = caller.get("/api/v1/namespaces/default/events").json["items"]
    return {each["reason"] for each in events if each["involvedObject"]["name"] == name}


def test_a_tenants_pod_runs_in_a_kernel_of_its_own(cluster: RealCluster, acme: Caller) -> None:
    uid = create(acme, pod("strong", "dmesg | head -1; exit 3", restartPolicy="Never"))
    found = ended(acme, "strong")
    assert found["status"]["phase"] == "Failed"
    assert terminated(found)["exitCode"] == 3 and terminated(found)["reason"] == "Error"
    assert found["status"]["containerStatuses"][0]["containerID"].startswith("gvisor://")
    assert "gVisor" in log_of(cluster, uid)[0]


def test_ring0s_pods_run_in_crun(cluster: RealCluster) -> None:
    system = cluster.server.system
    create(system, pod("plain-ring0", "exit 0", restartPolicy="OnFailure"))
    found = ended(system, "plain-ring0")
    assert found["status"]["phase"] == "Succeeded"
    assert terminated(found)["reason"] == "Completed"
    assert found["status"]["containerStatuses"][0]["containerID"].startswith("crun://")
    system.delete(f"{PODS}/plain-ring0")
    gone(system, "plain-ring0")


def test_a_handler_that_no_node_has_fails_on_the_node_with_an_event(
    cluster: RealCluster, acme: Caller
) -> None:
    acme.post(CLASS, {"metadata": {"name": "unknown"}, "handler": "unconfigured"})
    create(acme, pod("unknown", runtimeClassName="unknown"))
    wait_until(lambda: "FailedCreatePodSandBox" in reasons(acme, "unknown"))
    assert acme.get(f"{PODS}/unknown").json["status"]["phase"] == "Pending"
    acme.delete(f"{PODS}/unknown")
    gone(acme, "unknown")


def test_a_tenants_own_class_does_not_weaken_isolation(cluster: RealCluster, acme: Caller) -> None:
    acme.post(CLASS, {"metadata": {"name": "sneaky"}, "handler": "crun"})
    create(acme, pod("sneaky", runtimeClassName="sneaky"))
    wait_until(lambda: "FailedCreatePodSandBox" in reasons(acme, "sneaky"))
    assert acme.get(f"{PODS}/sneaky").json["status"]["phase"] == "Pending"
    acme.delete(f"{PODS}/sneaky")
    gone(acme, "sneaky")


def test_what_a_container_finds_around_it(cluster: RealCluster, acme: Caller) -> None:
    acme.post(
        "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}, "data": {"k": "v$(A)", "x": "1"}}
    )
    wanted = plain(
        "around",
        "echo $A/$B/$C/$D/$P_x; echo $IP; hostname; cat /etc/hosts /etc/resolv.conf; echo $CPU",
        restartPolicy="Never",
        hostname="me",
        subdomain="sub",
        hostAliases=[{"ip": "10.9.8.7", "hostnames": ["alias.example"]}],
    )
    wanted["spec"]["containers"][0] |= {
        "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}},
        "env": [
            {"name": "A", "value": "a"},
            {"name": "B", "value": "$(A)b$$(A)"},
            {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
            {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
        ],
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "c"}}],
    }
    uid = create(acme, wanted)
    found = ended(acme, "around")
    lines = log_of(cluster, uid)
    assert lines[0] == "a/ab$(A)/v$(A)/around/1"
    assert lines[1] == found["status"]["podIP"]
    assert lines[2] == "me"
    assert "# Kubernetes-managed hosts file." in lines
    assert f"{lines[1]}\tme.sub.default.svc.cluster.local\tme" in lines
    assert "10.9.8.7\talias.example" in lines
    assert any(line.startswith("nameserver ") for line in lines)
    assert "search default.svc.cluster.local svc.cluster.local cluster.local" in " ".join(lines)
    assert lines[-1] == "500"


def test_config_that_is_missing_is_waited_for(acme: Caller) -> None:
    wanted = plain("waits")
    ref = {"configMapKeyRef": {"name": "late", "key": "k"}}
    wanted["spec"]["containers"][0]["env"] = [{"name": "K", "valueFrom": ref}]
    create(acme, wanted)

    def waiting(found: Object) -> bool:
        statuses = found["status"].get("containerStatuses") or [{}]
        state = statuses[0].get("state", {}).get("waiting", {})
        return bool(state.get("reason") == "CreateContainerConfigError")

    until(acme, "waits", waiting)
    acme.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "late"}, "data": {"k": "v"}})
    ready(acme, "waits")
    acme.delete(f"{PODS}/waits")


def test_containers_crash_and_come_again_with_back_off(cluster: RealCluster, acme: Caller) -> None:
    uid = create(acme, plain("crashes", "echo here; exit 5"))

    def backs_off(found: Object) -> bool:
        status = (found["status"].get("containerStatuses") or [{}])[0]
        waiting = status.get("state", {}).get("waiting", {})
        return bool(waiting.get("reason") == "CrashLoopBackOff" and status["restartCount"] >= 1)

    found = until(acme, "crashes", backs_off)
    assert terminated(found, 0, "lastState")["exitCode"] == 5
    assert found["status"]["phase"] == "Running" and condition(found, "Ready") == "False"
    wait_until(lambda: {"BackOff", "Created", "Started", "Pulled"} <= reasons(acme, "crashes"))
    assert log_of(cluster, uid, "main", 1) == ["here"]
    acme.delete(f"{PODS}/crashes")
    gone(acme, "crashes")


def test_a_command_that_is_not_there(acme: Caller) -> None:
    wanted = plain("nothing", restartPolicy="Never")
    wanted["spec"]["containers"][0]["command"] = ["/no/such/program"]
    create(acme, wanted)
    found = ended(acme, "nothing")
    assert found["status"]["phase"] == "Failed"
    assert terminated(found)["reason"] == "ContainerCannotRun"
    assert "/no/such/program" in terminated(found)["message"]


def test_init_containers_and_sidecars_in_order(cluster: RealCluster, acme: Caller) -> None:
    wanted = plain("ordered", "cat /shared/log; sleep 0.2", restartPolicy="Never")
    shared = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}], "image": "alcove/busybox"}
    wanted["spec"]["volumes"] = [{"name": "shared", "emptyDir": {}}]
    wanted["spec"]["containers"][0] |= shared
    wanted["spec"]["initContainers"] = [
        {"name": "one", "command": ["sh", "-c", "echo one >> /shared/log"], **shared},
        {
            "name": "side",
            "restartPolicy": "Always",
            "command": ["sh", "-c", "echo side >> /shared/log; touch /shared/up; sleep 1000"],
            "startupProbe": {"exec": {"command": ["test", "-e", "/shared/up"]}, "periodSeconds": 1},
            **shared,
        },
        {"name": "two", "command": ["sh", "-c", "echo two >> /shared/log"], **shared},
    ]
    uid = create(acme, wanted)
    found = ended(acme, "ordered")
    assert found["status"]["phase"] == "Succeeded"
    assert log_of(cluster, uid) == ["one", "side", "two"]
    states = {each["name"]: each["state"] for each in found["status"]["initContainerStatuses"]}
    assert states["one"]["terminated"]["exitCode"] == 0
    assert "terminated" in states["side"]


def test_an_init_container_that_fails_for_good(acme: Caller) -> None:
    wanted = plain("uninitialized", restartPolicy="Never")
    failing = {"name": "init", "image": "alcove/busybox", "command": ["sh", "-c", "exit 9"]}
    wanted["spec"]["initContainers"] = [failing]
    create(acme, wanted)
    found = ended(acme, "uninitialized")
    assert found["status"]["phase"] == "Failed" and condition(found, "Initialized") == "False"
    assert found["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 9


def test_probes_by_command_http_and_tcp(acme: Caller) -> None:
    server = "mkdir -p /tmp/www; echo ok > /tmp/www/index.html; httpd -f -p 8080 -h /tmp/www"
    wanted = plain("probed", server)
    wanted["spec"]["containers"][0] |= {
        "ports": [{"name": "web", "containerPort": 8080}],
        "startupProbe": {"tcpSocket": {"port": "web"}, **PATIENT, "failureThreshold": 60},
        "readinessProbe": {"httpGet": {"path": "/index.html", "port": "web"}, **PATIENT},
        "livenessProbe": {
            "exec": {"command": ["test", "!", "-e", "/tmp/dead"]},
            **PATIENT,
            "failureThreshold": 1,
        },
    }
    create(acme, wanted)
    ready(acme, "probed")
    acme.delete(f"{PODS}/probed")


def test_liveness_restarts_and_readiness_comes_and_goes(cluster: RealCluster, acme: Caller) -> None:
    wanted = plain("moody", "touch /v/ok; sleep 1000")
    wanted["spec"]["volumes"] = [{"name": "mood", "emptyDir": {}}]
    probe = {"exec": {"command": ["test", "-e", "/v/ok"]}, **PATIENT}
    wanted["spec"]["containers"][0] |= {
        "volumeMounts": [{"name": "mood", "mountPath": "/v"}],
        "readinessProbe": {**probe, "failureThreshold": 1},
        "livenessProbe": {**probe, "failureThreshold": 2, "initialDelaySeconds": 1},
    }
    create(acme, wanted)
    ready(acme, "moody")
    [folder] = (cluster.nodes[0].data / "volumes/pods").glob("*/empty/mood")
    (folder / "ok").unlink()
    until(acme, "moody", lambda each: condition(each, "Ready") == "False")
    found = until(acme, "moody", lambda each: each["status"]["containerStatuses"][0]["restartCount"] >= 1)
    assert terminated(found, 0, "lastState")["exitCode"] in (137, 143)
    wait_until(lambda: {"Unhealthy", "Killing"} <= reasons(acme, "moody"))
    acme.delete(f"{PODS}/moody")


def test_hooks_grace_and_last_words(acme: Caller) -> None:
    program = (
        'trap "echo last > /dev/termination-log; exit 0" TERM; touch /v/up; while true; do sleep 0.1; done'
    )
    stop = "until test -e /v/up; do sleep 0.1; done; cat /v/order > /dev/termination-log"
    wanted = plain("hooked", program, terminationGracePeriodSeconds=60, restartPolicy="Never")
    wanted["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    wanted["spec"]["containers"][0] |= {
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "lifecycle": {
            "postStart": {"exec": {"command": ["sh", "-c", "echo post > /v/order"]}},
            "preStop": {"exec": {"command": ["sh", "-c", stop]}},
        },
    }
    wanted["metadata"]["finalizers"] = ["example.com/look"]
    create(acme, wanted)
    ready(acme, "hooked")
    acme.delete(f"{PODS}/hooked")
    found = until(acme, "hooked", lambda each: each["status"]["phase"] == "Succeeded")
    assert terminated(found)["message"] == "last\n"
    acme.patch(f"{PODS}/hooked", {"metadata": {"finalizers": None}})
    gone(acme, "hooked")


def test_memory_that_runs_out(acme: Caller) -> None:
    wanted = plain("hungry", "tail /dev/zero", restartPolicy="Never")
    wanted["spec"]["containers"][0]["resources"] = {"limits": {"memory": "32Mi"}}
    create(acme, wanted)
    found = ended(acme, "hungry")
    assert terminated(found)["reason"] == "OOMKilled" and terminated(found)["exitCode"] == 137


def test_a_deadline(acme: Caller) -> None:
    create(acme, plain("late", activeDeadlineSeconds=1, restartPolicy="Never"))
    found = ended(acme, "late")
    assert found["status"]["phase"] == "Failed" and found["status"]["reason"] == "DeadlineExceeded"


def test_an_image_that_does_not_exist(acme: Caller) -> None:
    wanted = plain("imageless")
    wanted["spec"]["containers"][0] |= {"image": "localhost:1/no/such:v1", "imagePullPolicy": "IfNotPresent"}
    create(acme, wanted)

    def waits(found: Object) -> bool:
        statuses = found["status"].get("containerStatuses") or [{}]
        reason = statuses[0].get("state", {}).get("waiting", {}).get("reason")
        return reason in ("ErrImagePull", "ImagePullBackOff")

    until(acme, "imageless", waits)
    acme.delete(f"{PODS}/imageless")
    gone(acme, "imageless")


def test_a_volume_that_outgrows_its_limit_ends_its_pod(acme: Caller) -> None:
    wanted = plain("fat", "head -c 5000000 /dev/zero > /v/x; sleep 1000")
    wanted["spec"]["volumes"] = [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]
    wanted["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    create(acme, wanted)
    found = ended(acme, "fat")
    assert found["status"]["reason"] == "Evicted"
    assert 'EmptyDir volume "v" exceeds the limit "1Mi"' in found["status"]["message"]
    wait_until(lambda: "Evicted" in reasons(acme, "fat"))


def test_limits_change_while_a_container_runs(cluster: RealCluster, acme: Caller) -> None:
    wanted = plain("grows")
    wanted["spec"]["containers"][0]["resources"] = {"limits": {"memory": "64Mi", "cpu": "100m"}}
    uid = create(acme, wanted)
    ready(acme, "grows")
    more = {"name": "main", "resources": {"limits": {"memory": "96Mi", "cpu": "100m"},
                                          "requests": {"memory": "96Mi", "cpu": "100m"}}}  # fmt: skip
    answer = acme.patch(
        f"{PODS}/grows/resize", {"spec": {"containers": [more]}}, "strategic-merge-patch+json"
    )
    assert answer.status == 200, answer.body
    group = f"{pod_group(cluster.nodes[0], 'acme', uid)}/{uid}.main.0"
    wait_until(lambda: Cgroups.of_machine().memory_limit(group) == 96 << 20)
    found = until(acme, "grows", lambda each: _limit(each) == "96Mi")
    assert found["status"]["containerStatuses"][0]["restartCount"] == 0
    acme.delete(f"{PODS}/grows")


def _limit(found: Object) -> str:
    resources = found["status"]["containerStatuses"][0].get("resources") or {}
    return str((resources.get("limits") or {}).get("memory"))


def test_somebody_looks_into_a_pod(cluster: RealCluster, acme: Caller) -> None:
    """`kubectl debug`: a container that joins later, and sees the processes of another."""
    uid = create(acme, plain("looked-into", "exec sleep 54321"))
    ready(acme, "looked-into")
    added = {
        "name": "look", "image": "alcove/busybox", "targetContainerName": "main",
        "command": ["sh", "-c", "tr '\\0' ' ' < /proc/1/cmdline; echo; sleep 1000"],
    }  # fmt: skip
    patch = {"spec": {"ephemeralContainers": [added]}}
    path = f"{PODS}/looked-into/ephemeralcontainers"
    answer = acme.patch(path, patch, "strategic-merge-patch+json")
    assert answer.status == 200, answer.body

    def runs(found: Object) -> bool:
        statuses = found["status"].get("ephemeralContainerStatuses") or [{}]
        return "running" in statuses[0].get("state", {})

    until(acme, "looked-into", runs)
    wait_until(lambda: "sleep 54321" in " ".join(log_of(cluster, uid, "look")))
    acme.delete(f"{PODS}/looked-into")
    gone(acme, "looked-into")


@pytest.mark.parametrize("runtime_class", ["plain", None])
def test_a_sandbox_that_is_killed_is_made_again_with_the_same_address(
    cluster: RealCluster, acme: Caller, runtime_class: str | None
) -> None:
    name = f"phoenix-{runtime_class or 'strong'}"
    more = {"runtimeClassName": runtime_class} if runtime_class else {}
    wanted = pod(name, "sleep 1000", **more)
    wanted["spec"]["containers"][0]["readinessProbe"] = {
        "exec": {"command": ["sh", "-c", "ip addr | grep 'inet ' | grep -vq 127.0.0.1"]},
        **PATIENT,
    }
    uid = create(acme, wanted)
    before = ready(acme, name)
    Cgroups.of_machine().kill(pod_group(cluster.nodes[0], "acme", uid))

    def is_back(found: Object) -> bool:
        status = found["status"]["containerStatuses"][0]
        return bool(status["restartCount"] >= 1 and condition(found, "Ready") == "True")

    after = until(acme, name, is_back)
    assert after["status"]["podIP"] == before["status"]["podIP"]
    acme.delete(f"{PODS}/{name}")
    gone(acme, name)


def test_nothing_of_a_deleted_pod_is_left(cluster: RealCluster, acme: Caller) -> None:
    uid = create(acme, plain("leaves"))
    ready(acme, "leaves")
    data = cluster.nodes[0].data
    assert traces(data, uid)
    acme.delete(f"{PODS}/leaves")
    gone(acme, "leaves")
    wait_until(lambda: not traces(data, uid))
    tenant_group = pod_group(cluster.nodes[0], "acme", uid).rpartition("/")[0]
    wait_until(lambda: uid not in Cgroups.of_machine().children(tenant_group))
    wait_until(lambda: not [name for name in namespaces.names("alcove-") if uid in name])


def used(cluster: RealCluster) -> dict[str, int]:
    """What acme has used of the node, in all hours that it reports."""
    answer = cluster.server.system.get("/apis/usage.alcove.io/v1alpha1/usagereports/n1")
    amounts: dict[str, int] = defaultdict(int)
    for tenants in answer.json["spec"]["hours"].values() if answer.status == 200 else ():
        for name, amount in tenants.get("acme", {}).items():
            amounts[name] += amount
    return amounts


def test_what_short_pods_use_is_metered_and_a_killed_agent_counts_nothing_twice(
    cluster: RealCluster, acme: Caller
) -> None:
    create(acme, plain("lasting"))
    ready(acme, "lasting")
    before = used(cluster)
    burner = plain("burner", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done", restartPolicy="Never")
    burner["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "200m", "memory": "16Mi"}}
    create(acme, burner)
    ended(acme, "burner")
    acme.delete(f"{PODS}/burner")
    gone(acme, "burner")
    # The node may report while the pod runs: what it requests is charged by whole seconds, at the latest when it ends.
    burnt = {"cpuUsedNanoseconds": 100_000_000, "cpuRequestedNanoseconds": 200_000_000, "podsStarted": 1}

    def reported() -> dict[str, int] | None:
        found = used(cluster)
        return found if all(found[name] >= before[name] + amount for name, amount in burnt.items()) else None

    after = wait_until(reported)
    agent = cluster.agents["n1"]
    agent.stop(signal.SIGKILL)
    agent.start()
    agent.wait()
    seconds = after["podSeconds"] + 5
    again = wait_until(lambda: found if (found := used(cluster))["podSeconds"] > seconds else None)
    # Pods that sleep use little; what was counted before would be as much again.
    assert again["cpuUsedNanoseconds"] < 1.5 * after["cpuUsedNanoseconds"]
    assert again["podsStarted"] == after["podsStarted"]
