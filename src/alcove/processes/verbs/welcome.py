"""Next steps, printed when a cluster is up."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from alcove.cli.data_directories import ADMIN_KUBECONFIG, DEFAULT_NAME, cluster_data
from alcove.processes.machine.cluster import LocalCluster


def describe(cluster: LocalCluster, *, with_demo: bool) -> None:
    program = _program()
    typer.echo("\nNext steps, as the operator (ring0):\n")
    if cluster.data != cluster_data(DEFAULT_NAME).resolve():
        typer.echo(f"  export KUBECONFIG={cluster.data / ADMIN_KUBECONFIG}")
    if with_demo:
        typer.echo(f"  {program} kubectl get pods --all-tenants -o wide")
    typer.echo(f"  {program} tenant create acme")
    typer.echo(f"  {program} tenant kubeconfig acme --output acme.kubeconfig")
    typer.echo("  kubectl --kubeconfig acme.kubeconfig get namespaces,networks")
    typer.echo(f"  {program} status     # also: top, events, logs -f, network list, node list, doctor")
    typer.echo(f"  {program} down       # stops the cluster; `destroy` removes it\n")


def _program() -> str:
    """The command as the user called it if that is an existing path, else `alcove`."""
    command = Path(sys.argv[0])
    return str(command) if command.name == "alcove" and command.exists() and "/" in sys.argv[0] else "alcove"
