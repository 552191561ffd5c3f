"""The processes of a local cluster, with their arguments. Pure."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from alcove.dataplane.namespaces import path_of
from alcove.processes.machine.cluster import LocalCluster, LocalNode


class Component(Struct, frozen=True):
    name: str
    arguments: tuple[str, ...]
    needs: Path | None = None
    """A file that must exist before the start: the kubeconfig."""
    namespace: Path | None = None
    """Network namespace. None for this machine's."""


def components(cluster: LocalCluster) -> tuple[Component, ...]:
    """All processes, in start order."""
    kubeconfig = cluster.admin_kubeconfig
    connection = ("--kubeconfig", str(kubeconfig))
    return (
        Component("apiserver", (*_apiserver(cluster), *_logging(cluster))),
        Component(
            "controllers", ("controllers", *connection, *_metering(cluster), *_logging(cluster)), kubeconfig
        ),
        Component("scheduler", ("scheduler", *connection, *_logging(cluster)), kubeconfig),
        *(_agent(cluster, node) for node in cluster.all_nodes()),
    )


def _apiserver(cluster: LocalCluster) -> tuple[str, ...]:
    addresses = cluster.listen if cluster.hollow else (str(cluster.gateway), *cluster.listen)
    listen = tuple(argument for address in addresses for argument in ("--listen", address))
    return ("apiserver", "--data", str(cluster.data), "--port", str(cluster.port), *listen)


def _logging(cluster: LocalCluster) -> tuple[str, ...]:
    return ("--log-level", cluster.log_level.value, "--log-format", cluster.log_format.value)


def _metering(cluster: LocalCluster) -> tuple[str, ...]:
    seconds = cluster.usage_interval_seconds
    return ("--usage-interval", str(seconds)) if seconds is not None else ()


def _agent(cluster: LocalCluster, node: LocalNode) -> Component:
    arguments: tuple[str, ...] = (
        "agent",
        "--kubeconfig",
        str(node.kubeconfig),
        "--name",
        node.name,
        "--data",
        str(node.directory),
    )
    arguments += ("--address", str(node.address), "--port", str(node.port), "--instance", node.instance)
    arguments += (*_metering(cluster), *_logging(cluster))
    if cluster.hollow:
        return Component(node.name, (*arguments, "--hollow"), node.kubeconfig)
    arguments += ("--underlay", "eth0", "--bpf", str(cluster.bpf), "--sharing", str(len(cluster.all_nodes())))
    # Each node is a network namespace of its own: there is nothing that the routes could be in the way of.
    arguments += ("--route-ring0",)
    for registry in cluster.insecure_registries:
        arguments += ("--insecure-registry", registry)
    arguments += ("--hollow-tenants",) if cluster.hollow_tenants else ()
    return Component(node.name, arguments, node.kubeconfig, path_of(node.namespace))
