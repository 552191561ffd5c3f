"""Whether a cluster's components are ready, according to the API, ignoring state from before a restart."""

from __future__ import annotations

import socket
from pathlib import Path

from alcove.api import objects
from alcove.api.errors import ApiError
from alcove.api.meta import parse_time
from alcove.api.objects import Object
from alcove.cli.connection import ConnectionFailed
from alcove.cli.session import CliSession
from alcove.client.resources import LEASES, NODES
from alcove.processes.machine.cluster import LocalCluster
from alcove.processes.machine.supervisor_state import ComponentState

LEADERS = {"controllers": "alcove-controllers", "scheduler": "kube-scheduler"}
"""Leader election leases by component."""


def session_of(cluster: LocalCluster) -> CliSession | None:
    """An API session as ring0's administrator. None if the API server does not respond."""
    try:
        session = CliSession(cluster.admin_kubeconfig)
        session.connection.request("GET", "/api/v1/namespaces/default")
    except (ConnectionFailed, ApiError):
        return None
    return session


def leads(session: CliSession, component: str, state: ComponentState) -> bool:
    """Whether the component's current process holds the lease."""
    lease = session.find(LEASES, LEADERS[component], namespace="kube-system")
    holder = objects.get(lease, "spec", "holderIdentity", default="") if lease else ""
    return state.pid is not None and f"_{state.pid}_" in holder


def release_dead(session: CliSession) -> None:
    """Deletes leases of killed processes of this machine, so that new leaders need not wait for expiry."""
    for component, name in LEADERS.items():
        lease = session.find(LEASES, name, namespace="kube-system")
        holder = str(objects.get(lease, "spec", "holderIdentity", default="")) if lease else ""
        pid = pid_of(holder, socket.gethostname())
        if pid is not None and not _is_running(pid, component):
            session.delete(LEASES, name, namespace="kube-system")


def pid_of(holder: str, host: str) -> int | None:
    """The pid in a lease holder identity HOST_PID_…. None if it is of another host."""
    pid = holder.removeprefix(f"{host}_").partition("_")[0]
    return int(pid) if holder.startswith(f"{host}_") and pid.isdigit() else None


def _is_running(pid: int, component: str) -> bool:
    """Whether the process is that component: after a reboot the pid may be reused."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return component.encode() in arguments and any(b"alcove" in argument for argument in arguments)


def node_ready(session: CliSession, node: str, state: ComponentState) -> Object | None:
    """The node, if its current agent process reports it as ready."""
    existing = session.find(NODES, node)
    if existing is None or state.pid is None:
        return None
    lease = session.find(LEASES, node, namespace="kube-node-lease")
    renewed = objects.get(lease, "spec", "renewTime") if lease else None
    # Times in leases may be rounded down to the second.
    if not renewed or parse_time(renewed) < int(state.since):
        return None
    return existing if is_ready(existing) else None


def is_ready(node: Object) -> bool:
    conditions = objects.get(node, "status", "conditions", default=[])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def why_not(node: Object | None) -> str:
    """Why the node is not ready, from its Ready condition."""
    if node is None:
        return "the agent has not registered the node"
    for condition in objects.get(node, "status", "conditions", default=[]):
        if condition["type"] == "Ready":
            return str(condition.get("message") or condition.get("reason") or "the condition has no message")
    return "the node has no Ready condition"
