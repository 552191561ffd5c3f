"""API constants of local volumes, shared by the provisioner, admission and the node agents.

A local volume is a directory on one node. Its PersistentVolume is created by ring0 in the claim's tenant. Its
`spec.local.path` is a placeholder and not a path on any machine: the node's agent derives the directory from
the volume's plane, tenant and uid.
"""

from alcove.api.objects import Object, get, labels

PROVISIONER = "alcove.io/local"
STORAGE_CLASS = "local"
"""The storage class that every tenant starts with."""
NODE_LABEL = "alcove.io/node"
"""The volume's node. Nodes select their volumes by it, so only ring0 may write it."""
FINALIZER = "alcove.io/local-volume"
"""Held until the node has wiped the directory."""
_PATH_PREFIX = "/alcove/"


def path(volume_name: str) -> str:
    return f"{_PATH_PREFIX}{volume_name}"


def is_local(volume: Object) -> bool:
    return str(get(volume, "spec", "local", "path", default="")).startswith(_PATH_PREFIX)


def node_of(volume: Object) -> str:
    """Return the node of a local volume, or an empty string for other volumes."""
    return labels(volume).get(NODE_LABEL, "") if is_local(volume) else ""
