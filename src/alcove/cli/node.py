"""`alcove node …`: list, drain and join nodes."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from alcove.cli import suggestions
from alcove.cli.errors import exit_on_error
from alcove.cli.options import FormatOption, KubeconfigOption, OutputFormat, TimeoutOption

app = typer.Typer(help="Manage nodes.", no_args_is_help=True)

DEFAULT_DATA = Path("/var/lib/alcove")
DataOption = Annotated[Path, typer.Option(help="State directory of the node.")]
NodeArgument = Annotated[
    str, typer.Argument(help="Name of the node.", show_default=False, autocompletion=suggestions.nodes)
]


@app.command("list")
def list_(form: FormatOption = OutputFormat.TABLE, via: KubeconfigOption = None) -> None:
    """List all nodes."""
    from alcove.api.columns.nodes import NODE
    from alcove.cli.output import show
    from alcove.cli.session import CliSession
    from alcove.client.resources import NODES

    with exit_on_error():
        show(CliSession(via).items(NODES), NODE, form)


@app.command()
def drain(
    node: NodeArgument,
    delete_emptydir_data: Annotated[
        bool, typer.Option("--delete-emptydir-data", help="Evict pods that use emptyDir; their data is lost.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Evict pods that no controller manages; they are not recreated.")
    ] = False,
    grace_period: Annotated[
        int | None, typer.Option(min=0, help="Grace period of each pod in seconds; default: the pod's.")
    ] = None,
    timeout: TimeoutOption = 300.0,
    via: KubeconfigOption = None,
) -> None:
    """Drain NODE for maintenance: cordon it, then evict the pods of all tenants."""
    from alcove.cli.drain import DrainOptions, NodeDrain
    from alcove.cli.session import CliSession

    with exit_on_error():
        rules = DrainOptions(delete_emptydir_data, force, grace_period, timeout)
        NodeDrain(CliSession(via), node, rules, typer.echo).run()
        typer.echo(f"node/{node} drained")


@app.command()
def cordon(node: NodeArgument, via: KubeconfigOption = None) -> None:
    """Mark NODE as unschedulable; its pods keep running."""
    _set_unschedulable(node, True, via)
    typer.echo(f"node/{node} cordoned")


@app.command()
def uncordon(node: NodeArgument, via: KubeconfigOption = None) -> None:
    """Mark NODE as schedulable."""
    _set_unschedulable(node, False, via)
    typer.echo(f"node/{node} uncordoned")


def _set_unschedulable(node: str, value: bool, via: Path | None) -> None:
    from alcove.cli.session import CliSession
    from alcove.client.resources import NODES

    with exit_on_error():
        CliSession(via).patch(NODES, node, {"spec": {"unschedulable": value or None}})


@app.command()
def token(
    server: Annotated[
        str,
        typer.Option(
            help="URL of the API server as the other machine reaches it; default: the kubeconfig's."
        ),
    ] = "",
    hours: Annotated[float, typer.Option(min=0.2, max=168, help="Hours until the token expires.")] = 1.0,
    revoke: Annotated[
        bool, typer.Option("--revoke", help="Revoke all existing tokens; create none.")
    ] = False,
    via: KubeconfigOption = None,
) -> None:
    """Create a token for joining a node on another machine."""
    from alcove.cli.enrolment import make_token, revoke_tokens
    from alcove.cli.session import CliSession

    with exit_on_error():
        session = CliSession(via)
        if revoke:
            revoke_tokens(session)
            typer.echo("all existing join tokens are revoked", err=True)
            return
        join_token = make_token(session, server, int(hours * 3600))
        typer.echo(join_token.encode())
        typer.echo(f"server {join_token.server}, certificate authority {join_token.ca_hash}", err=True)
        if "127.0.0.1" in join_token.server or "localhost" in join_token.server:
            typer.echo("warning: other machines cannot reach this loopback address; set --server", err=True)


@app.command()
def join(
    token: Annotated[str, typer.Argument(help="Token from `alcove node token`; @FILE reads it from a file.")],
    name: Annotated[str, typer.Option(help="Name of the node; default: the host name.")] = "",
    data: DataOption = DEFAULT_DATA,
    address: Annotated[
        str, typer.Option(help="Address of the node; default: the source address towards the server.")
    ] = "",
    underlay: Annotated[str, typer.Option(help="Network device of the address; default: detected.")] = "",
    port: Annotated[int, typer.Option(help="Port of the node's API server (logs, exec, metrics).")] = 10250,
    hollow: Annotated[
        bool, typer.Option("--hollow", help="Run pods without processes (hollow node).")
    ] = False,
    enrol_only: Annotated[
        bool, typer.Option("--enrol-only", help="Write the node's kubeconfig, then exit.")
    ] = False,
    timeout: TimeoutOption = 60.0,
) -> None:
    """Join this machine to a cluster as a node: request a certificate, then run the agent in the foreground.
    Undo it with `leave`. Nodes must reach each other's addresses."""
    import os

    from alcove.cli import enrolment

    node = name or socket.gethostname().partition(".")[0].lower()
    with exit_on_error():
        text = Path(token[1:]).read_text() if token.startswith("@") else token
        decoded = enrolment.JoinToken.decode(text)
        node_address = address or enrolment.towards(decoded.server)
        kubeconfig = data / "node.kubeconfig"
        enrolment.write_kubeconfig(kubeconfig, enrolment.enrol(decoded, node, timeout))
        typer.echo(f"node/{node} enrolled at {decoded.server}; wrote {kubeconfig}", err=True)
        if enrol_only:
            return
        device = "" if hollow else underlay or enrolment.device_of(node_address)
        enrolment.JoinedNode(node, decoded.server, device).save(data)
        arguments = ["agent", "--kubeconfig", str(kubeconfig), "--name", node, "--data", str(data)]
        arguments += ["--address", node_address, "--port", str(port)]
        arguments += ["--underlay", device] if device else ["--hollow"]
        os.execv(sys.executable, [sys.executable, "-m", "alcove.processes.main", *arguments])
