"""`alcove up`: the cluster of this machine, in the background. Every step may be done again: a run that was
killed is finished by the next one, and a cluster that is up is only given what it lacks.
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
from alcove.api.objects import Object, get
from alcove.cli.connection import ConnectionFailed
from alcove.cli.session import CliSession
from alcove.client.resources import NODES
from alcove.dataplane.errors import DataPlaneError
from alcove.processes.machine import (
    cleanup,
    cluster_numbers,
    node_kubeconfigs,
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
BUSY = "another `alcove up` or `down` is at work on this cluster"
POLL_SECONDS = 0.05
TRIES_MAX = 3
"""A process that ended this often does not come up by waiting."""

T = TypeVar("T")


def start(data: Path, wanted: RequestedCluster, progress: Progress) -> LocalCluster:
    """Returns when every part works. Raises NotUp."""
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        (data / "logs").mkdir(exist_ok=True)
        with supervisor_state.at_work(data, BUSY_SECONDS_MAX, lambda: progress.say(BUSY)):
            return _start(data.resolve(), wanted, progress)
    except supervisor_state.AlreadyRunning as error:
        raise ClusterNotUp(f"{BUSY}, and does not end") from error
    except OSError as error:
        raise ClusterNotUp(explained(error, data)) from error
    except (BadCluster, cluster_numbers.NoFreeNumber, DataPlaneError, ApiError, ConnectionFailed) as error:
        raise ClusterNotUp(str(error)) from error


def explained(error: OSError, data: Path) -> str:
    """What to do about a failure of the machine's."""
    what = f"{error.filename or data}: {error.strerror or error}"
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return f"{what}; free some space and `alcove up` again, or name another folder with --data"
        case errno.EROFS | errno.EACCES | errno.EPERM:
            return f"{what}; name a folder that can be written with --data"
        case _:
            return what


def _start(data: Path, wanted: RequestedCluster, progress: Progress) -> LocalCluster:
    is_up = supervisor_state.holder(data) is not None
    decision = decide(data, wanted, is_up)
    asked = decision.cluster
    progress.say(f"cluster {asked.name} in {data}{' (already up)' if is_up else ''}")
    for finding in decision.lacking:
        progress.warn(f"  ! {finding.name}: {finding.detail}; to mend it: {finding.fix}")
    if asked.hollow:
        progress.warn("  ! nodes are hollow: pods get states and addresses, but nothing really runs")
    elif asked.hollow_tenants:
        progress.warn("  ! ring0's pods run; tenants' pods are hollow: they get states and addresses only")
    asked.save()
    if not asked.hollow:
        asked = _connect(asked, progress)
    # Before the API server is there: agents have other things to see to first.
    node_kubeconfigs.issue(asked)
    for node in () if asked.hollow else asked.all_nodes():
        trial.hand_over(data / TRIAL, node.folder / "runtimes")
    _supervise(data)
    session = _await_server(asked, progress)
    readiness.release_dead(session)
    for name in ("controllers", "scheduler"):
        with progress.step(name) as step:
            _await_leader(asked, name, session)
            step.detail = "leading"
    _drop_surplus(asked, session)
    for node in asked.all_nodes():
        with progress.step(node.name) as step:
            ready = _await_node(asked, node, session)
            step.detail = f"ready ({', '.join(_runtimes(ready))})"
        if not asked.hollow and (message := _weakness(asked, node, _runtimes(ready))):
            progress.warn(f"  ! {message}")
    return asked


def _connect(asked: LocalCluster, progress: Progress) -> LocalCluster:
    with progress.step("underlay") as step:
        claimed = cluster_numbers.claim(asked)
        if claimed != asked:
            claimed.save()
        underlay.make(claimed)
        step.detail = f"{claimed.underlay}, each node a network namespace"
    return claimed


def _supervise(data: Path) -> None:
    """Starts the supervisor, or tells the one that runs what is asked now."""
    if (pid := supervisor_state.holder(data)) is not None:
        os.kill(pid, signal.SIGHUP)
        return
    # What an earlier supervisor knew is no news.
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

    def decided() -> bool | None:
        return True if supervisor_state.holder(data) is not None or process.poll() is not None else None

    _until("the supervisor holds the cluster", decided)
    if process.poll() is not None:
        raise ClusterNotUp(f"the supervisor ended at once; {_tail(path)}")


# Waiting


def _await_server(asked: LocalCluster, progress: Progress) -> CliSession:
    def answering() -> CliSession | None:
        _check_alive(asked, "apiserver")
        return readiness.session_of(asked)

    with progress.step("API server") as step:
        session = _until("the API server answers", answering)
        step.detail = session.connection.server
    return session


def _await_leader(asked: LocalCluster, name: str, session: CliSession) -> None:
    def leading() -> bool | None:
        state = _check_alive(asked, name)
        return True if readiness.leads(session, name, state) else None

    _until(f"the {name} works", leading, asked.logs / f"{name}.log")


def _await_node(asked: LocalCluster, node: LocalNode, session: CliSession) -> Object:
    def ready() -> Object | None:
        return readiness.node_ready(session, node.name, _check_alive(asked, node.name))

    try:
        return _until(f"{node.name} is ready", ready, asked.logs / f"{node.name}.log")
    except ClusterNotUp as error:
        raise ClusterNotUp(
            f"{error}; it says: {readiness.why_not(session.find(NODES, node.name))}"
        ) from error


def _runtimes(node: Object) -> list[str]:
    """What a node runs pods with."""
    names = {each.get("name", "") for each in get(node, "status", "runtimeHandlers", default=[])} - {""}
    version = str(get(node, "status", "nodeInfo", "containerRuntimeVersion", default=""))
    return sorted(names) or [version]


def _weakness(asked: LocalCluster, node: LocalNode, runtimes: Sequence[str]) -> str:
    """A node that turned out to be less than this machine promised; empty: it did not."""
    log = asked.logs / f"{node.name}.log"
    if asked.hollow_tenants and "hollow" in runtimes:
        return ""  # It was said before anything was made.
    if "hollow" in runtimes:
        return f"{node.name} is hollow: it could not do what the machine can; see {log}"
    if shutil.which("runsc", path=preflight.PATH) and not {"gvisor", "runsc"} & set(runtimes):
        return (
            f"{node.name}: gVisor is installed but failed its trial, so tenants' pods do not start; see {log}"
        )
    return ""


def _check_alive(asked: LocalCluster, name: str) -> supervisor_state.ComponentState:
    """What is known of the component. Raises NotUp if it ends again and again."""
    state = supervisor_state.states(asked.data).get(name, supervisor_state.ComponentState())
    if state.restarts >= TRIES_MAX and state.pid is None:
        raise ClusterNotUp(f"{name} does not start ({state.ended}); {_tail(asked.logs / f'{name}.log')}")
    return state


def _until(what: str, check: Callable[[], T | None], log: Path | None = None) -> T:
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline:
        if (answer := check()) is not None:
            return answer
        time.sleep(POLL_SECONDS)
    where = f"; {_tail(log)}" if log else ""
    raise ClusterNotUp(f"{what}: not so after {READY_SECONDS_MAX:.0f} s{where}")


def _tail(path: Path) -> str:
    message = "\n  ".join(last_lines(path, 3))
    return f"{path} ends with:\n  {message}" if message else f"see {path}"


def _drop_surplus(asked: LocalCluster, session: CliSession) -> None:
    """Nodes that were asked for once and are not any more."""
    wanted = {node.name for node in asked.all_nodes()}
    for folder in (asked.data / "nodes").glob("node-*"):
        if folder.name not in wanted and folder.name[5:].isdigit():
            if session.find(NODES, folder.name) is not None:
                session.delete(NODES, folder.name)
            cleanup.forget_node(asked, asked.node(int(folder.name[5:])))
