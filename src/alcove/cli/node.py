"""`alcove node …`: the machines that run pods."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from alcove.cli import suggestions
from alcove.cli.errors import exit_on_error
from alcove.cli.options import FormatOption, KubeconfigOption, OutputFormat, TimeoutOption

app = typer.Typer(help="Nodes: the machines that run pods.", no_args_is_help=True)

DEFAULT_DATA = Path("/var/lib/alcove")
DataOption = Annotated[Path, typer.Option(help="Directory of the node's state.")]
NodeArgument = Annotated[
    str, typer.Argument(help="The node.", show_default=False, autocompletion=suggestions.nodes)
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
        bool, typer.Option("--delete-emptydir-data", help="Also pods whose emptyDir would be lost.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also pods that nothing will make anew elsewhere.")
    ] = False,
    grace_period: Annotated[
        int | None, typer.Option(min=0, help="Seconds each pod has to end; default: its own.")
    ] = None,
    timeout: TimeoutOption = 300.0,
    via: KubeconfigOption = None,
) -> None:
    """Take NODE out of service: no new pods, and those of all tenants there are evicted."""
    from alcove.cli.drain import DrainOptions, NodeDrain
    from alcove.cli.session import CliSession

    with exit_on_error():
        rules = DrainOptions(delete_emptydir_data, force, grace_period, timeout)
        NodeDrain(CliSession(via), node, rules, typer.echo).run()
        typer.echo(f"node/{node} drained")


@app.command()
def cordon(node: NodeArgument, via: KubeconfigOption = None) -> None:
    """Give NODE no new pods; those there stay."""
    _set_unschedulable(node, True, via)
    typer.echo(f"node/{node} cordoned")


@app.command()
def uncordon(node: NodeArgument, via: KubeconfigOption = None) -> None:
    """Let NODE have new pods again."""
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
        str, typer.Option(help="URL by which the other machine reaches the API; default: the kubeconfig's.")
    ] = "",
    hours: Annotated[float, typer.Option(min=0.2, max=168, help="How long nodes can join with it.")] = 1.0,
    revoke: Annotated[
        bool, typer.Option("--revoke", help="Make none; end those that were made before.")
    ] = False,
    via: KubeconfigOption = None,
) -> None:
    """Make a token with which a node on another machine can join."""
    from alcove.cli.enrolment import make_token, revoke_tokens
    from alcove.cli.session import CliSession

    with exit_on_error():
        session = CliSession(via)
        if revoke:
            revoke_tokens(session)
            typer.echo("tokens made before are refused now", err=True)
            return
        made = make_token(session, server, int(hours * 3600))
        typer.echo(made.encode())
        typer.echo(f"pins {made.server} by authority {made.ca_hash}", err=True)
        if "127.0.0.1" in made.server or "localhost" in made.server:
            typer.echo("this address is this machine's own: another one needs --server", err=True)


@app.command()
def join(
    token: Annotated[str, typer.Argument(help="What `alcove node token` printed; @FILE reads a file.")],
    name: Annotated[str, typer.Option(help="The node's name; default: this machine's.")] = "",
    data: DataOption = DEFAULT_DATA,
    address: Annotated[str, typer.Option(help="The node's address; default: the way to the server.")] = "",
    underlay: Annotated[str, typer.Option(help="Device of that address; default: where it is.")] = "",
    port: Annotated[int, typer.Option(help="Port for logs, exec and metrics.")] = 10250,
    hollow: Annotated[bool, typer.Option("--hollow", help="Pretend to run pods.")] = False,
    enrol_only: Annotated[
        bool, typer.Option("--enrol-only", help="Write the node's kubeconfig and stop.")
    ] = False,
    timeout: TimeoutOption = 60.0,
) -> None:
    """Make this machine a node of a cluster elsewhere: get a certificate, then run the agent here, until it is
    stopped. `leave` is the way back. Nodes must reach each other's addresses."""
    import os

    from alcove.cli import addresses, enrolment

    node = name or socket.gethostname().partition(".")[0].lower()
    with exit_on_error():
        text = Path(token[1:]).read_text() if token.startswith("@") else token
        decoded = enrolment.JoinToken.decode(text)
        own = address or addresses.towards(decoded.server)
        kubeconfig = data / "node.kubeconfig"
        enrolment.write_kubeconfig(kubeconfig, enrolment.enrol(decoded, node, timeout))
        typer.echo(f"node {node} may speak to {decoded.server}: wrote {kubeconfig}", err=True)
        if enrol_only:
            return
        device = "" if hollow else underlay or addresses.device_of(own)
        enrolment.JoinedNode(node, decoded.server, device).save(data)
        words = ["agent", "--kubeconfig", str(kubeconfig), "--name", node, "--data", str(data)]
        words += ["--address", own, "--port", str(port)]
        words += ["--underlay", device] if device else ["--hollow"]
        os.execv(sys.executable, [sys.executable, "-m", "alcove.processes.main", *words])
