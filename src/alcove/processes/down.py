"""`alcove down` and `alcove destroy`: stop or remove this machine's cluster.

Down is like a power cut for the nodes: the pods' processes, mounts, namespaces and BPF programs are removed,
the records on disk stay, and `up` starts the pods again. Destroy removes the records too.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

from alcove.processes.machine import cleanup, cluster, cluster_numbers, supervisor_state, underlay
from alcove.processes.machine.cluster import BadCluster, LocalCluster
from alcove.processes.machine.cluster_request import ClusterNotUp

STOP_SECONDS_MAX = 45.0
BUSY_SECONDS_MAX = 3.0
ORPHAN_SECONDS_MAX = 5.0
CLUSTER_FILES = frozenset(
    ("cluster.json", "cluster.new", "up.lock", "supervisor.lock", "components.json", "logs")
)
"""Files that can exist before `cluster.json` is written."""


def stop(data: Path) -> bool:
    """Stops the cluster's processes and removes its kernel objects; returns whether it was up.
    Raises ClusterNotUp if another command is working on it, or root is required."""
    if not data.is_dir():
        return False
    data = data.resolve()
    try:
        with supervisor_state.at_work(data, BUSY_SECONDS_MAX):
            return _stop(data)
    except supervisor_state.AlreadyRunning as error:
        raise ClusterNotUp(
            "another `alcove up` or `down` is at work on this cluster; wait for it, or interrupt it (Ctrl-C)"
        ) from error


def _stop(data: Path) -> bool:
    was_up = _stop_supervisor(data)
    _stop_orphans(data)
    for cluster_ in _clusters_in_kernel(data):
        _remove_from_kernel(cluster_)
    return was_up


def _clusters_in_kernel(data: Path) -> list[LocalCluster]:
    """The cluster, if it has kernel objects, and its earlier identities, according to the claims it holds."""
    held = {each.number: each for each in cluster_numbers.held_by(data)}
    try:
        current = cluster.load(data)
    except BadCluster:
        current = None
    if current is not None and not current.hollow:
        held[current.number] = current
    return list(held.values())


def _stop_supervisor(data: Path) -> bool:
    pid = supervisor_state.holder(data)
    if pid is None:
        return False
    children = [state.pid for state in supervisor_state.states(data).values() if state.pid]
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS_MAX
    while supervisor_state.holder(data) is not None:
        if time.monotonic() > deadline:
            # It does not react to SIGTERM. Its children get SIGTERM from the kernel (PR_SET_PDEATHSIG).
            for each in (pid, *children):
                _kill(each)
            time.sleep(0.1)
        time.sleep(0.02)
    return True


def _stop_orphans(data: Path) -> None:
    """Waits for processes whose supervisor was killed, then kills them: the kernel has sent them SIGTERM."""
    deadline = time.monotonic() + ORPHAN_SECONDS_MAX
    pids = [state.pid for state in supervisor_state.states(data).values() if state.pid]
    while remaining := [pid for pid in pids if _works_in(pid, data)]:
        if time.monotonic() > deadline:
            for pid in remaining:
                _kill(pid)
        time.sleep(0.05)


def _works_in(pid: int, data: Path) -> bool:
    try:
        command_line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"alcove" in command_line and os.fsencode(data) in command_line


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _remove_from_kernel(cluster_: LocalCluster) -> None:
    if os.geteuid() != 0:
        if cluster_.run.exists():
            raise ClusterNotUp("removing the nodes' network and mounts requires root; run it with sudo")
        return
    cleanup.sweep(cluster_)
    underlay.remove(cluster_)
    cluster_numbers.release(cluster_)


def destroy(data: Path) -> bool:
    """Removes the cluster and its state; returns whether there was one. Clusters in subdirectories stay."""
    if not data.is_dir():
        return False
    if not (data / "cluster.json").exists() and not {each.name for each in data.iterdir()} <= CLUSTER_FILES:
        if any((each / "cluster.json").exists() for each in data.iterdir()):
            return False  # It only contains named clusters.
        raise ClusterNotUp(f"{data} is not a cluster's directory; nothing was removed")
    stop(data)
    for each in list(data.iterdir()):
        if each.is_dir() and not each.is_symlink():
            if not (each / "cluster.json").exists():
                shutil.rmtree(each)
        else:
            each.unlink()
    if not any(data.iterdir()):
        data.rmdir()
    return True
