"""The `alcove` command: the list of all verbs. Heavy imports wait until a verb needs them."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

import alcove
from alcove.cli import completion, events, kubectl, network, node, tenant, top
from alcove.cli.connectivity import verb as connectivity
from alcove.processes.verbs import (
    agent,
    apiserver,
    backup,
    controllers,
    image,
    leave,
    machine,
    scheduler,
    setup,
)

app = typer.Typer(
    name="alcove",
    help="Hard multi-tenancy for Kubernetes: every tenant its own API, networks, DNS and share.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong command line, 3 no cluster answers, 4 time is over, "
    "5 no such thing, 6 not allowed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # `alcove completion SHELL` prints the script instead.
    add_completion=True,
    # Help in plain text: drawing it takes longer than most verbs.
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"alcove {alcove.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Options of the command itself, before any verb."""


# The cluster of this machine.
app.command()(setup.setup)
for verb in (machine.up, machine.down, machine.status, machine.destroy, machine.logs, machine.doctor):
    app.command()(verb)
app.command()(backup.backup)
app.command()(backup.restore)

# What ring0's operator does, through the API.
app.add_typer(tenant.app, name="tenant")
app.add_typer(network.app, name="network")
node.app.command()(leave.leave)
app.add_typer(node.app, name="node")
app.add_typer(image.app, name="image")
app.add_typer(connectivity.app, name="connectivity")
app.command(context_settings=kubectl.CONTEXT)(kubectl.kubectl)
for asked in (top.top, events.events, completion.completion):
    app.command()(asked)

# The processes of a cluster, one by one.
for process in (apiserver.apiserver, controllers.controllers, scheduler.scheduler, agent.agent):
    app.command()(process)


def main() -> None:
    # Everything after `kubectl` is kubectl's, `--` and `--help` too: it is not ours to parse.
    if sys.argv[1:2] == ["kubectl"]:
        kubectl.main(sys.argv[2:])
    # Verbs tell people what they need to know; only the cluster's processes write logs (`log_to_stderr`).
    logging.getLogger("alcove").addHandler(logging.NullHandler())
    app()


if __name__ == "__main__":
    main()
