"""The verbs for the cluster of this machine: `up`, `down`, `status`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alcove.cli.failures import Code, fail
from alcove.cli.places import default_data

DataOption = Annotated[
    Path | None, typer.Option("--data", help="Directory of the cluster's state [~/.local/state/alcove].")
]


def up(data: DataOption = None, port: Annotated[int, typer.Option(help="Port of the API.")] = 6443) -> None:
    """Start this machine's cluster in the background, and say how to reach it."""
    from alcove.processes import up as cluster

    place = data or default_data()
    try:
        started = cluster.start(place, port)
    except cluster.NotUp as error:
        raise fail(str(error)) from error
    typer.echo("up" if started else "already up")
    cluster.describe(place)


def down(data: DataOption = None) -> None:
    """Stop this machine's cluster; its state stays."""
    from alcove.processes import up as cluster

    try:
        stopped = cluster.stop(data or default_data())
    except cluster.NotUp as error:
        raise fail(str(error)) from error
    typer.echo("down" if stopped else "was not up")


def status(data: DataOption = None) -> None:
    """Show what of this machine's cluster runs; exits with 3 if nothing does."""
    from alcove.processes import up as cluster

    found = cluster.running(data or default_data())
    for name, pid in found.items():
        typer.echo(f"{name:14}{pid}")
    if not found:
        raise fail("not up; `alcove up` starts it", Code.UNREACHABLE)
