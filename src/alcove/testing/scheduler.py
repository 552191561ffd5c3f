"""The scheduler as a process, for tests with a `LocalServer` or with two planes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from alcove.api.objects import Object
from alcove.testing.local import LocalProcess
from alcove.testing.scheduling import node, pod
from alcove.testing.server import Caller, LocalServer

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
LEASE_SECONDS = ("--lease-seconds", "2")


class LocalScheduler(LocalProcess):
    """`with LocalScheduler(kubeconfig, directory): …`; several instances compete for the lease."""

    def __init__(self, kubeconfig: Path, directory: Path, *options: str) -> None:
        super().__init__("scheduler", directory / "scheduler.log", "--kubeconfig", str(kubeconfig), *options)


def add_node(server: LocalServer, made: Object) -> None:
    made["metadata"].pop("uid", None)
    answer = server.system.post(NODES, made)
    assert answer.status == 201, answer.body


def create(caller: Caller, name: str, **spec: Any) -> None:
    """Creates a pod of the tenant as a user does."""
    made = pod(name, **spec)
    del made["metadata"]["uid"], made["spec"]["priority"]
    answer = caller.post(PODS, made)
    assert answer.status == 201, answer.body


def bound(caller: Caller) -> dict[str, str]:
    """Nodes of the tenant's bound pods, by pod name."""
    items = caller.get(PODS).json["items"]
    return {each["metadata"]["name"]: on for each in items if (on := each["spec"].get("nodeName"))}


class TwoPlanes:
    """The home plane, and a dedicated plane of the tenant `big`; each has a tenant's administrator."""

    def __init__(self, directory: Path, node_cpu: int) -> None:
        self.directory = directory
        self.node_cpu = node_cpu
        self.home = LocalServer(directory / "home")
        self.own = LocalServer(directory / "own")
        self.home.start()
        self.own.start()
        # A copy: a restarted server writes a new one.
        self._kubeconfig = directory / "home.kubeconfig"
        self._kubeconfig.write_bytes(self.home.admin_kubeconfig.read_bytes())
        self.home.make_namespace("system", "kube-system")
        self.small = self.home.make_tenant("small")
        self.big = self.own.make_tenant("big")
        tenant = {"metadata": {"name": "big"}, "spec": {"controlPlane": {"mode": "Dedicated"}}}
        answer = self.home.system.post("/api/v1/tenants", tenant)
        assert answer.status == 201, answer.body

    def add_nodes(self, count: int) -> None:
        for number in range(count):
            self.add_node(f"n{number}")

    def add_node(self, name: str) -> None:
        add_node(self.home, node(name, cpu=str(self.node_cpu)))

    def scheduler(self, *options: str, own: Path | None = None) -> LocalScheduler:
        """`own`: the dedicated plane's kubeconfig for the scheduler."""
        plane = f"big={own or self.own.admin_kubeconfig}"
        return LocalScheduler(self._kubeconfig, self.directory, "--plane", plane, *LEASE_SECONDS, *options)

    def home_scheduler(self, *options: str) -> LocalScheduler:
        """A scheduler without the dedicated plane."""
        return LocalScheduler(self._kubeconfig, self.directory, *LEASE_SECONDS, *options)

    def leader(self) -> int:
        """The pid of the scheduler that holds the lease; 0 if there is none."""
        lease = self.home.system.get(LEASE)
        holder = lease.json["spec"].get("holderIdentity") if lease.status == 200 else ""
        return int(holder.split("_")[1]) if holder else 0

    def placed(self) -> Counter[str]:
        """CPU requests of pods on each node, over both planes."""
        used: Counter[str] = Counter()
        for caller in (self.small, self.big):
            for each in caller.get(PODS).json["items"]:
                if on := each["spec"].get("nodeName"):
                    used[on] += int(each["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        return used

    def stop(self) -> None:
        self.own.stop()
        self.home.stop()
