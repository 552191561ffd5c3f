"""Kubeconfigs of local nodes, with certificates signed by the cluster's CA directly.

A node on another machine requests its certificate instead (`alcove node join`).
"""

from __future__ import annotations

import time
from pathlib import Path

from alcove.api.ids import SYSTEM
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.auth.subjects import Subject
from alcove.apiserver.rbac.nodes import NODE_USER_PREFIX, NODES_GROUP
from alcove.cli.kubeconfig import KubeconfigCertificate, render
from alcove.processes.machine.cluster import LocalCluster, LocalNode

FRESH_SECONDS = 90 * 86400.0
"""An older kubeconfig is rewritten; certificates are valid for a year."""


def server_url(cluster: LocalCluster) -> str:
    """URL of the API server for nodes."""
    return f"https://{'127.0.0.1' if cluster.hollow else cluster.gateway}:{cluster.port}"


def issue(cluster: LocalCluster) -> None:
    """Writes each node's kubeconfig if it is missing, old, or names another server."""
    due = [node for node in cluster.all_nodes() if _is_due(cluster, node)]
    if not due:
        return
    authority = CertificateAuthority.open(cluster.data / "pki", time.time())
    for node in due:
        user = f"{NODE_USER_PREFIX}{node.name}"
        issued = authority.client(Subject(SYSTEM, user, (NODES_GROUP,)), time.time())
        credential = KubeconfigCertificate(issued.certificate_pem, issued.key_pem)
        text = render(server_url(cluster), authority.certificate_pem, SYSTEM, user, credential)
        node.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(node.kubeconfig, text)


def _is_due(cluster: LocalCluster, node: LocalNode) -> bool:
    try:
        age = time.time() - node.kubeconfig.stat().st_mtime
        return age > FRESH_SECONDS or f"server: {server_url(cluster)}/" not in node.kubeconfig.read_text()
    except FileNotFoundError:
        return True


def _write(path: Path, text: str) -> None:
    """Writes the file atomically: the agent starts when it exists."""
    temporary = path.with_suffix(".new")
    temporary.touch(mode=0o600)
    temporary.write_text(text)
    temporary.replace(path)
