"""Whether the parts of a cluster work, as the API tells it: not from before a restart, but now."""

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
"""The lease that each holds while it works."""


def session_of(cluster: LocalCluster) -> CliSession | None:
    """A way to the API as ring0's administrator; None: it does not answer."""
    try:
        session = CliSession(cluster.admin_kubeconfig)
        session.connection.request("GET", "/api/v1/namespaces/default")
    except (ConnectionFailed, ApiError):
        return None
    return session


def leads(session: CliSession, component: str, state: ComponentState) -> bool:
    """Whether the process that runs now is the one that holds the lease."""
    lease = session.find(LEASES, LEADERS[component], namespace="kube-system")
    holder = objects.get(lease, "spec", "holderIdentity", default="") if lease else ""
    return state.pid is not None and f"_{state.pid}_" in holder


def release_dead(session: CliSession) -> None:
    """Gives up the leases of processes of this machine that were killed: nobody has to wait for them."""
    for component, name in LEADERS.items():
        lease = session.find(LEASES, name, namespace="kube-system")
        holder = str(objects.get(lease, "spec", "holderIdentity", default="")) if lease else ""
        pid = pid_of(holder, socket.gethostname())
        if pid is not None and not _lives(pid, component):
            session.delete(LEASES, name, namespace="kube-system")


def pid_of(holder: str, host: str) -> int | None:
    """The process that a lease names, HOST_PID_…; None: it is none of this host's."""
    pid = holder.removeprefix(f"{host}_").partition("_")[0]
    return int(pid) if holder.startswith(f"{host}_") and pid.isdigit() else None


def _lives(pid: int, component: str) -> bool:
    """Whether that process is such a component: after a reboot the number may be anybody's."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return component.encode() in words and any(b"alcove" in word for word in words)


def node_ready(session: CliSession, node: str, state: ComponentState) -> Object | None:
    """The node, if the agent that runs now says that it is ready."""
    found = session.find(NODES, node)
    if found is None or state.pid is None:
        return None
    lease = session.find(LEASES, node, namespace="kube-node-lease")
    renewed = objects.get(lease, "spec", "renewTime") if lease else None
    # Times in leases may be rounded down to the second.
    if not renewed or parse_time(renewed) < int(state.since):
        return None
    return found if is_ready(found) else None


def is_ready(node: Object) -> bool:
    conditions = objects.get(node, "status", "conditions", default=[])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def why_not(node: Object | None) -> str:
    """What a node says about not being ready."""
    if node is None:
        return "its agent has not registered it"
    for condition in objects.get(node, "status", "conditions", default=[]):
        if condition["type"] == "Ready":
            return str(condition.get("message") or condition.get("reason") or "it does not say why")
    return "it has not told its condition"
