"""`alcove down` and `alcove destroy`: the cluster of this machine stops, or is gone.

Down is to the nodes what pulling the plug is: their pods' processes, mounts, namespaces and programs end, the
records on disk stay, and `up` starts the pods again. Destroy removes those too.
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
"""What there can be before a cluster has a `cluster.json`."""


def stop(data: Path) -> bool:
    """Ends everything that runs of the cluster, and what it has in the kernel; returns whether it was up.
    Raises NotUp if that is not possible."""
    if not data.is_dir():
        return False
    data = data.resolve()
    try:
        with supervisor_state.at_work(data, BUSY_SECONDS_MAX):
            return _stop(data)
    except supervisor_state.AlreadyRunning as error:
        raise ClusterNotUp(
            "`alcove up` is at work on this cluster; wait for it, or end it (Ctrl-C) first"
        ) from error


def _stop(data: Path) -> bool:
    was_up = _end_supervisor(data)
    _end_orphans(data)
    for found in _found(data):
        _unplug(found)
    return was_up


def _found(data: Path) -> list[LocalCluster]:
    """The cluster there, if it has something in the kernel; what it once was too, by the claims it holds."""
    held = {each.number: each for each in cluster_numbers.held_by(data)}
    try:
        asked = cluster.load(data)
    except BadCluster:
        asked = None
    if asked is not None and not asked.hollow:
        held[asked.number] = asked
    return list(held.values())


def _end_supervisor(data: Path) -> bool:
    pid = supervisor_state.holder(data)
    if pid is None:
        return False
    known = [state.pid for state in supervisor_state.states(data).values() if state.pid]
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS_MAX
    while supervisor_state.holder(data) is not None:
        if time.monotonic() > deadline:
            # It does not listen any more. Its children end with it: they asked the kernel to be told.
            for each in (pid, *known):
                _kill(each)
            time.sleep(0.1)
        time.sleep(0.02)
    return True


def _end_orphans(data: Path) -> None:
    """Processes whose supervisor was killed: they were told to end, and have a moment for it."""
    deadline = time.monotonic() + ORPHAN_SECONDS_MAX
    pids = [state.pid for state in supervisor_state.states(data).values() if state.pid]
    while left := [pid for pid in pids if _works_in(pid, data)]:
        if time.monotonic() > deadline:
            for pid in left:
                _kill(pid)
        time.sleep(0.05)


def _works_in(pid: int, data: Path) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"alcove" in words and os.fsencode(data) in words


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _unplug(found: LocalCluster) -> None:
    if os.geteuid() != 0:
        if found.run.exists():
            raise ClusterNotUp("what its nodes have in the kernel is root's; run it with sudo")
        return
    cleanup.sweep(found)
    underlay.remove(found)
    cluster_numbers.release(found)


def destroy(data: Path) -> bool:
    """The cluster and its state are gone; returns whether there was any. Clusters below the folder stay."""
    if not data.is_dir():
        return False
    if not (data / "cluster.json").exists() and not {each.name for each in data.iterdir()} <= CLUSTER_FILES:
        if any((each / "cluster.json").exists() for each in data.iterdir()):
            return False  # Only clusters with names are below it.
        raise ClusterNotUp(f"{data} is not the folder of a cluster; nothing was removed")
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
