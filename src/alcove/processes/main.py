"""The `alcove` command: all subcommands. Heavy imports are deferred until a subcommand runs."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

import alcove
from alcove.cli import (
    capture,
    completion,
    events,
    flows,
    kubectl,
    network,
    node,
    policy,
    tenant,
    top,
    trace,
    usage,
)
from alcove.cli.connectivity import verb as connectivity
from alcove.cli.foreign import verb as plane
from alcove.processes.verbs import (
    agent,
    apiserver,
    backup,
    console,
    controllers,
    image,
    leave,
    machine,
    scheduler,
    setup,
)

app = typer.Typer(
    name="alcove",
    help="Hard multi-tenancy for Kubernetes: every tenant has its own API, networks, DNS and resource share.",
    epilog="Exit codes: 0 success, 1 failed, 2 invalid command line, 3 cluster unreachable or down, 4 timeout, "
    "5 not found, 6 forbidden.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # `alcove completion SHELL` prints the script instead.
    add_completion=True,
    # Plain-text help: rich rendering takes longer than most commands.
    rich_markup_mode=None,
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"alcove {alcove.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Global options."""


# This machine's cluster.
app.command()(setup.setup)
for verb in (machine.up, machine.down, machine.status, machine.destroy, machine.logs, machine.doctor):
    app.command()(verb)
app.command()(backup.backup)
app.command()(backup.restore)

# Operator commands, through the API.
app.add_typer(tenant.app, name="tenant")
app.add_typer(plane.app, name="plane")
app.add_typer(network.app, name="network")
app.add_typer(policy.app, name="policy")
node.app.command()(leave.leave)
app.add_typer(node.app, name="node")
app.add_typer(image.app, name="image")
app.add_typer(connectivity.app, name="connectivity")
app.command()(console.console)
app.command(context_settings=kubectl.CONTEXT)(kubectl.kubectl)
for command in (
    capture.capture,
    top.top,
    usage.usage,
    events.events,
    flows.flows,
    flows.drops,
    trace.trace,
    completion.completion,
):
    app.command()(command)

# The processes of a cluster.
for process in (apiserver.apiserver, controllers.controllers, scheduler.scheduler, agent.agent):
    app.command()(process)


def main() -> None:
    # Everything after `kubectl` belongs to kubectl, `--` and `--help` too: do not parse it.
    if sys.argv[1:2] == ["kubectl"]:
        kubectl.main(sys.argv[2:])
    # Commands print messages; only the cluster's processes write logs.
    logging.getLogger("alcove").addHandler(logging.NullHandler())
    app()


if __name__ == "__main__":
    main()
