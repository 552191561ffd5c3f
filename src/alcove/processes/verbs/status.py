"""Output of `alcove status`: the processes, their uptime, and whether nodes are ready."""

from __future__ import annotations

import os
import time
from pathlib import Path

import typer

from alcove.cli.errors import CliError, ExitCode
from alcove.cli.options import OutputFormat
from alcove.cli.output import show_rows
from alcove.processes.machine import cluster, supervisor_state
from alcove.processes.machine.cluster import BadCluster, LocalCluster
from alcove.processes.machine.supervisor_state import ComponentState

HEADS = ("PART", "STATE", "PID", "MEMORY", "RESTARTS", "SINCE", "DETAIL")


def report(data: Path, form: OutputFormat) -> bool:
    """Prints the status; returns whether all components are ready. Raises CliError if the cluster is down."""
    try:
        local_cluster = cluster.load(data)
    except BadCluster as error:
        raise CliError(str(error)) from error
    if local_cluster is None or supervisor_state.holder(data) is None:
        raise CliError("the cluster is down; start it with `alcove up`", ExitCode.UNREACHABLE)
    nodes = _nodes(local_cluster)
    states = supervisor_state.states(data)
    names = ["apiserver", "controllers", "scheduler", *(node.name for node in local_cluster.all_nodes())]
    rows = [_row(name, states.get(name, ComponentState()), nodes) for name in names]
    if form is OutputFormat.TABLE:
        kind = "hollow nodes" if local_cluster.hollow else str(local_cluster.underlay)
        typer.echo(
            f"cluster {local_cluster.name}: https://127.0.0.1:{local_cluster.port}, {kind}, state in {data}\n"
        )
    show_rows(HEADS, rows, form)
    return nodes is not None and all(row[1] in ("up", "Ready") for row in rows)


def _row(name: str, state: ComponentState, nodes: dict[str, str] | None) -> tuple[object, ...]:
    since = _age(time.time() - state.since) if state.since else ""
    if state.pid is None:
        return name, "down", "", "", state.restarts, since, state.ended or "starting"
    status, detail = "up", ""
    if name.startswith("node-"):
        status = (nodes or {}).get(name, "starting" if nodes is not None else "up")
    elif name == "apiserver" and nodes is None:
        status, detail = "starting", "not responding yet"
    return name, status, state.pid, _memory(state.pid), state.restarts, since, detail or state.ended


def _nodes(local_cluster: LocalCluster) -> dict[str, str] | None:
    """Ready or NotReady by node. None if the API server does not respond."""
    from alcove.api.errors import ApiError
    from alcove.cli.connection import ConnectionFailed
    from alcove.cli.session import CliSession
    from alcove.client.resources import NODES
    from alcove.processes.machine.readiness import is_ready

    try:
        found = CliSession(local_cluster.admin_kubeconfig).items(NODES)
    except (ApiError, ConnectionFailed):
        return None
    return {node["metadata"]["name"]: "Ready" if is_ready(node) else "NotReady" for node in found}


def _age(seconds: float) -> str:
    """The duration in its largest suitable unit."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def _memory(pid: int) -> str:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return ""
    return f"{pages * os.sysconf('SC_PAGE_SIZE') / 1e6:.0f} MB"
