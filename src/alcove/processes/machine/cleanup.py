"""Takes away what a cluster's nodes left on this machine, as a reboot would: processes, mounts, control
groups, namespaces, BPF pins. By names alone, so that it works after any kill; idempotent.

What survives is on disk: the pods' records, from which the next agent starts them again.
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
"""Programs that nodes start; others that name a node's folder (an editor, `tail`) are people's."""
ROUNDS_MAX = 50
CANARY = "alcove-canary-"


def sweep(cluster: LocalCluster) -> None:
    """Raises OSError: something does not go; the message names it."""
    instances = _instances(cluster)
    _end_groups(instances)
    _end_programs(cluster.data / "nodes", cluster.run)
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
    """One node of a cluster that is up, with its state: its agent must have ended."""
    if not cluster.hollow:
        clear(node.folder, node.instance)
        shutil.rmtree(cluster.bpf / f"alcove-{node.instance}", ignore_errors=True)
        namespaces.remove(node.namespace)
    shutil.rmtree(node.folder, ignore_errors=True)


def clear(folder: Path, instance: str) -> None:
    """What one node has of processes, mounts, namespaces and control groups."""
    _end_groups([instance])
    _end_programs(folder)
    mounts.unmount_below(folder)
    _remove_namespaces([instance])
    _remove_groups([instance])


def _remove_namespaces(instances: Iterable[str]) -> None:
    for instance in instances:
        for name in namespaces.names(f"alcove-{instance}-"):
            namespaces.remove(name)


def _remove_canaries() -> None:
    """Namespaces in which an agent tried its runtimes, and was killed meanwhile; they have its number."""
    for name in namespaces.names(CANARY):
        if not Path("/proc", name.removeprefix(CANARY)).exists():
            namespaces.remove(name)


def _instances(cluster: LocalCluster) -> list[str]:
    """Of every node it may ever have had: how many it has now says nothing of before."""
    folders = (cluster.data / "nodes").glob("node-*")
    numbers = {int(each.name.removeprefix("node-")) for each in folders if each.name[5:].isdigit()}
    return [cluster.node(number).instance for number in sorted(numbers | set(range(1, cluster.nodes + 1)))]


def _end_groups(instances: Iterable[str]) -> None:
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
    if not groups.children(GROUP):
        groups.remove(GROUP)


def _end_programs(*folders: Path) -> None:
    """Those outside the groups: what watches over containers."""
    for _ in range(ROUNDS_MAX):
        found = programs_of(*folders)
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)


def programs_of(*folders: Path) -> list[int]:
    """Processes that nodes started: by what they are, and whose folder they work in."""
    marks = tuple(os.fsencode(folder) + b"/" for folder in folders)
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # Gone meanwhile.
        program = words[0].rpartition(b"/")[2].decode(errors="replace")
        if program.startswith(RUNTIMES) and any(mark in word for word in words[1:] for mark in marks):
            found.append(int(entry.name))
    return found
