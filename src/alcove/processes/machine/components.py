"""What processes a cluster of this machine is made of. Pure."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from alcove.dataplane.namespaces import path_of
from alcove.processes.machine.cluster import LocalCluster, LocalNode


class Component(Struct, frozen=True):
    name: str
    arguments: tuple[str, ...]
    needs: Path | None = None
    """A file that must be there first: the way to the API server."""
    namespace: Path | None = None
    """The network namespace it runs in; None: this machine's own."""


def components(cluster: LocalCluster) -> tuple[Component, ...]:
    """Everything that runs, in the order it starts."""
    kubeconfig = cluster.admin_kubeconfig
    way = ("--kubeconfig", str(kubeconfig))
    return (
        Component("apiserver", (*_apiserver(cluster), *_logging(cluster))),
        Component("controllers", ("controllers", *way, *_logging(cluster)), kubeconfig),
        Component("scheduler", ("scheduler", *way, *_logging(cluster)), kubeconfig),
        *(_agent(cluster, node) for node in cluster.all_nodes()),
    )


def _apiserver(cluster: LocalCluster) -> tuple[str, ...]:
    addresses = cluster.listen if cluster.hollow else (str(cluster.gateway), *cluster.listen)
    listen = tuple(word for address in addresses for word in ("--listen", address))
    return ("apiserver", "--data", str(cluster.data), "--port", str(cluster.port), *listen)


def _logging(cluster: LocalCluster) -> tuple[str, ...]:
    return ("--log-level", cluster.log_level.value, "--log-format", cluster.log_format.value)


def _agent(cluster: LocalCluster, node: LocalNode) -> Component:
    words: tuple[str, ...] = (
        "agent",
        "--kubeconfig",
        str(node.kubeconfig),
        "--name",
        node.name,
        "--data",
        str(node.folder),
    )
    words += ("--address", str(node.address), "--port", str(node.port), "--instance", node.instance)
    words += _logging(cluster)
    if cluster.hollow:
        return Component(node.name, (*words, "--hollow"), node.kubeconfig)
    words += ("--underlay", "eth0", "--bpf", str(cluster.bpf), "--sharing", str(len(cluster.all_nodes())))
    words += ("--hollow-tenants",) if cluster.hollow_tenants else ()
    return Component(node.name, words, node.kubeconfig, path_of(node.namespace))
