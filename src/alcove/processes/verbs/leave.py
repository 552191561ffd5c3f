"""The command `alcove node leave`: undoes `alcove node join`."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from alcove.cli.errors import CliError, exit_on_error
from alcove.cli.node import DEFAULT_DATA, DataOption

if TYPE_CHECKING:
    from alcove.cli.enrolment import JoinedNode


def leave(data: DataOption = DEFAULT_DATA) -> None:
    """Remove the joined node from this machine with all its state; stop its agent first."""
    import shutil

    from alcove.cli.enrolment import JoinedNode

    with exit_on_error():
        joined = JoinedNode.load(data)
        if pid := _agent(data):
            raise CliError(f"the node's agent is running (pid {pid}); stop it first")
        if joined.underlay:
            _clear(joined, data.resolve())
        shutil.rmtree(data)
        typer.echo(f"node/{joined.name} removed from this machine")
        typer.echo(
            f"run `kubectl delete node {joined.name}` on {joined.server} to remove it from the cluster",
            err=True,
        )


def _agent(data: Path) -> int | None:
    """The pid of the agent that uses the directory. None if there is none."""
    directories = {str(data), str(data.resolve())}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_text(errors="replace").split("\0")
        except OSError:
            continue  # The process has exited meanwhile.
        data_directories = {after for argument, after in pairwise(arguments) if argument == "--data"}
        if "agent" in arguments and data_directories & directories:
            return int(entry.name)
    return None


def _clear(joined: JoinedNode, data: Path) -> None:
    """Removes the node's processes, mounts, namespaces and data plane."""
    import os

    from alcove.dataplane import instance
    from alcove.processes.agent import instance_of
    from alcove.processes.machine import cleanup

    if os.geteuid() != 0:
        raise CliError("removing the node's network and mounts requires root; run it with sudo")
    name = instance_of(joined.name)
    cleanup.clear(data, name)
    instance.remove(name, joined.underlay)
