"""Puts a world on a cluster, asks inside its pods, and takes it away again."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from alcove.api import objects
from alcove.api.objects import Object
from alcove.cli.connectivity import topology as manifests
from alcove.cli.connectivity.checks import Check, CheckResult, results, script
from alcove.cli.connectivity.topology import SERVICE, CheckNetwork, CheckPod, CheckTopology
from alcove.cli.errors import CliError, ExitCode
from alcove.cli.kubeconfig import server_url
from alcove.cli.session import CliSession, wait_for
from alcove.client.resources import (
    EVENTS,
    NAMESPACES,
    NETWORKS,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    TENANTS,
)

EXEC_SECONDS_MAX = 30.0
EXECS_AT_ONCE = 8
RETRY_SECONDS_MAX = 20.0
REMOVE_SECONDS_MAX = 120.0
AGAIN_SECONDS = 0.5


_AGENT_PORT = ("status", "daemonEndpoints", "kubeletEndpoint", "Port")


def real_nodes(session: CliSession) -> list[str]:
    """Nodes that are ready and really run tenants' pods."""
    return [
        node["metadata"]["name"]
        for node in session.items(NODES)
        if _is_ready(node) and not is_hollow(node) and not objects.get(node, "spec", "unschedulable")
    ]


def is_hollow(node: Object) -> bool:
    """Whether the node only pretends to run tenants' pods; it may really run ring0's."""
    handlers = objects.get(node, "status", "runtimeHandlers", default=[])
    return any(each.get("name") == "hollow" for each in handlers)


def _is_ready(node: Object) -> bool:
    conditions = objects.get(node, "status", "conditions", default=[])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


class ConnectivityRunner:
    def __init__(self, session: CliSession, topology: CheckTopology, seconds_max: float) -> None:
        program = shutil.which("kubectl")
        if program is None:
            raise CliError("kubectl is not installed (Debian: apt install kubernetes-client)")
        self._kubectl = program
        self._session = session
        self._topology = topology
        self._deadline = time.monotonic() + seconds_max

    # Putting it there

    def build(self) -> None:
        """Everything of the world, where it is missing; returns when networks are ready and pods run."""
        session = self._session
        for tenant in self._topology.tenants:
            session.ensure(TENANTS, {"apiVersion": "v1", "kind": "Tenant", "metadata": {"name": tenant}})
        for network in self._topology.networks:
            self._await_space(network.tenant)
            session.ensure(NAMESPACES, {"metadata": {"name": network.namespace}}, network.tenant)
            session.ensure(NETWORKS, manifests.network_manifest(network), network.tenant)
        for network in self._topology.networks:
            self._await_network(network)
            self._await_account(network)
            session.ensure(SERVICES, manifests.service_manifest(network), network.tenant, network.namespace)
        for pod in self._topology.pods:
            session.ensure(PODS, manifests.pod_manifest(pod), pod.tenant, pod.namespace)
        for pod in self._topology.pods:
            self._await_pod(pod)

    def vips(self) -> dict[CheckNetwork, str]:
        return {network: self._await_vip(network) for network in self._topology.networks}

    def agents(self) -> list[tuple[str, int]]:
        """Where the nodes' own servers are, on the underlay."""
        names = {pod.node for pod in self._topology.pods}
        found = [node for node in self._session.items(NODES) if node["metadata"]["name"] in names]
        return [
            (each["address"], objects.get(node, *_AGENT_PORT, default=10250))
            for node in found
            for each in objects.get(node, "status", "addresses", default=[])
            if each.get("type") == "InternalIP"
        ]

    def remove(self, *, wait: bool = True) -> None:
        """The tenants with all they have; that has time of its own, whatever went before."""
        self._deadline = time.monotonic() + REMOVE_SECONDS_MAX
        for tenant in self._topology.tenants:
            if self._session.find(TENANTS, tenant) is not None:
                self._session.delete(TENANTS, tenant)
        for tenant in self._topology.tenants if wait else ():
            self._wait(f"tenant {tenant} is gone", partial(self._is_gone, tenant))

    # Asking

    def ask(self, asked: Iterable[Check]) -> list[CheckResult]:
        """One script in each pod, a few at once. What is wrong is asked once more: networks settle."""
        found = self._ask_all(asked)
        wrong = [result for result in found if not result.is_right]
        if not wrong:
            return found
        time.sleep(AGAIN_SECONDS)
        again = {id(result.check): result for result in self._ask_all(result.check for result in wrong)}
        return [again.get(id(result.check), result) for result in found]

    def _ask_all(self, asked: Iterable[Check]) -> list[CheckResult]:
        by_pod: dict[CheckPod, list[Check]] = {}
        for check in asked:
            by_pod.setdefault(check.source, []).append(check)
        with ThreadPoolExecutor(EXECS_AT_ONCE) as pool:
            told = pool.map(lambda pod: self.run(pod, script(by_pod[pod])), by_pod)
            pairs = zip(by_pod, told, strict=True)
            return [result for pod, text in pairs for result in results(by_pod[pod], text)]

    def run(self, pod: CheckPod, text: str) -> str:
        """What a shell script in the pod says. Raises Failure.

        Tried again for a while: what is known of a pod may be from before its node was restarted.
        """
        server = server_url(self._session.connection.server, pod.tenant)
        command = [self._kubectl, f"--kubeconfig={self._session.kubeconfig}", f"--server={server}"]
        command += ["exec", f"--namespace={pod.namespace}", pod.name, "--", "sh", "-c", text]
        until = min(self._deadline, time.monotonic() + RETRY_SECONDS_MAX)
        while True:
            done = self._run(pod, command)
            if not done.returncode:
                return done.stdout
            if time.monotonic() > until:
                raise CliError(f"cannot run anything in {pod.identity}: {done.stderr.strip()}")
            time.sleep(AGAIN_SECONDS)

    def _run(self, pod: CheckPod, command: list[str]) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                command, capture_output=True, text=True, timeout=EXEC_SECONDS_MAX, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise CliError(
                f"no answer from {pod.identity} in {EXEC_SECONDS_MAX:.0f} s", ExitCode.TIMEOUT
            ) from error

    def token_user(self, pod: CheckPod) -> str:
        """Whom the API takes the token for that the pod was given."""
        token = self.run(pod, "cat /var/run/secrets/kubernetes.io/serviceaccount/token").strip()
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        path = f"/apis/authentication.k8s.io/v1/tenants/{pod.tenant}/tokenreviews"
        answer = self._session.connection.request("POST", path, review)
        return str(objects.get(answer, "status", "user", "username", default=""))

    # Waiting

    def _wait(self, what: str, check: Callable[[], object | None]) -> None:
        wait_for(what, check, max(0.1, self._deadline - time.monotonic()))

    def _is_gone(self, tenant: str) -> bool | None:
        return True if self._session.find(TENANTS, tenant) is None else None

    def _await_space(self, tenant: str) -> None:
        self._wait(f"tenant {tenant} is there", lambda: self._session.find(NAMESPACES, "default", tenant))

    def _await_account(self, network: CheckNetwork) -> None:
        def found() -> Object | None:
            return self._session.find(SERVICE_ACCOUNTS, "default", network.tenant, network.namespace)

        self._wait(f"namespace {network.namespace} of {network.tenant} is ready", found)

    def _await_network(self, network: CheckNetwork) -> None:
        def ready() -> bool | None:
            found = self._session.get(NETWORKS, network.name, network.tenant)
            phase, message = (objects.get(found, "status", key, default="") for key in ("phase", "message"))
            if phase == "Failed":
                raise CliError(f"network {network.tenant}/{network.name}: {message}")
            return True if phase == "Ready" else None

        self._wait(f"network {network.tenant}/{network.name} is ready", ready)

    def _await_vip(self, network: CheckNetwork) -> str:
        vips: list[str] = []

        def given() -> bool | None:
            found = self._session.get(SERVICES, SERVICE, network.tenant, network.namespace)
            vip = objects.get(found, "spec", "clusterIP", default="")
            vips[:] = [vip]
            return True if vip else None

        self._wait(f"service {SERVICE} of {network.tenant}/{network.name} has an address", given)
        return vips[0]

    def _await_pod(self, pod: CheckPod) -> None:
        def ready() -> bool | None:
            found = self._session.get(PODS, pod.name, pod.tenant, pod.namespace)
            conditions = objects.get(found, "status", "conditions", default=[])
            is_so = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
            return True if is_so else None

        try:
            self._wait(f"pod {pod.identity} runs", ready)
        except CliError as error:
            raise CliError(f"{error}; {self._why(pod)}", error.code) from error

    def _why(self, pod: CheckPod) -> str:
        """The last thing that was said about a pod."""
        selector = f"involvedObject.name={pod.name}"
        events = self._session.items(EVENTS, pod.tenant, pod.namespace, fieldSelector=selector)
        if not events:
            return "nothing was said about it"
        last = events[-1]
        return f"{last.get('reason')}: {last.get('message')}"
