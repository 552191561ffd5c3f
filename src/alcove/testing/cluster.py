"""A whole cluster for tests: API server, controllers, scheduler, and nodes that run pods, each in its own
network namespace. Everything is removed at the end of the block, also after errors.

    with RealCluster(directory) as cluster:
        caller = cluster.make_tenant("acme")
        caller.kubectl("run", "web", "--image=alcove/busybox", …)
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from alcove.agent.cgroups import Cgroups
from alcove.agent.podkey import PodKey
from alcove.agent.pods.status import TERMINAL
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.dataplane import namespaces
from alcove.testing import containers, needs, nodes
from alcove.testing.agent import LocalAgent, node_kubeconfig
from alcove.testing.claims import claim, free_port
from alcove.testing.controlplane import LocalControllers
from alcove.testing.local import LocalProcess
from alcove.testing.nodes import BPF_ROOT
from alcove.testing.scheduler import LocalScheduler
from alcove.testing.server import WAIT_SECONDS_MAX, Caller, LocalServer, wait_until

PODS = "/api/v1/namespaces/default/pods"
_MTU = "1550"


def lacking() -> str:
    """Why real nodes cannot run on this machine. Empty if they can."""
    return nodes.lacking() or containers.lacking() or needs.tools("ip")


class RealAgent(LocalProcess):
    """The agent of one node, in the node's namespace."""

    ready = "ready"

    def __init__(self, node: RealNode, kubeconfig: Path, *options: str) -> None:
        self.node = node
        words: tuple[str, ...] = ("--kubeconfig", str(kubeconfig), "--name", node.name)
        words += (
            "--data",
            str(node.data),
            "--address",
            node.address,
            "--underlay",
            "eth0",
            "--instance",
            node.instance,
        )
        super().__init__("agent", node.data / "agent.log", *words, "--bpf", str(BPF_ROOT), *options)
        self._namespace = namespaces.path_of(node.namespace)


class RealNode:
    """A namespace with a link to this machine."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        self.instance = "t" + nodes.claim_token("alcove-t{}-node")
        self.namespace = f"alcove-{self.instance}-node"
        self.data = directory / name
        self._link = f"alcove-{self.instance}"
        number = _free_range()
        self.gateway, self.address = f"10.249.{number}.1", f"10.249.{number}.2"

    def make(self) -> None:
        nodes.mount()
        os.close(namespaces.make(self.namespace))
        _ip("link", "add", self._link, "mtu", _MTU, "type", "veth", "peer", "eth0", "netns", self.namespace)
        _ip("address", "add", f"{self.gateway}/24", "dev", self._link)
        _ip("link", "set", self._link, "up")
        # Nodes reach each other through this machine, which may not forward otherwise.
        Path(f"/proc/sys/net/ipv4/conf/{self._link}/forwarding").write_text("1")
        inside = ("-n", self.namespace)
        _ip(*inside, "address", "add", f"{self.address}/24", "dev", "eth0")
        _ip(*inside, "link", "set", "eth0", "mtu", _MTU, "up")
        _ip(*inside, "link", "set", "lo", "up")
        _ip(*inside, "route", "add", "default", "via", self.gateway)

    def remove(self) -> None:
        """Removes everything of the node, as `alcove down` does."""
        cgroups = Cgroups.of_machine()
        cgroups.kill(f"/alcove/{self.instance}")
        _kill_monitors(self.data)
        wait_until(lambda: cgroups.remove(f"/alcove/{self.instance}"))
        mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for path in sorted((each for each in mounted if each.startswith(str(self.data))), reverse=True):
            subprocess.run(["umount", "-l", path], check=False)
        for name in namespaces.names(f"alcove-{self.instance}"):
            namespaces.remove(name)
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "delete", self._link)
        for each in BPF_ROOT.glob(f"*{self.instance}*"):
            shutil.rmtree(each, ignore_errors=True)


class LocalCluster:
    """API server, controllers, scheduler and agents: what clusters with real and with hollow nodes share."""

    runs_pods: bool
    """Whether pods have containers and networks, or only a status."""

    def __init__(self, directory: Path, *, server_options: Sequence[str] = ()) -> None:
        self.directory = directory
        self._server_options = tuple(server_options)
        self._stack = contextlib.ExitStack()
        self.processes: dict[str, LocalProcess] = {}
        """Every process of the cluster, by name."""

    def _start(self, stack: contextlib.ExitStack, server: LocalServer) -> None:
        """Starts everything but agents. All of it is stopped with the stack."""
        self.server = stack.enter_context(server)
        self.controllers = LocalControllers(server, self.directory)
        self.scheduler = LocalScheduler(server.admin_kubeconfig, self.directory)
        self.processes = {
            "apiserver": server,
            "controllers": self.controllers,
            "scheduler": self.scheduler,
        }
        stack.callback(self._stop)
        self.controllers.start()
        self.scheduler.start()

    def _wait(self) -> None:
        """Until all are ready. They start at the same time: each takes seconds, and none needs another."""
        for each in self.processes.values():
            if each is not self.server:
                each.wait()

    def kill(self) -> None:
        """Ends all processes at once, without a goodbye: for a cluster that nobody needs any more."""
        self._stop(signal.SIGKILL)

    def _stop(self, sent: signal.Signals = signal.SIGTERM) -> None:
        """Agents first, the API server last."""
        for each in reversed(self.processes.values()):
            each.stop(sent)

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    @property
    def restarts(self) -> int:
        """Processes that ended by themselves, and background tasks that failed and were started again."""
        return sum(not each.is_running for each in self.processes.values()) + sum(
            each.log.count("background task failed; restarting") for each in self.processes.values()
        )

    def make_tenant(self, name: str) -> Caller:
        """A tenant whose network is ready."""
        answer = self.server.system.post("/api/v1/tenants", {"metadata": {"name": name}})
        assert answer.status == 201, answer.body
        wait_until(lambda: tenant_is_ready(self.server, name))
        return self.server.as_tenant(name)


class RealCluster(LocalCluster):
    runs_pods = True

    def __init__(
        self, directory: Path, count: int = 1, *options: str, server_options: Sequence[str] = ()
    ) -> None:
        """`options` are the agents'."""
        super().__init__(directory, server_options=server_options)
        self.nodes = [RealNode(directory, f"n{number + 1}") for number in range(count)]
        self._options = options
        self.agents: dict[str, RealAgent] = {}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            for node in self.nodes:
                stack.callback(node.remove)
                node.make()
            listen = [
                word for node in self.nodes for word in ("--listen", node.gateway, "--name", node.gateway)
            ]
            words = (*listen, *self._server_options)
            self._start(stack, LocalServer(self.directory / "server", *words, port=free_port()))
            for node in self.nodes:
                self._start_agent(node)
            self._wait()
            self._stack = stack.pop_all()
        return self

    def join(self, node: RealNode) -> None:
        """Starts the node's agent, and waits until it is ready."""
        self._start_agent(node).wait()

    def _start_agent(self, node: RealNode) -> RealAgent:
        agent = self.agents[node.name] = RealAgent(node, self._node_kubeconfig(node), *self._options)
        self.processes[f"agent {node.name}"] = agent
        agent.start()
        return agent

    def leave(self, node: RealNode) -> None:
        """Stops the agent of a node without pods, deletes its object, and removes everything of the node."""
        self.agents.pop(node.name).stop()
        del self.processes[f"agent {node.name}"]
        assert self.server.system.delete(f"/api/v1/nodes/{node.name}").status == 200
        node.remove()
        shutil.rmtree(node.data)

    @property
    def runs_gvisor(self) -> bool:
        return all('"runtime proven" handler=gvisor' in each.log for each in self.agents.values())

    def _node_kubeconfig(self, node: RealNode) -> Path:
        """The node's kubeconfig, with the server's address as seen from the node."""
        path = node_kubeconfig(self.server, node.name)
        host, port = self.server.address
        path.write_text(path.read_text().replace(f"{host}:{port}", f"{node.gateway}:{port}"))
        return path


class HollowCluster(LocalCluster):
    """One node without containers and networks: it needs no rights. Its pods are only reported as running."""

    runs_pods = False

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._start(stack, LocalServer(self.directory / "server", *self._server_options))
            kubeconfig = node_kubeconfig(self.server, "n1")
            agent = LocalAgent(kubeconfig, self.directory / "n1", "n1", "--hollow")
            self.processes["agent n1"] = agent
            agent.start()
            self._wait()
            self._stack = stack.pop_all()
        return self


def tenant_is_ready(server: LocalServer, tenant: str) -> bool:
    """Whether its administrator has access and its network is ready."""
    caller = server.system
    account = caller.get(f"/api/v1/tenants/{tenant}/namespaces/default/serviceaccounts/default")
    network = caller.get(f"/apis/arktos.futurewei.com/v1/tenants/{tenant}/networks/default")
    role = caller.get(
        f"/apis/rbac.authorization.k8s.io/v1/tenants/{tenant}/clusterrolebindings/admin-role-binding"
    )
    if not account.status == network.status == role.status == 200:
        return False
    return (network.json.get("status") or {}).get("phase") == "Ready"


def pod(name: str, command: str = "sleep 1000", **spec: object) -> Object:
    """A pod of one container that runs a shell command."""
    container = {"name": "main", "image": "alcove/busybox", "command": ["sh", "-c", command]}
    wanted: Object = {"terminationGracePeriodSeconds": 1, **spec}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **wanted}}


def create(caller: Caller, wanted: Object) -> str:
    """Creates a pod; returns its uid."""
    answer = caller.post(PODS, wanted)
    assert answer.status == 201, answer.body
    return str(answer.json["metadata"]["uid"])


def remove(caller: Caller, *names: str) -> None:
    """Deletes pods without a grace period; returns when they are deleted."""
    for name in names:
        caller.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    for name in names:
        gone(caller, name)


def log_of(cluster: RealCluster, uid: str, container: str = "main", attempt: int = 0) -> list[str]:
    """The log lines of a container on the first node; none if it has not begun."""
    path = cluster.nodes[0].data / "logs" / uid / container / f"{attempt}.log"
    return [line.split(" ", 3)[3] for line in path.read_text().splitlines()] if path.exists() else []


def condition(found: Object, kind: str) -> str:
    conditions = (found.get("status") or {}).get("conditions") or []
    return next((each["status"] for each in conditions if each["type"] == kind), "")


def until(
    caller: Caller, name: str, holds: Callable[[Object], object], seconds_max: float = WAIT_SECONDS_MAX
) -> Object:
    """Waits until the condition holds; returns the pod. The error on timeout shows its status and events."""
    found: Object = {}

    def check() -> bool:
        nonlocal found
        found = caller.get(f"{PODS}/{name}").json
        return bool(holds(found))

    try:
        wait_until(check, seconds_max)
    except AssertionError as error:
        events = caller.get("/api/v1/namespaces/default/events").json.get("items") or []
        messages = [
            (each["reason"], each["message"]) for each in events if each["involvedObject"]["name"] == name
        ]
        raise AssertionError(f"{name} is {found.get('status')}, events {messages}") from error
    return found


def ready(caller: Caller, name: str, seconds_max: float = WAIT_SECONDS_MAX) -> Object:
    return until(caller, name, lambda found: condition(found, "Ready") == "True", seconds_max)


def ended(caller: Caller, name: str, seconds_max: float = WAIT_SECONDS_MAX) -> Object:
    return until(
        caller, name, lambda found: (found.get("status") or {}).get("phase") in TERMINAL, seconds_max
    )


def gone(caller: Caller, name: str, seconds_max: float = WAIT_SECONDS_MAX) -> None:
    wait_until(lambda: caller.get(f"{PODS}/{name}").status == 404, seconds_max)


def pod_group(node: RealNode, tenant: str, uid: str) -> str:
    """The cgroup of a pod."""
    key = PodKey(HOME, TenantId(tenant), "", "", uid)
    return f"/alcove/{node.instance}/{key.tenant_directory_name}/{key.directory_name}"


def traces(data: Path, uid: str) -> list[str]:
    """Leftovers of a pod on a node: paths, mounts and processes with its uid in their names."""
    found = []
    for folder, folders, names in os.walk(data):  # os.walk tolerates concurrent removals.
        found += [str(Path(folder, name)) for name in (*folders, *names) if uid in name]
    found += [line for line in Path("/proc/self/mounts").read_text().splitlines() if uid in line]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes()
                if uid.encode() in line:
                    found.append(line.decode(errors="replace"))
    return found


def _free_range() -> int:
    """The third octet of an address range that no other test uses."""
    known = Path("/proc/net/fib_trie").read_text()
    return claim("ranges", range(1, 251), lambda number: f"10.249.{number}.1\n" not in known)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _kill_monitors(data: Path) -> None:
    """Kills the node's container monitors: only they have its directory in their command line."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if os.fsencode(data / "runtimes") in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), 9)
