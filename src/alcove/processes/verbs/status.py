"""What `alcove status` tells: the processes, how long they have been there, and whether nodes are ready."""

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
    """Shows it; returns whether everything works. Raises Failure: the cluster is down."""
    try:
        asked = cluster.load(data)
    except BadCluster as error:
        raise CliError(str(error)) from error
    if asked is None or supervisor_state.holder(data) is None:
        raise CliError("not up; `alcove up` starts it", ExitCode.UNREACHABLE)
    nodes = _nodes(asked)
    states = supervisor_state.states(data)
    wanted = ["apiserver", "controllers", "scheduler", *(node.name for node in asked.all_nodes())]
    rows = [_row(name, states.get(name, ComponentState()), nodes) for name in wanted]
    if form is OutputFormat.TABLE:
        kind = "hollow nodes" if asked.hollow else str(asked.underlay)
        typer.echo(f"cluster {asked.name}: https://127.0.0.1:{asked.port}, {kind}, state in {data}\n")
    show_rows(HEADS, rows, form)
    return nodes is not None and all(row[1] in ("up", "Ready") for row in rows)


def _row(name: str, state: ComponentState, nodes: dict[str, str] | None) -> tuple[object, ...]:
    since = _age(time.time() - state.since) if state.since else ""
    if state.pid is None:
        return name, "down", "", "", state.restarts, since, state.ended or "starts"
    shown, detail = "up", ""
    if name.startswith("node-"):
        shown = (nodes or {}).get(name, "starting" if nodes is not None else "up")
    elif name == "apiserver" and nodes is None:
        shown, detail = "starting", "does not answer yet"
    return name, shown, state.pid, _memory(state.pid), state.restarts, since, detail or state.ended


def _nodes(asked: LocalCluster) -> dict[str, str] | None:
    """Each node's condition; None: the API does not answer."""
    from alcove.api.errors import ApiError
    from alcove.cli.connection import ConnectionFailed
    from alcove.cli.session import CliSession
    from alcove.client.resources import NODES
    from alcove.processes.machine.readiness import is_ready

    try:
        found = CliSession(asked.admin_kubeconfig).items(NODES)
    except (ApiError, ConnectionFailed):
        return None
    return {node["metadata"]["name"]: "Ready" if is_ready(node) else "NotReady" for node in found}


def _age(seconds: float) -> str:
    """In one unit, for the eye."""
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
