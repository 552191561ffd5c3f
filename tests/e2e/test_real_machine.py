"""A cluster whose nodes really run pods: they outlive the agent, come back after `down`, and go with `destroy`."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.api import objects
from alcove.cli.connectivity.world import Pod, pod_manifest
from alcove.cli.session import Session
from alcove.client.resources import EVENTS, NODES, PODS, TENANTS
from alcove.processes import down
from alcove.processes.machine import cluster, findings, holding
from alcove.testing.machine import FORWARDING, traces
from alcove.testing.server import wait_until

LACKING = findings.lacking(findings.look(findings.Place(Path("/"), 6443, True), findings.NODE_CHECKS))
pytestmark = [
    pytest.mark.root,
    pytest.mark.alone,
    pytest.mark.timeout(200),
    pytest.mark.skipif(
        bool(LACKING), reason=f"nodes cannot run pods here: {[each.name for each in LACKING]}"
    ),
]
POD = Pod("shop", "default", "default", "web")


def alcove(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "alcove.processes.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def started(session: Session) -> str:
    """When the pod's container was started, if it runs now."""
    found = session.get(PODS, POD.name, POD.tenant, POD.namespace)
    statuses = objects.get(found, "status", "containerStatuses", default=[{}])
    return str(objects.get(statuses[0], "state", "running", "startedAt", default=""))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Path]:
    data = tmp_path / "state"
    try:
        yield data
    finally:
        down.destroy(data)


def test_pods_outlive_the_agent_and_come_back_after_down_and_nothing_is_left(machine: Path) -> None:
    place = ("--data", str(machine))
    done = alcove("up", "--no-demo", *place)
    assert done.returncode == 0, done.stdout + done.stderr
    session = Session(machine / "admin.kubeconfig")
    way = ("--kubeconfig", str(machine / "admin.kubeconfig"))
    assert alcove("tenant", "create", POD.tenant, *way).returncode == 0
    session.create(PODS, pod_manifest(POD), POD.tenant, POD.namespace)
    first = _await_start(session)

    _agent_is_killed_and_pods_do_not_notice(machine, session, first)
    _node_is_a_namespace_of_its_own(machine, session)

    asked = cluster.load(machine)
    assert asked is not None
    kinds = {each.split()[0] for each in traces(asked)}
    assert kinds == {"namespace", "link", "table", "claim", "cgroup", "mount", "process"}
    assert alcove("down", *place).stdout == "down\n"
    assert traces(asked) == []
    # As after a reboot: everything is made again, the pod has its address and starts anew.
    done = alcove("up", "--no-demo", *place)
    assert done.returncode == 0, done.stdout + done.stderr
    wait_until(lambda: started(session) > first, 40)
    assert session.find(TENANTS, POD.tenant) is not None

    # The worst case: nobody is left to clean up after the nodes.
    holder = holding.holder(machine)
    assert holder is not None
    os.kill(holder, signal.SIGKILL)
    assert alcove("destroy", "--yes", *place).stdout == "gone\n"
    assert not machine.exists()
    assert traces(asked) == []


def _await_start(session: Session) -> str:
    try:
        return str(wait_until(lambda: started(session), 30))
    except AssertionError as error:
        status = session.get(PODS, POD.name, POD.tenant, POD.namespace).get("status")
        told = [(each.get("reason"), each.get("message")) for each in session.items(EVENTS, POD.tenant)]
        raise AssertionError(f"{error}\n{status}\n{told}") from None


def _agent_is_killed_and_pods_do_not_notice(machine: Path, session: Session, first: str) -> None:
    pid = holding.states(machine)["node-1"].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: holding.states(machine)["node-1"].pid not in (None, pid), 20)
    wait_until(lambda: "node-1        Ready" in alcove("status", "--data", str(machine)).stdout, 30)
    assert started(session) == first


def _node_is_a_namespace_of_its_own(machine: Path, session: Session) -> None:
    asked = cluster.load(machine)
    assert asked is not None
    node = session.get(NODES, "node-1")
    addresses = [each["address"] for each in objects.get(node, "status", "addresses", default=[])]
    assert str(asked.node(1).address) in addresses
    assert FORWARDING.read_text().strip() == "1"
