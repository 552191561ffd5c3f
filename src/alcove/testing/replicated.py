"""A highly available cluster: etcd with several members, API servers behind a balancer, standby controllers
and schedulers, and hollow nodes. Each process can be killed and started again.

    with ReplicatedCluster(directory) as cluster:
        acme = cluster.make_tenant("acme")
        cluster.kill(cluster.leading(SCHEDULERS))
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from alcove.testing.agent import LocalAgent
from alcove.testing.cluster import tenant_is_ready
from alcove.testing.controlplane import LocalControllers
from alcove.testing.etcd import EtcdCluster
from alcove.testing.failover import server_on
from alcove.testing.local import LocalProcess
from alcove.testing.relay import Balancer
from alcove.testing.scheduler import LocalScheduler
from alcove.testing.server import LocalServer, wait_until

CONTROLLERS, SCHEDULERS = "alcove-controllers", "kube-scheduler"
"""Leases of the replicated processes."""
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


class ReplicatedCluster:
    def __init__(self, directory: Path, *, members: int = 3, nodes: int = 3, lease_seconds: int = 2) -> None:
        self._directory = directory
        self._nodes = nodes
        self._lease = ("--lease-seconds", str(lease_seconds))
        self._stack = contextlib.ExitStack()
        self.etcd = EtcdCluster(directory / "etcd", members)
        self.servers: list[LocalServer] = []
        self.processes: dict[str, list[LocalProcess]] = {CONTROLLERS: [], SCHEDULERS: []}

    def __enter__(self) -> ReplicatedCluster:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.etcd)
            for number in range(2):
                self.servers.append(stack.enter_context(server_on(self.etcd, self._directory, number)))
            addresses = [server.address for server in self.servers]
            self._balancer = stack.enter_context(Balancer(addresses))
            kubeconfig = self.balanced(self.servers[0].admin_kubeconfig)
            for name in ("a", "b"):
                own = self._directory / name
                controllers = LocalControllers(self.servers[0], own, *self._lease, kubeconfig=kubeconfig)
                scheduler = LocalScheduler(kubeconfig, own, *self._lease)
                for lease, process in ((CONTROLLERS, controllers), (SCHEDULERS, scheduler)):
                    stack.callback(process.stop)
                    process.start()
                    self.processes[lease].append(process)
            wait_until(lambda: all(self._holder(lease) for lease in self.processes))
            hollow = ("--hollow", "--count", str(self._nodes))
            stack.enter_context(LocalAgent(kubeconfig, self._directory / "nodes", "n", *hollow))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def balanced(self, kubeconfig: Path) -> Path:
        """A kubeconfig with the same credential, through the balancer."""
        path = self._directory / f"balanced-{kubeconfig.name}"
        text = kubeconfig.read_text()
        for server in self.servers:
            text = text.replace(f":{server.address[1]}/", f":{self._balancer.port}/")
        path.write_text(text)
        return path

    def at(self, number: int, kubeconfig: Path) -> Path:
        """A kubeconfig with the same credential, directly to one server."""
        path = self._directory / f"server-{number}-{kubeconfig.name}"
        own, *others = [self.servers[number], *self.servers]
        text = kubeconfig.read_text()
        for server in others:
            text = text.replace(f":{server.address[1]}/", f":{own.address[1]}/")
        path.write_text(text)
        return path

    def make_tenant(self, name: str) -> Path:
        """Creates a tenant, and waits for its network; returns its administrator's kubeconfig."""
        server = self.servers[0]
        answer = server.system.post("/api/v1/tenants", {"metadata": {"name": name}})
        assert answer.status == 201, answer.body
        wait_until(lambda: tenant_is_ready(server, name))
        return server.as_tenant(name).kubeconfig

    def leading(self, lease: str) -> LocalProcess:
        """The lease holder; waits until there is one."""
        pid = wait_until(lambda: self._holder(lease))
        return next(each for each in self.processes[lease] if each.is_running and each.pid == pid)

    def _holder(self, lease: str) -> int:
        """The pid of the running process that holds the lease; 0 if there is none."""
        answer = next(each for each in self.servers if each.is_running).system.get(f"{LEASES}/{lease}")
        holder = answer.json["spec"].get("holderIdentity") if answer.status == 200 else ""
        pid = int(holder.split("_")[1]) if holder else 0
        return pid if any(each.is_running and each.pid == pid for each in self.processes[lease]) else 0
