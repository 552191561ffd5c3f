"""The verb `alcove node leave`: the way back from `alcove node join`."""

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
    """Take everything of the node off this machine, which is to be no node any more; stop its agent first."""
    import shutil

    from alcove.cli.enrolment import JoinedNode

    with exit_on_error():
        joined = JoinedNode.load(data)
        if pid := _agent(data):
            raise CliError(f"its agent is running (pid {pid}); stop it first")
        if joined.underlay:
            _clear(joined, data.resolve())
        shutil.rmtree(data)
        typer.echo(f"node {joined.name} has left {joined.server}")
        typer.echo(f"there, `kubectl delete node {joined.name}` makes the cluster forget it", err=True)


def _agent(data: Path) -> int | None:
    """The agent that works in the folder."""
    folders = {str(data), str(data.resolve())}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_text(errors="replace").split("\0")
        except OSError:
            continue  # Gone meanwhile.
        given = {after for word, after in pairwise(words) if word == "--data"}
        if "agent" in words and given & folders:
            return int(entry.name)
    return None


def _clear(joined: JoinedNode, data: Path) -> None:
    """What a node that runs pods has in the kernel."""
    import os

    from alcove.dataplane import instance
    from alcove.processes.agent import instance_of
    from alcove.processes.machine import cleanup

    if os.geteuid() != 0:
        raise CliError("what the node has in the kernel is root's; run it with sudo")
    own = instance_of(joined.name)
    cleanup.clear(data, own)
    instance.remove(own, joined.underlay)
