"""A dedicated plane whose API server is slow, hung or lying hurts its own tenant alone: beside it a good tenant's
workloads are created, scheduled and run, by the same processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from alcove.api.objects import Object
from alcove.testing.agent import LocalAgent, node_kubeconfig
from alcove.testing.cluster import PODS, condition, tenant_is_ready
from alcove.testing.controlplane import LocalControllers
from alcove.testing.hostile_plane import HostilePlane, Hostility
from alcove.testing.local import LocalProcess
from alcove.testing.scheduler import LocalScheduler
from alcove.testing.server import Caller, LocalServer, wait_until

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
DEDICATED = {"metadata": {"name": "big"}, "spec": {"controlPlane": {"mode": "Dedicated"}}}
MEMORY_MB_MAX = 900
"""Of a process. What it may keep of one plane is far less, what it may read at once too."""
QUICK = (Hostility.HUNG, Hostility.MALFORMED, Hostility.FORGING, Hostility.ENDLESS_LIST)
"""Those of every test run."""
_NUMBERS = count()


class Arena:
    """A home plane with a good tenant, and a hostile one, which all processes of ring0 have joined."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.home = stack.enter_context(LocalServer(directory / "home"))
        host, port = self.home.address
        self.plane = stack.enter_context(HostilePlane(directory, "big", f"https://{host}:{port}"))
        assert self.home.system.post("/api/v1/tenants", DEDICATED).status == 201
        own, joined = self.home.admin_kubeconfig, ("--plane", f"big={self.plane.kubeconfig}")
        node = node_kubeconfig(self.home, "n1")
        self.processes: list[LocalProcess] = [
            LocalControllers(self.home, directory, *joined),
            LocalScheduler(own, directory, *joined),
            LocalAgent(node, directory / "n1", "n1", "--hollow", *joined),
        ]
        for process in self.processes:
            stack.enter_context(process)
        self.pids = [process.pid for process in self.processes]
        assert self.home.system.post("/api/v1/tenants", {"metadata": {"name": "good"}}).status == 201
        wait_until(lambda: tenant_is_ready(self.home, "good"))
        self.good: Caller = self.home.as_tenant("good")
        wait_until(lambda: self.has_met(Hostility.HONEST, 2))

    def has_met(self, hostility: Hostility, times: int) -> bool:
        """Whether every process has come to the plane so often. Connections without a request have no name."""
        served = self.plane.served(hostility)
        if "" in served:
            return served[""] >= 3 * times
        agents = ("alcove-controllers", "alcove-scheduler", "alcove-agent")
        return all(served.get(agent, 0) >= times for agent in agents)

    def good_pod_runs(self) -> Object:
        """A new workload of the good tenant comes up."""
        name = f"web-{next(_NUMBERS)}"
        container = {"name": "main", "image": "alcove/busybox"}
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
        answer = self.good.post(DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec})
        assert answer.status == 201, answer.body

        def ready() -> Object | None:
            found = self.good.get(f"{PODS}?labelSelector=app%3D{name}").json["items"]
            return found[0] if found and condition(found[0], "Ready") == "True" else None

        pod: Object = wait_until(ready)
        assert self.good.delete(f"{DEPLOYMENTS}/{name}").status == 200
        return pod


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with ExitStack() as stack:
        yield Arena(tmp_path_factory.mktemp("hostile"), stack)


def memory_mb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))


def hostilities() -> list[ParameterSet]:
    marks = {each: () if each in QUICK else (pytest.mark.slow,) for each in Hostility}
    return [pytest.param(each, id=each.name.lower(), marks=marks[each]) for each in Hostility]


@pytest.mark.parametrize("hostility", hostilities())
def test_a_good_tenant_does_not_notice_a_plane_that(arena: Arena, hostility: Hostility) -> None:
    arena.plane.be(hostility)
    wait_until(lambda: arena.has_met(hostility, 2))
    assert arena.good_pod_runs()["spec"]["nodeName"] == "n1"
    assert [process.pid for process in arena.processes if process.is_running] == arena.pids
    assert all(memory_mb(pid) < MEMORY_MB_MAX for pid in arena.pids)
    # Nothing came of what the plane says about others.
    assert arena.home.system.get("/api/v1/tenants/good").status == 200
    assert arena.good.get(f"{PODS}/pod-0").status == 404
