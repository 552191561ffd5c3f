"""Where the clusters of this machine keep their state, and which kubeconfig a verb takes when none is named."""

from __future__ import annotations

import os
from pathlib import Path

NAME_VARIABLE = "ALCOVE_NAME"
DEFAULT_NAME = "alcove"
ADMIN_KUBECONFIG = "admin.kubeconfig"


def clusters_folder() -> Path:
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "alcove"


def cluster_data(name: str = "") -> Path:
    """The state of the cluster of that name; no name: `$ALCOVE_NAME`'s, else the default cluster's."""
    name = name or os.environ.get(NAME_VARIABLE, "") or DEFAULT_NAME
    return clusters_folder() if name == DEFAULT_NAME else clusters_folder() / name


def default_data() -> Path:
    """Where a process keeps its state when nobody says."""
    return cluster_data()


def default_kubeconfig() -> Path:
    """`$KUBECONFIG`, else the one of this machine's cluster, else `~/.kube/config`."""
    if given := os.environ.get("KUBECONFIG"):
        return Path(given.split(os.pathsep)[0])
    of_cluster = cluster_data() / ADMIN_KUBECONFIG
    return of_cluster if of_cluster.exists() else Path.home() / ".kube" / "config"
