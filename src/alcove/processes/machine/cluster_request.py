"""Decides a requested cluster's nodes, port, and whether nodes can be real, before anything is created."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from alcove.component.logs import Form, Level
from alcove.processes.machine import cluster, preflight
from alcove.processes.machine.cluster import NODES_MAX, LocalCluster
from alcove.processes.machine.preflight import DataDirectory, PreflightFinding

PORT = 6443
PORTS_TRIED = 50
TRIAL = "trial"
"""Subdirectory with the proven runtimes."""


class ClusterNotUp(Exception):
    """The message says why, and what to do."""


class RequestedCluster(Struct, frozen=True, kw_only=True):
    """The user's request. None means unchanged, or the default for a new cluster."""

    name: str
    nodes: int | None = None
    port: int | None = None
    hollow: bool = False
    listen: tuple[str, ...] = ()
    insecure_registries: tuple[str, ...] = ()
    usage_interval_seconds: int | None = None
    log_level: Level | None = None
    log_format: Form | None = None


class ClusterDecision(Struct, frozen=True):
    cluster: LocalCluster
    lacking: Sequence[PreflightFinding] = ()
    """Why nodes, or tenants' pods on them, are hollow without being requested."""


def decide(data: Path, request: RequestedCluster, is_up: bool) -> ClusterDecision:
    """Decides the cluster's configuration. Raises ClusterNotUp; nothing has been changed then."""
    before = cluster.load(data)
    nodes = request.nodes if request.nodes is not None else before.nodes if before else 1
    if not 0 <= nodes <= NODES_MAX:
        raise ClusterNotUp(f"invalid number of nodes {nodes}: must be between 0 and {NODES_MAX}")
    port = _port(request, before, is_up)
    directory = DataDirectory(data, port, is_up, data / TRIAL)
    for finding in preflight.lacking(preflight.look(directory, (preflight.state_directory, preflight.disk))):
        raise ClusterNotUp(f"{finding.detail}: {finding.fix}")
    found = [] if request.hollow else preflight.look(directory, preflight.NODE_CHECKS)
    lacking, without_tenants = preflight.lacking(found), preflight.without_tenants(found)
    is_hollow = request.hollow or bool(lacking)
    if is_up and before is not None and before.hollow != is_hollow:
        raise ClusterNotUp(_cannot_switch(before.hollow, lacking))
    decided = LocalCluster(
        data=data,
        name=request.name,
        number=before.number if before else cluster.first_number(data),
        port=port,
        nodes=nodes,
        hollow=is_hollow,
        hollow_tenants=bool(without_tenants) and not is_hollow and _may_be_hollow(before, is_up),
        listen=request.listen or (before.listen if before else ()),
        insecure_registries=request.insecure_registries or (before.insecure_registries if before else ()),
        usage_interval_seconds=request.usage_interval_seconds
        or (before.usage_interval_seconds if before else None),
        log_level=request.log_level or (before.log_level if before else Level.INFO),
        log_format=request.log_format or (before.log_format if before else Form.TEXT),
    )
    return ClusterDecision(decided, [*lacking, *without_tenants])


def _may_be_hollow(before: LocalCluster | None, is_up: bool) -> bool:
    """Running tenants' pods do not become hollow because one trial failed."""
    return before is None or not is_up or before.hollow_tenants


def _cannot_switch(was_hollow: bool, lacking: Sequence[PreflightFinding]) -> str:
    if was_hollow:
        return "the cluster is up with hollow nodes; run `alcove down` first, or use --hollow"
    why = ", ".join(finding.name for finding in lacking)
    return f"the cluster is up with real nodes, which cannot become hollow{f' ({why})' if why else ''}; run `alcove down` first"


def _port(request: RequestedCluster, before: LocalCluster | None, is_up: bool) -> int:
    """The requested or previous port if it is free; the first free port for a new cluster."""
    if is_up and before is not None:
        if request.port not in (None, before.port):
            raise ClusterNotUp(f"the cluster is up on port {before.port}; run `alcove down` first")
        return before.port
    fixed = request.port if request.port is not None else before.port if before else None
    if fixed is not None:
        if (message := preflight.taken(fixed)) is not None:
            raise ClusterNotUp(
                f"port {fixed}: {message}; stop the process that uses it, or choose another with --port"
            )
        return fixed
    for port in range(PORT, PORT + PORTS_TRIED):
        if preflight.taken(port) is None:
            return port
    last = PORT + PORTS_TRIED - 1
    raise ClusterNotUp(f"no port from {PORT} to {last} is free; choose another with --port")
