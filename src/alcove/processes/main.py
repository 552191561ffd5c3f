"""The `alcove` command: the list of all verbs. Heavy imports wait until a verb needs them."""

from __future__ import annotations

import typer

from alcove.cli import tenant
from alcove.processes.verbs import apiserver, controllers, machine, scheduler

app = typer.Typer(
    name="alcove",
    help="Hard multi-tenancy for Kubernetes: every tenant its own API, networks, DNS and share.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Help in plain text: drawing it takes longer than most verbs.
    rich_markup_mode=None,
)

# The cluster of this machine.
for verb in (machine.up, machine.down, machine.status):
    app.command()(verb)

# What ring0's operator does.
app.add_typer(tenant.app, name="tenant")

# The processes of a cluster, one by one.
for process in (apiserver.apiserver, controllers.controllers, scheduler.scheduler):
    app.command()(process)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
