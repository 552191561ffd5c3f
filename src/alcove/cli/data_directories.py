"""State directories of this machine's clusters, and the default kubeconfig."""

from __future__ import annotations

import os
from pathlib import Path

NAME_VARIABLE = "ALCOVE_NAME"
DEFAULT_NAME = "alcove"
ADMIN_KUBECONFIG = "admin.kubeconfig"


def clusters_directory() -> Path:
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "alcove"


def cluster_data(name: str = "") -> Path:
    """State directory of the named cluster; without a name, of `$ALCOVE_NAME`, else of the default
    cluster."""
    name = name or os.environ.get(NAME_VARIABLE, "") or DEFAULT_NAME
    return clusters_directory() if name == DEFAULT_NAME else clusters_directory() / name


def default_data() -> Path:
    """State directory of a process without --data."""
    return cluster_data()


def default_kubeconfig() -> Path:
    """`$KUBECONFIG`, else that of this machine's cluster, else `~/.kube/config`."""
    if configured := os.environ.get("KUBECONFIG"):
        return Path(configured.split(os.pathsep)[0])
    admin_kubeconfig = cluster_data() / ADMIN_KUBECONFIG
    return admin_kubeconfig if admin_kubeconfig.exists() else Path.home() / ".kube" / "config"
