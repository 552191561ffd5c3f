"""A cluster whose nodes really run pods: they outlive the agent, come back after `down`, and after `destroy` the whole machine
is as it was before, whoever was killed meanwhile."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.api import objects
from alcove.cli.connectivity.topology import CheckPod, pod_manifest
from alcove.cli.session import CliSession
from alcove.client.resources import EVENTS, NODES, PODS, SERVICE_ACCOUNTS, TENANTS
from alcove.processes.machine import supervisor_state
from alcove.testing import snapshot
from alcove.testing.machine import FORWARDING, SimulatedMachine, lacking, traces
from alcove.testing.server import wait_until

pytestmark = [
    pytest.mark.root,
    pytest.mark.alone,
    pytest.mark.timeout(400),
    pytest.mark.skipif(bool(lacking()), reason=lacking()),
]
POD = CheckPod("shop", "default", "default", "web")
GONE_SECONDS_MAX = 90.0
"""The kernel ends namespaces and programs in its own time, and so do other people's tests."""


def started(session: CliSession) -> str:
    """When the pod's container was started, if it runs now."""
    found = session.get(PODS, POD.name, POD.tenant, POD.namespace)
    statuses = objects.get(found, "status", "containerStatuses", default=[{}])
    return str(objects.get(statuses[0], "state", "running", "startedAt", default=""))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[SimulatedMachine]:
    with SimulatedMachine(tmp_path) as made:
        yield made


def _run_a_pod(session: CliSession) -> str:
    session.create(TENANTS, {"metadata": {"name": POD.tenant}})
    wait_until(lambda: session.find(SERVICE_ACCOUNTS, "default", POD.tenant, POD.namespace))
    session.create(PODS, pod_manifest(POD), POD.tenant, POD.namespace)
    try:
        return str(wait_until(lambda: started(session)))
    except AssertionError as error:
        status = session.get(PODS, POD.name, POD.tenant, POD.namespace).get("status")
        events = [(each.get("reason"), each.get("message")) for each in session.items(EVENTS, POD.tenant)]
        raise AssertionError(f"{error}\n{status}\n{events}") from None


def _holder(machine: SimulatedMachine) -> int:
    pid = supervisor_state.holder(machine.data)
    assert pid is not None
    return pid


def test_pods_outlive_the_agent_and_come_back_after_down_and_nothing_is_left(
    machine: SimulatedMachine,
) -> None:
    before = snapshot.look(machine.mark)
    session = machine.up()
    first = _run_a_pod(session)
    _agent_is_killed_and_pods_do_not_notice(machine, session, first)
    _node_is_a_namespace_of_its_own(machine, session)

    asked = machine.cluster
    kinds = {each.split()[0] for each in traces(asked)}
    assert kinds == {"namespace", "link", "table", "claim", "cgroup", "mount", "process"}
    ran = machine.processes()
    assert machine.alcove("down") == "down\n"
    assert traces(asked) == []
    assert snapshot.left_since(before, machine.mark, GONE_SECONDS_MAX) == []
    assert machine.give_numbers_away(ran) > len(ran) / 2
    # As after a reboot: everything is made again, the pod has its address and starts anew.
    machine.up()
    wait_until(lambda: started(session) > first)
    assert session.find(TENANTS, POD.tenant) is not None

    # The worst case: nobody is left to clean up after the nodes.
    os.kill(_holder(machine), signal.SIGKILL)
    assert machine.alcove("destroy", "--yes") == "destroyed\n"
    assert not machine.data.exists()
    assert traces(asked) == []
    assert machine.harmed() == []
    assert snapshot.left_since(before, machine.mark, GONE_SECONDS_MAX) == []
    assert list(machine.home.iterdir()) == list(machine.scratch.iterdir()) == []


@pytest.mark.slow  # test_up.py has it with hollow nodes.
def test_what_kills_left_is_taken_up_by_the_next_up_and_away_by_destroy(machine: SimulatedMachine) -> None:
    before = snapshot.look(machine.mark)
    session = machine.up()
    first = _run_a_pod(session)
    # The supervisor alone: its processes end with it, pods do not notice, and the next `up` finds them.
    known = [state.pid for state in supervisor_state.states(machine.data).values() if state.pid]
    os.kill(_holder(machine), signal.SIGKILL)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in known))
    machine.up()
    assert started(session) == first
    # Everything there is, and nothing else is done about it.
    machine.cut_power()
    machine.up()
    wait_until(lambda: started(session) > first)
    # An `up` in the middle of its work, and all it has begun.
    machine.alcove("down")
    half = machine.command("up", "--no-demo", "--nodes", "2")
    wait_until(lambda: supervisor_state.states(machine.data).get("node-2"))
    half.kill()
    half.communicate()
    machine.cut_power()
    assert machine.alcove("destroy", "--yes") == "destroyed\n"
    assert not machine.data.exists()
    assert snapshot.left_since(before, machine.mark, GONE_SECONDS_MAX) == []


def _agent_is_killed_and_pods_do_not_notice(
    machine: SimulatedMachine, session: CliSession, first: str
) -> None:
    pid = supervisor_state.states(machine.data)["node-1"].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: supervisor_state.states(machine.data)["node-1"].pid not in (None, pid))
    wait_until(lambda: "node-1        Ready" in machine.alcove("status"))
    assert started(session) == first


def _node_is_a_namespace_of_its_own(machine: SimulatedMachine, session: CliSession) -> None:
    node = session.get(NODES, "node-1")
    addresses = [each["address"] for each in objects.get(node, "status", "addresses", default=[])]
    assert str(machine.cluster.node(1).address) in addresses
    assert FORWARDING.read_text().strip() == "1"
