"""`hostUsers: false`: root in a pod is nobody on the node, and its files are still its own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from alcove.testing.cluster import RealCluster, create, ended, lacking, log_of, pod, ready, remove
from alcove.testing.server import Caller, wait_until

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(lacking()), reason=lacking() or "-")]

CLASS = "/apis/node.k8s.io/v1/runtimeclasses"
SERVES = "mkdir -p /tmp/www; echo hello > /tmp/www/index.html; httpd -f -p {} -h /tmp/www"


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    """Its node's data is where others than root may pass through."""
    with TemporaryDirectory(prefix="alcove-users-") as name:
        Path(name).chmod(0o711)
        with RealCluster(Path(name)) as running:
            yield running


@pytest.fixture(scope="module")
def acme(cluster: RealCluster) -> Caller:
    caller = cluster.make_tenant("acme")
    for each in (caller, cluster.server.system):
        for handler in ("crun", "runc", "gvisor"):
            assert each.post(CLASS, {"metadata": {"name": handler}, "handler": handler}).status == 201
    return caller


def events(caller: Caller, name: str) -> list[tuple[str, str]]:
    found = caller.get("/api/v1/namespaces/default/events").json["items"]
    return [(each["reason"], each["message"]) for each in found if each["involvedObject"]["name"] == name]


@pytest.mark.parametrize("handler", ["crun"])
def test_users_of_its_own(cluster: RealCluster, acme: Caller, handler: str) -> None:
    """`hostUsers: false`: root in the pod is nobody on the node, and its files are still its own."""
    acme.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}, "data": {"k": "v\n"}})
    script = (
        "id -u; cat /proc/self/uid_map | tr -s ' ' | cut -d' ' -f2,4; cat /c/k; echo own > /e/f && cat /e/f;"
        " touch /root-file && stat -c %u /root-file /e/f; echo done > /dev/termination-log;"
        " chown 1000:1000 /e/f && stat -c %u /e/f; cat /etc/hostname; test -s /var/run/secrets/t/token && echo token"
    )
    wanted = pod(
        f"mapped-{handler}", script, runtimeClassName=handler, hostUsers=False, restartPolicy="Never"
    )
    wanted["spec"]["volumes"] = [
        {"name": "c", "configMap": {"name": "c"}},
        {"name": "e", "emptyDir": {}},
        {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
    ]
    wanted["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "c", "mountPath": "/c"},
        {"name": "e", "mountPath": "/e"},
        {"name": "t", "mountPath": "/var/run/secrets/t"},
    ]
    uid = create(acme, wanted)
    found = ended(acme, f"mapped-{handler}")
    lines = log_of(cluster, uid)
    assert found["status"]["phase"] == "Succeeded", (lines, events(acme, f"mapped-{handler}"))
    assert lines[:4] == ["0", "0 65536", "v", "own"]
    assert lines[4:] == ["0", "0", "1000", f"mapped-{handler}", "token"]
    state = found["status"]["containerStatuses"][0]["state"]["terminated"]
    assert state["message"] == "done\n"
    remove(acme, f"mapped-{handler}")


@pytest.mark.parametrize("handler", ["crun", "gvisor"])
def test_a_pod_with_users_of_its_own_serves_as_any_other(
    cluster: RealCluster, acme: Caller, handler: str
) -> None:
    wanted = pod(f"served-{handler}", SERVES.format(80), runtimeClassName=handler, hostUsers=False)
    wanted["spec"]["containers"][0]["readinessProbe"] = {"httpGet": {"port": 80}, "periodSeconds": 1}
    uid = create(acme, wanted)
    ready(acme, f"served-{handler}")
    output = acme.kubectl(
        "exec", f"served-{handler}", "--", "sh", "-c", "id -u; echo x > /tmp/x && stat -c %u /tmp/x"
    )
    assert output.split() == ["0", "0"]
    if handler == "crun":
        owners = {Path(f"/proc/{each}").stat().st_uid for each in _of_pod(uid, "httpd")}
        assert owners and all(owner >= 65_536 for owner in owners), "on the node it is nobody's root"
    remove(acme, f"served-{handler}")


def _of_pod(uid: str, program: str) -> list[int]:
    """Processes of that program in the pod's control groups."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if program in (each / "cmdline").read_text() and uid in (each / "cgroup").read_text():
                found.append(int(each.name))
        except OSError:
            continue
    return found


def test_sysctls_of_a_pod_with_users_of_its_own(cluster: RealCluster, acme: Caller) -> None:
    names = ("ip_unprivileged_port_start", "tcp_keepalive_time")
    script = " ".join(["cat", *(f"/proc/sys/net/ipv4/{name}" for name in names)])
    wanted = pod("settings", script, runtimeClassName="crun", hostUsers=False, restartPolicy="Never")
    wanted["spec"]["securityContext"] = {"sysctls": [{"name": "net.ipv4.tcp_keepalive_time", "value": "77"}]}
    uid = create(acme, wanted)
    ended(acme, "settings")
    assert log_of(cluster, uid) == ["0", "77"]
    remove(acme, "settings")


def test_a_runtime_that_cannot_is_named(acme: Caller) -> None:
    create(acme, pod("in-runc", runtimeClassName="runc", hostUsers=False))
    wait_until(
        lambda: any(
            "use a RuntimeClass with handler crun" in message for _, message in events(acme, "in-runc")
        )
    )
    remove(acme, "in-runc")


def test_what_the_operator_has_to_do_is_reported_and_then_it_runs(cluster: RealCluster, acme: Caller) -> None:
    system, data = cluster.server.system, cluster.nodes[0].data
    node = system.get(f"/api/v1/nodes/{cluster.nodes[0].name}").json
    features = {each["name"]: each.get("features") for each in node["status"]["runtimeHandlers"]}
    assert features["crun"] == {"userNamespaces": True}
    assert not features["runc"]
    data.chmod(0o700)

    def failure(caller: Caller) -> str:
        return dict(events(caller, "shut-out")).get("FailedCreatePodSandBox", "")

    try:
        for caller in (system, acme):
            create(caller, pod("shut-out", runtimeClassName="crun", hostUsers=False))
        of_ring0, of_acme = (wait_until(partial(failure, caller)) for caller in (system, acme))
        assert f"`chmod o+x {data}`" in of_ring0
        assert "ask the operator" in of_acme
        assert str(data) not in of_acme
        wait_until(lambda: f"chmod o+x {data}" in cluster.agents[cluster.nodes[0].name].log)
    finally:
        data.chmod(0o711)
    for caller in (system, acme):
        ready(caller, "shut-out")
        remove(caller, "shut-out")
