"""Creates a test topology on a cluster, runs checks in its pods, and removes it."""

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
    """Names of the nodes that are ready, schedulable and not hollow."""
    return [
        node["metadata"]["name"]
        for node in session.items(NODES)
        if _has(node, "Ready") and not is_hollow(node) and not objects.get(node, "spec", "unschedulable")
    ]


def is_hollow(node: Object) -> bool:
    """Whether tenants' pods are hollow on the node; ring0's may run for real."""
    handlers = objects.get(node, "status", "runtimeHandlers", default=[])
    return any(each.get("name") == "hollow" for each in handlers)


def _has(obj: Object, condition: str) -> bool | None:
    """None if the condition is not true."""
    conditions = objects.get(obj, "status", "conditions", default=[])
    return (
        True if any(each["type"] == condition and each["status"] == "True" for each in conditions) else None
    )


class ConnectivityRunner:
    def __init__(
        self,
        session: CliSession,
        topology: CheckTopology,
        seconds_max: float,
        *,
        is_dedicated: bool = False,
    ) -> None:
        """`is_dedicated`: whether the tenants get API servers of their own."""
        program = shutil.which("kubectl")
        if program is None:
            raise CliError("kubectl is not installed (Debian: apt install kubernetes-client)")
        self._kubectl = program
        self._session = session
        self._topology = topology
        self._deadline = time.monotonic() + seconds_max
        self._is_dedicated = is_dedicated

    # Setup and teardown

    def build(self) -> None:
        """Creates missing objects; returns when networks and pods are ready."""
        session = self._session
        for tenant in self._topology.tenants:
            session.ensure(TENANTS, manifests.tenant_manifest(tenant, is_dedicated=self._is_dedicated))
        for network in self._topology.networks:
            self._await_tenant(network.tenant)
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
        """Addresses of the nodes' API servers on the underlay."""
        names = {pod.node for pod in self._topology.pods}
        found = [node for node in self._session.items(NODES) if node["metadata"]["name"] in names]
        return [
            (each["address"], objects.get(node, *_AGENT_PORT, default=10250))
            for node in found
            for each in objects.get(node, "status", "addresses", default=[])
            if each.get("type") == "InternalIP"
        ]

    def remove(self, *, wait: bool = True) -> None:
        """Deletes the tenants with their objects, within REMOVE_SECONDS_MAX from now."""
        self._deadline = time.monotonic() + REMOVE_SECONDS_MAX
        for tenant in self._topology.tenants:
            if self._session.find(TENANTS, tenant) is not None:
                self._session.delete(TENANTS, tenant)
        for tenant in self._topology.tenants if wait else ():
            self._wait(f"tenant {tenant} to be deleted", partial(self._is_deleted, tenant))

    # Checks

    def ask(self, requested: Iterable[Check]) -> list[CheckResult]:
        """Runs the checks, EXECS_AT_ONCE pods concurrently. Failed checks are retried once: networks may
        still settle."""
        found = self._run_checks(requested)
        wrong = [result for result in found if not result.is_right]
        if not wrong:
            return found
        time.sleep(AGAIN_SECONDS)
        again = {id(result.check): result for result in self._run_checks(result.check for result in wrong)}
        return [again.get(id(result.check), result) for result in found]

    def _run_checks(self, requested: Iterable[Check]) -> list[CheckResult]:
        by_pod: dict[CheckPod, list[Check]] = {}
        for check in requested:
            by_pod.setdefault(check.source, []).append(check)
        with ThreadPoolExecutor(EXECS_AT_ONCE) as pool:
            outputs = pool.map(lambda pod: self.run(pod, script(by_pod[pod])), by_pod)
            pairs = zip(by_pod, outputs, strict=True)
            return [result for pod, text in pairs for result in results(by_pod[pod], text)]

    def run(self, pod: CheckPod, text: str) -> str:
        """The output of a shell script in the pod. Raises CliError.

        Retried for up to RETRY_SECONDS_MAX: the pod's status may be from before its node was restarted.
        """
        server = server_url(self._session.connection.server, pod.tenant)
        command = [self._kubectl, f"--kubeconfig={self._session.kubeconfig}", f"--server={server}"]
        command += ["exec", f"--namespace={pod.namespace}", pod.name, "--", "sh", "-c", text]
        until = min(self._deadline, time.monotonic() + RETRY_SECONDS_MAX)
        while True:
            completed = self._run(pod, command)
            if not completed.returncode:
                return completed.stdout
            if time.monotonic() > until:
                raise CliError(f"cannot exec in pod {pod.identity}: {completed.stderr.strip()}")
            time.sleep(AGAIN_SECONDS)

    def _run(self, pod: CheckPod, command: list[str]) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                command, capture_output=True, text=True, timeout=EXEC_SECONDS_MAX, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise CliError(
                f"exec in pod {pod.identity} timed out after {EXEC_SECONDS_MAX:.0f} s", ExitCode.TIMEOUT
            ) from error

    def token_user(self, pod: CheckPod) -> str:
        """The user name that the API server gives the pod's service account token."""
        token = self.run(pod, "cat /var/run/secrets/kubernetes.io/serviceaccount/token").strip()
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        path = f"/apis/authentication.k8s.io/v1/tenants/{pod.tenant}/tokenreviews"
        answer = self._session.connection.request("POST", path, review)
        return str(objects.get(answer, "status", "user", "username", default=""))

    # Waiting

    def _wait(self, description: str, check: Callable[[], object | None]) -> None:
        wait_for(description, check, max(0.1, self._deadline - time.monotonic()))

    def _is_deleted(self, tenant: str) -> bool | None:
        return True if self._session.find(TENANTS, tenant) is None else None

    def _await_tenant(self, tenant: str) -> None:
        if self._is_dedicated:
            self._wait(
                f"the API server of tenant {tenant} to be joined",
                lambda: _has(self._session.get(TENANTS, tenant), "Joined"),
            )
        self._wait(
            f"tenant {tenant} to have a default namespace",
            lambda: self._session.find(NAMESPACES, "default", tenant),
        )

    def _await_account(self, network: CheckNetwork) -> None:
        def found() -> Object | None:
            return self._session.find(SERVICE_ACCOUNTS, "default", network.tenant, network.namespace)

        self._wait(f"namespace {network.tenant}/{network.namespace} to have a service account", found)

    def _await_network(self, network: CheckNetwork) -> None:
        def ready() -> bool | None:
            found = self._session.get(NETWORKS, network.name, network.tenant)
            phase, message = (objects.get(found, "status", key, default="") for key in ("phase", "message"))
            if phase == "Failed":
                raise CliError(f"network {network.tenant}/{network.name}: {message}")
            return True if phase == "Ready" else None

        self._wait(f"network {network.tenant}/{network.name} to be ready", ready)

    def _await_vip(self, network: CheckNetwork) -> str:
        vips: list[str] = []

        def assigned() -> bool | None:
            found = self._session.get(SERVICES, SERVICE, network.tenant, network.namespace)
            vip = objects.get(found, "spec", "clusterIP", default="")
            vips[:] = [vip]
            return True if vip else None

        self._wait(f"service {network.tenant}/{network.namespace}/{SERVICE} to have a cluster IP", assigned)
        return vips[0]

    def _await_pod(self, pod: CheckPod) -> None:
        def ready() -> bool | None:
            found = self._session.get(PODS, pod.name, pod.tenant, pod.namespace)
            return _has(found, "Ready")

        try:
            self._wait(f"pod {pod.identity} to be ready", ready)
        except CliError as error:
            raise CliError(f"{error}; {self._last_event(pod)}", error.code) from error

    def _last_event(self, pod: CheckPod) -> str:
        """The pod's last event."""
        selector = f"involvedObject.name={pod.name}"
        events = self._session.items(EVENTS, pod.tenant, pod.namespace, fieldSelector=selector)
        if not events:
            return "the pod has no events"
        last = events[-1]
        return f"{last.get('reason')}: {last.get('message')}"
