"""The verb `alcove agent`."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated

import typer

from alcove.cli.errors import fail
from alcove.component.logs import Form, Level, configure
from alcove.processes.verbs.logs import FormatOption, LevelOption
from alcove.processes.verbs.planes import Planes, PlanesFolder, paths_of


def agent(
    kubeconfig: Annotated[
        Path | None, typer.Option(help="The node's own kubeconfig; default $KUBECONFIG or ~/.kube/config.")
    ] = None,
    name: Annotated[str, typer.Option(help="The node's name; default this machine's.")] = "",
    data: Annotated[
        Path | None,
        typer.Option(help="Directory of pods, images, volumes and logs [~/.local/state/alcove/agent]."),
    ] = None,
    address: Annotated[
        str, typer.Option(help="The node's address, for the API server and other nodes.")
    ] = "",
    underlay: Annotated[str, typer.Option(help="The network device that leads to the other nodes.")] = "",
    port: Annotated[int, typer.Option(help="Port for logs, exec and metrics.")] = 10250,
    hollow: Annotated[
        bool, typer.Option("--hollow", help="Nothing really runs: pods have states and addresses only.")
    ] = False,
    hollow_tenants: Annotated[
        bool,
        typer.Option(
            "--hollow-tenants", help="Where gVisor fails its trial, tenants' pods are hollow, not refused."
        ),
    ] = False,
    count: Annotated[
        int, typer.Option(min=1, help="So many hollow nodes, NAME-0 and on; with ring0's own kubeconfig.")
    ] = 1,
    sharing: Annotated[
        int, typer.Option(min=1, help="So many nodes are on this machine: each promises its part of it.")
    ] = 1,
    instance: Annotated[
        str,
        typer.Option(help="One to four letters or digits that tell this node from others on the machine."),
    ] = "",
    http_port: Annotated[int, typer.Option(help="Port for tenants' ingresses; 0: none.")] = 80,
    https_port: Annotated[int, typer.Option(help="The same for HTTPS.")] = 443,
    bpf: Annotated[Path | None, typer.Option(help="BPF file system of the data plane [/sys/fs/bpf].")] = None,
    plane: Planes = None,
    planes: PlanesFolder = None,
    insecure_registry: Annotated[
        list[str] | None, typer.Option(help="Host[:port] of a registry that has no TLS; repeatable.")
    ] = None,
    probe_port: Annotated[
        int | None, typer.Option(help="Port on loopback for /metrics, /healthz and /readyz.")
    ] = None,
    drain_on_stop: Annotated[
        bool,
        typer.Option("--drain-on-stop", help="End the node's pods, with their grace, when told to stop."),
    ] = False,
    log_level: LevelOption = Level.INFO,
    log_format: FormatOption = Form.TEXT,
) -> None:
    """Run the pods of all planes that are bound to this node."""
    from alcove.client.kubeconfig import default_path
    from alcove.processes.agent import BPF_ROOT, AgentConfig, instance_of, run_agent

    if count > 1 and not hollow:
        raise typer.BadParameter("only hollow nodes can share a process")
    config = AgentConfig(
        kubeconfig=kubeconfig or default_path(),
        name=name or socket.gethostname().lower(),
        data=data or Path.home() / ".local" / "state" / "alcove" / "agent",
        address=address or "127.0.0.1",
        underlay=underlay,
        port=port,
        is_hollow=hollow,
        has_hollow_tenants=hollow_tenants,
        count=count,
        sharing=sharing,
        instance=instance or instance_of(name or socket.gethostname().lower()),
        bpf_root=bpf or BPF_ROOT,
        ingress_ports=(http_port, https_port),
        planes=paths_of(plane),
        planes_folder=planes,
        insecure_registries=tuple(insecure_registry or ()),
        probe_port=probe_port,
        drains_on_stop=drain_on_stop,
    )
    configure("agent", log_level, log_format)
    if message := run_agent(config):
        raise fail(message)
