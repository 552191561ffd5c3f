"""What was asked of a cluster, decided before anything is made: nodes, port, and whether nodes can be real."""

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
"""Where a cluster's state keeps which runtimes were proven."""


class ClusterNotUp(Exception):
    """The message says why, and what to do."""


class RequestedCluster(Struct, frozen=True, kw_only=True):
    """What a person asked for; None: as before, or the default."""

    name: str
    nodes: int | None = None
    port: int | None = None
    hollow: bool = False
    listen: tuple[str, ...] = ()
    log_level: Level | None = None
    log_format: Form | None = None


class ClusterDecision(Struct, frozen=True):
    cluster: LocalCluster
    lacking: Sequence[PreflightFinding] = ()
    """Why nodes, or tenants' pods on them, must be hollow though nobody asked for it."""


def decide(data: Path, wanted: RequestedCluster, is_up: bool) -> ClusterDecision:
    """Raises NotUp: what forbids it. Nothing has been changed then."""
    before = cluster.load(data)
    nodes = wanted.nodes if wanted.nodes is not None else before.nodes if before else 1
    if not 0 <= nodes <= NODES_MAX:
        raise ClusterNotUp(f"between 0 and {NODES_MAX} nodes fit on one machine; {nodes} were asked for")
    port = _port(wanted, before, is_up)
    directory = DataDirectory(data, port, is_up, data / TRIAL)
    for finding in preflight.lacking(preflight.look(directory, (preflight.state_folder, preflight.disk))):
        raise ClusterNotUp(f"{finding.detail}: {finding.fix}")
    found = [] if wanted.hollow else preflight.look(directory, preflight.NODE_CHECKS)
    lacking, without_tenants = preflight.lacking(found), preflight.without_tenants(found)
    is_hollow = wanted.hollow or bool(lacking)
    if is_up and before is not None and before.hollow != is_hollow:
        raise ClusterNotUp(_cannot_switch(before.hollow, lacking))
    asked = LocalCluster(
        data=data,
        name=wanted.name,
        number=before.number if before else cluster.first_number(data),
        port=port,
        nodes=nodes,
        hollow=is_hollow,
        hollow_tenants=bool(without_tenants) and not is_hollow and _may_pretend(before, is_up),
        listen=wanted.listen or (before.listen if before else ()),
        log_level=wanted.log_level or (before.log_level if before else Level.INFO),
        log_format=wanted.log_format or (before.log_format if before else Form.TEXT),
    )
    return ClusterDecision(asked, [*lacking, *without_tenants])


def _may_pretend(before: LocalCluster | None, is_up: bool) -> bool:
    """Tenants' pods that run in a cluster that is up do not become hollow because one trial failed."""
    return before is None or not is_up or before.hollow_tenants


def _cannot_switch(was_hollow: bool, lacking: Sequence[PreflightFinding]) -> str:
    if was_hollow:
        return "the cluster is up with hollow nodes; `alcove down` first, or `alcove up --hollow`"
    why = ", ".join(finding.name for finding in lacking)
    return f"the cluster is up with real nodes, which cannot become hollow{f' ({why})' if why else ''}; `alcove down` first"


def _port(wanted: RequestedCluster, before: LocalCluster | None, is_up: bool) -> int:
    """The one of before, or the one asked for, if it is free; else the first that is."""
    if is_up and before is not None:
        if wanted.port not in (None, before.port):
            raise ClusterNotUp(f"the cluster is up on port {before.port}; `alcove down` first")
        return before.port
    fixed = wanted.port if wanted.port is not None else before.port if before else None
    if fixed is not None:
        if (message := preflight.taken(fixed)) is not None:
            raise ClusterNotUp(
                f"port {fixed}: {message}; end what listens there, or `alcove up --port P` takes another"
            )
        return fixed
    for port in range(PORT, PORT + PORTS_TRIED):
        if preflight.taken(port) is None:
            return port
    last = PORT + PORTS_TRIED - 1
    raise ClusterNotUp(f"no port from {PORT} to {last} is free; `alcove up --port P` takes another")
