"""What local volumes look like in the API: the words that provisioner, admission and nodes agree on.

A local volume is a folder on one node. Its PersistentVolume is made by ring0 in the tenant of the claim;
its `spec.local.path` is a word that names no path anywhere: only the node's agent knows where the folder
is, by the volume's plane, tenant and uid.
"""

from alcove.api.objects import Object, get, labels

PROVISIONER = "alcove.io/local"
STORAGE_CLASS = "local"
"""What tenants begin with."""
NODE_LABEL = "alcove.io/node"
"""Where the volume is. Nodes find their volumes by it, so only ring0 writes it."""
FINALIZER = "alcove.io/local-volume"
"""Held until the node has wiped the folder."""
_PATH_PREFIX = "/alcove/"


def path(volume_name: str) -> str:
    return f"{_PATH_PREFIX}{volume_name}"


def is_local(volume: Object) -> bool:
    return str(get(volume, "spec", "local", "path", default="")).startswith(_PATH_PREFIX)


def node_of(volume: Object) -> str:
    """The node of a local volume; empty for others."""
    return labels(volume).get(NODE_LABEL, "") if is_local(volume) else ""
