"""`alcove up`: starts this machine's cluster in the background. Every step is idempotent: the next run
completes one that was killed, and adds only missing parts to a cluster that is up.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from alcove.api.errors import ApiError
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object, get
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.auth.subjects import Subject
from alcove.apiserver.rbac.nodes import NODE_USER_PREFIX, NODES_GROUP
from alcove.cli.connection import ConnectionFailed
from alcove.cli.kubeconfig import KubeconfigCertificate, render
from alcove.cli.session import CliSession
from alcove.client.resources import NODES
from alcove.dataplane.errors import DataPlaneError
from alcove.processes.machine import (
    cleanup,
    cluster_numbers,
    encryption_key,
    preflight,
    readiness,
    supervisor_state,
    trial,
    underlay,
)
from alcove.processes.machine.cluster import BadCluster, LocalCluster, LocalNode
from alcove.processes.machine.cluster_request import TRIAL, ClusterNotUp, RequestedCluster, decide
from alcove.processes.machine.logs import last_lines
from alcove.processes.machine.progress import Progress

READY_SECONDS_MAX = 60.0
BUSY_SECONDS_MAX = 120.0
BUSY = "waiting: another `alcove up` or `down` is at work on this cluster"
POLL_SECONDS = 0.05
TRIES_MAX = 3
"""After this many exits of a process `up` fails instead of waiting."""

FRESH_SECONDS = 90 * 86400.0
"""An older kubeconfig is rewritten; certificates are valid for a year."""
T = TypeVar("T")


def start(data: Path, request: RequestedCluster, progress: Progress) -> LocalCluster:
    """Returns when all components are ready. Raises ClusterNotUp."""
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        (data / "logs").mkdir(exist_ok=True)
        with supervisor_state.at_work(data, BUSY_SECONDS_MAX, lambda: progress.say(BUSY)):
            return _start(data.resolve(), request, progress)
    except supervisor_state.AlreadyRunning as error:
        raise ClusterNotUp("timed out: another `alcove up` or `down` is at work on this cluster") from error
    except OSError as error:
        raise ClusterNotUp(explain(error, data)) from error
    except (BadCluster, cluster_numbers.NoFreeNumber, DataPlaneError, ApiError, ConnectionFailed) as error:
        raise ClusterNotUp(str(error)) from error


def explain(error: OSError, data: Path) -> str:
    """An error message that says what to do about an OSError."""
    message = f"{error.filename or data}: {error.strerror or error}"
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return f"{message}; free some space and run `alcove up` again, or choose another directory with --data"
        case errno.EROFS | errno.EACCES | errno.EPERM:
            return f"{message}; choose a writable directory with --data"
        case _:
            return message


def _start(data: Path, request: RequestedCluster, progress: Progress) -> LocalCluster:
    is_up = supervisor_state.holder(data) is not None
    decision = decide(data, request, is_up)
    cluster = decision.cluster
    progress.say(f"cluster {cluster.name} in {data}{' (already up)' if is_up else ''}")
    for finding in decision.lacking:
        progress.warn(f"  ! {finding.name}: {finding.detail}; to fix it: {finding.fix}")
    if cluster.hollow:
        progress.warn("  ! nodes are hollow: pods get states and addresses, but no processes")
    elif cluster.hollow_tenants:
        progress.warn(
            "  ! tenants' pods are hollow: they get states and addresses, but no processes; ring0's pods run"
        )
    cluster.save()
    if not cluster.hollow:
        cluster = _connect(cluster, progress)
    # Before the API server is up: agents have other work to do first.
    _issue_kubeconfigs(cluster)
    encryption_key.ensure(data)
    for node in () if cluster.hollow else cluster.all_nodes():
        trial.hand_over(data / TRIAL, node.directory / "runtimes")
    _supervise(data)
    session = _await_server(cluster, progress)
    readiness.release_dead(session)
    for name in ("controllers", "scheduler"):
        with progress.step(name) as step:
            _await_leader(cluster, name, session)
            step.detail = "leading"
    _remove_surplus_nodes(cluster, session)
    for node in cluster.all_nodes():
        with progress.step(node.name) as step:
            ready = _await_node(cluster, node, session)
            step.detail = f"ready ({', '.join(_runtimes(ready))})"
        if not cluster.hollow and (message := _degradation(cluster, node, _runtimes(ready))):
            progress.warn(f"  ! {message}")
    return cluster


def _connect(cluster: LocalCluster, progress: Progress) -> LocalCluster:
    with progress.step("underlay") as step:
        claimed = cluster_numbers.claim(cluster)
        if claimed != cluster:
            claimed.save()
        underlay.make(claimed)
        step.detail = f"{claimed.underlay}, one network namespace per node"
    return claimed


def _supervise(data: Path) -> None:
    """Starts the supervisor, or makes the running one read the configuration again."""
    if (pid := supervisor_state.holder(data)) is not None:
        os.kill(pid, signal.SIGHUP)
        return
    # The states of an earlier supervisor are stale.
    (data / "components.json").unlink(missing_ok=True)
    path = data / "logs" / "supervisor.log"
    with path.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "alcove.processes.supervisor", str(data)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )

    def started() -> bool | None:
        return True if supervisor_state.holder(data) is not None or process.poll() is not None else None

    _until("the supervisor to start", started)
    if process.poll() is not None:
        raise ClusterNotUp(f"the supervisor exited; {_tail(path)}")


# Waiting


def _await_server(cluster: LocalCluster, progress: Progress) -> CliSession:
    def respond() -> CliSession | None:
        _check_alive(cluster, "apiserver")
        return readiness.session_of(cluster)

    with progress.step("API server") as step:
        session = _until("the API server to respond", respond)
        step.detail = session.connection.server
    return session


def _await_leader(cluster: LocalCluster, name: str, session: CliSession) -> None:
    def leading() -> bool | None:
        state = _check_alive(cluster, name)
        return True if readiness.leads(session, name, state) else None

    _until(f"the {name} to become leader", leading, cluster.logs / f"{name}.log")


def _await_node(cluster: LocalCluster, node: LocalNode, session: CliSession) -> Object:
    def ready() -> Object | None:
        return readiness.node_ready(session, node.name, _check_alive(cluster, node.name))

    try:
        return _until(f"node {node.name} to be ready", ready, cluster.logs / f"{node.name}.log")
    except ClusterNotUp as error:
        raise ClusterNotUp(
            f"{error}; node condition: {readiness.why_not(session.find(NODES, node.name))}"
        ) from error


def _runtimes(node: Object) -> list[str]:
    """Names of the node's runtime handlers, or its container runtime version."""
    names = {each.get("name", "") for each in get(node, "status", "runtimeHandlers", default=[])} - {""}
    version = str(get(node, "status", "nodeInfo", "containerRuntimeVersion", default=""))
    return sorted(names) or [version]


def _degradation(cluster: LocalCluster, node: LocalNode, runtimes: Sequence[str]) -> str:
    """A warning if the node lacks a runtime that the preflight checks promised; empty if it does not."""
    log = cluster.logs / f"{node.name}.log"
    if cluster.hollow_tenants and "hollow" in runtimes:
        return ""  # Already reported before anything was started.
    if "hollow" in runtimes:
        return f"{node.name} is hollow although the preflight checks passed; see {log}"
    if shutil.which("runsc", path=preflight.PATH) and not {"gvisor", "runsc"} & set(runtimes):
        return (
            f"{node.name}: gVisor is installed but failed its trial, so tenants' pods cannot start; see {log}"
        )
    return ""


def _check_alive(cluster: LocalCluster, name: str) -> supervisor_state.ComponentState:
    """The component's state. Raises ClusterNotUp if it keeps exiting."""
    state = supervisor_state.states(cluster.data).get(name, supervisor_state.ComponentState())
    if state.restarts >= TRIES_MAX and state.pid is None:
        raise ClusterNotUp(f"{name} failed to start ({state.ended}); {_tail(cluster.logs / f'{name}.log')}")
    return state


def _until(description: str, check: Callable[[], T | None], log: Path | None = None) -> T:
    """The first result of `check` that is not None. Raises ClusterNotUp on timeout."""
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline:
        if (result := check()) is not None:
            return result
        time.sleep(POLL_SECONDS)
    where = f"; {_tail(log)}" if log else ""
    raise ClusterNotUp(f"timed out after {READY_SECONDS_MAX:.0f} s waiting for {description}{where}")


def _tail(path: Path) -> str:
    message = "\n  ".join(last_lines(path, 3))
    return f"{path} ends with:\n  {message}" if message else f"see {path}"


def _remove_surplus_nodes(cluster: LocalCluster, session: CliSession) -> None:
    """Removes nodes of an earlier, larger cluster."""
    desired = {node.name for node in cluster.all_nodes()}
    for directory in (cluster.data / "nodes").glob("node-*"):
        if directory.name not in desired and directory.name[5:].isdigit():
            if session.find(NODES, directory.name) is not None:
                session.delete(NODES, directory.name)
            cleanup.forget_node(cluster, cluster.node(int(directory.name[5:])))


def _server_url(cluster: LocalCluster) -> str:
    """URL of the API server for nodes."""
    return f"https://{'127.0.0.1' if cluster.hollow else cluster.gateway}:{cluster.port}"


def _issue_kubeconfigs(cluster: LocalCluster) -> None:
    """Writes each local node's kubeconfig if it is missing, old, or names another server. Certificates are
    signed by the cluster's CA directly; a node on another machine requests its own (`alcove node join`)."""
    due = [node for node in cluster.all_nodes() if _is_kubeconfig_due(cluster, node)]
    if not due:
        return
    authority = CertificateAuthority.open(cluster.data / "pki", time.time())
    for node in due:
        user = f"{NODE_USER_PREFIX}{node.name}"
        issued = authority.client(Subject(SYSTEM, user, (NODES_GROUP,)), time.time())
        credential = KubeconfigCertificate(issued.certificate_pem, issued.key_pem)
        text = render(_server_url(cluster), authority.certificate_pem, SYSTEM, user, credential)
        node.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write_kubeconfig(node.kubeconfig, text)


def _is_kubeconfig_due(cluster: LocalCluster, node: LocalNode) -> bool:
    try:
        age = time.time() - node.kubeconfig.stat().st_mtime
        return age > FRESH_SECONDS or f"server: {_server_url(cluster)}/" not in node.kubeconfig.read_text()
    except FileNotFoundError:
        return True


def _write_kubeconfig(path: Path, text: str) -> None:
    """Writes the file atomically: the agent starts when it exists."""
    temporary = path.with_suffix(".new")
    temporary.touch(mode=0o600)
    temporary.write_text(text)
    temporary.replace(path)
