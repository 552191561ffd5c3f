"""Removes what a cluster's nodes left on this machine, as a reboot would: processes, mounts, cgroups,
namespaces, BPF pins. Everything is found by name, so that it works after any kill; idempotent.

Only files survive: the pods' records, from which the next agent starts them again.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from alcove.agent.cgroups import Cgroups
from alcove.dataplane import namespaces
from alcove.processes.machine import mounts
from alcove.processes.machine.cluster import LocalCluster, LocalNode
from alcove.processes.nodes import reboots

GROUP = "/alcove"
RUNTIMES = ("conmon", "crun", "runc", "runsc", "slirp", "python")
"""Programs that nodes start. Others with a node's directory in their arguments (an editor, `tail`) are
spared."""
ROUNDS_MAX = 50
CANARY = "alcove-canary-"


def sweep(cluster: LocalCluster) -> None:
    """Removes everything of all nodes. Raises OSError if something cannot be removed; the message names
    it."""
    instances = _instances(cluster)
    _kill_groups(instances)
    _kill_programs(cluster.data / "nodes", cluster.run)
    if str(cluster.bpf) in mounts.mounted():
        for pinned in cluster.bpf.iterdir():
            shutil.rmtree(pinned, ignore_errors=True)
    mounts.unmount_below(cluster.data / "nodes", cluster.run)
    _remove_namespaces(instances)
    _remove_canaries()
    _remove_groups(instances)
    shutil.rmtree(cluster.bpf, ignore_errors=True)
    for folder in (cluster.data / "nodes").glob("node-*"):
        reboots.forget(folder / "runtimes")


def forget_node(cluster: LocalCluster, node: LocalNode) -> None:
    """Removes one node of a running cluster with its state. Its agent must have exited."""
    if not cluster.hollow:
        clear(node.directory, node.instance)
        shutil.rmtree(cluster.bpf / f"alcove-{node.instance}", ignore_errors=True)
        namespaces.remove(node.namespace)
    shutil.rmtree(node.directory, ignore_errors=True)


def clear(folder: Path, instance: str) -> None:
    """Removes one node's processes, mounts, namespaces and cgroups."""
    _kill_groups([instance])
    _kill_programs(folder)
    mounts.unmount_below(folder)
    _remove_namespaces([instance])
    _remove_groups([instance])


def _remove_namespaces(instances: Iterable[str]) -> None:
    for instance in instances:
        for name in namespaces.names(f"alcove-{instance}-"):
            namespaces.remove(name)


def _remove_canaries() -> None:
    """Removes canary namespaces of agents that were killed; the name ends with the agent's pid."""
    for name in namespaces.names(CANARY):
        if not Path("/proc", name.removeprefix(CANARY)).exists():
            namespaces.remove(name)


def _instances(cluster: LocalCluster) -> list[str]:
    """Instances of all nodes the cluster has or had: it may have had more nodes before."""
    folders = (cluster.data / "nodes").glob("node-*")
    numbers = {int(each.name.removeprefix("node-")) for each in folders if each.name[5:].isdigit()}
    return [cluster.node(number).instance for number in sorted(numbers | set(range(1, cluster.nodes + 1)))]


def _kill_groups(instances: Iterable[str]) -> None:
    groups = Cgroups.of_machine()
    for instance in instances:
        groups.kill(f"{GROUP}/{instance}")


def _remove_groups(instances: Iterable[str]) -> None:
    groups = Cgroups.of_machine()
    for instance in instances:
        for _ in range(ROUNDS_MAX):
            if groups.remove(f"{GROUP}/{instance}"):
                break
            groups.kill(f"{GROUP}/{instance}")
            time.sleep(0.02)
    groups.remove_if_empty(GROUP)


def _kill_programs(*folders: Path) -> None:
    """Kills processes outside the cgroups: the containers' monitors."""
    for _ in range(ROUNDS_MAX):
        pids = programs_of(*folders)
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)


def programs_of(*folders: Path) -> list[int]:
    """Pids of processes that nodes started, found by program and a directory in their arguments."""
    prefixes = tuple(os.fsencode(folder) + b"/" for folder in folders)
    pids = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # The process has exited meanwhile.
        program = arguments[0].rpartition(b"/")[2].decode(errors="replace")
        if program.startswith(RUNTIMES) and any(
            prefix in argument for argument in arguments[1:] for prefix in prefixes
        ):
            pids.append(int(entry.name))
    return pids
