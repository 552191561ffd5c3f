"""The command `alcove agent`."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alcove.cli.errors import fail
from alcove.component.logs import Form, Level, configure
from alcove.processes.verbs.options import (
    FormatOption,
    LevelOption,
    Planes,
    PlanesDirectory,
    ProbePort,
    paths_of,
)

if TYPE_CHECKING:
    from alcove.agent.network.otlp_sender import OtlpCollector


def agent(
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Kubeconfig of the node; default: $KUBECONFIG or ~/.kube/config.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the node; default: the host name.")] = "",
    data: Annotated[
        Path | None,
        typer.Option(help="Directory for pods, images, volumes and logs [~/.local/state/alcove/agent]."),
    ] = None,
    address: Annotated[
        str, typer.Option(help="Address of the node, as the API server and other nodes reach it.")
    ] = "",
    underlay: Annotated[str, typer.Option(help="Network device towards the other nodes.")] = "",
    port: Annotated[int, typer.Option(help="Port of the node's API server (logs, exec, metrics).")] = 10250,
    hollow: Annotated[
        bool, typer.Option("--hollow", help="Run pods without processes (hollow node).")
    ] = False,
    hollow_tenants: Annotated[
        bool,
        typer.Option(
            "--hollow-tenants",
            help="If gVisor fails its trial, run tenants' pods hollow instead of refusing them.",
        ),
    ] = False,
    count: Annotated[
        int,
        typer.Option(
            min=1, help="Number of hollow nodes in this process, NAME-0, NAME-1, …; needs ring0's kubeconfig."
        ),
    ] = 1,
    sharing: Annotated[
        int,
        typer.Option(
            min=1, help="Number of nodes on this machine; each advertises its fraction of the capacity."
        ),
    ] = 1,
    instance: Annotated[
        str,
        typer.Option(help="One to four letters or digits, unique among the nodes of this machine."),
    ] = "",
    http_port: Annotated[int, typer.Option(help="HTTP port for tenants' ingresses; 0 disables it.")] = 80,
    https_port: Annotated[int, typer.Option(help="HTTPS port for tenants' ingresses; 0 disables it.")] = 443,
    bpf: Annotated[
        Path | None, typer.Option(help="BPF file system for the data plane [/sys/fs/bpf].")
    ] = None,
    plane: Planes = None,
    planes: PlanesDirectory = None,
    insecure_registry: Annotated[
        list[str] | None,
        typer.Option(help="HOST[:PORT] of a registry without TLS, at any address; repeatable."),
    ] = None,
    registry_network: Annotated[
        list[str] | None,
        typer.Option(
            help="Private network (CIDR) in which tenants' image registries are allowed; repeatable."
        ),
    ] = None,
    dns_upstream: Annotated[
        list[str] | None,
        typer.Option(
            help="Address of a DNS server for external names in tenants' networks; repeatable; default: "
            "those in /etc/resolv.conf."
        ),
    ] = None,
    route_ring0: Annotated[
        bool,
        typer.Option(
            "--route-ring0",
            help="Give this machine routes to the addresses of ring0's default network, so that its processes, and "
            "pods with its network, reach ring0's pods and services.",
        ),
    ] = False,
    pod_storage_max: Annotated[
        str,
        typer.Option(
            help="Storage that a pod may use on the node's disk without requesting it, such as 20Gi; "
            "at most a quarter of the disk."
        ),
    ] = "20Gi",
    pod_files_max: Annotated[
        int,
        typer.Option(
            min=1,
            help="Files that a pod may have on the node's disk; at most a quarter of the disk's inodes.",
        ),
    ] = 500_000,
    export_flows: Annotated[
        Path | None,
        typer.Option(help="File to which the flows of all tenants on the node are written, as JSON lines."),
    ] = None,
    flows_otlp: Annotated[
        str,
        typer.Option(
            help="URL of an OpenTelemetry collector to which the flows of all tenants on the node are sent (OTLP "
            "over HTTP), such as https://collector:4318."
        ),
    ] = "",
    otlp_ca: Annotated[
        Path | None,
        typer.Option(
            help="Authorities (PEM) that may sign the collector's certificate; default: the machine's."
        ),
    ] = None,
    otlp_headers: Annotated[
        Path | None,
        typer.Option(
            help="File with further headers for the collector, such as Authorization: …; one on a line."
        ),
    ] = None,
    usage_interval: Annotated[
        int,
        typer.Option(
            min=1,
            max=600,
            help="Seconds between readings of what tenants use; a kill of the agent loses at most one interval's.",
        ),
    ] = 60,
    probe_port: ProbePort = None,
    drain_on_stop: Annotated[
        bool,
        typer.Option(
            "--drain-on-stop", help="Stop the node's pods within their grace periods before exiting."
        ),
    ] = False,
    log_level: LevelOption = Level.INFO,
    log_format: FormatOption = Form.TEXT,
) -> None:
    """Run the node agent: runs pods of all planes that are bound to this node."""
    from alcove.agent.pressure import StorageBounds
    from alcove.api.destinations import networks
    from alcove.client.kubeconfig import default_path
    from alcove.processes.agent import BPF_ROOT, AgentConfig, instance_of, run_agent

    if count > 1 and not hollow:
        raise typer.BadParameter("--count needs --hollow")
    try:
        registry_networks = networks(registry_network or ())
        for each in dns_upstream or ():
            ip_address(each)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
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
        planes_directory=planes,
        insecure_registries=tuple(insecure_registry or ()),
        registry_networks=registry_networks,
        dns_upstreams=tuple(dns_upstream or ()),
        routes_ring0=route_ring0,
        storage_bounds=StorageBounds(_bytes(pod_storage_max), pod_files_max),
        flows_file=export_flows,
        flows_collector=_collector(flows_otlp, otlp_ca, otlp_headers) if flows_otlp else None,
        usage_interval_seconds=usage_interval,
        probe_port=probe_port,
        drains_on_stop=drain_on_stop,
    )
    configure("agent", log_level, log_format)
    if message := run_agent(config):
        raise fail(message)


def _bytes(text: str) -> int:
    from alcove.api import quantity

    try:
        return quantity.parse(text).value
    except ValueError as error:
        raise typer.BadParameter(f"--pod-storage-max: {error}") from error


def _collector(url: str, ca: Path | None, headers: Path | None) -> OtlpCollector:
    try:
        from alcove.agent.network.otlp_sender import OtlpCollector
    except ModuleNotFoundError as error:
        raise typer.BadParameter("--flows-otlp needs opentelemetry-proto: install alcove[otlp]") from error
    try:
        return OtlpCollector.parse(url, ca, headers)
    except (ValueError, OSError) as error:
        raise typer.BadParameter(f"--flows-otlp: {error}") from error
