"""Events that may make a blocked pod schedulable. Each filter names those that affect it."""

from enum import Flag, auto


class WakeCause(Flag):
    NODE_ADDED = auto()
    NODE_GREW = auto()
    """Allocatable resources increased."""
    NODE_RELABELED = auto()
    NODE_RETAINTED = auto()
    """Taints or schedulability changed."""
    NODE_HANDLERS = auto()
    NODE_REMOVED = auto()
    ROOM = auto()
    """Resources, ports or disks were released on a node."""
    POD_GONE = auto()
    """A pod of the tenant is no longer on its node."""
    POD_PLACED = auto()
    POD_RELABELED = auto()
    """Labels of a placed pod or of a namespace changed."""
    STORAGE = auto()
    """A claim, volume or storage class of the tenant changed."""
    RUNTIME_CLASS = auto()
    QUOTA = auto()
    """A tenant's limits or usage changed."""
    UNGUARANTEED = auto()
    """Resources were released that are guaranteed to no tenant."""
    NOTHING = 0
